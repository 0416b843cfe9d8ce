"""Jobs as rows: the list of two lines and the wide table are two views of one model.

Rows keep their place while the pointer is over the list: live first, then waiting, then ended by
time, settled anew only when nobody points at it.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum
from math import inf
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)

from backend.records.job_view import JobView
from backend.records.queue import Queue, QueuePlace
from backend.records.state import JobState
from widgets.common import formats
from widgets.common.text import plain_tip

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()


class JobColumn(IntEnum):
    STATE = 0
    NAME = 1
    TAGS = 2
    PROGRESS = 3
    BEST = 4
    WHERE = 5
    STARTED = 6
    TOOK = 7
    USER = 8


TITLES = {
    JobColumn.STATE: "State",
    JobColumn.NAME: "Name",
    JobColumn.TAGS: "Tags",
    JobColumn.PROGRESS: "Progress",
    JobColumn.BEST: "Best metric",
    JobColumn.WHERE: "Where",
    JobColumn.STARTED: "Started",
    JobColumn.TOOK: "Took",
    JobColumn.USER: "User",
}

JOB_ROLE = Qt.ItemDataRole.UserRole
SORT_ROLE = Qt.ItemDataRole.UserRole + 1
QUEUE_ROLE = Qt.ItemDataRole.UserRole + 2
"""The `QueuePlace` of a job that waits, else None."""


def where(view: JobView) -> str:
    """On how much of what a job runs: ``2 processes on this computer``."""
    nodes = ["this computer" if node == "this-computer" else node for node in view.nodes]
    unit = "GPU" if view.config.uses_gpus else "process"
    plural = "GPUs" if view.config.uses_gpus else "processes"
    return f"{formats.plural(view.world_size, unit, plural)} on {', '.join(nodes)}"


def took_s(view: JobView, now: datetime) -> float | None:
    """Seconds from the start of the last run to its end, or to now."""
    begin = formats.instant(view.started)
    end = formats.instant(view.ended) or (now if view.state.is_live else None)
    return (end - begin).total_seconds() if begin is not None and end is not None else None


def best_words(view: JobView) -> tuple[str, str]:
    """Name and value of the best metric, ("", "–") when there is none."""
    if view.best_metric is None:
        return "", "–"
    name, value = view.best_metric
    return name.removeprefix("validation/"), formats.metric(value)


def group(view: JobView) -> int:
    """0 live, 1 waiting, 2 ended."""
    if view.state.is_live:
        return 0
    return 1 if view.state in (JobState.CREATED, JobState.QUEUED) else 2


class JobListModel(QAbstractTableModel):
    """One row per job, in the order in which they came. `put` tells of single rows."""

    def __init__(self) -> None:
        super().__init__()
        self._views: list[JobView] = []
        self._rows: dict[str, int] = {}
        self._places: dict[str, QueuePlace] = {}

    def put(self, view: JobView) -> None:
        """Add ``view``, or replace the row of the job with its id."""
        row = self._rows.get(view.id)
        if row is None:
            row = len(self._views)
            self.beginInsertRows(QModelIndex(), row, row)
            self._views.append(view)
            self._rows[view.id] = row
            self.endInsertRows()
        elif self._views[row] != view:
            self._views[row] = view
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(JobColumn) - 1))

    def replace_all(self, views: tuple[JobView, ...]) -> None:
        """These are all jobs; rows that are gone go, new ones come, the others stay."""
        wanted = {view.id for view in views}
        for row in reversed(range(len(self._views))):
            if self._views[row].id not in wanted:
                self.beginRemoveRows(QModelIndex(), row, row)
                del self._views[row]
                self._rows = {view.id: n for n, view in enumerate(self._views)}
                self.endRemoveRows()
        fresh = [view for view in views if view.id not in self._rows]
        for view in views:
            if view.id in self._rows:
                self.put(view)
        if fresh:
            first = len(self._views)
            self.beginInsertRows(QModelIndex(), first, first + len(fresh) - 1)
            self._views.extend(fresh)
            self._rows = {view.id: n for n, view in enumerate(self._views)}
            self.endInsertRows()

    def show_queue(self, queue: Queue) -> None:
        """Where the jobs stand that wait; told once, because who sorts rows compares them all."""
        before, self._places = self._places, {p.entry.job_id: p for p in queue.places}
        moved = [
            self._rows[job_id]
            for job_id in before.keys() | self._places.keys()
            if job_id in self._rows and before.get(job_id) != self._places.get(job_id)
        ]
        if moved:
            last = self.index(max(moved), len(JobColumn) - 1)
            self.dataChanged.emit(self.index(min(moved), 0), last)

    def place(self, job_id: str) -> QueuePlace | None:
        """Where a job stands in the queue, None when it waits in none."""
        view = self.view(job_id)
        if view is None or view.state is not JobState.QUEUED:
            return None
        return self._places.get(job_id)

    def view(self, job_id: str) -> JobView | None:
        row = self._rows.get(job_id)
        return None if row is None else self._views[row]

    def views(self) -> tuple[JobView, ...]:
        return tuple(self._views)

    def row_of(self, job_id: str) -> int:
        return self._rows.get(job_id, -1)

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._views)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(JobColumn)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return TITLES[JobColumn(section)]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        view = self._views[index.row()]
        column = JobColumn(index.column())
        if role == JOB_ROLE:
            return view
        if role == QUEUE_ROLE:
            return self.place(view.id)
        if role == Qt.ItemDataRole.ToolTipRole and (place := self.place(view.id)):
            return plain_tip(place.sentence)
        if role == Qt.ItemDataRole.DisplayRole:
            return _shown(view, column)
        if role == SORT_ROLE:
            return _sorted_by(view, column)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            if place := self.place(view.id):
                number = f"place {place.number}"
                return f"{view.name}, {view.state.word}, {number}. {place.sentence}"
            percent = formats.progress(view.progress)
            return f"{view.name}, {view.state.word}, {percent}. {view.message}"
        return None


def _shown(view: JobView, column: JobColumn) -> str:
    now = datetime.now().astimezone()
    if column is JobColumn.STATE:
        return view.state.word
    if column is JobColumn.NAME:
        return view.name
    if column is JobColumn.TAGS:
        return ", ".join(view.tags)
    if column is JobColumn.PROGRESS:
        return formats.progress(view.progress) if view.run else "–"
    if column is JobColumn.BEST:
        name, value = best_words(view)
        return f"{name} {value}".strip()
    if column is JobColumn.WHERE:
        return where(view)
    if column is JobColumn.STARTED:
        return formats.moment_long(formats.instant(view.started), now)
    if column is JobColumn.TOOK:
        return formats.duration(took_s(view, now))
    return view.user


def _sorted_by(view: JobView, column: JobColumn) -> Any:
    """A value that compares: numbers sort as numbers."""
    now = datetime.now().astimezone()
    if column is JobColumn.STATE:
        return list(JobState).index(view.state)
    if column is JobColumn.PROGRESS:
        return view.progress
    if column is JobColumn.BEST:
        return view.best_metric[1] if view.best_metric else float("-inf")
    if column is JobColumn.STARTED:
        return view.started or view.created
    if column is JobColumn.TOOK:
        return took_s(view, now) or 0.0
    return _shown(view, column).casefold()


class JobFilter(QSortFilterProxyModel):
    """What the list shows: a group, and what matches the search, live first."""

    def __init__(self, source: JobListModel, in_groups: bool) -> None:
        super().__init__()
        self._in_groups = in_groups
        self._group: int | None = None
        self._search = ""
        self.setSourceModel(source)
        self.setSortRole(SORT_ROLE)
        self.setDynamicSortFilter(True)
        if in_groups:
            self.sort(0)

    def show_group(self, number: int | None) -> None:
        self._group = number
        self.invalidate()

    def search(self, text: str) -> None:
        self._search = text.strip().casefold()
        self.invalidate()

    def hold(self, held: bool) -> None:
        """While held, rows keep their place though their order would be another."""
        self.setDynamicSortFilter(not held)

    def filterAcceptsRow(self, row: int, parent: AnyIndex) -> bool:
        view = self.sourceModel().index(row, 0, parent).data(JOB_ROLE)
        if self._group is not None and group(view) != self._group:
            return False
        if not self._search:
            return True
        words = "\n".join((view.name, view.notes, *view.tags, view.id)).casefold()
        return self._search in words

    def lessThan(self, left: AnyIndex, right: AnyIndex) -> bool:
        if not self._in_groups:
            return bool(left.data(SORT_ROLE) < right.data(SORT_ROLE))
        return _order(left) < _order(right)


def _order(index: AnyIndex) -> tuple[int, float, float, str]:
    """Live by start, then the queue, drafts by creation, ended by end, the newest first in each."""
    view: JobView = index.data(JOB_ROLE)
    place: QueuePlace | None = index.data(QUEUE_ROLE)
    number = float(place.number) if place is not None else inf
    when = formats.instant(view.ended if group(view) == 2 else view.started or view.created)
    newest_first = -(when.timestamp() if when else 0.0)
    return group(view), number, newest_first, view.id
