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
)
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import node_label
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
    return _effective_settings(view.config, {key: pin.reference for key, pin in view.pins.items()})


def default_settings(config: JobConfig) -> dict[str, str]:
    """Return every setting that has a default, as a job that omits it has it."""
    default_config = JobConfig(
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
    return {
        **_effective_settings(default_config, {}),
        **{path: default_value(path) for path in names},
    }


def changes_text(old_job: Mapping[str, Any], new_job: Mapping[str, Any]) -> str:
    """Return the changed settings as ``Batch size 16 → 32, …``, without where the job runs."""
    return ", ".join(
        f"{change.label} {change.old_text or '–'} → {change.new_text or '–'}"
        for change in setting_changes(old_job, new_job)
        if not change.key.startswith("placement")
    )


def setting_changes(
    old_job: Mapping[str, Any], new_job: Mapping[str, Any]
) -> tuple[SettingChange, ...]:
    """Return the differences between two job files; name, notes and tags are not settings.

    A setting that was not given counts as its default. An invalid setting is compared as it was
    typed. A setting that only one of the two can have (a template names no nodes) is ignored.
    """
    old_texts, new_texts = (
        _comparable_settings(old_job, new_job),
        _comparable_settings(new_job, old_job),
    )
    return tuple(
        SettingChange(
            key,
            label(key),
            value_label(key, old_texts.get(key, "")),
            value_label(key, new_texts.get(key, "")),
        )
        for key in sorted(dict.fromkeys((*old_texts, *new_texts)), key=sort_key)
        if old_texts.get(key, "") != new_texts.get(key, "")
    )


def _comparable_settings(raw: Mapping[str, Any], other_job: Mapping[str, Any]) -> dict[str, str]:
    parsed_job = parse_job(raw)
    if parsed_job.config is not None:
        return _effective_settings(parsed_job.config, {})
    invalid_paths = {error.path for error in parsed_job.errors}
    texts = flatten(raw)
    repaired_config = parse_job(_repair(raw, other_job, invalid_paths)).config
    if repaired_config is None:
        # Both are invalid: the keys that both have can still be compared.
        other_texts = flatten(other_job)
        return {key: value for key, value in texts.items() if key in other_texts}
    invalid_texts = {key: value for key, value in texts.items() if key in invalid_paths}
    return _effective_settings(repaired_config, {}) | invalid_texts


def _repair(
    raw: Mapping[str, Any],
    other_job: Mapping[str, Any],
    invalid_paths: Collection[str],
    path: str = "",
) -> dict[str, Any]:
    """Return a job file with invalid settings replaced by those of another job, or removed."""
    repaired_job = dict(raw)
    for key in (*raw, *(key for key in other_job if key not in raw)):
        name = f"{path}.{key}" if path else key
        if not any(field.startswith(name) for field in invalid_paths):
            continue
        value, other_value = raw.get(key), other_job.get(key)
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            repaired_job[key] = _repair(value, other_value, invalid_paths, name)
        elif key in other_job:
            repaired_job[key] = other_value
        else:
            repaired_job.pop(key, None)
    return repaired_job


def _effective_settings(config: JobConfig, references: Mapping[str, str]) -> dict[str, str]:
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
        name_options = options[raw[part]["name"]]
        defaults = {name: setting.default for name, setting in name_options.items()}
        if "lambda" in defaults:
            defaults["lambda"] = config.strategy.compensation
        raw[part] = {**defaults, **raw[part]}
    if config.strategy.servers and "strategy" in raw:
        del raw["strategy"]["lr_scaling"]
    if config.names_nodes:
        raw["placement"] = ", ".join(
            f"{node_label(placement.node)} × {placement.process_count}"
            for placement in config.placement
        )
    return flatten(raw)
