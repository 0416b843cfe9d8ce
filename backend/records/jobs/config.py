"""The job file as a record, checked all at once.

`parse_job` never raises: it returns the job, or all its faults, each with its field, because the
form marks fields and the command line prints sentences.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backend.records.base.validation import (
    REQUIRED,
    Fault,
    Table,
    job_name_fault,
    kind_of,
    sanitize,
    variable_fault,
)
from backend.records.jobs.metric_labels import usual_mode
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES, Setting

THIS_COMPUTER = "this-computer"
"""Name of the node that needs no SSH and is always in the list."""
NOTHING = "nothing"
"""In ``start_from``: random weights, although the model has weights of its own."""

LAMBDAS = {"adaptive": 2.0, "constant": 0.04}
"""Default of dc-asgd by variant (Zheng et al., arXiv 1609.08326, section 6.1)."""
USUAL_OPTIMIZERS = {"downpour": "adagrad", "dc-asgd": "sgd", "sandblaster": "lbfgs"}
"""Dean et al. (NIPS 2012) found Adagrad best for Downpour; dc-asgd is derived for SGD."""
LR_SCALINGS = ("linear", "sqrt", "none")
MODES = ("min", "max")
"""Whether the lowest or the highest value of a metric is the best."""

_KEYS = (
    *("name", "notes", "validation_dataset", "validation_loader", "start_from", "tags"),
    *("model", "dataset", "loader", "strategy", "epochs", "batch_size", "seed", "optimizer"),
    *("schedule", "gradient_norm", "mixed_precision", "loader_workers", "stop_on_nan"),
    *("stall_limit_s", "stop_on_divergence", "continue_unsaved"),
    *("checkpoint", "early_stop", "environment"),
    "placement",
)
"""The keys of a job file in their order."""
_OPTIONAL = frozenset(
    {*_KEYS[1:6], "stop_on_divergence", "continue_unsaved", "early_stop", "environment"},
)
"""The keys that are left out if they have no value."""


@dataclass(frozen=True)
class StrategyConfig:
    """Cooperation of the ranks of a job. ``settings`` holds only what the user set."""

    name: str = "allreduce"
    lr_scaling: str = "linear"
    settings: dict[str, Any] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        return self.settings.get(name, STRATEGIES[self.name][name].default)

    @property
    def has_coordinator(self) -> bool:
        """Return whether rank 0 hands the dataset out in portions; a step takes all of them."""
        return "portion" in STRATEGIES[self.name]

    @property
    def servers(self) -> int:
        """The first ranks, which hold the parameters and do not train; 0 without any."""
        known = STRATEGIES[self.name]
        return int(self.setting("servers")) if "servers" in known else int(self.has_coordinator)

    @property
    def is_adaptive(self) -> bool:
        """Return whether the servers keep the mean square of each gradient."""
        return self.name == "dc-asgd" and self.setting("variant") == "adaptive"

    @property
    def is_split(self) -> bool:
        """Return whether each rank trains a part of the network, all on the same batch."""
        return self.name == "consensus"

    @property
    def compensation(self) -> float:
        """The lambda of dc-asgd, 0 for other strategies."""
        if self.name != "dc-asgd":
            return 0.0
        return float(self.settings.get("lambda", LAMBDAS[self.setting("variant")]))


@dataclass(frozen=True)
class Optimizer:
    """The optimizer. ``settings`` holds only what the user set, by PyTorch's names."""

    name: str
    lr: float
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    name: str = "constant"
    warmup_epochs: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        return self.settings.get(name, SCHEDULES[self.name][name].default)


@dataclass(frozen=True)
class CheckpointPolicy:
    """When checkpoints are made, and which are kept. That of the last epoch is always kept."""

    every_epochs: int | None = 1
    every_steps: int | None = None
    every_minutes: float | None = None
    keep_latest: int = 2
    keep_best: int = 1
    best_metric: str = "validation/loss"
    best_mode: str = "min"


@dataclass(frozen=True)
class EarlyStop:
    metric: str = "validation/loss"
    mode: str = "min"
    patience_epochs: int = 5
    min_delta: float = 0.0


@dataclass(frozen=True)
class Placement:
    """Processes on one node: a number of CPU processes, or one process for each listed GPU."""

    node: str
    processes: int = 0
    gpus: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()
    """GPUs that another user may be using at the start, and that user: the GPUs are shared."""

    def user_beside(self, gpu: str) -> str:
        return dict(self.beside).get(gpu, "")

    @property
    def slots(self) -> int:
        return len(self.gpus) or self.processes

    def to_dict(self) -> dict[str, Any]:
        """Return it as in a job file."""
        if not self.gpus:
            return {"node": self.node, "processes": self.processes}
        beside = {gpu: user for gpu, user in self.beside if gpu in self.gpus}
        more = {"beside": beside} if beside else {}
        return {"node": self.node, "gpus": list(self.gpus), **more}


@dataclass(frozen=True)
class JobConfig:
    """The job file. References such as ``model`` are ``NAME`` or ``NAME@VERSION``."""

    name: str
    model: str
    dataset: str
    loader: str
    epochs: int
    batch_size: int
    optimizer: Optimizer
    placement: tuple[Placement, ...]
    notes: str = ""
    tags: tuple[str, ...] = ()
    validation_dataset: str = ""
    validation_loader: str = ""
    start_from: str = ""
    strategy: StrategyConfig = StrategyConfig()
    schedule: Schedule = Schedule()
    seed: int = 1
    gradient_norm: float | None = None
    mixed_precision: bool = False
    loader_workers: int = 0
    stop_on_nan: bool = True
    stop_on_divergence: bool = False
    continue_unsaved: bool = False
    """Train on although two checkpoints in a row could not be written."""
    stall_limit_s: float = 600.0
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    early_stop: EarlyStop | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        return sum(placement.slots for placement in self.placement)

    @property
    def workers(self) -> int:
        """The processes that train; the others are servers."""
        return self.world_size - self.strategy.servers

    @property
    def batches(self) -> int:
        """The batches of one update."""
        strategy = self.strategy
        if strategy.is_split or strategy.has_coordinator:
            return 1
        return int(strategy.setting("n_push")) if strategy.servers else self.world_size

    @property
    def global_batch_size(self) -> int:
        """The samples of one update; with servers, of one push.

        Of one forward pass if an update takes the whole dataset.
        """
        return self.batch_size * self.batches

    def steps_per_epoch(self, samples: int) -> int:
        """Return the updates of an epoch; with servers, pushes. Only whole batches are trained."""
        if self.strategy.has_coordinator:
            return 1
        if self.strategy.servers:
            return -(-(samples // self.batch_size) // self.batches)
        return samples // self.global_batch_size

    @property
    def hash_seed(self) -> str:
        """PYTHONHASHSEED of processes that run user code, so that sets have the same order."""
        return str(self.seed % 2**32)

    @property
    def lr_factor(self) -> float:
        """The factor of the learning rate for the number of batches."""
        if self.strategy.servers:
            return 1.0
        scaling = self.strategy.lr_scaling
        if scaling == "sqrt":
            return math.sqrt(self.batches)
        return float(self.batches) if scaling == "linear" else 1.0

    @property
    def uses_gpus(self) -> bool:
        return any(placement.gpus for placement in self.placement)

    def with_learning_rate(self, rate: float) -> JobConfig:
        return replace(self, optimizer=replace(self.optimizer, lr=rate))

    def to_dict(self) -> dict[str, Any]:
        """Return the job file as plain values, without those that equal their default."""
        raw: dict[str, Any] = {key: getattr(self, key) for key in _KEYS}
        raw["tags"], raw["environment"] = list(self.tags), dict(self.environment)
        for part in ("strategy", "optimizer", "schedule"):
            values = dict(vars(raw[part]))
            settings = values.pop("settings").items()
            own = {key: list(v) if isinstance(v, tuple) else v for key, v in settings}
            raw[part] = {**values, **own}
        policy = vars(self.checkpoint).items()
        raw["checkpoint"] = {key: value for key, value in policy if value is not None}
        raw["early_stop"] = self.early_stop and dict(vars(self.early_stop))
        raw["placement"] = [one.to_dict() for one in self.placement]
        if self.gradient_norm is None:
            del raw["gradient_norm"]
        return {key: value for key, value in raw.items() if value or key not in _OPTIONAL}

    def sha256(self) -> str:
        """Return a hash of the settings that does not depend on how they were written."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class ParsedJob:
    """A valid job, or the faults of an invalid one.

    ``draft`` is the job with a stand-in for each invalid value.
    """

    config: JobConfig | None
    draft: JobConfig
    faults: tuple[Fault, ...] = ()


def parse_job(raw: Mapping[str, Any]) -> ParsedJob:
    """Check a job file that was read as TOML or edited in the form; find all faults at once.

    What only the catalogue or the nodes know is not checked here: whether the model exists, whether
    the node has the GPU, whether the batch is larger than the dataset.
    """
    faults: list[Fault] = []
    top = Table(raw, "", faults)
    name = top.text("name", REQUIRED)
    if isinstance(raw.get("name"), str) and job_name_fault(name):
        top.fault("name", job_name_fault(name))
    config = JobConfig(
        name=name,
        notes=top.text("notes"),
        tags=_texts(top, "tags"),
        model=top.text("model", REQUIRED, empty_ok=False),
        dataset=top.text("dataset", REQUIRED, empty_ok=False),
        loader=top.text("loader", REQUIRED, empty_ok=False),
        validation_dataset=top.text("validation_dataset"),
        validation_loader=top.text("validation_loader"),
        start_from=top.text("start_from"),
        strategy=(strategy := _strategy(top.table("strategy", {}))),
        epochs=top.whole("epochs", REQUIRED, 1, 1_000_000),
        batch_size=top.whole("batch_size", REQUIRED, 1, 10_000_000),
        seed=top.whole("seed", 1, 0, 2**63 - 1),
        optimizer=_optimizer(top.table("optimizer"), USUAL_OPTIMIZERS.get(strategy.name, REQUIRED)),
        schedule=_schedule(top.table("schedule", {})),
        gradient_norm=_positive_or_none(top, "gradient_norm"),
        mixed_precision=top.flag("mixed_precision", False),
        loader_workers=top.whole("loader_workers", 0, 0, 256),
        stop_on_nan=top.flag("stop_on_nan", True),
        stop_on_divergence=top.flag("stop_on_divergence", False),
        continue_unsaved=top.flag("continue_unsaved", False),
        stall_limit_s=top.number("stall_limit_s", 600.0, lambda v: v >= 5, "5 or more"),
        checkpoint=(policy := _checkpoint(top.table("checkpoint", {}))),
        early_stop=_early_stop(top.table("early_stop", {}), policy)
        if "early_stop" in top
        else None,
        environment=_environment(top),
        placement=_placement(top),
    )
    top.done(tuple(JobConfig.__dataclass_fields__))
    if config.strategy.name == "alone" and config.world_size > 1:
        top.fault(
            "strategy.name",
            "“alone” trains in one process; choose another strategy or one process.",
        )
    size = config.world_size
    if config.strategy.settings.get("reduction") == "adasum" and size & (size - 1):
        top.fault("strategy.reduction", f"“adasum” needs 2, 4, 8… processes; there are {size}.")
    by_node = config.strategy.settings.get("reduction") == "hierarchical"
    if by_node and size and not config.uses_gpus:
        top.fault("strategy.reduction", "“hierarchical” needs GPUs; the job runs on CPUs.")
    servers, workers = config.strategy.servers, config.workers
    if servers and size and workers < 1:
        top.fault(
            "strategy.name" if config.strategy.has_coordinator else "strategy.servers",
            f"A job with {servers} server{'s'[: servers > 1]} needs {servers + 1} processes or "
            f"more, one of them to train; it has {size}.",
        )
    elif config.strategy.settings.get("policy") == "quorum" and size and workers < 4:
        top.fault("strategy.policy", f"A quorum of 75 % needs 4 workers or more; it has {workers}.")
    _check_lbfgs(config, top)
    if (config.strategy.servers or config.strategy.is_split) and config.mixed_precision:
        top.fault("mixed_precision", f"cannot be used with “{config.strategy.name}”.")
    if config.strategy.is_split:
        _check_split(top, config)
    if config.mixed_precision and not config.uses_gpus:
        top.fault("mixed_precision", "needs GPUs; the job runs on CPUs.")
    return ParsedJob(None if faults else config, config, tuple(faults))


def _check_lbfgs(config: JobConfig, top: Table) -> None:
    """Find what does not go together with L-BFGS, which chooses the length of each step itself."""
    name = config.strategy.name
    if config.strategy.has_coordinator != (config.optimizer.name == "lbfgs"):
        top.fault("optimizer.name", "“sandblaster” and “lbfgs” need each other.")
    if config.strategy.has_coordinator:
        if config.schedule.name != "constant" or config.schedule.warmup_epochs:
            top.fault("schedule.name", f"must be “constant” without warm-up for “{name}”.")
        if config.gradient_norm is not None:
            top.fault("gradient_norm", f"cannot be used with “{name}”.")


def _check_split(top: Table, config: JobConfig) -> None:
    cut, size = config.strategy.setting("cut"), config.world_size
    if cut and size and len(cut) != size - 1:
        top.fault(
            "strategy.cut",
            f"makes {len(cut) + 1} parts, but there {_are(size)}; each part needs one process.",
        )
    if len(set(cut)) < len(cut):
        top.fault("strategy.cut", "names a module twice.")
    if config.gradient_norm is not None and config.strategy.setting("inner_rounds") > 1:
        top.fault("gradient_norm", "cannot be used with more than one inner round.")


def _are(processes: int) -> str:
    return "is 1 process" if processes == 1 else f"are {processes} processes"


def without_secrets(config: JobConfig) -> dict[str, Any]:
    """Return the job file without the values of variables, which may be tokens."""
    raw = config.to_dict()
    if config.environment:
        raw["environment"] = dict.fromkeys(config.environment, "")
    return raw


def to_share(config: JobConfig) -> dict[str, Any]:
    """Return the job file for other users and computers: no secrets, and no folder of this one."""
    raw = without_secrets(config)
    if config.start_from.startswith(("/", "~")):
        raw["start_from"] = config.start_from.rpartition("/")[2]
    return raw


def without_neighbours(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a job file without its ``beside``: that permission is for one job only."""
    copy = dict(raw)
    if isinstance(placements := copy.get("placement"), list):
        copy["placement"] = [
            {key: value for key, value in one.items() if key != "beside"}
            if isinstance(one, Mapping)
            else one
            for one in placements
        ]
    return copy


def without_usual_stop(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a job file without an early-stop metric that equals the best metric.

    The early stop then follows when another best metric is chosen.
    """
    copy = dict(raw)
    policy, stop = copy.get("checkpoint", {}), copy.get("early_stop")
    if not isinstance(stop, Mapping) or not isinstance(policy, Mapping):
        return copy
    judged = _checkpoint(Table(policy, "", []))
    kept = {key: value for key, value in stop.items() if key not in ("metric", "mode")}
    usual = _early_stop(Table(kept, "", []), judged)
    if _early_stop(Table(stop, "", []), judged) == usual:
        copy["early_stop"] = kept
    return copy


def _strategy(table: Table) -> StrategyConfig:
    name = table.choice("name", "allreduce", tuple(STRATEGIES))
    scaling = table.choice("lr_scaling", "linear", LR_SCALINGS)
    settings = _settings(table, STRATEGIES[name])
    table.done(("name", "lr_scaling", *STRATEGIES[name]))
    return StrategyConfig(name, scaling, settings)


def _optimizer(table: Table, usual: Any) -> Optimizer:
    name = table.choice("name", usual, tuple(OPTIMIZERS))
    lr = table.number("lr", REQUIRED, lambda v: v > 0, "above 0")
    settings = _settings(table, OPTIMIZERS[name])
    if settings.get("nesterov") and not (
        settings.get("momentum", 0) > 0 and not settings.get("dampening")
    ):
        table.fault("nesterov", "needs momentum above 0 and no dampening.")
    table.done(("name", "lr", *OPTIMIZERS[name]))
    return Optimizer(name, lr, settings)


def _schedule(table: Table) -> Schedule:
    name = table.choice("name", "constant", tuple(SCHEDULES))
    warmup = table.number("warmup_epochs", 0.0, lambda v: v >= 0, "0 or more")
    settings = _settings(table, SCHEDULES[name])
    table.done(("name", "warmup_epochs", *SCHEDULES[name]))
    return Schedule(name, warmup, settings)


def _settings(table: Table, known: Mapping[str, Setting]) -> dict[str, Any]:
    """Take the settings of ``known`` that the user set; the others stay unset."""
    given: dict[str, Any] = {}
    for key, setting in known.items():
        if key not in table:
            continue
        if setting.kind == "flag":
            given[key] = table.flag(key, False)
        elif setting.kind == "choice":
            given[key] = table.choice(key, setting.default, setting.choices)
        elif setting.kind == "whole":
            given[key] = table.whole(key, setting.default, int(setting.low))
        elif setting.kind == "number":
            given[key] = table.number(key, setting.default, _within(setting), _wanted(setting))
        elif setting.kind == "texts":
            given[key] = _texts(table, key)
        else:
            given[key] = _pair(table, key, setting)
    return given


def _within(setting: Setting) -> Any:
    return lambda v: v >= setting.low and (setting.below is None or v < setting.below)


def _wanted(setting: Setting) -> str:
    return f"{setting.low:g} or more" + (
        f" and below {setting.below:g}" if setting.below is not None else ""
    )


def _pair(table: Table, key: str, setting: Setting) -> tuple[float, float]:
    value = table.take(key, setting.default)
    good = (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(
            isinstance(v, (int, float)) and not isinstance(v, bool) and _within(setting)(v)
            for v in value
        )
    )
    if not good:
        table.fault(key, f"must be two numbers, each {_wanted(setting)}.")
        return (0.0, 0.0)
    return (float(value[0]), float(value[1]))


def _positive_or_none(table: Table, key: str) -> float | None:
    return table.number(key, 1.0, lambda v: v > 0, "above 0") if key in table else None


def _checkpoint(table: Table) -> CheckpointPolicy:
    given = [key for key in ("every_epochs", "every_steps", "every_minutes") if key in table]
    if len(given) > 1:
        table.fault(given[1], f"cannot be used with {given[0]}; give one of them.")
    metric = table.text("best_metric", "validation/loss", empty_ok=False)
    policy = CheckpointPolicy(
        every_epochs=table.whole("every_epochs", 1, 1)
        if "every_epochs" in given or not given
        else None,
        every_steps=table.whole("every_steps", 1, 1) if "every_steps" in given else None,
        every_minutes=table.number("every_minutes", 1, lambda v: v > 0, "above 0")
        if "every_minutes" in given
        else None,
        keep_latest=table.whole("keep_latest", 2, 1),
        keep_best=table.whole("keep_best", 1, 0),
        best_metric=metric,
        best_mode=_mode(table, "best_mode", metric, usual_mode(metric)),
    )
    table.done(tuple(CheckpointPolicy.__dataclass_fields__))
    return policy


def _early_stop(table: Table, policy: CheckpointPolicy) -> EarlyStop:
    """Parse the early stop; by default it watches the metric of the best checkpoint."""
    metric = table.text("metric", policy.best_metric, empty_ok=False)
    is_same = metric == policy.best_metric
    usual = policy.best_mode if is_same else usual_mode(metric)
    stop = EarlyStop(
        metric=metric,
        mode=_mode(table, "mode", metric, usual),
        patience_epochs=table.whole("patience_epochs", 5, 1),
        min_delta=table.number("min_delta", 0.0, lambda v: v >= 0, "0 or more"),
    )
    table.done(tuple(EarlyStop.__dataclass_fields__))
    return stop


def _mode(table: Table, key: str, metric: str, usual: str) -> str:
    """Take a direction; required if the metric's name does not suggest one."""
    if key not in table and not usual:
        table.fault(
            key,
            f"The name “{sanitize(metric)}” does not say which value is the best; choose lowest "
            "(min) or highest (max).",
        )
    return table.choice(key, usual or MODES[0], MODES)


def _texts(table: Table, key: str) -> tuple[str, ...]:
    value = table.take(key, [])
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        table.fault(key, "must be a list of text values.")
        return ()
    return tuple(value)


def _environment(table: Table) -> dict[str, str]:
    value = table.take("environment", {})
    if not isinstance(value, Mapping):
        table.fault("environment", f"must be a table, not {kind_of(value)}.")
        return {}
    for name, content in value.items():
        if variable_fault(name):
            table.fault(f"environment.{name}", variable_fault(name))
        elif not isinstance(content, str):
            table.fault(f"environment.{name}", f"must be text, not {kind_of(content)}.")
        elif "\0" in content:
            table.fault(f"environment.{name}", "cannot contain a zero byte.")
    return {str(name): str(content) for name, content in value.items()}


def _beside(table: Table, gpus: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    value = table.take("beside", {})
    if not isinstance(value, Mapping) or not all(isinstance(user, str) for user in value.values()):
        table.fault("beside", "must be a table of GPUs, each with a user's name.")
        return ()
    strange = [gpu for gpu in value if gpu not in gpus]
    if strange:
        table.fault("beside", f"names the GPU “{sanitize(str(strange[0]))}”, which is not chosen.")
    return tuple((str(gpu), user) for gpu, user in value.items() if gpu in gpus)


def parse_placement(value: object) -> tuple[tuple[Placement, ...], tuple[Fault, ...]]:
    """Parse ``placement`` of a job file; return the nodes and what runs on each, and the faults."""
    faults: list[Fault] = []
    found = _placement(Table({"placement": value}, "", faults))
    return found, tuple(faults)


def _placement(table: Table) -> tuple[Placement, ...]:
    value = table.take("placement", REQUIRED)
    if value is REQUIRED:
        return ()
    if (
        not isinstance(value, (list, tuple))
        or not value
        or not all(isinstance(v, Mapping) for v in value)
    ):
        table.fault("placement", "needs at least one node, each as a table [[placement]].")
        return ()
    placements = []
    for number, raw in enumerate(value):
        faults: list[Fault] = []
        entry = Table(raw, f"placement[{number}]", faults)
        node = entry.text("node", REQUIRED, empty_ok=False)
        gpus = _texts(entry, "gpus")
        both = gpus and "processes" in entry
        processes = entry.whole("processes", 0 if gpus else REQUIRED, 0 if gpus else 1, 4096)
        if both:
            entry.fault("processes", "cannot be used with gpus; use GPUs or CPUs of a node.")
        if len(set(gpus)) < len(gpus):
            entry.fault("gpus", "names a GPU twice.")
        beside = _beside(entry, gpus)
        entry.done(("node", "processes", "gpus", "beside"))
        for fault in faults:
            table.fault(fault.field, fault.sentence.partition(": ")[2])
        placements.append(Placement(node, processes, gpus, beside))
    nodes = [p.node for p in placements]
    if len(set(nodes)) < len(nodes):
        table.fault("placement", "names a node twice.")
    if len({bool(p.gpus) for p in placements}) > 1:
        table.fault("placement", "mixes GPUs and CPUs; a job uses one kind.")
    return tuple(placements)
