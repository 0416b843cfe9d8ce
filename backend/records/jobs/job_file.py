"""Reading of job files, checked all at once, and copies of them with other values.

`parse_job` never raises: it returns the job, or all its errors, each with its field, because the
form marks fields and the command line prints messages.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from backend.records.base.program_name import COMMAND
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
from backend.records.jobs.config import (
    BEST_MODES,
    DEFAULT_OPTIMIZERS,
    SCRIPT,
    CheckpointPolicy,
    EarlyStop,
    JobConfig,
    OnFailure,
    Optimizer,
    Schedule,
    StrategyConfig,
    default_scaling,
)
from backend.records.jobs.metric_names import name_of_label, usual_mode
from backend.records.jobs.placement import take_placement
from backend.records.jobs.rules import RULES
from backend.records.jobs.schedulers import SCHEDULERS, is_replaced, scheduler_in
from backend.records.jobs.setting import declared_settings
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES, Options

_Record = TypeVar("_Record")


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
    policy = _read_policy(top.table("checkpoint", {}), script=bool(raw.get("script")))
    config = _read_record(
        JobConfig,
        top,
        SCHEDULERS,
        name=name,
        checkpoint=policy,
        on_failure=_read_record(OnFailure, top.table("on_failure", {})),
        environment=_read_environment(top),
        **_read_placement(top),
        **(_script_values(top) if "script" in top else _training_values(top, policy)),
    )
    for rule in RULES:
        if message := rule.error_message(config, errors):
            top.add_error(rule.paths[0], message)
    return ParsedJob(None if errors else config, config, tuple(errors))


def with_changes(config: JobConfig, changes: Mapping[str, Any]) -> ParsedJob:
    """Check the job with other values of some settings, by their paths."""
    tables = {path.partition(".")[0] for path in changes}
    raw = {k: v for k, v in config.to_dict().items() if not is_replaced(k, tables)}
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
    """Take the nodes of a job, or what it asks of a scheduler."""
    scheduler = scheduler_in(top)
    if scheduler is None:
        return {"placement": take_placement(top), "allocation": None}
    if top.take_value("placement", None):
        message = f"cannot be used with {scheduler.key}, which chooses the nodes."
        top.add_error("placement", message)
    table = top.table(scheduler.key)
    allocation = _read_record(scheduler.placement_type, table)
    if not allocation.cluster:
        table.add_error(
            "cluster",
            f"names no cluster; add one with {COMMAND} node add HOST --{scheduler.key}, or use "
            "this-computer on a login node.",
        )
    for error in allocation.errors():
        top.add_error(scheduler.key, f"{error.message} {error.remedy}".rstrip())
    return {"placement": allocation.placements(), "allocation": allocation}


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
    for name, setting in declared_settings(JobConfig).items():
        if setting.job_kind == "training":
            if name in top:
                top.take_value(name, None)
                top.add_error(name, "cannot be used with a script; the script decides it.")
            values[name] = setting.default
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


def _read_record(
    record_type: type[_Record],
    table: Table,
    options: Iterable[str] = (),
    owners: Mapping[str, str] = MappingProxyType({}),
    **given_values: Any,
) -> _Record:
    """Take the settings of a record from a table, except the given values.

    Args:
        options, owners: Further keys of the table, and what has keys that the table does not have.
    """
    settings = declared_settings(record_type)
    values = {
        name: given_values[name] if name in given_values else setting.take_value(table, name)
        for name, setting in settings.items()
    }
    table.report_unknown_keys((*settings, *options), owners)
    return record_type(**{**values, **given_values})


def _read_options(
    record_type: type[_Record], table: Table, options: Mapping[str, Options], default_name: str = ""
) -> _Record:
    """Take a name, the settings of all names, and those of this one that the user set."""
    name_setting = declared_settings(record_type)["name"]
    name = name_setting.take_value(table, "name", default_name or name_setting.default)
    name_options = options[name]
    settings = {
        key: setting.take_value(table, key) for key, setting in name_options.items() if key in table
    }
    owners = {
        key: ", ".join(f"“{owner}”" for owner, other_keys in options.items() if key in other_keys)
        + f"; this is “{name}”"
        for other_options in options.values()
        for key in other_options
    }
    return _read_record(record_type, table, name_options, owners, name=name, settings=settings)


def _read_policy(table: Table, *, script: bool = False) -> CheckpointPolicy:
    given_keys = [key for key in ("every_epochs", "every_steps", "every_minutes") if key in table]
    given_values: dict[str, Any] = (
        {"every_epochs": None} if given_keys and "every_epochs" not in given_keys else {}
    )
    metric = declared_settings(CheckpointPolicy)["best_metric"].take_value(table, "best_metric")
    # A script gives its metrics any name.
    metric = metric if script else name_of_label(metric)
    mode = _read_mode(table, "best_mode", metric, usual_mode(metric))
    return _read_record(CheckpointPolicy, table, best_metric=metric, best_mode=mode, **given_values)


def _read_early_stop(table: Table, policy: CheckpointPolicy) -> EarlyStop:
    """Parse the early stop; by default it watches the metric of the best checkpoint."""
    metric = declared_settings(EarlyStop)["metric"].take_value(table, "metric", policy.best_metric)
    metric = name_of_label(metric)
    is_same = metric == policy.best_metric
    default_mode = policy.best_mode if is_same else usual_mode(metric)
    mode = _read_mode(table, "mode", metric, default_mode)
    return _read_record(EarlyStop, table, metric=metric, mode=mode)


def _read_mode(table: Table, key: str, metric: str, default_mode: str) -> str:
    """Take a direction; required if the metric's name does not suggest one."""
    if key not in table and not default_mode:
        table.add_error(
            key,
            f"The name “{sanitize(metric)}” does not say which value is the best; choose lowest "
            "(min) or highest (max).",
        )
    return table.choice(key, default_mode or "min", tuple(BEST_MODES))


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
