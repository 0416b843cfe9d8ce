"""The job file as a record, checked all at once.

A setting is one field here, with its type, limits and words (`setting.Setting`), or one entry of
`torch_options`: the check, the form, sweeps, tables, the help and the guide read it
(`settings.SETTINGS` has them by path).

`parse_job` never raises: it returns the job, or all its errors, each with its field, because the
form marks fields and the command line prints messages.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, TypeVar

from backend.records.base.schema import kind_of
from backend.records.base.validation import (
    REQUIRED,
    ConfigError,
    Table,
    job_name_error,
    sanitize,
    variable_error,
)
from backend.records.jobs import arguments
from backend.records.jobs.log_numbers import invalid_pattern
from backend.records.jobs.metric_names import usual_mode
from backend.records.jobs.placement import Placement, take_placement
from backend.records.jobs.rules import RULES
from backend.records.jobs.script import PYTHONS, SIGNALS, USUAL_CHECKPOINTS, unknown_placeholders
from backend.records.jobs.setting import (
    KEEP_SECTION,
    WHAT_SECTION,
    WHERE_SECTION,
    Setting,
    setting_metadata,
)
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES, Options
from backend.records.slurm.placement import SlurmPlacement

_Record = TypeVar("_Record")
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
_MODES = {"min": "lowest", "max": "highest"}
"""Which value of a metric is the best."""


def _keep_setting(kind: str, label: str, **options: Any) -> dict[str, Setting]:
    return setting_metadata(kind, label, section=KEEP_SECTION, **options)


def _rare_setting(kind: str, label: str, **options: Any) -> dict[str, Setting]:
    return _keep_setting(kind, label, is_rare=True, **options)


def _training_setting(kind: str, label: str = "", **options: Any) -> dict[str, Setting]:
    return setting_metadata(kind, label, job_kind="training", **options)


def _script_setting(kind: str, label: str = "", **options: Any) -> dict[str, Setting]:
    return setting_metadata(
        kind, label, job_kind="script", **{"section": WHAT_SECTION, "term": "script", **options}
    )


def _labels(options: Mapping[str, Options]) -> dict[str, str]:
    return {name: option.label for name, option in options.items()}


@dataclass(frozen=True)
class StrategyConfig:
    """Cooperation of the ranks of a job. ``settings`` holds only what the user set."""

    name: str = field(
        default="allreduce",
        metadata=setting_metadata(
            "choice", "Strategy", choices=_labels(STRATEGIES), term="strategy"
        ),
    )
    lr_scaling: str = field(
        default="linear",
        metadata=setting_metadata(
            "choice",
            "Rate scaling",
            choices={"linear": "× processes", "sqrt": "× √processes", "none": "do not scale"},
            term="rate scaling",
        ),
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


@dataclass(frozen=True)
class Optimizer:
    """The optimizer. ``settings`` holds only what the user set, by PyTorch's names."""

    name: str = field(
        metadata=setting_metadata(
            "choice", "Optimizer", choices=_labels(OPTIMIZERS), term="optimizer"
        )
    )
    lr: float = field(
        metadata=setting_metadata(
            "number", "Learning rate", exclusive_low=0, term="learning rate", is_changeable=True
        )
    )
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    name: str = field(
        default="constant",
        metadata=setting_metadata(
            "choice", "Schedule", choices=_labels(SCHEDULES), term="schedule"
        ),
    )
    warmup_epochs: float = field(
        default=0.0, metadata=setting_metadata("number", "Warm-up, epochs", term="warm-up")
    )
    settings: dict[str, Any] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        return self.settings.get(name, SCHEDULES[self.name][name].default)


@dataclass(frozen=True)
class CheckpointPolicy:
    """The times of checkpoints, and the number to keep. The last epoch's is always kept."""

    every_epochs: int | None = field(
        default=1,
        metadata=_keep_setting(
            "whole", "Checkpoint every, epochs", low=1, job_kind="training", term="checkpoint"
        ),
    )
    every_steps: int | None = field(
        default=None,
        metadata=_keep_setting(
            "whole", "Checkpoint every, steps", low=1, job_kind="training", term="checkpoint"
        ),
    )
    every_minutes: float | None = field(
        default=None,
        metadata=_keep_setting(
            "number",
            "Checkpoint every, min",
            exclusive_low=0,
            job_kind="training",
            term="checkpoint",
        ),
    )
    keep_latest: int = field(
        default=2, metadata=_keep_setting("whole", "Keep latest", low=1, term="retention")
    )
    keep_best: int = field(
        default=1, metadata=_keep_setting("whole", "Keep best", term="retention")
    )
    best_metric: str = field(
        default="validation/loss", metadata=_keep_setting("text", "Best by", term="best checkpoint")
    )
    best_mode: str = field(
        default="min",
        metadata=_keep_setting(
            "choice", "Best is", choices=_MODES, term="best checkpoint", is_rare=True
        ),
    )


@dataclass(frozen=True)
class EarlyStop:
    patience_epochs: int = field(
        default=5,
        metadata=_keep_setting("whole", "Stop early after, epochs", low=1, term="early stop"),
    )
    metric: str = field(
        default="validation/loss",
        metadata=_keep_setting("text", "Stop early by", term="early stop"),
    )
    mode: str = field(
        default="min",
        metadata=_keep_setting(
            "choice", "Stop early when best is", choices=_MODES, term="early stop"
        ),
    )
    min_delta: float = field(
        default=0.0,
        metadata=_keep_setting("number", "Stop early below a gain of", term="early stop"),
    )


@dataclass(frozen=True)
class OnFailure:
    """Reaction to the failure of a machine. After an error of the user's code there is no retry."""

    retries: int = field(
        default=0, metadata=_rare_setting("whole", "Retries", high=100, term="retry")
    )
    nodes: str = field(
        default="same",
        metadata=_rare_setting(
            "choice",
            "Retry on",
            choices={"same": "same nodes", "others": "others too"},
            term="retry",
        ),
    )
    shrink: bool = field(
        default=False, metadata=_rare_setting("flag", "Drop a lost node", term="shrink")
    )
    at_least: int = field(
        default=1,
        metadata=_rare_setting("whole", "At least, nodes", low=1, high=4096, term="shrink"),
    )
    scaling: str = field(
        default="batch",
        metadata=_rare_setting(
            "choice",
            "With fewer nodes, keep",
            choices={"batch": "global batch", "process": "batch per process"},
            term="shrink",
        ),
    )
    grow: bool = field(
        default=False, metadata=_rare_setting("flag", "Take a lost node back", term="grow")
    )
    silent_limit_s: float = field(
        default=60.0,
        metadata=_rare_setting("number", "A silent node is lost after, s", low=30, term="retry"),
    )

    @property
    def continues(self) -> bool:
        """Return whether the program continues the job after the failure of a machine."""
        return self.retries > 0 or self.shrink

    @property
    def may_shrink(self) -> bool:
        """Return whether a run may have fewer nodes than the one before."""
        return self.shrink or (self.retries > 0 and self.nodes == "others")


@dataclass(frozen=True)
class JobConfig:
    """The job file. References such as ``model`` are ``NAME`` or ``NAME@VERSION``."""

    name: str = field(metadata=setting_metadata("text", "Name", section=WHAT_SECTION, is_note=True))
    model: str = field(
        metadata=_training_setting("text", "Model", section=WHAT_SECTION, term="model")
    )
    dataset: str = field(
        metadata=setting_metadata("text", "Dataset", section=WHAT_SECTION, term="dataset")
    )
    loader: str = field(
        metadata=_training_setting("text", "Loader", section=WHAT_SECTION, term="loader")
    )
    epochs: int = field(
        metadata=_training_setting("whole", "Epochs", low=1, high=1_000_000, term="epoch")
    )
    batch_size: int = field(
        metadata=_training_setting(
            "whole",
            "Batch size, per process",
            low=1,
            high=10_000_000,
            term="batch",
            is_changeable=True,
        )
    )
    optimizer: Optimizer = field(metadata=_training_setting("table"))
    placement: tuple[Placement, ...] = field(
        metadata=setting_metadata("table", "Nodes", section=WHERE_SECTION, is_changeable=True)
    )
    slurm: SlurmPlacement | None = field(
        default=None,
        metadata=setting_metadata("table", section=WHERE_SECTION, is_changeable=True),
    )
    """Slurm chooses the nodes; ``placement`` is then `SlurmPlacement.placements`."""
    notes: str = field(
        default="", metadata=setting_metadata("text", section=WHAT_SECTION, is_note=True)
    )
    tags: tuple[str, ...] = field(
        default=(), metadata=setting_metadata("texts", section=WHAT_SECTION, is_note=True)
    )
    validation_dataset: str = field(
        default="",
        metadata=_training_setting(
            "text", "Validation dataset", section=WHAT_SECTION, term="validation"
        ),
    )
    validation_loader: str = field(
        default="",
        metadata=_training_setting(
            "text", "Validation loader", section=WHAT_SECTION, term="validation"
        ),
    )
    start_from: str = field(
        default="",
        metadata=_training_setting("text", "Start from", section=WHAT_SECTION, term="checkpoint"),
    )
    start_from_except: tuple[str, ...] = field(
        default=(),
        metadata=_training_setting("texts", "Start new layers", term="fine-tuning", is_rare=True),
    )
    freeze: tuple[str, ...] = field(
        default=(), metadata=_training_setting("texts", "Freeze", term="fine-tuning", is_rare=True)
    )
    script: str = field(default="", metadata=_script_setting("text", "Script"))
    entry: str = field(default="", metadata=_script_setting("text", "Entry"))
    folder: str = field(
        default="",
        metadata=_script_setting("text", "Working folder", term="working folder", is_rare=True),
    )
    arguments: tuple[str, ...] = field(default=(), metadata=_script_setting("words", "Arguments"))
    resume_arguments: tuple[str, ...] = field(
        default=(), metadata=_script_setting("words", "Arguments to resume")
    )
    processes_per: str = field(
        default="gpu",
        metadata=_script_setting(
            "choice",
            "Processes by",
            section=WHERE_SECTION,
            choices={"gpu": "GPU or slot", "node": "node"},
        ),
    )
    python: str = field(
        default="",
        metadata=_script_setting(
            "text", "Python", choices=PYTHONS, term="script's Python", is_rare=True
        ),
    )
    stop_signal: str = field(
        default="SIGTERM",
        metadata=_script_setting("choice", "Stop by", choices=SIGNALS, is_rare=True),
    )
    checkpoint_files: tuple[str, ...] = field(
        default=USUAL_CHECKPOINTS,
        metadata=_script_setting("texts", "Checkpoints are", section=KEEP_SECTION, is_rare=True),
    )
    remove_old_checkpoints: bool = field(
        default=False,
        metadata=_script_setting(
            "flag", "Remove old checkpoints", section=KEEP_SECTION, term="retention", is_rare=True
        ),
    )
    log_numbers: tuple[str, ...] = field(
        default=(),
        metadata=_script_setting(
            "texts", "Numbers in the log", term="log number", is_rare=True, is_changeable=True
        ),
    )
    total_epochs: int | None = field(
        default=None,
        metadata=_script_setting("whole", "Total epochs", low=1, term="epoch", is_rare=True),
    )
    total_steps: int | None = field(
        default=None,
        metadata=_script_setting("whole", "Total steps", low=1, term="step", is_rare=True),
    )
    strategy: StrategyConfig = field(
        default=StrategyConfig(), metadata=_training_setting("table", is_always_written=True)
    )
    schedule: Schedule = field(
        default=Schedule(), metadata=_training_setting("table", is_always_written=True)
    )
    gradient_norm: float | None = field(
        default=None,
        metadata=_training_setting(
            "number", "Gradient norm limit", exclusive_low=0, term="gradient norm", is_rare=True
        ),
    )
    accumulate: int = field(
        default=1,
        metadata=_training_setting(
            "whole",
            "Passes of a step",
            low=1,
            high=1_000_000,
            term="accumulation",
            is_rare=True,
            is_changeable=True,
        ),
    )
    ema: float | None = field(
        default=None,
        metadata=_training_setting(
            "number",
            "Average of weights, decay",
            exclusive_low=0,
            exclusive_high=1,
            term="weight average",
            is_rare=True,
        ),
    )
    compile: bool = field(
        default=False,
        metadata=_training_setting("flag", "Compile", term="compilation", is_rare=True),
    )
    no_decay: bool = field(
        default=False,
        metadata=_training_setting(
            "flag", "No decay of biases", term="weight decay groups", is_rare=True
        ),
    )
    lr_of: tuple[str, ...] = field(
        default=(),
        metadata=_training_setting(
            "texts", "Rates of layers", term="rate of a layer", is_rare=True
        ),
    )
    """Entries such as “backbone.=0.1”: a beginning of names, and their share of the rate."""
    precision: str = field(
        default="float32",
        metadata=_training_setting("choice", "Precision", choices=PRECISIONS, term="precision"),
    )
    checkpoint: CheckpointPolicy = field(
        default=CheckpointPolicy(), metadata=_keep_setting("table", "", is_always_written=True)
    )
    early_stop: EarlyStop | None = field(
        default=None, metadata=_keep_setting("table", "", job_kind="training")
    )
    on_failure: OnFailure = field(default=OnFailure(), metadata=_keep_setting("table", ""))
    gives_way: bool = field(
        default=False,
        metadata=_rare_setting("flag", "Give way", term="give way", is_changeable=True),
    )
    quiet_minutes: float = field(
        default=5.0,
        metadata=_keep_setting(
            "number",
            "Continue after, quiet min",
            exclusive_low=0,
            term="give way",
            is_rare=True,
            is_changeable=True,
        ),
    )
    seed: int = field(
        default=1,
        metadata=_keep_setting(
            "whole", "Seed", high=2**63 - 1, term="seed", is_rare=True, is_always_written=True
        ),
    )
    loader_workers: int = field(
        default=0,
        metadata=_keep_setting(
            "whole",
            "Loader workers",
            high=256,
            term="loader worker",
            job_kind="training",
            is_rare=True,
            is_always_written=True,
        ),
    )
    stall_limit_s: float = field(
        default=600.0,
        metadata=_keep_setting(
            "number", "Stall limit, s", low=5, term="stall", is_rare=True, is_always_written=True
        ),
    )
    stop_on_nan: bool = field(
        default=True,
        metadata=_keep_setting(
            "flag",
            "Stop on NaN",
            job_kind="training",
            term="NaN",
            is_rare=True,
            is_always_written=True,
        ),
    )
    stop_on_divergence: bool = field(
        default=False,
        metadata=_keep_setting(
            "flag",
            "Stop if the loss diverges",
            job_kind="training",
            term="divergence",
            is_rare=True,
        ),
    )
    continue_unsaved: bool = field(
        default=False,
        metadata=_keep_setting(
            "flag", "Train on unsaved", job_kind="training", term="checkpoint", is_rare=True
        ),
    )
    """Train on although two checkpoints in a row could not be written."""
    environment: dict[str, str] = field(default_factory=dict, metadata=_keep_setting("table", ""))

    @property
    def node_count(self) -> int:
        return len(self.placement)

    @property
    def world_size(self) -> int:
        return sum(map(self.processes_on, self.placement))

    def processes_on(self, placement: Placement) -> int:
        """Return the number of processes that start on a node."""
        return placement.slots if self.processes_per == "gpu" else min(1, placement.slots)

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
        valid = self.rate_factors.keys()
        return next((e for e in self.lr_of if e.rpartition("=")[0].strip() not in valid), "")

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
    def uses_gpus(self) -> bool:
        return any(placement.gpus for placement in self.placement)

    def to_dict(self) -> dict[str, Any]:
        """Return the job file as plain values, without those that equal their default."""
        raw: dict[str, Any] = {}
        foreign_kind = "training" if self.script else "script"
        for setting_field in fields(self):
            value = getattr(self, setting_field.name)
            if setting_field.name == "placement" and self.slurm is not None:
                continue
            if setting_field.metadata["setting"].job_kind == foreign_kind or (
                self.script and value in ("", ())
            ):
                continue
            if self.script and value == setting_field.default and setting_field.name != "seed":
                continue
            is_needed = setting_field.metadata["setting"].is_always_written or not _has_default(
                setting_field
            )
            if not is_needed and value == setting_field.default:
                continue
            if value or (is_needed and value is not None):
                raw[setting_field.name] = _file_value(value)
        return raw

    def sha256(self) -> str:
        """Return a hash of the settings that does not depend on how they were written."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _has_default(setting_field: Field[Any]) -> bool:
    return setting_field.default is not MISSING or setting_field.default_factory is not MISSING


def _file_value(value: Any) -> Any:
    """Return a value as in a job file: without None, and options beside the other settings."""
    if isinstance(value, Placement):
        return value.to_dict()
    if isinstance(value, (OnFailure, SlurmPlacement)):
        # A node with an older version refuses a setting that it does not know.
        defaults = vars(type(value)())
        return {key: element for key, element in vars(value).items() if element != defaults[key]}
    if isinstance(value, tuple):
        return [_file_value(element) for element in value]
    if not hasattr(value, "__dataclass_fields__"):
        return dict(value) if isinstance(value, dict) else value
    values = {key: element for key, element in vars(value).items() if element is not None}
    values.update(values.pop("settings", {}))
    return {key: _file_value(element) for key, element in values.items()}


@dataclass(frozen=True)
class ParsedJob:
    """A valid job, or the errors of an invalid job.

    ``draft`` is the job with a stand-in for each invalid value.
    """

    config: JobConfig | None
    draft: JobConfig
    errors: tuple[ConfigError, ...] = ()


def parse_job(raw: Mapping[str, Any]) -> ParsedJob:
    """Check a job file that was read as TOML or edited in the form; find all errors at once.

    What only the catalogue or the nodes know is not checked here: whether the model exists, whether
    the node has the GPU, whether the batch is larger than the dataset.
    """
    errors: list[ConfigError] = []
    if isinstance(rates := raw.get("lr_of"), Mapping):
        raw = {**raw, "lr_of": [f"{name}={factor}" for name, factor in rates.items()]}
    top = Table(raw, "", errors)
    name = top.text("name", REQUIRED)
    if isinstance(raw.get("name"), str) and job_name_error(name):
        top.add_error("name", job_name_error(name))
    policy = _read_policy(top.table("checkpoint", {}))
    config = _read_record(
        JobConfig,
        top,
        name=name,
        checkpoint=policy,
        on_failure=_read_table(OnFailure, top.table("on_failure", {})),
        environment=_read_environment(top),
        **_read_placement(top),
        **(_script_values(top) if "script" in top else _training_values(top, policy)),
    )
    top.report_unknown_keys(tuple(declared_settings(JobConfig)))
    for rule in RULES:
        if message := rule.error_message(config, errors):
            top.add_error(rule.paths[0], message)
    return ParsedJob(None if errors else config, config, tuple(errors))


def with_changes(config: JobConfig, changes: Mapping[str, Any]) -> ParsedJob:
    """Check the job with other values of some settings, by their paths."""
    raw = config.to_dict()
    for path, value in changes.items():
        raw = with_value(raw, path, value)
    return parse_job(raw)


def with_value(raw: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a job file with another value of a setting, by its path."""
    table, _, key = path.partition(".")
    previous_table = raw.get(table)
    # The name of a variable cannot contain a dot, and nothing is deeper than one table.
    if table == arguments.TABLE and key:
        # A line with half a quotation stays, for the check to name.
        value = (
            previous_table
            if isinstance(previous_table, str)
            else arguments.with_value(previous_table, key, value)
        )
    elif key:
        value = {**(previous_table if isinstance(previous_table, Mapping) else {}), key: value}
    return {**raw, table: value}


def _read_placement(top: Table) -> dict[str, Any]:
    """Take the nodes of a job, or what it asks of Slurm."""
    if "slurm" not in top:
        return {"placement": take_placement(top), "slurm": None}
    if top.take_value("placement", None):
        top.add_error("placement", "cannot be used with slurm, which chooses the nodes.")
    slurm_table = top.table("slurm")
    slurm = _read_table(SlurmPlacement, slurm_table)
    if not slurm.cluster:
        slurm_table.add_error("cluster", "names no cluster.")
    for error in slurm.errors():
        top.add_error("slurm", f"{error.message} {error.remedy}".rstrip())
    return {"placement": slurm.placements(), "slurm": slurm}


def _training_values(top: Table, policy: CheckpointPolicy) -> dict[str, Any]:
    """Take the tables of a job with a model and a loader."""
    for key, setting in declared_settings(JobConfig).items():
        if setting.job_kind == "script" and key in top:
            top.take_value(key, None)
            top.add_error(key, "needs a script.")
    strategy_table = top.table("strategy", {})
    has_scaling = "lr_scaling" in strategy_table
    strategy = _read_options(StrategyConfig, strategy_table, STRATEGIES)
    default_optimizer = DEFAULT_OPTIMIZERS.get(strategy.name, "")
    optimizer = _read_options(Optimizer, top.table("optimizer"), OPTIMIZERS, default_optimizer)
    if not has_scaling:
        strategy = replace(strategy, lr_scaling=default_scaling(optimizer.name))
    has_stop = "early_stop" in top
    precision: dict[str, str] = {}
    if "mixed_precision" in top and "precision" not in top:
        # Job files of before `precision`.
        is_half = top.flag("mixed_precision", False)
        precision = {"precision": "float16" if is_half else "float32"}
    return {
        **precision,
        "strategy": strategy,
        "optimizer": optimizer,
        "schedule": _read_options(Schedule, top.table("schedule", {}), SCHEDULES),
        "early_stop": _read_early_stop(top.table("early_stop", {}), policy) if has_stop else None,
    }


def _script_values(top: Table) -> dict[str, Any]:
    """Return stand-ins for the settings that a job with a script does not have."""
    values: dict[str, Any] = {} if "dataset" in top else {"dataset": ""}
    for setting_field in fields(JobConfig):
        if setting_field.metadata["setting"].job_kind == "training":
            if setting_field.name in top:
                top.take_value(setting_field.name, None)
                top.add_error(
                    setting_field.name, "cannot be used with a script; the script decides it."
                )
            values[setting_field.name] = setting_field.default
    # 0 epochs: how many the script makes is not known.
    return {
        **values,
        "epochs": 0,
        "batch_size": 1,
        "model": "",
        "loader": "",
        "optimizer": Optimizer("sgd", 1.0),
        "strategy": StrategyConfig(SCRIPT),
    }


def default_scaling(optimizer: str) -> str:
    """Return how the learning rate grows with the number of batches, by default."""
    return "sqrt" if optimizer in _ROOT_SCALED else "linear"


def declared_settings(record_type: type) -> dict[str, Setting]:
    """Return the settings of a record by the names of their fields, in their order."""
    return {
        setting_field.name: setting_field.metadata["setting"]
        for setting_field in fields(record_type)
        if "setting" in setting_field.metadata
    }


def without_secrets(config: JobConfig) -> dict[str, Any]:
    """Return the job file without the values of variables, which may be tokens."""
    raw = config.to_dict()
    if config.environment:
        raw["environment"] = dict.fromkeys(config.environment, "")
    return raw


def shareable_config(config: JobConfig) -> dict[str, Any]:
    """Return the job file for other users and computers: no secrets, and no folder of this one."""
    raw = without_secrets(config)
    if config.start_from.startswith(("/", "~")):
        raw["start_from"] = config.start_from.rpartition("/")[2]
    return raw


def without_shared_gpus(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a job file without ``beside``: the permission to share GPUs is for one job only."""
    copy = dict(raw)
    if isinstance(placements := copy.get("placement"), list):
        copy["placement"] = [
            {key: value for key, value in placement.items() if key != "beside"}
            if isinstance(placement, Mapping)
            else placement
            for placement in placements
        ]
    return copy


def without_default_stop(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a job file without an early-stop metric that equals the best metric.

    The early stop then follows when another best metric is chosen.
    """
    copy = dict(raw)
    policy, stop = copy.get("checkpoint", {}), copy.get("early_stop")
    if not isinstance(stop, Mapping) or not isinstance(policy, Mapping):
        return copy
    best_policy = _read_policy(Table(policy, "", []))
    remaining_stop = {key: value for key, value in stop.items() if key not in ("metric", "mode")}
    default_stop = _read_early_stop(Table(remaining_stop, "", []), best_policy)
    if _read_early_stop(Table(stop, "", []), best_policy) == default_stop:
        copy["early_stop"] = remaining_stop
    return copy


def _read_record(record_type: type[_Record], table: Table, **given_values: Any) -> _Record:
    """Take the settings of a record from a table, except the given values."""
    values = dict(given_values)
    for name, setting in declared_settings(record_type).items():
        if name not in given_values:
            default = _default_of(record_type, name)
            is_read = name in table or default is REQUIRED
            values[name] = setting.take_value(table, name, default) if is_read else default
    return record_type(**values)


def _default_of(record_type: type, name: str) -> Any:
    default = record_type.__dataclass_fields__[name].default  # type: ignore[attr-defined]
    return REQUIRED if default is MISSING else default


def _read_options(
    record_type: type[_Record], table: Table, options: Mapping[str, Options], default_name: str = ""
) -> _Record:
    """Take a name, the settings of all names, and those of this one that the user set."""
    name = declared_settings(record_type)["name"].take_value(
        table, "name", default_name or _default_of(record_type, "name")
    )
    name_options = options[name]
    settings = {
        key: setting.take_value(table, key, setting.default)
        for key, setting in name_options.items()
        if key in table
    }
    record = _read_record(record_type, table, name=name, settings=settings)
    owners = {
        key: ", ".join(f"“{owner}”" for owner, others in options.items() if key in others)
        + f"; this is “{name}”"
        for other_options in options.values()
        for key in other_options
    }
    table.report_unknown_keys((*declared_settings(record_type), *name_options), owners)
    return record


def _read_table(record_type: type[_Record], table: Table) -> _Record:
    """Take a table whose settings do not depend on each other."""
    record = _read_record(record_type, table)
    table.report_unknown_keys(tuple(declared_settings(record_type)))
    return record


def _read_policy(table: Table) -> CheckpointPolicy:
    given_keys = [key for key in ("every_epochs", "every_steps", "every_minutes") if key in table]
    given_values = {"every_epochs": None} if given_keys and "every_epochs" not in given_keys else {}
    metric_setting = declared_settings(CheckpointPolicy)["best_metric"]
    metric = metric_setting.take_value(table, "best_metric", CheckpointPolicy.best_metric)
    mode = _read_mode(table, "best_mode", metric, usual_mode(metric))
    policy = _read_record(
        CheckpointPolicy, table, best_metric=metric, best_mode=mode, **given_values
    )
    table.report_unknown_keys(tuple(declared_settings(CheckpointPolicy)))
    return policy


def _read_early_stop(table: Table, policy: CheckpointPolicy) -> EarlyStop:
    """Parse the early stop; by default it watches the metric of the best checkpoint."""
    metric = declared_settings(EarlyStop)["metric"].take_value(table, "metric", policy.best_metric)
    is_same = metric == policy.best_metric
    default_mode = policy.best_mode if is_same else usual_mode(metric)
    mode = _read_mode(table, "mode", metric, default_mode)
    stop = _read_record(EarlyStop, table, metric=metric, mode=mode)
    table.report_unknown_keys(tuple(declared_settings(EarlyStop)))
    return stop


def _read_mode(table: Table, key: str, metric: str, default_mode: str) -> str:
    """Take a direction; required if the metric's name does not suggest one."""
    if key not in table and not default_mode:
        table.add_error(
            key,
            f"The name “{sanitize(metric)}” does not say which value is the best; choose lowest "
            "(min) or highest (max).",
        )
    return table.choice(key, default_mode or "min", tuple(_MODES))


def _read_environment(table: Table) -> dict[str, str]:
    value = table.take_value("environment", {})
    if not isinstance(value, Mapping):
        table.add_error("environment", f"must be a table, not {kind_of(value)}.")
        return {}
    for name, content in value.items():
        if variable_error(name):
            table.add_error(f"environment.{name}", variable_error(name))
        elif not isinstance(content, str):
            table.add_error(f"environment.{name}", f"must be text, not {kind_of(content)}.")
        elif "\0" in content:
            table.add_error(f"environment.{name}", "cannot contain a zero byte.")
    return {str(name): str(content) for name, content in value.items()}
