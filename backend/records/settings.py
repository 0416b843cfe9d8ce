"""The settings of a job as a flat list of names and values, as tables show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.records.job import OPTIMIZERS, SCHEDULES, THIS_COMPUTER
from backend.records.job_view import JobView

LABELS = {
    "model": "Model",
    "dataset": "Dataset",
    "loader": "Loader",
    "validation_dataset": "Validation dataset",
    "validation_loader": "Validation loader",
    "start_from": "Start from",
    "strategy.name": "Strategy",
    "strategy.lr_scaling": "Rate scaling",
    "epochs": "Epochs",
    "batch_size": "Batch per process",
    "optimizer.name": "Optimizer",
    "optimizer.lr": "Learning rate",
    "schedule.name": "Schedule",
    "schedule.warmup_epochs": "Warm-up epochs",
    "gradient_norm": "Gradient norm",
    "mixed_precision": "Mixed precision",
    "seed": "Seed",
    "loader_workers": "Loader workers",
    "stop_on_nan": "Stop on NaN",
    "stall_limit_s": "Stall limit, s",
    "checkpoint.every_epochs": "Checkpoint every, epochs",
    "checkpoint.every_steps": "Checkpoint every, steps",
    "checkpoint.every_minutes": "Checkpoint every, min",
    "checkpoint.keep_latest": "Keep the latest",
    "checkpoint.keep_best": "Keep the best",
    "checkpoint.best_metric": "Best by",
    "checkpoint.best_mode": "Best is",
    "early_stop.metric": "Early stop by",
    "early_stop.mode": "Early stop, best is",
    "early_stop.patience_epochs": "Early stop after, epochs",
    "early_stop.min_delta": "Early stop, least gain",
    "placement": "Nodes",
}
_NOT_SETTINGS = ("name", "notes", "tags")


def flat(raw: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """A job file as path -> text."""
    rows: dict[str, str] = {}
    for key, value in raw.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            rows |= flat(value, name)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, entry in enumerate(value):
                rows |= flat(entry, f"{name}[{number}]")
        else:
            rows[name] = in_words(value)
    return rows


def in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def effective(view: JobView) -> dict[str, str]:
    """Every setting that a job was trained with, those that nobody gave too.

    Two jobs that were trained alike have the same, however their files were written.  The model,
    the dataset and the loader are those that the job is pinned to, with their versions.
    """
    config = view.config
    raw = config.to_dict()
    for key in _NOT_SETTINGS:
        raw.pop(key, None)
    for kind, pin in view.pins.items():
        raw[kind] = pin.reference
    for part, known in (
        ("optimizer", OPTIMIZERS[config.optimizer.name]),
        ("schedule", SCHEDULES[config.schedule.name]),
    ):
        usual = {name: setting.default for name, setting in known.items()}
        raw[part] = {**usual, **raw[part]}
    raw["placement"] = ", ".join(
        f"{'this computer' if one.node == THIS_COMPUTER else one.node} × {one.slots}"
        for one in config.placement
    )
    return flat(raw)


def label(name: str) -> str:
    """How a setting is called where people read it."""
    if name in LABELS:
        return LABELS[name]
    part, _, setting = name.partition(".")
    known = {**OPTIMIZERS, **SCHEDULES} if part in ("optimizer", "schedule") else {}
    for settings in known.values():
        if setting in settings and settings[setting].label:
            return settings[setting].label
    if part == "environment" and setting:
        return setting
    return (setting or name).replace("_", " ").capitalize()
