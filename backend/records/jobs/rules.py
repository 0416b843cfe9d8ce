"""The conditions on settings that depend on each other; each is one entry of `RULES`.

`parse_job` checks them; the form and the table of settings in the guide show them.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from backend.records.base.validation import ConfigError
from backend.records.jobs.schedulers import SCHEDULERS, ClusterScheduler
from backend.records.jobs.script import PLACEHOLDERS, REQUIREMENTS, is_entry

if TYPE_CHECKING:
    from backend.records.jobs.config import JobConfig


@dataclass(frozen=True)
class Rule:
    """A condition on several settings.

    Attributes:
        name: Identifies it.
        paths: The paths of the settings that the rule depends on; the first has the error. The
            rule is not checked while one of the settings is invalid.
        is_broken: Returns whether a job breaks it.
        message: As in `ConfigError`, without the path. Fields such as ``{job.workers}``, which only
            a job has, follow a semicolon.
    """

    name: str
    paths: tuple[str, ...]
    is_broken: Callable[[JobConfig], object]
    message: str

    def error_message(self, job: JobConfig, errors: Iterable[ConfigError]) -> str:
        """Return why the job breaks the rule, "" if it does not or a setting has an error."""
        if any(_is_about(error, path) for error in errors for path in self.paths):
            return ""
        return self.message.format(job=job) if self.is_broken(job) else ""

    def condition(self, label: str) -> str:
        """Return the rule for all jobs, with ``label`` as the name of the first setting."""
        path, message = self.paths[0], self.message.partition("; ")[0].rstrip(".").format()
        return ConfigError(path, f"{path}: {message}.").message_for(label)


def _is_about(error: ConfigError, path: str) -> bool:
    return path in (error.path, error.part) or path.startswith(f"{error.path}.")


def _breaks_nesterov(job: JobConfig) -> bool:
    settings = job.optimizer.settings
    is_valid = settings.get("momentum", 0) > 0 and not settings.get("dampening")
    return bool(settings.get("nesterov")) and not is_valid


def _breaks_schedule(job: JobConfig) -> bool:
    is_constant = job.schedule.name == "constant" and not job.schedule.warmup_epochs
    return job.strategy.has_coordinator and not is_constant


def _cut_modules(job: JobConfig) -> tuple[str, ...]:
    return tuple(job.strategy.setting("cut")) if job.strategy.is_split else ()


def _has_option(job: JobConfig, option: str, value: str) -> bool:
    return bool(job.strategy.settings.get(option) == value)


def _lacks_periods(setting: str, job: JobConfig) -> bool:
    return setting in job.strategy.settings and job.strategy.average_every == 1


def _has_periods_and(setting: str, job: JobConfig) -> bool:
    is_set = job.strategy.settings.get(setting) not in (None, False, "none")
    return job.strategy.average_every > 1 and is_set


def _needs_all(job: JobConfig) -> bool:
    return job.strategy.name == "alone" or job.strategy.is_split


def _escaped_placeholders(names: Iterable[str]) -> str:
    """Return placeholders as in the arguments, for a sentence that is formatted."""
    return ", ".join(f"{{{{{name}}}}}" for name in names)


def _shares_weights(job: JobConfig) -> bool:
    """Return whether a process that trains has a part of the weights, or a copy of a server's."""
    return bool(job.strategy.servers or job.strategy.is_split or job.strategy.name == "fsdp")


def _scheduler_rules(scheduler: ClusterScheduler) -> tuple[Rule, ...]:
    key, name = scheduler.key, scheduler.name
    return (
        Rule(
            f"give way in {name}",
            ("gives_way", f"{key}.cluster"),
            lambda job: job.scheduler is scheduler and job.gives_way,
            f"cannot be used with {key}, which shares its nodes out itself.",
        ),
        Rule(
            f"retries in {name}",
            ("on_failure.retries", f"{key}.cluster"),
            lambda job: job.scheduler is scheduler and job.on_failure.continues,
            f"and shrink cannot be used with {key}, which queues a job again itself "
            f"({key}.continues).",
        ),
    )


RULES = (
    Rule(
        "fewer nodes",
        ("on_failure.shrink", "placement", "strategy.name"),
        lambda job: job.on_failure.shrink and len(job.placement) < 2 and not _needs_all(job),
        "needs 2 nodes or more; the job has one.",
    ),
    Rule(
        "nodes left",
        ("on_failure.at_least", "on_failure.shrink", "placement"),
        lambda job: job.on_failure.shrink and job.on_failure.at_least > len(job.placement),
        "cannot be above the number of nodes; the job has {job.node_count}.",
    ),
    Rule(
        "same nodes",
        ("on_failure.shrink", "strategy.name"),
        lambda job: job.on_failure.shrink and _needs_all(job),
        "cannot be used with one process or a split network; this is “{job.strategy.name}”.",
    ),
    Rule(
        "fewer before",
        ("on_failure.grow", "on_failure.shrink", "on_failure.retries", "on_failure.nodes"),
        lambda job: job.on_failure.grow and not job.on_failure.may_shrink,
        "needs a job that may continue on fewer nodes: shrink, or retries on other nodes.",
    ),
    Rule(
        "retry of a script",
        ("on_failure.retries", "on_failure.shrink", "resume_arguments"),
        lambda job: job.on_failure.continues and job.script and not job.resume_arguments,
        "needs the arguments with which the script resumes (resume_arguments).",
    ),
    Rule(
        "placeholders",
        ("arguments", "resume_arguments"),
        lambda job: job.unknown_placeholder,
        f"takes the placeholders {_escaped_placeholders(PLACEHOLDERS)}; "
        f"“{{job.unknown_placeholder}}” is not one.",
    ),
    Rule(
        "entry",
        ("entry",),
        lambda job: not is_entry(job.entry),
        "is a file in the script's folder, or -m and a module.",
    ),
    Rule(
        "working folder",
        ("folder",),
        lambda job: job.folder.startswith("-") or not is_entry(job.folder),
        "is a folder in the script's folder.",
    ),
    Rule(
        "Python",
        ("python",),
        lambda job: "/" in job.python and not job.python.startswith("/"),
        f"is “{REQUIREMENTS}”, or the whole path of a Python, which begins with /.",
    ),
    Rule(
        "log numbers",
        ("log_numbers",),
        lambda job: job.wrong_log_number,
        "has names in braces with text next to each, such as “loss: {{loss}}”; "
        "“{job.wrong_log_number}” has not.",
    ),
    Rule(
        "nesterov",
        ("optimizer.nesterov", "optimizer.momentum", "optimizer.dampening"),
        _breaks_nesterov,
        "needs momentum above 0 and no dampening.",
    ),
    Rule(
        "one process",
        ("strategy.name", "placement"),
        lambda job: job.strategy.name == "alone" and job.world_size > 1,
        "“alone” trains in one process; choose another strategy or one process.",
    ),
    Rule(
        "power of two",
        ("strategy.reduction", "placement"),
        lambda job: (
            _has_option(job, "reduction", "adasum") and job.world_size & (job.world_size - 1)
        ),
        "“adasum” needs 2, 4, 8… processes; there are {job.world_size}.",
    ),
    Rule(
        "GPUs of a node",
        ("strategy.reduction", "placement"),
        lambda job: _has_option(job, "reduction", "hierarchical") and not job.uses_gpus,
        "“hierarchical” needs GPUs; the job runs on CPUs.",
    ),
    Rule(
        "coordinator",
        ("strategy.name", "placement"),
        lambda job: job.strategy.has_coordinator and job.workers < 1,
        "“sandblaster” needs 2 processes or more; the job has {job.world_size}.",
    ),
    Rule(
        "servers",
        ("strategy.servers", "strategy.name", "placement"),
        lambda job: job.strategy.servers and job.workers < 1,
        "must be fewer than the processes, so that one trains; the job has {job.world_size}.",
    ),
    Rule(
        "quorum",
        ("strategy.policy", "strategy.servers", "placement"),
        lambda job: _has_option(job, "policy", "quorum") and job.workers < 4,
        "A quorum of 75 % needs 4 workers or more; it has {job.workers}.",
    ),
    Rule(
        # L-BFGS chooses the length of each step itself.
        "L-BFGS",
        ("optimizer.name", "strategy.name"),
        lambda job: job.strategy.has_coordinator != (job.optimizer.name == "lbfgs"),
        "“sandblaster” and “lbfgs” need each other.",
    ),
    Rule(
        "schedule",
        ("schedule.name", "schedule.warmup_epochs", "strategy.name"),
        _breaks_schedule,
        "must be “constant” without warm-up for “sandblaster”.",
    ),
    Rule(
        "one cycle",
        ("schedule.warmup_epochs", "schedule.name"),
        lambda job: job.schedule.name == "one-cycle" and job.schedule.warmup_epochs,
        "cannot be used with “one-cycle”, which begins with a rise.",
    ),
    Rule(
        "lowest rate",
        ("schedule.eta_min", "schedule.name", "optimizer.lr", "strategy.lr_scaling", "placement"),
        lambda job: job.schedule.settings.get("eta_min", 0) > job.optimizer.lr * job.lr_factor,
        "cannot be above the rate from which the schedule lowers; that is "
        "{job.optimizer.lr:g} × {job.lr_factor:g}.",
    ),
    Rule(
        "gradient norm",
        ("gradient_norm", "strategy.name"),
        lambda job: job.strategy.has_coordinator and job.gradient_norm is not None,
        "cannot be used with “sandblaster”.",
    ),
    Rule(
        "rounds",
        ("gradient_norm", "strategy.inner_rounds"),
        lambda job: (
            job.strategy.is_split
            and job.gradient_norm is not None
            and job.strategy.setting("inner_rounds") > 1
        ),
        "cannot be used with more than one inner round.",
    ),
    Rule(
        "accumulation",
        ("accumulate", "strategy.name"),
        lambda job: (job.strategy.servers or job.strategy.is_split) and job.accumulate > 1,
        "must be 1 with servers, where “Push every” does the same, and in a split network; this is "
        "“{job.strategy.name}”.",
    ),
    Rule(
        "average of all",
        ("ema", "strategy.name"),
        lambda job: _shares_weights(job) and job.ema is not None,
        "needs a strategy in which each process has all weights; this is “{job.strategy.name}”.",
    ),
    *(
        Rule(
            f"{setting} without periods",
            (f"strategy.{setting}", "strategy.average_every"),
            partial(_lacks_periods, setting),
            "needs average_every above 1.",
        )
        for setting in ("outer_lr", "outer_momentum")
    ),
    Rule(
        "average of periods",
        ("ema", "strategy.average_every"),
        lambda job: job.strategy.average_every > 1 and job.ema is not None,
        "cannot be used if the processes average every few steps, as their weights differ.",
    ),
    Rule(
        "float16 of periods",
        ("precision", "strategy.average_every"),
        lambda job: job.strategy.average_every > 1 and job.precision == "float16",
        "“float16” cannot be used if the processes average every few steps.",
    ),
    Rule(
        "mean of periods",
        ("strategy.reduction", "strategy.average_every"),
        lambda job: job.strategy.average_every > 1 and _has_option(job, "reduction", "adasum"),
        "“adasum” cannot be used if the processes average every few steps.",
    ),
    *(
        Rule(
            f"{setting} of periods",
            (f"strategy.{setting}", "strategy.average_every"),
            partial(_has_periods_and, setting),
            "cannot be used if the processes average every few steps.",
        )
        for setting in ("sync_batch_norm", "shard")
    ),
    Rule(
        "low rank of periods",
        ("strategy.compression", "strategy.average_every", "strategy.shard"),
        lambda job: (
            _has_option(job, "compression", "powersgd")
            and (job.strategy.average_every > 1 or _has_option(job, "shard", "optimizer"))
        ),
        "“powersgd” cannot be used with a shared optimizer, or if the processes average every few "
        "steps.",
    ),
    Rule(
        # The errors that are fed back would have the scale of an earlier step.
        "float16 of low rank",
        ("precision", "strategy.compression"),
        lambda job: _has_option(job, "compression", "powersgd") and job.precision == "float16",
        "“float16” cannot be used with the compression “powersgd”.",
    ),
    Rule(
        "compiled norms",
        ("compile", "strategy.sync_batch_norm"),
        lambda job: job.compile and job.strategy.settings.get("sync_batch_norm"),
        "cannot be used with batch norm over all processes.",
    ),
    Rule(
        # The network is cut by tracing it.
        "compiled parts",
        ("compile", "strategy.name"),
        lambda job: job.compile and job.strategy.is_split,
        "cannot be used with a split network; this is “{job.strategy.name}”.",
    ),
    Rule(
        "rates of layers",
        ("lr_of",),
        lambda job: job.wrong_rate,
        "has a beginning of names and a factor, 0 or more, such as “backbone.=0.1”; "
        "“{job.wrong_rate}” has not.",
    ),
    Rule(
        "rates of servers",
        ("lr_of", "strategy.name"),
        lambda job: job.strategy.servers and job.lr_of,
        "cannot be used with servers; this is “{job.strategy.name}”.",
    ),
    Rule(
        "decay of none",
        ("no_decay", "optimizer.name"),
        lambda job: job.no_decay and job.optimizer.name == "lbfgs",
        "needs an optimizer with weight decay; “lbfgs” has none.",
    ),
    Rule(
        # Each rank would scale its loss by a factor of its own.
        "float16",
        ("precision", "strategy.name"),
        lambda job: _shares_weights(job) and job.precision == "float16",
        "“float16” needs a strategy in which each process has all weights; this is "
        "“{job.strategy.name}”.",
    ),
    Rule(
        # A search along a line compares losses that differ in the last digits.
        "precision of a search",
        ("precision", "strategy.name"),
        lambda job: job.strategy.has_coordinator and job.precision == "bfloat16",
        "“bfloat16” cannot be used with “sandblaster”.",
    ),
    Rule(
        "precision of rounds",
        ("precision", "strategy.inner_rounds", "strategy.variant"),
        lambda job: (
            job.strategy.is_split
            and job.precision == "bfloat16"
            and (
                job.strategy.setting("inner_rounds") > 1
                or job.strategy.setting("variant") != "admm"
            )
        ),
        "“bfloat16” needs one round and the variant “admm” in a split network.",
    ),
    Rule(
        "GPUs",
        ("precision", "placement"),
        lambda job: job.precision in ("tf32", "float16") and not job.uses_gpus,
        "“tf32” and “float16” need GPUs; the job runs on CPUs.",
    ),
    Rule(
        "give way",
        ("gives_way", "placement"),
        lambda job: job.gives_way and not job.uses_gpus,
        "needs GPUs; the job runs on CPUs.",
    ),
    *(rule for scheduler in SCHEDULERS.values() for rule in _scheduler_rules(scheduler)),
    Rule(
        "continue a script",
        ("gives_way", "resume_arguments"),
        lambda job: job.gives_way and job.script and not job.resume_arguments,
        "needs the arguments with which the script resumes (resume_arguments).",
    ),
    Rule(
        "parts",
        ("strategy.cut", "placement"),
        lambda job: _cut_modules(job) and len(_cut_modules(job)) != job.world_size - 1,
        "must name one module less than there are processes; there are {job.world_size}.",
    ),
    Rule(
        "modules",
        ("strategy.cut",),
        lambda job: len(set(_cut_modules(job))) < len(_cut_modules(job)),
        "must name each module once.",
    ),
    Rule(
        "steps",
        ("checkpoint.every_steps", "checkpoint.every_epochs"),
        lambda job: job.checkpoint.every_steps and job.checkpoint.every_epochs,
        "cannot be used with every_epochs; give one of them.",
    ),
    Rule(
        "minutes",
        ("checkpoint.every_minutes", "checkpoint.every_epochs", "checkpoint.every_steps"),
        lambda job: (
            job.checkpoint.every_minutes
            and (job.checkpoint.every_epochs or job.checkpoint.every_steps)
        ),
        "cannot be used with every_epochs or every_steps; give one of them.",
    ),
)
