"""The settings of a job as a flat list of names and values, as tables show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.records.base.schema import KEY
from backend.records.jobs.arguments import TABLE, argument_rows
from backend.records.jobs.config import (
    RANDOM_WEIGHTS,
    JobConfig,
    Optimizer,
    Schedule,
    StrategyConfig,
    parse_job,
)
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.settings import (
    NOTES,
    OPTIONS,
    default_value,
    label,
    sort_key,
    value_label,
)
from backend.records.jobs.view import JobView
from backend.records.library.item import KINDS

PINNED = tuple(KINDS)
"""References that are shown with their version."""


@dataclass(frozen=True)
class SettingChange:
    """A setting that changed; "" if one side does not have it."""

    key: str
    label: str
    old_text: str = field(metadata={KEY: "before"})
    new_text: str = field(metadata={KEY: "now"})


def flatten(raw: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Return a job file as path -> text."""
    rows: dict[str, str] = {}
    for key, value in raw.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            rows |= flatten(value, name)
        elif name == TABLE and not isinstance(value, str):
            rows |= argument_rows(value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, entry in enumerate(value):
                rows |= flatten(entry, f"{name}[{number}]")
        else:
            rows[name] = value_text(value)
    return rows


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def effective_settings(view: JobView) -> dict[str, str]:
    """Return every setting that a job was trained with, defaults included.

    Two jobs that were trained alike have the same, however their files were written. The model, the
    dataset and the loader are those that the job is pinned to, with their versions.
    """
    return _effective(view.config, {key: pin.reference for key, pin in view.pins.items()})


def default_settings(config: JobConfig) -> dict[str, str]:
    """Return every setting that has a default, as a job that omits it has it."""
    plain = JobConfig(
        name="",
        model="",
        dataset="",
        loader="",
        epochs=0,
        batch_size=0,
        optimizer=Optimizer(config.optimizer.name, 0.0),
        placement=(),
        strategy=StrategyConfig(config.strategy.name),
        schedule=Schedule(config.schedule.name),
        script=config.script,
    )
    names = ("strategy.name", "schedule.name")
    return {**_effective(plain, {}), **{path: default_value(path) for path in names}}


def setting_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[SettingChange, ...]:
    """Return the differences between two job files; name, notes and tags are not settings.

    A setting that was not given counts as its default. An invalid setting is compared as it was
    typed. A setting that only one of the two can have (a template names no nodes) is ignored.
    """
    then, typed = _plain(before, now), _plain(now, before)
    return tuple(
        SettingChange(
            key,
            label(key),
            value_label(key, then.get(key, "")),
            value_label(key, typed.get(key, "")),
        )
        for key in sorted(dict.fromkeys((*then, *typed)), key=sort_key)
        if then.get(key, "") != typed.get(key, "")
    )


def _plain(raw: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, str]:
    parsed = parse_job(raw)
    if parsed.config is not None:
        return _effective(parsed.config, {})
    at_fault = {fault.path for fault in parsed.errors}
    shown = flatten(raw)
    repaired = parse_job(_repaired(raw, other, at_fault)).config
    if repaired is None:
        # Both are invalid: the keys that both have can still be compared.
        theirs = flatten(other)
        return {key: value for key, value in shown.items() if key in theirs}
    typed = {key: value for key, value in shown.items() if key in at_fault}
    return _effective(repaired, {}) | typed


def _repaired(
    raw: Mapping[str, Any], other: Mapping[str, Any], at_fault: Collection[str], path: str = ""
) -> dict[str, Any]:
    """Return ``raw`` with invalid settings replaced by those of ``other``, or removed."""
    whole = dict(raw)
    for key in (*raw, *(key for key in other if key not in raw)):
        name = f"{path}.{key}" if path else key
        if not any(field.startswith(name) for field in at_fault):
            continue
        mine, theirs = raw.get(key), other.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            whole[key] = _repaired(mine, theirs, at_fault, name)
        elif key in other:
            whole[key] = theirs
        else:
            whole.pop(key, None)
    return whole


def _effective(config: JobConfig, references: Mapping[str, str]) -> dict[str, str]:
    raw = config.to_dict()
    for key in NOTES:
        raw.pop(key, None)
    if raw.get("start_from") == RANDOM_WEIGHTS:
        del raw["start_from"]
    raw.update(references)
    for part, options in OPTIONS.items():
        # A job with a script has none of them.
        if part not in raw:
            continue
        known = options[raw[part]["name"]]
        defaults = {name: setting.default for name, setting in known.items()}
        if "lambda" in defaults:
            defaults["lambda"] = config.strategy.compensation
        raw[part] = {**defaults, **raw[part]}
    if config.strategy.servers and "strategy" in raw:
        del raw["strategy"]["lr_scaling"]
    raw["placement"] = ", ".join(
        f"{'this computer' if one.node == THIS_COMPUTER else one.node} × {one.slots}"
        for one in config.placement
    )
    return flatten(raw)
