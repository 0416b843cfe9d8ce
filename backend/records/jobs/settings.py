"""Every setting of a job by its path in the job file ("optimizer.lr"), and its words.

It reads the fields of `JobConfig` and the options of `torch_options`; nothing is declared here.
Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from backend.records.base.validation import REQUIRED
from backend.records.jobs import arguments
from backend.records.jobs.config import (
    CheckpointPolicy,
    EarlyStop,
    JobConfig,
    OnFailure,
    Optimizer,
    Schedule,
    StrategyConfig,
)
from backend.records.jobs.rules import RULES
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.jobs.setting import HOW_SECTION, SECTIONS, Setting, declared_settings
from backend.records.jobs.torch_options import OPTIMIZERS, SCHEDULES, STRATEGIES, Options

OPTIONS: Mapping[str, Mapping[str, Options]] = {
    "optimizer": OPTIMIZERS,
    "strategy": STRATEGIES,
    "schedule": SCHEDULES,
}
"""The options of each name, by table of the job file."""
_TABLES: Mapping[str, type] = {
    "optimizer": Optimizer,
    "strategy": StrategyConfig,
    "schedule": Schedule,
    "checkpoint": CheckpointPolicy,
    "early_stop": EarlyStop,
    "on_failure": OnFailure,
    **{key: scheduler.placement_type for key, scheduler in SCHEDULERS.items()},
}


def _all_settings() -> Iterator[tuple[str, Setting]]:
    for name, setting in declared_settings(JobConfig).items():
        if name not in _TABLES:
            yield name, setting
        for table in (*SCHEDULERS,) if name == "placement" else (name,):
            yield from _settings_of(table)


def _settings_of(table: str) -> Iterator[tuple[str, Setting]]:
    for key, setting in declared_settings(_TABLES[table]).items() if table in _TABLES else ():
        yield f"{table}.{key}", setting
    for options in OPTIONS.get(table, {}).values():
        for key, setting in options.items():
            yield f"{table}.{key}", setting


def _sorted_settings() -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for path, setting in _all_settings():
        settings.setdefault(path, setting)
    return dict(sorted(settings.items(), key=lambda item: SECTIONS.index(item[1].section)))


SETTINGS: Mapping[str, Setting] = _sorted_settings()
"""All settings in the order of the form; a setting of several options is the first one's."""
_SORT_KEYS = {path: number for number, path in enumerate(SETTINGS)}
NOTES = tuple(path for path, setting in SETTINGS.items() if setting.is_note)
"""Settings that describe a job and do not change the training."""
CHANGEABLE = tuple(path for path, setting in SETTINGS.items() if setting.is_changeable)
"""Settings that a resume may change."""


def is_of(path: str, *, script: bool) -> bool:
    """Return whether jobs with a script have a setting, or else those with a model."""
    table = path.partition(".")[0]
    owners = (declared_settings(JobConfig).get(table), SETTINGS.get(path))
    other_kind = "training" if script else "script"
    return all(owner is None or owner.job_kind != other_kind for owner in owners)


def value_at(raw: Mapping[str, Any], path: str) -> Any:
    """Return the value of a setting in a job file; None if it is not given."""
    if name := arguments.argument_name(path):
        return arguments.value_of(raw.get(arguments.TABLE), name)
    value: Any = raw
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def is_named(key: str) -> bool:
    """Return whether a setting has a name of its own, and so a row wherever settings are shown."""
    return key in SETTINGS and bool(SETTINGS[key].label)


def label(key: str) -> str:
    """Return the name of a setting with its unit: "Warm-up, epochs"."""
    if is_named(key):
        return SETTINGS[key].label
    part, _, setting = key.partition(".")
    if part in ("environment", arguments.TABLE) and setting:
        return setting
    return (setting or key).replace("_", " ").capitalize()


def name_and_unit(key: str) -> tuple[str, str]:
    """Return the name and the unit of a setting."""
    name, _, unit = label(key).partition(", ")
    return name, unit


def choices(key: str) -> dict[str, str]:
    """Return the words of all choices of a setting: those of each option that has it."""
    part, _, name = key.partition(".")
    labels = dict(SETTINGS[key].choices) if key in SETTINGS else {}
    for options in OPTIONS.get(part, {}).values():
        if name in options:
            labels |= options[name].choices
    return labels


def value_label(key: str, value: str) -> str:
    """Return the label of a choice; any other value unchanged."""
    return choices(key).get(value, value)


def sort_key(key: str) -> float:
    """Return a sort key in the form's order; an unknown setting follows those of its table."""
    if key in _SORT_KEYS:
        return _SORT_KEYS[key]
    table = key.partition(".")[0]
    return max(
        (n + 0.5 for path, n in _SORT_KEYS.items() if path.startswith(table)),
        default=len(_SORT_KEYS),
    )


def section(key: str) -> str:
    """Return the section of the form that contains a setting."""
    setting = SETTINGS.get(key) or SETTINGS.get(key.partition(".")[0])
    return setting.section if setting is not None else HOW_SECTION


def default_value(path: str) -> Any:
    """Return the default of a setting that is no option; None for one that is required."""
    table, _, key = path.rpartition(".")
    setting = declared_settings(_TABLES.get(table, JobConfig)).get(key)
    return None if setting is None or setting.default is REQUIRED else setting.default


def conditions(path: str, *, script: bool = True) -> tuple[str, ...]:
    """Return the rules of a setting in words, and whether it may change later.

    Without ``script``, rules on what only a job with a script has are left out.
    """
    change = ("A resume may change it.",) if path in CHANGEABLE else ()
    rules = [rule for rule in RULES if rule.paths[0] == path]
    applicable_rules = (
        rule for rule in rules if script or all(is_of(p, script=False) for p in rule.paths)
    )
    return (*(rule.condition(label(path)) for rule in applicable_rules), *change)


def in_markdown() -> str:
    """Return the settings as a table for the guide."""
    rows = ["| Setting, and its path in the job file | Values |", "|---|---|"]
    for path, setting in SETTINGS.items():
        if setting.kind == "table" and not setting.label:
            continue
        table, _, key = path.rpartition(".")
        options = OPTIONS.get(table, {})
        owners = ", ".join(f"`{name}`" for name, settings in options.items() if key in settings)
        defaults = [settings[key].default for settings in options.values() if key in settings]
        texts = {_text(setting) for setting in defaults or [default_value(path)]}
        values = _choices_text(path) or setting.limits()
        if setting.kind == "text" and setting.choices:
            values += f", or {setting.limits()}"
        condition_text = "".join(f". {setting.rstrip('.')}" for setting in conditions(path))
        default = f"; default {' or '.join(sorted(texts))}" if texts != {""} else ""
        owner_text = f" of {owners}" if owners else ""
        rows.append(f"| {label(path)}: `{path}`{owner_text} | {values}{default}{condition_text} |")
    return "\n".join(rows) + "\n"


def _choices_text(path: str) -> str:
    """Return the choices of a setting, for each option that has it if they differ."""
    table, _, key = path.rpartition(".")
    owners: dict[str, list[str]] = {}
    for name, options in OPTIONS.get(table, {}).items():
        if key in options:
            owners.setdefault(_names(options[key].choices), []).append(name)
    if len(owners) < 2:
        return _names(choices(path))
    return "; ".join(f"{text} of {_names(names)}" for text, names in owners.items())


def _names(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values if value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (list, tuple)):
        return f"`{list(value)}`" if value else ""
    return "" if value in (None, "") else f"`{value}`"
