"""Jobs as rows of a list with two lines or of the wide table, for any number of jobs.

The model holds row numbers and reads a job when it is painted. An update never resets it: rows
keep their selection, and no row moves while the pointer is over the view, unless the row of the
open job would be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from backend.records.jobs.summary import JobSummary
from backend.records.queue.entry import Queue, QueuedJob
from backend.records.sweeps.summary import MIN_JOBS, job_label
from widgets.jobs.list.job_columns import CELL_ROLES, JobColumn, edited_value
from widgets.jobs.list.job_rows import JobRows
from widgets.jobs.list.sweep_text import sweep_cell_text

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()

JOB_ROLE = Qt.ItemDataRole.UserRole
"""The `JobSummary`."""
QUEUE_ROLE = Qt.ItemDataRole.UserRole + 1
"""The `QueuePlace` of a waiting job, None for others."""
OPEN_ROLE = Qt.ItemDataRole.UserRole + 2
"""Whether the row of a sweep is unfolded; None for a job."""
_FLAGS = (
    Qt.ItemFlag.ItemIsSelectable
    | Qt.ItemFlag.ItemIsEnabled
    | Qt.ItemFlag.ItemNeverHasChildren
    | Qt.ItemFlag.ItemIsDragEnabled
)


@dataclass(frozen=True)
class CellEdit:
    """A new value of a job's name, tags or notes: text, or a tuple for tags."""

    job_id: str
    column: str
    old_value: object
    new_value: object


class JobListModel(QAbstractTableModel):
    """The rows of a query. A row's number is its position in the result.

    Attributes:
        is_changing: Rows are being added, removed or moved.
        ticks: The ticked rows, in the list.

    Signals:
        edited: A `CellEdit`.
    """

    edited = Signal(CellEdit)

    def __init__(self, *, in_columns: bool = False) -> None:
        super().__init__()
        self._columns = len(JobColumn) if in_columns else 1
        self._editable = {column for column in JobColumn if column.can_edit and in_columns}
        self._rows = JobRows()
        self._order = self._rows.order
        self._row_of_slot = self._rows.slot_rows()
        self._waiting: JobRows | None = None
        self._held = False
        self._open_id = ""
        self.is_changing = False
        self.ticks = JobTicks(self)
        self._queue: dict[str, QueuedJob] = {}

    # -- input

    def show_rows(self, rows: JobRows, *, is_user_request: bool = False) -> None:
        """Show these rows. While rows are held, the change waits until the pointer leaves.

        Args:
            rows: The result of a query.
            at_once: The user asked for this change, so rows may move under the pointer.
        """
        if self._held and not is_user_request and not self._misses_open(rows):
            self._waiting = rows
            return
        self._waiting = None
        self.is_changing = True
        self._change_to(rows)
        self.is_changing = False

    def _change_to(self, rows: JobRows) -> None:
        before, wanted = self._order, rows.order
        places = rows.slot_rows()
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
        """Reorder the same rows; persistent indexes keep pointing at their row."""
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

    def hold_rows(self, is_held: bool) -> None:
        """Hold or release the rows: while held, they do not move."""
        self._held = is_held
        if not is_held and self._waiting is not None:
            self.show_rows(self._waiting)

    def set_open(self, line_id: str) -> None:
        """Show the row of this job or sweep, even while rows are held."""
        self._open_id = line_id
        if self._waiting is not None and self._misses_open(self._waiting):
            self.show_rows(self._waiting, is_user_request=True)

    def _misses_open(self, rows: JobRows) -> bool:
        """Return whether only ``rows`` has a row for the open job, or for its sweep."""
        slot = rows.slot_of(self._open_id)
        if slot is None or self.row_of(self._open_id) >= 0 or self.sweep_row(self._open_id) >= 0:
            return False
        return bool(np.isin(rows.order, (slot, rows.sweep_slot(slot))).any())

    def emit_all_changed(self) -> None:
        """Repaint every visible row."""
        if len(self._order):
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._order) - 1, self._last()))

    def emit_changed(self, slot: int) -> None:
        """Repaint the row of one job."""
        row = int(self._row_of_slot[slot]) if slot < len(self._row_of_slot) else -1
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, self._last()))

    def show_queue(self, queue: Queue) -> bool:
        """Set the places of waiting jobs; return whether any changed, even of a hidden job."""
        before, self._queue = self._queue, {p.entry.job_id: p for p in queue.jobs}
        both = before.keys() | self._queue.keys()
        moved = [job_id for job_id in both if before.get(job_id) != self._queue.get(job_id)]
        rows = [row for job_id in moved if (row := self.row_of(job_id)) >= 0]
        if rows:
            self.dataChanged.emit(self.index(min(rows), 0), self.index(max(rows), self._last()))
        return bool(moved)

    # -- queries

    def queued_job(self, job_id: str) -> QueuedJob | None:
        """Return the place of a job in the queue, None if it does not wait."""
        line = self.summary(job_id)
        if line is None or not line.state.is_queued:
            return None
        return self._queue.get(job_id)

    def queue_numbers(self) -> dict[str, int]:
        """Return the number of each job in the queue."""
        return {job_id: place.number for job_id, place in self._queue.items()}

    @property
    def rows(self) -> JobRows:
        """Return the rows that are shown."""
        return self._rows

    def summary(self, job_id: str) -> JobSummary | None:
        """Return the summary of any job by id, shown or not, or of a sweep by tag."""
        slot = self._rows.slot_of(job_id)
        return self._rows.summaries[slot] if slot is not None else None

    def summary_at(self, row: int) -> JobSummary:
        """Return the summary of a row, a job or a sweep."""
        return self._rows.summaries[self._order.item(row)]

    def name_at(self, row: int) -> str:
        """Return the name in a row; for a job of a sweep, the part that differs."""
        line = self.summary_at(row)
        head = self._rows.sweep_slot(self._order.item(row))
        count = self._rows.summaries[head].sweep if head >= 0 else None
        is_swept = count is not None and len(count.ids) >= MIN_JOBS
        return job_label(line.name, count.common) if count and is_swept else line.name

    def is_member(self, row: int) -> bool:
        """Return whether the row is a job below its sweep."""
        line = self.summary_at(row)
        return line.sweep is None and self.sweep_row(line.id) >= 0

    def free_name(self, stem: str) -> str:
        """Return ``stem`` with the first number that no job, shown or not, has after it."""
        begin = f"{stem} "
        ends = (
            line.name[len(begin) :] for line in self._rows.summaries if line.name.startswith(begin)
        )
        return f"{begin}{1 + max((int(end) for end in ends if _is_number(end)), default=0)}"

    def ids(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the ids of these rows, each once; the row of a sweep stands for all its jobs."""
        lines, order = self._rows.summaries, self._order.tolist()
        found: list[str] = []
        for row in rows:
            line = lines[order[row]]
            if line.sweep is None:
                found.append(line.id)
            else:
                found.extend(line.sweep.ids)
        return tuple(dict.fromkeys(found))

    def ticked_ids(self) -> tuple[str, ...]:
        """Return the ids of the ticked jobs, in row order; a sweep stands for all its jobs."""
        found: dict[str, None] = {}
        for line_id in sorted(self.ticks, key=self.row_of):
            line = self.summary(line_id)
            if line is not None:
                found.update(dict.fromkeys((line_id,) if line.sweep is None else line.sweep.ids))
        return tuple(found)

    def active_counts(self, ids: Iterable[str]) -> tuple[int, int]:
        """Return how many of these jobs are running, and how many wait in the queue."""
        states = [line.state for line in map(self.summary, ids) if line is not None]
        return sum(state.is_live for state in states), sum(state.is_queued for state in states)

    def is_open(self, row: int) -> bool:
        """Return whether the sweep of this row is unfolded."""
        if row + 1 >= len(self._order):
            return False
        own, below = self._order[row : row + 2].tolist()
        return bool(self._rows.sweep_slot(below) == own)

    def sweep_row(self, job_id: str) -> int:
        """Return the row of a job's sweep, -1 if it has none or the row is not shown."""
        slot = self._rows.slot_of(job_id)
        head = self._rows.sweep_slot(slot) if slot is not None else -1
        return int(self._row_of_slot[head]) if 0 <= head < len(self._row_of_slot) else -1

    def row_of(self, job_id: str) -> int:
        """Return the row of a job, or of a sweep by its tag; -1 if it is not shown."""
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
        if index.column() in self._editable and self.summary_at(index.row()).sweep is None:
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
        line = self.summary_at(index.row())
        if role == JOB_ROLE:
            return line
        if role == QUEUE_ROLE:
            return self.queued_job(line.id)
        if role == OPEN_ROLE:
            return self.is_open(index.row()) if line.sweep is not None else None
        if role == Qt.ItemDataRole.CheckStateRole and self.ticks:
            is_ticked = line.id in self.ticks
            return Qt.CheckState.Checked if is_ticked else Qt.CheckState.Unchecked
        give = CELL_ROLES.get(role)
        if give is None:
            return None
        column = JobColumn(index.column()) if self._columns > 1 else None
        of_sweep = sweep_cell_text(line, column, role, self.is_open(index.row()))
        return give(line, column, self.queued_job(line.id)) if of_sweep is None else of_sweep

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Request the change; the row is updated once the change is saved."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        line: JobSummary = index.data(JOB_ROLE)
        column = JobColumn(index.column())
        was, wanted = edited_value(line, column, str(value))
        if line.sweep is not None or wanted == was:
            return False
        self.edited.emit(CellEdit(line.id, column.key, was, wanted))
        return True

    def _last(self) -> int:
        return self._columns - 1


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


class JobTicks(QObject):
    """Ids of ticked jobs and tags of ticked sweeps, independent of their rows and the open one.

    Signals:
        changed: The set of ticked rows changed.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ids: dict[str, None] = {}

    def __contains__(self, line_id: object) -> bool:
        return line_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def toggle(self, line_id: str) -> None:
        if line_id in self._ids:
            self.keep(set(self._ids) - {line_id})
        else:
            self.add((line_id,))

    def add(self, ids: Iterable[str]) -> None:
        self._change({**self._ids, **dict.fromkeys(ids)})

    def keep(self, ids: Iterable[str]) -> None:
        """Keep only these ids ticked, if they were."""
        kept = set(ids)
        self._change({each: None for each in self._ids if each in kept})

    def clear(self) -> None:
        self._change({})

    def _change(self, ids: dict[str, None]) -> None:
        if ids != self._ids:
            self._ids = ids
            self.changed.emit()
