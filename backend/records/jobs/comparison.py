"""Comparison of several jobs: the results of each, and the settings that differ.

Standard library only, as all records: the figures are passed as plain numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from backend.records.jobs import flat_settings
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.metric_names import OF_NO_DATA, metric_label, usual_mode
from backend.records.jobs.settings import label
from backend.records.jobs.state import JobState
from backend.records.jobs.status import finite
from backend.records.jobs.view import JOULES_A_KWH, JobView

FEWEST_JOBS, MOST_JOBS = 2, 8


def too_many_message(compared_ids: Iterable[str], added_ids: Iterable[str]) -> str:
    """Return why jobs cannot be added to the comparison, or ""."""
    known_ids = set(compared_ids)
    new_ids = set(added_ids) - known_ids
    excess_count = len(known_ids) + len(new_ids) - MOST_JOBS
    if excess_count <= 0:
        return ""
    if len(new_ids) > MOST_JOBS:
        return f"At most {MOST_JOBS} jobs can be compared at once"
    excess_text = "one" if excess_count == 1 else str(excess_count)
    return f"At most {MOST_JOBS} jobs can be compared: remove {excess_text} first"


@dataclass(frozen=True)
class MetricFigures:
    """The last, the lowest and the highest finite value of a metric."""

    last: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class RunFigures:
    """Figures of a job's history. ``seconds``: time spent training, without pauses between runs."""

    metrics: Mapping[str, MetricFigures] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0
    """Steps that were made in ``seconds``."""
    untimed_steps: int = 0
    """Steps of the first block of each run: the block has only the time of its end."""


@dataclass(frozen=True)
class ComparedUpdate:
    """An update of a compared job. ``cursor`` is opaque: pass it to the next read."""

    view: JobView
    history: HistoryUpdate
    figures: RunFigures
    cursor: object = None


class RowKind(Enum):
    """Format of the values of a row."""

    METRIC = "metric"
    SECONDS = "seconds"
    TEXT = "text"


@dataclass(frozen=True)
class ComparedRow:
    """A row with a value for each job; None if a job has none. ``best`` marks the best values."""

    key: str
    label: str
    values: tuple[float | str | None, ...]
    best: tuple[bool, ...]
    kind: RowKind = RowKind.TEXT


@dataclass(frozen=True)
class ComparisonTable:
    """The table on the Compare page."""

    jobs: tuple[JobView, ...] = ()
    results: tuple[ComparedRow, ...] = ()
    differing: tuple[ComparedRow, ...] = ()
    equal: tuple[ComparedRow, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--json`` prints."""
        return {
            "jobs": [
                {"id": v.id, "name": v.name, "state": v.state.value, "progress": v.progress}
                for v in self.jobs
            ],
            "results": [_row_json(row) for row in self.results],
            "settings": [_row_json(row) for row in self.differing],
            "equal_settings": [_row_json(row) for row in self.equal],
        }


def compare(jobs: Sequence[tuple[JobView, RunFigures]]) -> ComparisonTable:
    """Return the table for these jobs, in their order."""
    views = tuple(view for view, _ in jobs)
    rows = list(_settings(views))
    return ComparisonTable(
        views,
        tuple(_results(jobs)),
        tuple(row for row in rows if len(set(row.values)) > 1),
        tuple(row for row in rows if len(set(row.values)) <= 1),
    )


def rated_metrics(jobs: Sequence[JobView]) -> tuple[str, ...]:
    """Return the metrics by which these jobs choose their best checkpoint, each once."""
    names = [
        view.best_metric[0]
        if view.config.script and view.best_metric
        else view.config.checkpoint.best_metric
        for view in jobs
    ]
    return tuple(dict.fromkeys(names))


def best_mode(metric: str, jobs: Sequence[JobView]) -> str:
    """Return ``min`` or ``max``, or "" if the jobs do not say, or do not agree."""
    modes = {
        view.config.checkpoint.best_mode
        for view in jobs
        if view.config.checkpoint.best_metric == metric
    } | {
        view.config.early_stop.mode
        for view in jobs
        if view.config.early_stop is not None and view.config.early_stop.metric == metric
    }
    if len(modes) > 1:
        return ""
    return next(iter(modes), usual_mode(metric))


def _results(jobs: Sequence[tuple[JobView, RunFigures]]) -> Iterable[ComparedRow]:
    views = [view for view, _ in jobs]
    metric_names = dict.fromkeys(name for _, figures in jobs for name in figures.metrics)
    rated_names = [name for name in rated_metrics(views) if name in metric_names]
    other_names = sorted(n for n in metric_names if n not in rated_names and n not in OF_NO_DATA)
    # An occasional metric is rated by its best value, with its last value below. A metric of every
    # step has a last value, and is not rated.
    for name in (*rated_names, *other_names):
        mode = best_mode(name, views)

        def best_value(figures: RunFigures, name: str = name, mode: str = mode) -> float | None:
            metric = figures.metrics.get(name)
            return None if metric is None else metric.lowest if mode == "min" else metric.highest

        def last_value(figures: RunFigures, name: str = name) -> float | None:
            metric = figures.metrics.get(name)
            return None if metric is None else metric.last

        label_text, key = metric_label(name), name
        if mode and (name in rated_names or name.startswith("validation/")):
            values = tuple(best_value(figures) for _, figures in jobs)
            best_marks = mark_best(values, mode)
            yield ComparedRow(key, f"Best {label_text}", values, best_marks, RowKind.METRIC)
            key = f"last {name}"
        values = tuple(last_value(figures) for _, figures in jobs)
        no_marks = (False,) * len(views)
        yield ComparedRow(key, f"Last {label_text}", values, no_marks, RowKind.METRIC)
    epochs_done = tuple(_epochs_done(view) for view in views)
    yield ComparedRow("epochs_done", "Epochs done", epochs_done, (False,) * len(views))
    for key, label_text, seconds in (
        ("epoch_seconds", "Time per epoch", _epoch_seconds),
        ("seconds", "Training time", _training_s),
    ):
        values = tuple(seconds(view, figures) for view, figures in jobs)
        best_marks = mark_best(values, "min") if key == "epoch_seconds" else (False,) * len(views)
        yield ComparedRow(key, label_text, values, best_marks, RowKind.SECONDS)
    now_s = time.time()
    for key, label_text, amounts, unit in (
        ("gpu_hours", "GPU hours", [view.gpu_s(now_s) for view in views], 3600),
        ("energy_kwh", "Energy, kWh", [view.status.total_energy_j for view in views], JOULES_A_KWH),
    ):
        if any(amounts):
            values = tuple(None if a is None else a / unit for a in amounts)
            yield ComparedRow(key, label_text, values, (False,) * len(views), RowKind.METRIC)


def _settings(views: Sequence[JobView]) -> Iterable[ComparedRow]:
    all_settings = [flat_settings.effective_settings(view) for view in views]
    for key in dict.fromkeys(key for settings in all_settings for key in settings):
        values = tuple(settings.get(key) for settings in all_settings)
        yield ComparedRow(key, label(key), values, (False,) * len(views))


def mark_best(values: Sequence[float | None], mode: str) -> tuple[bool, ...]:
    """Mark the best values; none if there is only one value or all are equal."""
    numbers = [value for value in values if value is not None]
    if not mode or len(set(numbers)) < 2:
        return (False,) * len(values)
    best_of: Callable[[Sequence[float]], float] = min if mode == "min" else max
    top = best_of(numbers)
    return tuple(value == top for value in values)


def _epochs_done(view: JobView) -> str:
    if not view.run:
        return "0"
    per_epoch = view.status.steps_per_epoch
    # Only the end shows that the newest epoch of a script is complete.
    newest_is_done = view.state is JobState.FINISHED
    epoch_count = (
        min(view.epochs, view.step // per_epoch)
        if per_epoch
        else max(view.status.epoch - (not newest_is_done), 0)
    )
    return (
        str(epoch_count)
        if epoch_count == view.epochs or not view.epochs
        else f"{epoch_count} of {view.epochs}"
    )


def _epoch_seconds(view: JobView, figures: RunFigures) -> float | None:
    if not figures.steps or not view.status.steps_per_epoch or figures.seconds <= 0:
        return None
    return figures.seconds / figures.steps * view.status.steps_per_epoch


def _training_s(view: JobView, figures: RunFigures) -> float | None:
    if not figures.steps:
        return None
    # A script may write many steps at once, so its untimed steps have no pace.
    untimed_steps = figures.untimed_steps if view.status.steps_per_epoch else 0
    return figures.seconds * (1 + untimed_steps / figures.steps)


def _row_json(row: ComparedRow) -> dict[str, Any]:
    return {
        "key": row.key,
        "label": row.label,
        "values": [v if isinstance(v, str) else finite(v) for v in row.values],
        "best": [number for number, is_best in enumerate(row.best) if is_best],
    }
