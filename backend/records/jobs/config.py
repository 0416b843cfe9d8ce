"""The job file as a record.

A setting is one field here, with its type, default, limits and words (`setting.Setting`), or one
entry of `torch_options`: the check, the form, sweeps, tables, the help and the guide read it
(`settings.SETTINGS` has them by path). `job_file.parse_job` reads a job file.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from backend.records.base.validation import REQUIRED
from backend.records.jobs.log_numbers import invalid_pattern
from backend.records.jobs.placement import ClusterPlacement, Placement
from backend.records.jobs.schedulers import ClusterScheduler, scheduler_of
from backend.records.jobs.script import PYTHONS, SIGNALS, USUAL_CHECKPOINTS, unknown_placeholders
from backend.records.jobs.setting import (
    KEEP_SECTION,
    WHAT_SECTION,
    WHERE_SECTION,
    Setting,
    declared_settings,
    required_setting,
    setting,
    settings_record,
)
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES, Options

SCRIPT = "script"
"""The strategy of jobs with a script; no job file names it."""
RANDOM_WEIGHTS = "nothing"
"""Value of ``start_from`` for random weights, although the model has weights of its own."""

LAMBDAS = {"adaptive": 2.0, "constant": 0.04}
"""Default of dc-asgd by variant (Zheng et al., arXiv 1609.08326, section 6.1)."""
DEFAULT_OPTIMIZERS = {"downpour": "adagrad", "dc-asgd": "sgd", "sandblaster": "lbfgs"}
"""Dean et al. (NIPS 2012) found Adagrad best for Downpour; dc-asgd is derived for SGD."""
_ROOT_SCALED = ("adam", "adamw")
"""Their rate grows with the root of the batches (Malladi et al., NeurIPS 2022, arXiv 2205.10287);
that of SGD with their number (Goyal et al. 2017, arXiv 1706.02677)."""
PRECISIONS = {
    "float32": "32 bits",
    "tf32": "TF32",
    "bfloat16": "bfloat16",
    "float16": "float16",
}
"""Numbers in which a forward pass computes where they are precise enough; weights have 32 bits."""
_FACTOR = re.compile(r"\d+\.?\d*([eE][-+]?\d+)?|\.\d+")
BEST_MODES = {"min": "lowest", "max": "highest"}
"""Which value of a metric is the best."""


_training_setting = partial(setting, job_kind="training")
_script_setting = partial(setting, job_kind="script", section=WHAT_SECTION, term="script")
_keep_setting = partial(setting, section=KEEP_SECTION)
_rare_setting = partial(_keep_setting, is_rare=True)


def _labels(options: Mapping[str, Options]) -> dict[str, str]:
    return {name: option.label for name, option in options.items()}


@dataclass(frozen=True)
class StrategyConfig:
    """Cooperation of the ranks of a job. ``settings`` holds only what the user set."""

    name: str = setting(
        "choice", "Strategy", "allreduce", choices=_labels(STRATEGIES), term="strategy"
    )
    lr_scaling: str = setting(
        "choice",
        "Rate scaling",
        "linear",
        choices={"linear": "× processes", "sqrt": "× √processes", "none": "do not scale"},
        term="rate scaling",
    )
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        """Return the settings that it may have; a script has none."""
        return STRATEGIES.get(self.name, Options("Script"))

    @property
    def library(self) -> str:
        """Return the package with which its processes exchange, besides PyTorch, or ""."""
        return STRATEGIES[self.name].library if self.name in STRATEGIES else ""

    def setting(self, name: str) -> Any:
        return self.settings.get(name, self.options[name].default)

    @property
    def has_coordinator(self) -> bool:
        """Return whether rank 0 hands the dataset out in portions; a step takes all of them."""
        return "portion" in self.options

    @property
    def servers(self) -> int:
        """The first ranks, which hold the parameters and do not train; 0 without any."""
        options = self.options
        return int(self.setting("servers")) if "servers" in options else int(self.has_coordinator)

    @property
    def average_every(self) -> int:
        """The steps after which the ranks average their weights; 1: they average gradients."""
        return int(self.setting("average_every")) if "average_every" in self.options else 1

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


@settings_record
class Optimizer:
    """The optimizer. ``settings`` holds only what the user set, by PyTorch's names."""

    name: str = required_setting(
        "choice", "Optimizer", choices=_labels(OPTIMIZERS), term="optimizer"
    )
    lr: float = required_setting(
        "number", "Learning rate", exclusive_low=0, term="learning rate", is_changeable=True
    )
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    name: str = setting(
        "choice", "Schedule", "constant", choices=_labels(SCHEDULES), term="schedule"
    )
    warmup_epochs: float = setting("number", "Warm-up, epochs", 0.0, term="warm-up")
    settings: dict[str, Any] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        return self.settings.get(name, SCHEDULES[self.name][name].default)


@dataclass(frozen=True)
class CheckpointPolicy:
    """The times of checkpoints, and the number to keep. The last epoch's is always kept."""

    every_epochs: int | None = _keep_setting(
        "whole", "Checkpoint every, epochs", 1, low=1, job_kind="training", term="checkpoint"
    )
    every_steps: int | None = _keep_setting(
        "whole", "Checkpoint every, steps", None, low=1, job_kind="training", term="checkpoint"
    )
    every_minutes: float | None = _keep_setting(
        "number",
        "Checkpoint every, min",
        None,
        exclusive_low=0,
        job_kind="training",
        term="checkpoint",
    )
    keep_latest: int = _keep_setting("whole", "Keep latest", 2, low=1, term="retention")
    keep_best: int = _keep_setting("whole", "Keep best", 1, term="retention")
    best_metric: str = _keep_setting("text", "Best by", "validation/loss", term="best checkpoint")
    best_mode: str = _rare_setting(
        "choice", "Best is", "min", choices=BEST_MODES, term="best checkpoint"
    )


@dataclass(frozen=True)
class EarlyStop:
    patience_epochs: int = _keep_setting(
        "whole", "Stop early after, epochs", 5, low=1, term="early stop"
    )
    metric: str = _keep_setting("text", "Stop early by", "validation/loss", term="early stop")
    mode: str = _keep_setting(
        "choice", "Stop early when best is", "min", choices=BEST_MODES, term="early stop"
    )
    min_delta: float = _keep_setting("number", "Stop early below a gain of", 0.0, term="early stop")


@dataclass(frozen=True)
class OnFailure:
    """Reaction to the failure of a machine. After an error of the user's code there is no retry."""

    retries: int = _rare_setting("whole", "Retries", 0, high=100, term="retry")
    nodes: str = _rare_setting(
        "choice",
        "Retry on",
        "same",
        choices={"same": "same nodes", "others": "others too"},
        term="retry",
    )
    shrink: bool = _rare_setting("flag", "Drop a lost node", False, term="shrink")
    at_least: int = _rare_setting("whole", "At least, nodes", 1, low=1, high=4096, term="shrink")
    scaling: str = _rare_setting(
        "choice",
        "With fewer nodes, keep",
        "batch",
        choices={"batch": "global batch", "process": "batch per process"},
        term="shrink",
    )
    grow: bool = _rare_setting("flag", "Take a lost node back", False, term="grow")
    silent_limit_s: float = _rare_setting(
        "number", "A silent node is lost after, s", 60.0, low=30, term="retry"
    )

    @property
    def continues(self) -> bool:
        """Return whether the program continues the job after the failure of a machine."""
        return self.retries > 0 or self.shrink

    @property
    def may_shrink(self) -> bool:
        """Return whether a run may have fewer nodes than the one before."""
        return self.shrink or (self.retries > 0 and self.nodes == "others")


@settings_record
class JobConfig:
    """The job file. References such as ``model`` are ``NAME`` or ``NAME@VERSION``."""

    name: str = required_setting("text", "Name", section=WHAT_SECTION, is_note=True)
    model: str = required_setting(
        "text", "Model", section=WHAT_SECTION, term="model", job_kind="training"
    )
    dataset: str = required_setting("text", "Dataset", section=WHAT_SECTION, term="dataset")
    loader: str = required_setting(
        "text", "Loader", section=WHAT_SECTION, term="loader", job_kind="training"
    )
    epochs: int = required_setting(
        "whole", "Epochs", low=1, high=1_000_000, term="epoch", job_kind="training"
    )
    batch_size: int = required_setting(
        "whole",
        "Batch size, per process",
        low=1,
        high=10_000_000,
        term="batch",
        is_changeable=True,
        job_kind="training",
    )
    optimizer: Optimizer = required_setting("table", job_kind="training")
    placement: tuple[Placement, ...] = required_setting(
        "table", "Nodes", section=WHERE_SECTION, is_changeable=True
    )
    allocation: ClusterPlacement | None = None
    """What a table of the job file asks of a scheduler, which chooses the nodes.

    ``placement`` is then `ClusterPlacement.placements`.
    """
    notes: str = setting("text", default="", section=WHAT_SECTION, is_note=True)
    tags: tuple[str, ...] = setting("texts", default=(), section=WHAT_SECTION, is_note=True)
    validation_dataset: str = _training_setting(
        "text", "Validation dataset", "", section=WHAT_SECTION, term="validation"
    )
    validation_loader: str = _training_setting(
        "text", "Validation loader", "", section=WHAT_SECTION, term="validation"
    )
    start_from: str = _training_setting(
        "text", "Start from", "", section=WHAT_SECTION, term="checkpoint"
    )
    start_from_except: tuple[str, ...] = _training_setting(
        "texts", "Start new layers", (), term="fine-tuning", is_rare=True
    )
    freeze: tuple[str, ...] = _training_setting(
        "texts", "Freeze", (), term="fine-tuning", is_rare=True
    )
    script: str = _script_setting("text", "Script", "")
    entry: str = _script_setting("text", "Entry", "")
    folder: str = _script_setting("text", "Working folder", "", term="working folder", is_rare=True)
    arguments: tuple[str, ...] = _script_setting("words", "Arguments", ())
    resume_arguments: tuple[str, ...] = _script_setting("words", "Arguments to resume", ())
    processes_per: str = _script_setting(
        "choice",
        "Processes by",
        "gpu",
        section=WHERE_SECTION,
        choices={"gpu": "GPU or slot", "node": "node"},
    )
    python: str = _script_setting(
        "text", "Python", "", choices=PYTHONS, term="script's Python", is_rare=True
    )
    stop_signal: str = _script_setting(
        "choice", "Stop by", "SIGTERM", choices=SIGNALS, is_rare=True
    )
    checkpoint_files: tuple[str, ...] = _script_setting(
        "texts", "Checkpoints are", USUAL_CHECKPOINTS, section=KEEP_SECTION, is_rare=True
    )
    remove_old_checkpoints: bool = _script_setting(
        "flag",
        "Remove old checkpoints",
        False,
        section=KEEP_SECTION,
        term="retention",
        is_rare=True,
    )
    log_numbers: tuple[str, ...] = _script_setting(
        "texts", "Numbers in the log", (), term="log number", is_rare=True, is_changeable=True
    )
    total_epochs: int | None = _script_setting(
        "whole", "Total epochs", None, low=1, term="epoch", is_rare=True
    )
    total_steps: int | None = _script_setting(
        "whole", "Total steps", None, low=1, term="step", is_rare=True
    )
    strategy: StrategyConfig = setting(
        "table", default=StrategyConfig(), job_kind="training", is_always_written=True
    )
    schedule: Schedule = setting(
        "table", default=Schedule(), job_kind="training", is_always_written=True
    )
    gradient_norm: float | None = _training_setting(
        "number", "Gradient norm limit", None, exclusive_low=0, term="gradient norm", is_rare=True
    )
    accumulate: int = _training_setting(
        "whole",
        "Passes of a step",
        1,
        low=1,
        high=1_000_000,
        term="accumulation",
        is_rare=True,
        is_changeable=True,
    )
    ema: float | None = _training_setting(
        "number",
        "Average of weights, decay",
        None,
        exclusive_low=0,
        exclusive_high=1,
        term="weight average",
        is_rare=True,
    )
    compile: bool = _training_setting("flag", "Compile", False, term="compilation", is_rare=True)
    no_decay: bool = _training_setting(
        "flag", "No decay of biases", False, term="weight decay groups", is_rare=True
    )
    lr_of: tuple[str, ...] = _training_setting(
        "texts", "Rates of layers", (), term="rate of a layer", is_rare=True
    )
    """Entries such as “backbone.=0.1”: a beginning of names, and their share of the rate."""
    precision: str = _training_setting(
        "choice", "Precision", "float32", choices=PRECISIONS, term="precision"
    )
    checkpoint: CheckpointPolicy = setting(
        "table", default=CheckpointPolicy(), section=KEEP_SECTION, is_always_written=True
    )
    early_stop: EarlyStop | None = setting(
        "table", default=None, section=KEEP_SECTION, job_kind="training"
    )
    on_failure: OnFailure = setting("table", default=OnFailure(), section=KEEP_SECTION)
    gives_way: bool = _rare_setting("flag", "Give way", False, term="give way", is_changeable=True)
    quiet_minutes: float = _rare_setting(
        "number",
        "Continue after, quiet min",
        5.0,
        exclusive_low=0,
        term="give way",
        is_changeable=True,
    )
    seed: int = _rare_setting(
        "whole", "Seed", 1, high=2**63 - 1, term="seed", is_always_written=True
    )
    loader_workers: int = _rare_setting(
        "whole",
        "Loader workers",
        0,
        high=256,
        term="loader worker",
        job_kind="training",
        is_always_written=True,
    )
    stall_limit_s: float = _rare_setting(
        "number", "Stall limit, s", 600.0, low=5, term="stall", is_always_written=True
    )
    stop_on_nan: bool = _rare_setting(
        "flag", "Stop on NaN", True, job_kind="training", term="NaN", is_always_written=True
    )
    stop_on_divergence: bool = _rare_setting(
        "flag", "Stop if the loss diverges", False, job_kind="training", term="divergence"
    )
    continue_unsaved: bool = _rare_setting(
        "flag", "Train on unsaved", False, job_kind="training", term="checkpoint"
    )
    """Train on although two checkpoints in a row could not be written."""
    follow_samples: bool = _rare_setting(
        "flag", "Follow samples", True, job_kind="training", term="samples over time"
    )
    environment: dict[str, str] = field(
        default_factory=dict,
        metadata={"setting": Setting("table", default={}, section=KEEP_SECTION)},
    )

    @property
    def node_count(self) -> int:
        return len(self.placement)

    @property
    def world_size(self) -> int:
        return sum(map(self.processes_on, self.placement))

    def processes_on(self, placement: Placement) -> int:
        """Return the number of processes that start on a node."""
        return (
            placement.process_count
            if self.processes_per == "gpu"
            else min(1, placement.process_count)
        )

    @property
    def unknown_placeholder(self) -> str:
        """Return a name in braces in the arguments of a script that is no placeholder, or ""."""
        names = unknown_placeholders((*self.arguments, *self.resume_arguments))
        return next((f"{{{name}}}" for name in names), "")

    @property
    def rate_factors(self) -> dict[str, float]:
        """Return the factors of ``lr_of`` by the beginnings of names; only of valid entries."""
        parts = (entry.rpartition("=") for entry in self.lr_of)
        return {
            name.strip(): float(factor)
            for name, _, factor in parts
            if name.strip() and _FACTOR.fullmatch(factor.strip())
        }

    @property
    def wrong_rate(self) -> str:
        """Return an entry of ``lr_of`` that is not a name and a factor, or ""."""
        valid_names = self.rate_factors.keys()
        return next((e for e in self.lr_of if e.rpartition("=")[0].strip() not in valid_names), "")

    @property
    def wrong_log_number(self) -> str:
        """Return an entry of ``log_numbers`` that is no pattern, or ""."""
        return invalid_pattern(self.log_numbers)

    @property
    def needs_mpirun(self) -> bool:
        """Return whether mpirun starts it; a single process needs none."""
        return self.strategy.name != "alone" and not (self.script and self.world_size == 1)

    @property
    def workers(self) -> int:
        """The processes that train; the others are servers."""
        return self.world_size - self.strategy.servers

    @property
    def batches(self) -> int:
        """The batches of one update."""
        strategy = self.strategy
        if strategy.has_coordinator:
            return 1
        if strategy.servers:
            return int(strategy.setting("n_push"))
        return self.accumulate * (1 if strategy.is_split else self.world_size)

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
        return self.lr_factor_of(self.batches)

    def lr_factor_of(self, batches: float) -> float:
        """Return the factor of the learning rate for updates of so many batches."""
        if self.strategy.servers:
            return 1.0
        scaling = self.strategy.lr_scaling
        if scaling == "sqrt":
            return math.sqrt(batches)
        return float(batches) if scaling == "linear" else 1.0

    @property
    def scheduler(self) -> ClusterScheduler | None:
        """Return the scheduler that chooses the nodes, None for a job that names them."""
        return scheduler_of(self.allocation) if self.allocation is not None else None

    @property
    def names_nodes(self) -> bool:
        """Return False while a scheduler has not chosen the nodes, which have numbers then."""
        return self.allocation is None or self.placement != self.allocation.placements()

    @property
    def uses_gpus(self) -> bool:
        return any(placement.gpus for placement in self.placement)

    def to_dict(self) -> dict[str, Any]:
        """Return the job file as plain values, without those that equal their default."""
        raw: dict[str, Any] = {}
        foreign_kind = "training" if self.script else "script"
        for name, job_setting in declared_settings(JobConfig).items():
            value = getattr(self, name)
            if name == "placement" and self.scheduler is not None:
                raw[self.scheduler.key] = _changed_values(self.allocation)
                continue
            if job_setting.job_kind == foreign_kind or (self.script and value in ("", ())):
                continue
            is_needed = job_setting.is_always_written or job_setting.default is REQUIRED
            if value == job_setting.default and (not is_needed or (self.script and name != "seed")):
                continue
            if value or value is False or (is_needed and value is not None):
                raw[name] = _file_value(value)
        return raw

    def sha256(self) -> str:
        """Return a hash of the settings that does not depend on how they were written."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _file_value(value: Any) -> Any:
    """Return a value as in a job file: without None, and options beside the other settings."""
    if isinstance(value, Placement):
        return value.to_dict()
    if isinstance(value, OnFailure):
        return _changed_values(value)
    if isinstance(value, tuple):
        return [_file_value(element) for element in value]
    if not hasattr(value, "__dataclass_fields__"):
        return dict(value) if isinstance(value, dict) else value
    values = {key: element for key, element in vars(value).items() if element is not None}
    values.update(values.pop("settings", {}))
    return {key: _file_value(element) for key, element in values.items()}


def _changed_values(record: Any) -> dict[str, Any]:
    """Return the settings that differ from the default: an older node knows fewer settings."""
    defaults = vars(type(record)())
    return {key: value for key, value in vars(record).items() if value != defaults[key]}


def default_scaling(optimizer: str) -> str:
    """Return how the learning rate grows with the number of batches, by default."""
    return "sqrt" if optimizer in _ROOT_SCALED else "linear"
