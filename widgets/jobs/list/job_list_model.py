"""Jobs as rows of a list with two lines or of the wide table, for any number of jobs.

The model holds row numbers and reads a job when the row is painted. An update never resets the
model: rows keep their selection, and no row moves while the pointer is over the view, unless the
row of the open job would be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QTableView

from backend.records.jobs.summary import JobSummary
from backend.records.queue.entry import Queue, QueuedJob
from backend.records.sweeps.summary import MIN_JOBS, job_label
from widgets.jobs.list.job_columns import CELL_ROLES, JobColumn, edited_value
from widgets.jobs.list.sweep_text import sweep_cell_text


def _no_slot(_job_id: str) -> int | None:
    return None


@dataclass(frozen=True)
class JobRows:
    """The result of a query.

    Attributes:
        summaries: All jobs and all sweeps, by slot. The owner may replace an entry at any time.
        order: The slots of the result, in order. The jobs of an unfolded sweep follow its slot.
        slot_of: The slot of a job by its id, of a sweep by its tag.
        total_count: The number of all jobs.
        live_count, queued_count: The numbers of live and of queued jobs, of all jobs.
        hit_count: The number of jobs in the result, folded or not.
        sweep_slots: The slot of the sweep by the slot of its job, -1 for none; empty without folds.
        empty_columns: Keys of columns in which no job has a figure.
    """

    summaries: Sequence[JobSummary] = ()
    order: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    slot_of: Callable[[str], int | None] = _no_slot
    total_count: int = 0
    live_count: int = 0
    queued_count: int = 0
    hit_count: int = 0
    sweep_slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    empty_columns: frozenset[str] = frozenset()

    def sweep_slot(self, slot: int) -> int:
        """Return the slot of a job's sweep, -1 for a job without a sweep and for a sweep."""
        return int(self.sweep_slots[slot]) if slot < len(self.sweep_slots) else -1

    def slot_rows(self) -> npt.NDArray[np.int32]:
        """Return the row of each slot, -1 for slots that are not in the result."""
        rows = np.full(int(max(self.order.max(initial=-1) + 1, len(self.summaries))), -1, np.int32)
        rows[self.order] = np.arange(len(self.order), dtype=np.int32)
        return rows


AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()

JOB_ROLE = Qt.ItemDataRole.UserRole
"""The `JobSummary`."""
QUEUE_ROLE = Qt.ItemDataRole.UserRole + 1
"""The `QueuedJob` of a waiting job, None for other jobs."""
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

    def __init__(self, *, has_columns: bool = False) -> None:
        super().__init__()
        self._column_count = len(JobColumn) if has_columns else 1
        self._editable = {column for column in JobColumn if column.can_edit and has_columns}
        self._rows = JobRows()
        self._order = self._rows.order
        self._row_of_slot = self._rows.slot_rows()
        self._pending_rows: JobRows | None = None
        self._is_held = False
        self._open_id = ""
        self.is_changing = False
        self.ticks = JobTicks(self)
        self._queue: dict[str, QueuedJob] = {}

    # -- input

    def show_rows(self, rows: JobRows, *, is_user_request: bool = False) -> None:
        """Show these rows. While rows are held, the change waits until the pointer leaves.

        Args:
            rows: The result of a query.
            is_user_request: The user requested this change, so rows may move under the pointer.
        """
        if self._is_held and not is_user_request and not self._misses_open(rows):
            self._pending_rows = rows
            return
        self._pending_rows = None
        self.is_changing = True
        self._replace_rows(rows)
        self.is_changing = False

    def _replace_rows(self, rows: JobRows) -> None:
        previous_order, new_order = self._order, rows.order
        slot_rows = rows.slot_rows()
        self._rows = rows
        if len(previous_order) == len(new_order) and np.array_equal(previous_order, new_order):
            self._row_of_slot = slot_rows
            self.emit_all_changed()
            return
        previous_rows = self._row_of_slot
        known_slots = new_order[new_order < len(previous_rows)]
        added_slots = np.concatenate(
            (
                known_slots[previous_rows[known_slots] < 0],
                new_order[new_order >= len(previous_rows)],
            )
        )
        removed_slots = previous_order[slot_rows[previous_order] < 0]
        if len(added_slots):
            first_row = len(previous_order)
            self.beginInsertRows(NO_PARENT, first_row, first_row + len(added_slots) - 1)
            self._order = np.concatenate((previous_order, added_slots))
            self.endInsertRows()
        self._reorder(np.concatenate((new_order, removed_slots)))
        if len(removed_slots):
            self.beginRemoveRows(NO_PARENT, len(new_order), len(new_order) + len(removed_slots) - 1)
            self._order = new_order
            self.endRemoveRows()
        self._row_of_slot = slot_rows
        self.emit_all_changed()

    def _reorder(self, new_order: Any) -> None:
        """Reorder the same rows; persistent indexes keep pointing at their row."""
        if np.array_equal(new_order, self._order):
            return
        self.layoutAboutToBeChanged.emit()
        old_indexes = self.persistentIndexList()
        slots = [int(self._order[index.row()]) for index in old_indexes]
        self._order = new_order
        if old_indexes:
            rows = np.zeros(int(new_order.max()) + 1, np.int32)
            rows[new_order] = np.arange(len(new_order), dtype=np.int32)
            new_indexes = [
                self.createIndex(int(rows[slot]), index.column())
                for slot, index in zip(slots, old_indexes, strict=True)
            ]
            self.changePersistentIndexList(old_indexes, new_indexes)
        self.layoutChanged.emit()

    def hold_rows(self, is_held: bool) -> None:
        """Hold or release the rows: held rows do not move."""
        self._is_held = is_held
        if not is_held and self._pending_rows is not None:
            self.show_rows(self._pending_rows)

    def set_open(self, line_id: str) -> None:
        """Show the row of this job or sweep, even while rows are held."""
        self._open_id = line_id
        if self._pending_rows is not None and self._misses_open(self._pending_rows):
            self.show_rows(self._pending_rows, is_user_request=True)

    def _misses_open(self, rows: JobRows) -> bool:
        """Return whether only ``rows`` has a row for the open job, or for its sweep."""
        slot = rows.slot_of(self._open_id)
        if slot is None or self.row_of(self._open_id) >= 0 or self.sweep_row(self._open_id) >= 0:
            return False
        return bool(np.isin(rows.order, (slot, rows.sweep_slot(slot))).any())

    def emit_all_changed(self) -> None:
        """Repaint every visible row."""
        if len(self._order):
            self.dataChanged.emit(
                self.index(0, 0), self.index(len(self._order) - 1, self._last_column())
            )

    def emit_changed(self, slot: int) -> None:
        """Repaint the row of one job."""
        row = int(self._row_of_slot[slot]) if slot < len(self._row_of_slot) else -1
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, self._last_column()))

    def show_queue(self, queue: Queue) -> bool:
        """Set the queue; return whether the entry of any job changed, even of a hidden job."""
        previous_queue, self._queue = self._queue, {job.entry.job_id: job for job in queue.jobs}
        job_ids = previous_queue.keys() | self._queue.keys()
        changed_ids = [
            job_id for job_id in job_ids if previous_queue.get(job_id) != self._queue.get(job_id)
        ]
        rows = [row for job_id in changed_ids if (row := self.row_of(job_id)) >= 0]
        if rows:
            self.dataChanged.emit(
                self.index(min(rows), 0), self.index(max(rows), self._last_column())
            )
        return bool(changed_ids)

    # -- queries

    def queued_job(self, job_id: str) -> QueuedJob | None:
        """Return the queue entry of a job with its position, None if the job does not wait."""
        summary = self.summary(job_id)
        if summary is None or not summary.state.is_queued:
            return None
        return self._queue.get(job_id)

    def queue_numbers(self) -> dict[str, int]:
        """Return the position of each job in the queue, from 1."""
        return {job_id: queued_job.number for job_id, queued_job in self._queue.items()}

    @property
    def rows(self) -> JobRows:
        """Return the current rows."""
        return self._rows

    def summary(self, job_id: str) -> JobSummary | None:
        """Return the summary of any job by id, even of a hidden job, or of a sweep by tag."""
        slot = self._rows.slot_of(job_id)
        return self._rows.summaries[slot] if slot is not None else None

    def summary_at(self, row: int) -> JobSummary:
        """Return the summary of a row, a job or a sweep."""
        return self._rows.summaries[self._order.item(row)]

    def name_at(self, row: int) -> str:
        """Return the name in a row; for a job of a sweep, the part that differs."""
        summary = self.summary_at(row)
        sweep_slot = self._rows.sweep_slot(self._order.item(row))
        count = self._rows.summaries[sweep_slot].sweep if sweep_slot >= 0 else None
        is_swept = count is not None and len(count.ids) >= MIN_JOBS
        return job_label(summary.name, count.common) if count and is_swept else summary.name

    def is_member(self, row: int) -> bool:
        """Return whether the row is a job below its sweep."""
        summary = self.summary_at(row)
        return summary.sweep is None and self.sweep_row(summary.id) >= 0

    def free_name(self, stem: str) -> str:
        """Return ``stem`` with the first free number, counting hidden jobs, too."""
        prefix = f"{stem} "
        names = [summary.name for summary in self._rows.summaries]
        suffixes = (name[len(prefix) :] for name in names if name.startswith(prefix))
        numbers = (int(s) for s in suffixes if s.isdecimal() and len(s) < 10)
        return f"{prefix}{1 + max(numbers, default=0)}"

    def ids(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the distinct ids of these rows; the row of a sweep stands for all its jobs."""
        summaries, order = self._rows.summaries, self._order.tolist()
        job_ids: list[str] = []
        for row in rows:
            summary = summaries[order[row]]
            if summary.sweep is None:
                job_ids.append(summary.id)
            else:
                job_ids.extend(summary.sweep.ids)
        return tuple(dict.fromkeys(job_ids))

    def ticked_ids(self) -> tuple[str, ...]:
        """Return the ids of the ticked jobs, in row order; a sweep stands for all its jobs."""
        job_ids: dict[str, None] = {}
        for line_id in sorted(self.ticks, key=self.row_of):
            summary = self.summary(line_id)
            if summary is not None:
                job_ids.update(
                    dict.fromkeys((line_id,) if summary.sweep is None else summary.sweep.ids)
                )
        return tuple(job_ids)

    def active_counts(self, ids: Iterable[str]) -> tuple[int, int]:
        """Return the numbers of live and of queued jobs among these jobs."""
        states = [summary.state for summary in map(self.summary, ids) if summary is not None]
        return sum(state.is_live for state in states), sum(state.is_queued for state in states)

    def is_open(self, row: int) -> bool:
        """Return whether the sweep of this row is unfolded."""
        if row + 1 >= len(self._order):
            return False
        slot, next_slot = self._order[row : row + 2].tolist()
        return bool(self._rows.sweep_slot(next_slot) == slot)

    def sweep_row(self, job_id: str) -> int:
        """Return the row of a job's sweep, -1 for no sweep or a hidden row."""
        slot = self._rows.slot_of(job_id)
        sweep_slot = self._rows.sweep_slot(slot) if slot is not None else -1
        return (
            int(self._row_of_slot[sweep_slot]) if 0 <= sweep_slot < len(self._row_of_slot) else -1
        )

    def row_of(self, job_id: str) -> int:
        """Return the row of a job, or of a sweep by its tag; -1 if the row is hidden."""
        slot = self._rows.slot_of(job_id)
        if slot is None or slot >= len(self._row_of_slot):
            return -1
        return int(self._row_of_slot[slot])

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else self._column_count

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
            alignment = (
                Qt.AlignmentFlag.AlignRight if column.is_figure else Qt.AlignmentFlag.AlignLeft
            )
            return alignment | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        summary = self.summary_at(index.row())
        if role == JOB_ROLE:
            return summary
        if role == QUEUE_ROLE:
            return self.queued_job(summary.id)
        if role == OPEN_ROLE:
            return self.is_open(index.row()) if summary.sweep is not None else None
        if role == Qt.ItemDataRole.CheckStateRole and self.ticks:
            is_ticked = summary.id in self.ticks
            return Qt.CheckState.Checked if is_ticked else Qt.CheckState.Unchecked
        get_text = CELL_ROLES.get(role)
        if get_text is None:
            return None
        column = JobColumn(index.column()) if self._column_count > 1 else None
        sweep_text = sweep_cell_text(summary, column, role, self.is_open(index.row()))
        return (
            get_text(summary, column, self.queued_job(summary.id))
            if sweep_text is None
            else sweep_text
        )

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Request the change; a saved change updates the row."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        summary: JobSummary = index.data(JOB_ROLE)
        column = JobColumn(index.column())
        old_value, new_value = edited_value(summary, column, str(value))
        if summary.sweep is not None or new_value == old_value:
            return False
        self.edited.emit(CellEdit(summary.id, column.key, old_value, new_value))
        return True

    def _last_column(self) -> int:
        return self._column_count - 1


class JobTicks(QObject):
    """Ids of ticked jobs and tags of ticked sweeps, independent of rows and of the open job.

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
        self._replace_ids({**self._ids, **dict.fromkeys(ids)})

    def keep(self, ids: Iterable[str]) -> None:
        """Remove the ticks of all other ids."""
        kept_ids = set(ids)
        self._replace_ids({line_id: None for line_id in self._ids if line_id in kept_ids})

    def clear(self) -> None:
        self._replace_ids({})

    def _replace_ids(self, ids: dict[str, None]) -> None:
        if ids != self._ids:
            self._ids = ids
            self.changed.emit()


_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class SweepFolding(QObject):
    """Requests folding by key: Right unfolds, Left folds, Enter toggles.

    In the list, which has no columns, the keys also move between a sweep and its jobs.

    Signals:
        fold_requested: Tag of a sweep, and whether to fold it.
    """

    fold_requested = Signal(str, bool)

    def __init__(self, view: QTableView, model: JobListModel) -> None:
        super().__init__(view)
        self._view = view
        self._model = model
        view.installEventFilter(self)

    def toggle(self, index: QModelIndex) -> bool:
        """Fold or unfold the sweep of a row; return False for the row of a job."""
        is_open = index.data(OPEN_ROLE)
        if is_open is None:
            return False
        self.fold_requested.emit(index.data(JOB_ROLE).id, is_open)
        return True

    def eventFilter(self, target: QObject, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.KeyPress
            and isinstance(event, QKeyEvent)
            and event.modifiers() == Qt.KeyboardModifier.NoModifier
            and self._handle_key(Qt.Key(event.key()))
        ):
            return True
        return super().eventFilter(target, event)

    def _handle_key(self, key: Qt.Key) -> bool:
        index = self._view.currentIndex()
        if not index.isValid():
            return False
        is_open = index.data(OPEN_ROLE)
        if key in _ENTER:
            return self.toggle(index)
        if is_open is not None and key == (Qt.Key.Key_Left if is_open else Qt.Key.Key_Right):
            return self.toggle(index)
        if self._model.columnCount() > 1:
            return False
        summary: JobSummary = index.data(JOB_ROLE)
        row = -1
        if key == Qt.Key.Key_Right and is_open:
            row = index.row() + 1
        elif key == Qt.Key.Key_Left:
            row = self._model.sweep_row(summary.id)
        if row < 0:
            return False
        self._view.setCurrentIndex(self._model.index(row, 0))
        return True
