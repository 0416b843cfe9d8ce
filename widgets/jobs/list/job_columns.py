"""The columns of the job lists, and the text of their cells."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from enum import IntEnum

from PySide6.QtCore import Qt

from backend.records.base.timestamps import instant
from backend.records.jobs import summary_settings
from backend.records.jobs.metric_names import short_metric_label
from backend.records.jobs.placement import node_label
from backend.records.jobs.settings import name_and_unit, value_label
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.labels import plain_tip

_LONG_S, _HOUR_S = 60, 3600
_MAX_NAMED_NODES = 3


class JobColumn(IntEnum):
    STATE = 0
    NAME = 1
    TAGS = 2
    PROGRESS = 3
    BEST = 4
    NODES = 5
    GPUS = 6
    STARTED = 7
    TOOK = 8
    GPU_HOURS = 9
    ENERGY = 10
    USER = 11
    NOTES = 12
    CREATED = 13
    LR = 14
    BATCH_SIZE = 15
    OPTIMIZER = 16
    EPOCHS = 17
    MODEL = 18
    DATASET = 19
    STRATEGY = 20
    SEED = 21
    SCRIPT = 22
    ARGUMENTS = 23

    @property
    def key(self) -> str:
        """Return the name that identifies the column in stored layouts."""
        return self.name.lower()

    @property
    def title(self) -> str:
        if self in SETTINGS:
            return name_and_unit(_setting_path(self.key))[0]
        return _TITLES.get(self, self.name.capitalize())

    @property
    def is_figure(self) -> bool:
        """Return whether the column is right-aligned."""
        return self in _FIGURES

    @property
    def can_sort(self) -> bool:
        return self is not JobColumn.NOTES

    @property
    def can_edit(self) -> bool:
        return self in (JobColumn.NAME, JobColumn.TAGS, JobColumn.NOTES)


_TITLES = {
    JobColumn.BEST: "Best metric",
    JobColumn.GPUS: "GPUs",
    JobColumn.GPU_HOURS: "GPU hours",
}
SETTINGS = tuple(column for column in JobColumn if column >= JobColumn.LR)
"""The columns of settings in the job file."""
_FIGURES = frozenset(
    {
        JobColumn.BEST,
        JobColumn.GPUS,
        JobColumn.STARTED,
        JobColumn.TOOK,
        JobColumn.GPU_HOURS,
        JobColumn.ENERGY,
        JobColumn.CREATED,
        *(column for column in SETTINGS if column.key in summary_settings.NUMBERS),
    }
)


def resources_label(view: JobView | JobSummary) -> str:
    """Return the resources and nodes of a job: ``2 processes on this computer``."""
    unit = "GPU" if view.uses_gpus else "process"
    plural = "GPUs" if view.uses_gpus else "processes"
    count = view.process_count if isinstance(view, JobView) else view.world_size
    return f"{formats.plural(count, unit, plural)} on {node_names(view)}"


def node_names(view: JobView | JobSummary) -> str:
    """Return ``gpu06, gpu07``."""
    return ", ".join(map(node_label, view.nodes))


def duration_s(view: JobView, now: datetime) -> float | None:
    """Return the duration of all runs until now, in seconds."""
    start = instant(view.status.started_at)
    end = instant(view.status.ended_at) or (now if view.state.is_live else None)
    if start is None or end is None:
        return None
    return view.status.earlier_s + max(0.0, (end - start).total_seconds())


def best_metric_labels(view: JobView | JobSummary) -> tuple[str, str]:
    """Return the short name and the value of the best metric; ("", "–") if there is none."""
    if view.best_metric is None:
        return "", formats.NONE
    name, value = view.best_metric
    return short_metric_label(name), formats.metric(value)


def edited_value(summary: JobSummary, column: JobColumn, text: str) -> tuple[object, object]:
    """Return the current value of a cell, and the new value for an edited text."""
    if column is JobColumn.TAGS:
        tags = (tag.strip() for tag in text.split(","))
        return summary.tags, tuple(dict.fromkeys(tag for tag in tags if tag))
    return (summary.name, text.strip()) if column is JobColumn.NAME else (summary.notes, text)


def cell_text(summary: JobSummary, column: JobColumn) -> str:
    """Return a cell as text."""
    now = time.time()
    if column is JobColumn.TAGS:
        return ", ".join(summary.tags)
    if column is JobColumn.PROGRESS:
        return formats.progress(summary.progress) if summary.run else formats.NONE
    if column is JobColumn.BEST:
        name, value = best_metric_labels(summary)
        return f"{name} {value}".strip()
    if column is JobColumn.GPUS:
        return formats.count(summary.world_size) if summary.uses_gpus else formats.NONE
    if column is JobColumn.STARTED:
        return formats.time_with_day(summary.started_s or None, now)
    if column is JobColumn.CREATED:
        return formats.time_with_day(summary.created_s or None, now)
    if column is JobColumn.TOOK:
        duration_s = summary.took_s(now)
        # For runs of minutes, seconds are not useful and do not fit.
        is_long = duration_s is not None and _LONG_S <= duration_s < _HOUR_S
        return formats.rough_duration(duration_s) if is_long else formats.duration(duration_s)
    if column is JobColumn.GPU_HOURS:
        return formats.gpu_hours(summary.gpu_s(now))
    if column is JobColumn.ENERGY:
        return formats.energy(summary.energy_j)
    if column is JobColumn.NODES:
        return _nodes_text(summary)
    if column in SETTINGS:
        return _setting_text(summary, column.key)
    texts = {
        JobColumn.STATE: summary.state_label,
        JobColumn.NAME: summary.name,
        JobColumn.USER: summary.user,
    }
    return texts.get(column, " ".join(summary.notes.split()))


def _setting_text(summary: JobSummary, key: str) -> str:
    if summary.sweep is not None:
        return ""
    if key in summary_settings.NUMBERS:
        value = summary_settings.number(summary, key)
        return formats.NONE if value != value else formats.typed_number(value)
    label = value_label(_setting_path(key), summary_settings.setting(summary, key))
    return formats.reference(label) or formats.NONE


def _setting_path(key: str) -> str:
    """Return the path of a setting in the job file."""
    if key == "lr":
        return "optimizer.lr"
    return f"{key}.name" if key in summary_settings.TEXTS else key


def _nodes_text(summary: JobSummary) -> str:
    """Return up to three node names, or the number of nodes."""
    count = len(summary.nodes)
    return node_names(summary) if count <= _MAX_NAMED_NODES else f"{formats.count(count)} nodes"


def _display_text(
    summary: JobSummary, column: JobColumn | None, _queued_job: QueuedJob | None
) -> str:
    return summary.name if column is None else cell_text(summary, column)


def _edit_text(summary: JobSummary, column: JobColumn | None, _queued_job: QueuedJob | None) -> str:
    if column is JobColumn.NOTES:
        return summary.notes
    return ", ".join(summary.tags) if column is JobColumn.TAGS else summary.name


def _tool_tip(
    summary: JobSummary, column: JobColumn | None, queued_job: QueuedJob | None
) -> str | None:
    if column is None:
        return plain_tip(queued_job.full_message) if queued_job is not None else None
    if column is JobColumn.STATE:
        reason = (
            queued_job.full_message
            if queued_job is not None
            else summary.reason or summary.state.explanation
        )
        return plain_tip(reason)
    if column is JobColumn.STARTED:
        run_prefix = (
            f"Run {formats.count(summary.run)}: "
            if summary.run > 1 and summary.sweep is None
            else ""
        )
        return plain_tip(run_prefix + formats.full_time(summary.started_s or None))
    if column is JobColumn.CREATED:
        return plain_tip(formats.full_time(summary.created_s or None))
    if column is JobColumn.NOTES:
        return plain_tip(summary.notes) if summary.notes else None
    if column is JobColumn.NODES:
        return plain_tip(node_names(summary))
    if column is JobColumn.TOOK:
        return plain_tip(_usage_text(summary))
    return plain_tip(cell_text(summary, column))


def _usage_text(summary: JobSummary) -> str:
    """Return the duration, the GPU hours, and the energy."""
    gpu_s = summary.gpu_s(time.time())
    hours = f"{formats.gpu_hours(gpu_s)} GPU hours" if gpu_s is not None else ""
    energy = formats.energy(summary.energy_j) if summary.energy_j is not None else ""
    return " · ".join(part for part in (cell_text(summary, JobColumn.TOOK), hours, energy) if part)


def _accessible_text(
    summary: JobSummary, column: JobColumn | None, queued_job: QueuedJob | None
) -> str:
    if column not in (None, JobColumn.NAME):
        return f"{column.title}: {cell_text(summary, column)}" if column is not None else ""
    if queued_job is not None:
        position = f"place {queued_job.number}"
        return f"{summary.name}, {summary.state_label}, {position}. {queued_job.full_message}"
    progress = formats.progress(summary.progress)
    return f"{summary.name}, {summary.state_label}, {progress}. {summary.reason}"


CELL_ROLES: dict[int, Callable[[JobSummary, JobColumn | None, QueuedJob | None], str | None]] = {
    Qt.ItemDataRole.DisplayRole: _display_text,
    Qt.ItemDataRole.EditRole: _edit_text,
    Qt.ItemDataRole.ToolTipRole: _tool_tip,
    Qt.ItemDataRole.AccessibleTextRole: _accessible_text,
}
