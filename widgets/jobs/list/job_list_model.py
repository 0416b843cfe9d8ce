"""Jobs as rows, for the list of two lines and for the wide table, however many there are.

A model holds numbers of rows and asks for a line when it is painted. News never resets it: rows
that stay keep their selection, and nothing moves while the pointer is over the view, unless the row
of the open job would be missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.queue.entry import Queue, QueuePlace
from backend.records.sweeps.summary import FEWEST, own_words
from widgets.jobs.list.checked_rows import JobTicks
from widgets.jobs.list.job_columns import CELL_ROLES, JobColumn, edited_value
from widgets.jobs.list.job_rows import JobRows
from widgets.jobs.list.sweep_text import said

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()

JOB_ROLE = Qt.ItemDataRole.UserRole
"""The `JobSummary`."""
QUEUE_ROLE = Qt.ItemDataRole.UserRole + 1
"""The `QueuePlace` of a job that waits, else None."""
OPEN_ROLE = Qt.ItemDataRole.UserRole + 2
"""Whether the jobs of a sweep stand under its row; None for a job."""
_FLAGS = (
    Qt.ItemFlag.ItemIsSelectable
    | Qt.ItemFlag.ItemIsEnabled
    | Qt.ItemFlag.ItemNeverHasChildren
    | Qt.ItemFlag.ItemIsDragEnabled
)


class JobListModel(QAbstractTableModel):
    """The rows of a query. A row's number is its place in it.

    Attributes:
        is_changing: Rows come, go or move just now.
        ticks: What is ticked, in the list.

    Signals:
        edited: Id of a job, the column (``name``, ``tags``, ``notes``), what it was and what it
            shall be: text, or a tuple for tags.
    """

    edited = Signal(str, str, object, object)

    def __init__(self, *, in_columns: bool = False) -> None:
        super().__init__()
        self._columns = len(JobColumn) if in_columns else 1
        self._editable = {column for column in JobColumn if column.can_edit and in_columns}
        self._rows = JobRows()
        self._order = self._rows.order
        self._row_of_slot = self._rows.places()
        self._waiting: JobRows | None = None
        self._held = False
        self._open_id = ""
        self.is_changing = False
        self.ticks = JobTicks(self)
        self._queue: dict[str, QueuePlace] = {}

    # -- what comes in

    def show_rows(self, rows: JobRows, *, at_once: bool = False) -> None:
        """Show these. While rows are held they come when nobody points at them any more.

        Args:
            rows: What was found.
            at_once: Somebody asked for just that, so it may move under the pointer too.
        """
        if self._held and not at_once and not self._misses_open(rows):
            self._waiting = rows
            return
        self._waiting = None
        self.is_changing = True
        self._change_to(rows)
        self.is_changing = False

    def _change_to(self, rows: JobRows) -> None:
        before, wanted = self._order, rows.order
        places = rows.places()
        self._rows = rows
        if len(before) == len(wanted) and np.array_equal(before, wanted):
            self._row_of_slot = places
            self.emit_all_changed()
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
        self.emit_all_changed()

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

    def set_open(self, line_id: str) -> None:
        """Show the row of this job or sweep, though rows are held."""
        self._open_id = line_id
        if self._waiting is not None and self._misses_open(self._waiting):
            self.show_rows(self._waiting, at_once=True)

    def _misses_open(self, rows: JobRows) -> bool:
        """Whether only ``rows`` have a row for the open job, its own or that of its sweep."""
        slot = rows.slot_of(self._open_id)
        if slot is None or self.row_of(self._open_id) >= 0 or self.head_row(self._open_id) >= 0:
            return False
        return bool(np.isin(rows.order, (slot, rows.head(slot))).any())

    def emit_all_changed(self) -> None:
        """Every line may be another: what is on the screen is painted anew."""
        if len(self._order):
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._order) - 1, self._last()))

    def emit_changed(self, slot: int) -> None:
        """The line of one job is another."""
        row = int(self._row_of_slot[slot]) if slot < len(self._row_of_slot) else -1
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, self._last()))

    def show_queue(self, queue: Queue) -> bool:
        """Where the jobs stand that wait; whether any stands elsewhere now, shown or not yet."""
        before, self._queue = self._queue, {p.entry.job_id: p for p in queue.places}
        both = before.keys() | self._queue.keys()
        moved = [job_id for job_id in both if before.get(job_id) != self._queue.get(job_id)]
        rows = [row for job_id in moved if (row := self.row_of(job_id)) >= 0]
        if rows:
            self.dataChanged.emit(self.index(min(rows), 0), self.index(max(rows), self._last()))
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

    @property
    def rows(self) -> JobRows:
        """What is shown now."""
        return self._rows

    def line(self, job_id: str) -> JobSummary | None:
        """Of any job there is, whether it is shown or not, and of a sweep by its tag."""
        slot = self._rows.slot_of(job_id)
        return self._rows.lines[slot] if slot is not None else None

    def line_at(self, row: int) -> JobSummary:
        """Of a job or a sweep that is shown."""
        return self._rows.lines[self._order.item(row)]

    def name_at(self, row: int) -> str:
        """What is written as the name; of a sweep's job what tells it from the others."""
        line = self.line_at(row)
        head = self._rows.head(self._order.item(row))
        count = self._rows.lines[head].sweep if head >= 0 else None
        is_swept = count is not None and len(count.ids) >= FEWEST
        return own_words(line.name, count.common) if count and is_swept else line.name

    def is_member(self, row: int) -> bool:
        """Whether the row stands under that of its sweep."""
        line = self.line_at(row)
        return line.sweep is None and self.head_row(line.id) >= 0

    def free_name(self, stem: str) -> str:
        """``stem`` with a number that no job there is, shown or not, has after it."""
        begin = f"{stem} "
        ends = (line.name[len(begin) :] for line in self._rows.lines if line.name.startswith(begin))
        return f"{begin}{1 + max((int(end) for end in ends if _is_number(end)), default=0)}"

    def ids(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Whose rows these are, each once; the row of a sweep is that of all its jobs."""
        lines, order = self._rows.lines, self._order.tolist()
        found: list[str] = []
        for row in rows:
            line = lines[order[row]]
            if line.sweep is None:
                found.append(line.id)
            else:
                found.extend(line.sweep.ids)
        return tuple(dict.fromkeys(found))

    def ticked(self) -> tuple[str, ...]:
        """Ids of the jobs that are ticked, from above; a sweep is all its jobs."""
        found: dict[str, None] = {}
        for line_id in sorted(self.ticks, key=self.row_of):
            line = self.line(line_id)
            if line is not None:
                found.update(dict.fromkeys((line_id,) if line.sweep is None else line.sweep.ids))
        return tuple(found)

    def live_of(self, ids: Iterable[str]) -> int:
        """How many of these jobs are under way."""
        return sum(line is not None and line.state.is_live for line in map(self.line, ids))

    def is_open(self, row: int) -> bool:
        """Whether the jobs of the sweep in this row stand under it."""
        if row + 1 >= len(self._order):
            return False
        own, below = self._order[row : row + 2].tolist()
        return bool(self._rows.head(below) == own)

    def head_row(self, job_id: str) -> int:
        """The row of the sweep of a job, -1 when it has none, or that is not shown."""
        slot = self._rows.slot_of(job_id)
        head = self._rows.head(slot) if slot is not None else -1
        return int(self._row_of_slot[head]) if 0 <= head < len(self._row_of_slot) else -1

    def row_of(self, job_id: str) -> int:
        """Of a job, or of a sweep by its tag; -1 when it is not shown."""
        slot = self._rows.slot_of(job_id)
        if slot is None or slot >= len(self._row_of_slot):
            return -1
        return int(self._row_of_slot[slot])

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else self._columns

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        if index.column() in self._editable and self.line_at(index.row()).sweep is None:
            return _FLAGS | Qt.ItemFlag.ItemIsEditable
        return _FLAGS

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
        line = self.line_at(index.row())
        if role == JOB_ROLE:
            return line
        if role == QUEUE_ROLE:
            return self.place(line.id)
        if role == OPEN_ROLE:
            return self.is_open(index.row()) if line.sweep is not None else None
        if role == Qt.ItemDataRole.CheckStateRole and self.ticks:
            is_ticked = line.id in self.ticks
            return Qt.CheckState.Checked if is_ticked else Qt.CheckState.Unchecked
        give = CELL_ROLES.get(role)
        if give is None:
            return None
        column = JobColumn(index.column()) if self._columns > 1 else None
        of_sweep = said(line, column, role, self.is_open(index.row()))
        return give(line, column, self.place(line.id)) if of_sweep is None else of_sweep

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """A wish; the row changes when it has come true."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        line: JobSummary = index.data(JOB_ROLE)
        column = JobColumn(index.column())
        was, wanted = edited_value(line, column, str(value))
        if line.sweep is not None or wanted == was:
            return False
        self.edited.emit(line.id, column.key, was, wanted)
        return True

    def _last(self) -> int:
        return self._columns - 1


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10
