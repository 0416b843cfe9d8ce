"""Jobs as rows, for the list of two lines and for the wide table, however many there are.

A model holds numbers of rows and asks for a line when it is painted. News never resets it: rows
that stay keep their selection, and nothing moves while the pointer is over the view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import IntEnum
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from backend.records.job_line import JobLine
from backend.records.job_view import JobView
from backend.records.queue import Queue, QueuePlace
from backend.records.state import JobState
from widgets.common import formats
from widgets.common.text import plain_tip
from widgets.jobs.job_rows import JobRows

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()


_LONG_S, _HOUR_S = 60, 3600
_NODES_NAMED = 3


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
    USER = 9
    NOTES = 10
    CREATED = 11

    @property
    def key(self) -> str:
        """By which it is asked for, and remembered."""
        return self.name.lower()

    @property
    def title(self) -> str:
        return _TITLES.get(self, self.name.capitalize())

    @property
    def is_figure(self) -> bool:
        """Written at the right edge."""
        return self in _FIGURES

    @property
    def can_sort(self) -> bool:
        return self is not JobColumn.NOTES

    @property
    def can_edit(self) -> bool:
        return self in (JobColumn.NAME, JobColumn.TAGS, JobColumn.NOTES)


_TITLES = {JobColumn.BEST: "Best metric", JobColumn.GPUS: "GPUs"}
_FIGURES = frozenset(
    {JobColumn.BEST, JobColumn.GPUS, JobColumn.STARTED, JobColumn.TOOK, JobColumn.CREATED}
)

JOB_ROLE = Qt.ItemDataRole.UserRole
"""The `JobLine`."""
QUEUE_ROLE = Qt.ItemDataRole.UserRole + 1
"""The `QueuePlace` of a job that waits, else None."""


def where(view: JobView | JobLine) -> str:
    """On how much of what a job runs: ``2 processes on this computer``."""
    unit = "GPU" if view.uses_gpus else "process"
    plural = "GPUs" if view.uses_gpus else "processes"
    return f"{formats.plural(view.world_size, unit, plural)} on {nodes_of(view)}"


def nodes_of(view: JobView | JobLine) -> str:
    """``gpu06, gpu07``."""
    return ", ".join("this computer" if n == "this-computer" else n for n in view.nodes)


def took_s(view: JobView, now: datetime) -> float | None:
    """Seconds from the start of the last run to its end, or to now."""
    begin = formats.instant(view.started)
    end = formats.instant(view.ended) or (now if view.state.is_live else None)
    return (end - begin).total_seconds() if begin is not None and end is not None else None


def best_words(view: JobView | JobLine) -> tuple[str, str]:
    """Name and value of the best metric, ("", "–") when there is none."""
    if view.best_metric is None:
        return "", formats.NONE
    name, value = view.best_metric
    return name.removeprefix("validation/"), formats.metric(value)


class JobListModel(QAbstractTableModel):
    """The rows of a query. A row's number is its place in it.

    Signals:
        edited: Id of a job, the column (``name``, ``tags``, ``notes``), what it was and what it
            shall be: text, or a tuple for tags.
    """

    edited = Signal(str, str, object, object)

    def __init__(self, *, in_columns: bool = False) -> None:
        super().__init__()
        self._columns = len(JobColumn) if in_columns else 1
        self._rows = JobRows()
        self._order = self._rows.order
        self._row_of_slot = self._rows.places()
        self._waiting: JobRows | None = None
        self._held = False
        self._queue: dict[str, QueuePlace] = {}

    # -- what comes in

    def show_rows(self, rows: JobRows, *, at_once: bool = False) -> None:
        """Show these. While rows are held they come when nobody points at them any more.

        Args:
            rows: What was found.
            at_once: Somebody asked for just that, so it may move under the pointer too.
        """
        if self._held and not at_once:
            self._waiting = rows
            return
        self._waiting = None
        before, wanted = self._order, rows.order
        places = rows.places()
        self._rows = rows
        if len(before) == len(wanted) and np.array_equal(before, wanted):
            self._row_of_slot = places
            self.tell_all()
            return
        was_there = self._row_of_slot
        known = wanted[wanted < len(was_there)]
        fresh = np.concatenate((known[was_there[known] < 0], wanted[wanted >= len(was_there)]))
        gone = before[places[before] < 0]
        if len(fresh):
            first = len(before)
            self.beginInsertRows(NO_PARENT, first, first + len(fresh) - 1)
            self._order = np.concatenate((before, fresh))
            self.endInsertRows()
        self._arrange(np.concatenate((wanted, gone)))
        if len(gone):
            self.beginRemoveRows(NO_PARENT, len(wanted), len(wanted) + len(gone) - 1)
            self._order = wanted
            self.endRemoveRows()
        self._row_of_slot = places
        self.tell_all()

    def _arrange(self, wanted: Any) -> None:
        """The same rows in another order; what points at one goes on pointing at it."""
        if np.array_equal(wanted, self._order):
            return
        self.layoutAboutToBeChanged.emit()
        pointing = self.persistentIndexList()
        slots = [int(self._order[index.row()]) for index in pointing]
        self._order = wanted
        if pointing:
            rows = np.zeros(int(wanted.max()) + 1, np.int32)
            rows[wanted] = np.arange(len(wanted), dtype=np.int32)
            moved = [
                self.createIndex(int(rows[slot]), index.column())
                for slot, index in zip(slots, pointing, strict=True)
            ]
            self.changePersistentIndexList(pointing, moved)
        self.layoutChanged.emit()

    def hold(self, held: bool) -> None:
        """While held, rows keep their place though their order would be another."""
        self._held = held
        if not held and self._waiting is not None:
            self.show_rows(self._waiting)

    def tell_all(self) -> None:
        """Every line may be another: what is on the screen is painted anew."""
        if len(self._order):
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._order) - 1, self._last()))

    def tell(self, slot: int) -> None:
        """The line of one job is another."""
        row = int(self._row_of_slot[slot]) if slot < len(self._row_of_slot) else -1
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, self._last()))

    def show_queue(self, queue: Queue) -> bool:
        """Where the jobs stand that wait; whether any stands elsewhere now."""
        before, self._queue = self._queue, {p.entry.job_id: p for p in queue.places}
        moved = [
            row
            for job_id in before.keys() | self._queue.keys()
            if before.get(job_id) != self._queue.get(job_id) and (row := self.row_of(job_id)) >= 0
        ]
        if moved:
            self.dataChanged.emit(self.index(min(moved), 0), self.index(max(moved), self._last()))
        return bool(moved)

    # -- what is asked

    def place(self, job_id: str) -> QueuePlace | None:
        """Where a job stands in the queue, None when it waits in none."""
        line = self.line(job_id)
        if line is None or line.state is not JobState.QUEUED:
            return None
        return self._queue.get(job_id)

    def queue_places(self) -> dict[str, int]:
        """The number of each job in the queue."""
        return {job_id: place.number for job_id, place in self._queue.items()}

    def line(self, job_id: str) -> JobLine | None:
        """Of any job there is, whether it is shown or not."""
        slot = self._rows.slot_of(job_id)
        return self._rows.lines[slot] if slot is not None else None

    def has_name(self, name: str) -> bool:
        """Whether any job there is, shown or not, is called so."""
        return any(line.name == name for line in self._rows.lines)

    def ids(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Whose rows these are."""
        lines, order = self._rows.lines, self._order.tolist()
        return tuple(lines[order[row]].id for row in rows)

    def row_of(self, job_id: str) -> int:
        """-1 when it is not shown."""
        slot = self._rows.slot_of(job_id)
        if slot is None or slot >= len(self._row_of_slot):
            return -1
        return int(self._row_of_slot[slot])

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else self._columns

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        if self._columns > 1 and index.isValid() and JobColumn(index.column()).can_edit:
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = JobColumn(section)
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column.is_figure else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        line = self._rows.lines[int(self._order[index.row()])]
        if role == JOB_ROLE:
            return line
        if role == QUEUE_ROLE:
            return self.place(line.id)
        give = _ROLES.get(role)
        if give is None:
            return None
        column = JobColumn(index.column()) if self._columns > 1 else None
        return give(line, column, self.place(line.id))

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """A wish; the row changes when it has come true."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        line: JobLine = index.data(JOB_ROLE)
        column = JobColumn(index.column())
        was: object = {JobColumn.NAME: line.name, JobColumn.NOTES: line.notes}.get(
            column, line.tags
        )
        if column is JobColumn.TAGS:
            words = (word.strip() for word in str(value).split(","))
            value = tuple(dict.fromkeys(word for word in words if word))
        elif column is JobColumn.NAME:
            value = str(value).strip()
        if value == was:
            return False
        self.edited.emit(line.id, column.key, was, value)
        return True

    def _last(self) -> int:
        return self._columns - 1


def shown(line: JobLine, column: JobColumn) -> str:
    """A cell as text."""
    now = time.time()
    if column is JobColumn.TAGS:
        return ", ".join(line.tags)
    if column is JobColumn.PROGRESS:
        return formats.progress(line.progress) if line.run else formats.NONE
    if column is JobColumn.BEST:
        name, value = best_words(line)
        return f"{name} {value}".strip()
    if column is JobColumn.GPUS:
        return formats.count(line.world_size) if line.uses_gpus else formats.NONE
    if column is JobColumn.STARTED:
        return formats.moment_long(line.started or None, now)
    if column is JobColumn.CREATED:
        return formats.moment_long(line.created or None, now)
    if column is JobColumn.TOOK:
        took = line.took_s(now)
        # The seconds of a run of minutes are of no use, and have no room.
        is_long = took is not None and _LONG_S <= took < _HOUR_S
        return formats.rough(took) if is_long else formats.duration(took)
    words = {
        JobColumn.STATE: line.state.word,
        JobColumn.NAME: line.name,
        JobColumn.NODES: _few_nodes(line),
        JobColumn.USER: line.user,
    }
    return words.get(column, " ".join(line.notes.split()))


def _few_nodes(line: JobLine) -> str:
    """Names, or of many nodes how many: three are what a cell has room for."""
    count = len(line.nodes)
    return nodes_of(line) if count <= _NODES_NAMED else f"{formats.count(count)} nodes"


def _display(line: JobLine, column: JobColumn | None, _place: QueuePlace | None) -> str:
    return line.name if column is None else shown(line, column)


def _edit(line: JobLine, column: JobColumn | None, _place: QueuePlace | None) -> str:
    if column is JobColumn.NOTES:
        return line.notes
    return ", ".join(line.tags) if column is JobColumn.TAGS else line.name


def _tip(line: JobLine, column: JobColumn | None, place: QueuePlace | None) -> str | None:
    if column is None:
        return plain_tip(place.sentence) if place is not None else None
    if column is JobColumn.STATE:
        said = place.sentence if place is not None else line.reason or line.state.explanation
        return plain_tip(said)
    if column is JobColumn.STARTED:
        return plain_tip(formats.exact(line.started or None))
    if column is JobColumn.CREATED:
        return plain_tip(formats.exact(line.created or None))
    if column is JobColumn.NOTES:
        return plain_tip(line.notes) if line.notes else None
    if column is JobColumn.NODES:
        return plain_tip(nodes_of(line))
    return plain_tip(shown(line, column))


def _heard(line: JobLine, column: JobColumn | None, place: QueuePlace | None) -> str:
    if column not in (None, JobColumn.NAME):
        return f"{column.title}: {shown(line, column)}" if column is not None else ""
    if place is not None:
        return f"{line.name}, {line.state.word}, place {place.number}. {place.sentence}"
    return f"{line.name}, {line.state.word}, {formats.progress(line.progress)}. {line.reason}"


_ROLES: dict[int, Callable[[JobLine, JobColumn | None, QueuePlace | None], str | None]] = {
    Qt.ItemDataRole.DisplayRole: _display,
    Qt.ItemDataRole.EditRole: _edit,
    Qt.ItemDataRole.ToolTipRole: _tip,
    Qt.ItemDataRole.AccessibleTextRole: _heard,
}
