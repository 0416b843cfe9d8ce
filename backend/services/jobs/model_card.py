"""The card of an exported model: what it was trained on, how, and how it was measured."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backend.datastore.jobs.files import JobFile
from backend.records.base import number_format
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_names import VALIDATION
from backend.records.jobs.view import JobRun


def model_card(file: JobFile, checkpoint: Checkpoint, runs: Sequence[JobRun] = ()) -> str:
    """Return the card in Markdown; ``file`` has the settings of the checkpoint's run.

    ``runs`` are those that led to the checkpoint, the newest first.
    """
    config = file.config
    part_rows = [
        (key.replace("_", " ").capitalize(), f"{pin.reference}, sha256 {pin.sha256}")
        for key, pin in file.pins.items()
    ]
    scaled_rate = config.optimizer.lr * config.lr_factor
    training_rows = [
        ("Epochs", f"{checkpoint.epoch} of {config.epochs}, step {checkpoint.step}"),
        ("Batch", f"{number_format.count(config.global_batch_size)} samples a step"),
        ("Optimizer", f"{config.optimizer.name}, learning rate {scaled_rate:g} at its peak"),
        ("Schedule", config.schedule.name),
        ("Strategy", f"{config.strategy.name}, {config.world_size} processes"),
        ("Precision", config.precision),
        ("Seed", str(config.seed)),
    ]
    if config.ema is not None:
        training_rows.append(("Weights", f"their moving average with decay {config.ema:g}"))
    training_rows += [
        (f"Changed in run {run.number}, from step {run.first_step}", run.changes)
        for run in reversed(runs)
        if run.changes
    ]
    if checkpoint.config_sha256 != config.sha256():
        training_rows.append(("Note", "the run of this checkpoint may have had other settings"))
    metric_rows = [
        (name, "–" if value is None else f"{value:.6g}")
        for name, value in sorted(checkpoint.metrics.items())
    ]
    has_validation = any(name.startswith(VALIDATION) for name in checkpoint.metrics)
    measurement_note = (
        "Names with `validation/` are means over all samples of the validation set, measured after "
        f"epoch {checkpoint.epoch}; the others are of the last training step."
        if has_validation
        else "No validation was measured at this step; the values are of the last training step."
        if checkpoint.metrics
        else f"No values were measured at step {checkpoint.step}, which is within an epoch. "
        "`history.csv` has those of each training step and of each validation."
    )
    return "\n".join(
        [
            f"# {_cell(file.name)}: {checkpoint.name}",
            "",
            *_table("Trained on", part_rows),
            *_table("Training", training_rows),
            *(_table("Metrics", metric_rows) if metric_rows else ()),
            measurement_note,
            "",
            f"All settings are in `job.toml`. The checkpoint has the SHA-256 {checkpoint.sha256}.",
            "",
        ]
    )


def _table(title: str, rows: list[tuple[str, str]]) -> list[str]:
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows]
    return [f"## {title}", "", "| | |", "|---|---|", *lines, ""]


def _cell(text: str) -> str:
    """Return a user's text for one cell: it neither ends the row nor is a mark of Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~])", r"\\\1", " ".join(text.split()))
