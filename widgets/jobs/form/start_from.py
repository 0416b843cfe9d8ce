"""The field for the weights that a job starts from: typed, or chosen from a searchable list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from time import time

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHeaderView, QTableView

from backend.records.base.timestamps import instant
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import RANDOM_WEIGHTS
from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.fields import LineEdit, SearchField, paint_caret
from widgets.common.labels import plain_tip
from widgets.common.layout import col
from widgets.common.popover import Popover
from widgets.common.record_table_model import AnyIndex, RowTableModel, TableColumn
from widgets.common.theme import FOCUS_W, ICON_SMALL, S2, S3, TARGET_MIN
from widgets.common.view_style import style_view

_OWN_WEIGHTS = "model’s own weights"
_OWN_TITLE = "Model’s own weights, if it has any"
_NOTHING_TITLE = "Nothing: random weights"
_FILE_TITLE = "Weights file…"
_READING = "Reading…"
_WIDTH, _MAX_ROWS = 460, 10
_OPEN_KEYS = frozenset({Qt.Key.Key_Down, Qt.Key.Key_F4})


@dataclass(frozen=True)
class _Row:
    """A row; ``action`` is "value", "file", "job" or "back", "" for a message."""

    text: str
    remark: str = ""
    action: str = ""
    key: str = ""


class _RowModel(RowTableModel[_Row]):
    """A model in which messages cannot be selected."""

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        is_message = index.isValid() and not self.rows[index.row()].action
        return Qt.ItemFlag.NoItemFlags if is_message else super().flags(index)


class StartFromPopover(Popover):
    """The list of options and its search; the keys of the search move through the list."""

    def __init__(self, field: StartFrom) -> None:
        super().__init__(field.window(), _WIDTH)
        self._field = field
        self._jobs: Sequence[JobView] | None = None
        self._job: JobView | None = None
        self._checkpoints: Sequence[Checkpoint] | None = None
        self._failure = self._searched_text = self._shown_search = ""
        self.search = SearchField("Search jobs, or type JOB/CHECKPOINT or a path")
        self.search.searched.connect(self._find)
        self.search.installEventFilter(self)
        self.rows = _RowModel(
            (
                TableColumn[_Row]("", lambda r: r.text, lambda r: r.text),
                TableColumn[_Row]("", lambda r: r.remark, lambda r: r.remark),
            )
        )
        self.table = QTableView()
        style_view(self.table, "Weights to start from", row_h=TARGET_MIN)
        self.table.setModel(self.rows)
        self.table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.table.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.table.setFixedHeight(_MAX_ROWS * TARGET_MIN + 2 * FOCUS_W)
        head = self.table.horizontalHeader()
        head.hide()
        head.setStretchLastSection(False)
        head.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        head.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.table.clicked.connect(self._choose_row)
        self.table.selectionModel().currentRowChanged.connect(self._describe_row)
        self.setLayout(col(self.search, self.table, gap=S2, margins=(S3, S3, S3, S3)))
        self._fill_rows()

    # -- input

    def show_jobs(self, jobs: Sequence[JobView]) -> None:
        """Show the jobs that match the search; jobs that never ran have no checkpoint."""
        self._jobs, self._failure = [view for view in jobs if view.run], ""
        self._fill_rows()

    def show_checkpoints(self, job_id: str, checkpoints: Sequence[Checkpoint]) -> None:
        if self._job is not None and self._job.id == job_id:
            self._checkpoints, self._failure = checkpoints, ""
            self._fill_rows()

    def show_error(self, message: str) -> None:
        """Show why jobs or checkpoints could not be read."""
        self._failure = message
        self._fill_rows()

    # -- events

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        """Send arrows and Enter to the list while the search has the focus."""
        is_key = receiver is self.search and event.type() == QEvent.Type.KeyPress
        if is_key and isinstance(event, QKeyEvent) and self._handle_key(Qt.Key(event.key())):
            return True
        return super().eventFilter(receiver, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._job is not None:
            self._open_job(None)
        else:
            super().keyPressEvent(event)

    def _handle_key(self, key: Qt.Key) -> bool:
        step = _STEPS.get(key)
        if step is not None:
            self._step_rows(step)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.search.text() != self._shown_search:
                self._find(self.search.text())
            self._choose_row(self.table.currentIndex())
        return step is not None or key in _IGNORED_KEYS

    def _step_rows(self, step: int) -> None:
        active_rows = [i for i, r in enumerate(self.rows.rows) if r.action]
        if not active_rows:
            return
        current_row = self.table.currentIndex().row()
        index = active_rows.index(current_row) if current_row in active_rows else -1
        index = (
            (index + step) % len(active_rows)
            if abs(step) == 1
            else max(0, min(index + step, len(active_rows) - 1))
        )
        self.table.selectRow(active_rows[index])

    @Slot(str)
    def _find(self, text: str) -> None:
        if self._job is None and self._searched_text != text.strip():
            self._searched_text = text.strip()
            self._jobs = None
            self._field.searched.emit(self._searched_text)
        self._fill_rows()

    def _open_job(self, job: JobView | None) -> None:
        self._job, self._checkpoints, self._failure = job, None, ""
        self.search.clear()
        if job is not None:
            self._field.checkpoints_requested.emit(job.id)
        self._fill_rows()

    def _fill_rows(self) -> None:
        rows = self._job_rows() if self._job is None else self._checkpoint_rows(self._job)
        if self._failure:
            rows.append(_Row(self._failure))
        text, current = self.search.text(), self._current_row()
        self.rows.set_records(rows)
        active_rows = [i for i, r in enumerate(rows) if r.action]
        # Keep the row that Enter would take when jobs arrive.
        keeps_row = current in rows and current.action != "back" and text == self._shown_search
        forward_rows = [i for i in active_rows if rows[i].action != "back"]
        self._shown_search = text
        if keeps_row:
            self.table.selectRow(rows.index(current))
        elif active_rows:
            self.table.selectRow((forward_rows or active_rows)[0])
        self._describe_row()

    def _current_row(self) -> _Row:
        index = self.table.currentIndex().row()
        return self.rows.rows[index] if 0 <= index < len(self.rows.rows) else _Row("")

    def _job_rows(self) -> list[_Row]:
        text = self.search.text().strip()
        rows = [
            _Row(_OWN_TITLE, action="value"),
            _Row(_NOTHING_TITLE, action="value", key=RANDOM_WEIGHTS),
            _Row(_FILE_TITLE, action="file"),
        ]
        tokens = text.casefold().split()
        rows = [r for r in rows if all(token in r.text.casefold() for token in tokens)]
        job_rows = [_Row(view.name, _run_remark(view), "job", view.id) for view in self._jobs or ()]
        if self._jobs is None and not self._failure:
            job_rows = [_Row(_READING)]
        typed_rows = [_Row(f"Use “{text}”", "as typed", "value", text)] if text else []
        if "/" in text or "\\" in text:
            return typed_rows + rows + job_rows
        # Enter must not take a search text as a file while its answer is not here yet.
        return rows + job_rows + (typed_rows if self._jobs is not None else [])

    def _checkpoint_rows(self, job: JobView) -> list[_Row]:
        rows = [_Row("Back to all jobs", job.name, "back")]
        if self._checkpoints is None:
            return rows + ([] if self._failure else [_Row(_READING)])
        tokens = self.search.text().casefold().split()
        matches = [
            _Row(
                formats.checkpoint(c.name),
                _checkpoint_remark(c, job),
                "value",
                f"{job.id}/{c.name}",
            )
            for c in sorted(self._checkpoints, key=lambda c: c.step, reverse=True)
            if all(
                token in f"{c.name} {formats.checkpoint(c.name)} {c.marks}".casefold()
                for token in tokens
            )
        ]
        return rows + (
            matches or [_Row("No checkpoint matches." if tokens else "No checkpoint yet.")]
        )

    @Slot(QModelIndex)
    def _choose_row(self, index: QModelIndex) -> None:
        if not index.isValid() or not self.rows.rows[index.row()].action:
            return
        row = self.rows.rows[index.row()]
        if row.action == "job":
            self._open_job(next(view for view in self._jobs or () if view.id == row.key))
        elif row.action == "back":
            self._open_job(None)
        elif row.action == "file":
            self.close()
            self._field.file_requested.emit()
        else:
            label = f"{self._job.name}, {row.text}" if self._job is not None else ""
            self.close()
            self._field.choose(row.key, label)

    @Slot()
    def _describe_row(self) -> None:
        """Describe for screen readers what Enter would choose."""
        row = self._current_row()
        self.search.setAccessibleDescription(", ".join(filter(None, (row.text, row.remark))))


class StartFrom(LineEdit):
    """A line edit for ``start_from`` of a job file, with a list of its possible values.

    A chosen value is shown by its label until the user types.

    Attributes:
        popover: The list, while it is open.

    Signals:
        changed: The user gave another value.
        searched: A text; answer with `show_jobs`.
        checkpoints_requested: The id of a job; answer with `show_checkpoints`.
        file_requested: Let the user choose a file; answer with `choose`.
    """

    changed = Signal()
    searched = Signal(str)
    checkpoints_requested = Signal(str)
    file_requested = Signal()

    def __init__(self, name: str) -> None:
        super().__init__(placeholder=_OWN_WEIGHTS, name=name)
        self._value = self._label = ""
        self.popover: StartFromPopover | None = None
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setTextMargins(0, 0, ICON_SMALL + S2, 0)
        self.textEdited.connect(self.changed)

    def value(self) -> str:
        """Return the value as the job file has it."""
        text = self.text().strip()
        return self._value if text == self._label else text

    def put(self, value: str, label: str = "") -> None:
        """Show a value, by its label if there is one."""
        self._value, self._label = value, label or _value_label(value)
        self.setText(self._label)
        self.setCursorPosition(0)
        self.setToolTip(plain_tip(f"{self._label}\n{value}") if value != self._label else "")

    def set_label(self, value: str, label: str) -> None:
        """Set the label of a value that may be shown now."""
        if value == self.value():
            self.put(value, label)

    @Slot(str, str)
    def choose(self, value: str, label: str = "") -> None:
        """Set a value on behalf of the user."""
        self.put(value, label)
        self.changed.emit()

    def show_jobs(self, jobs: Sequence[JobView]) -> None:
        if self.popover is not None:
            self.popover.show_jobs(jobs)

    def show_checkpoints(self, job_id: str, checkpoints: Sequence[Checkpoint]) -> None:
        if self.popover is not None:
            self.popover.show_checkpoints(job_id, checkpoints)

    def show_error(self, message: str) -> None:
        if self.popover is not None:
            self.popover.show_error(message)

    def open(self) -> None:
        """Open the list, with the focus in its search."""
        popover = self.popover = StartFromPopover(self)
        popover.closed.connect(self._forget_popover)
        popover.open_below(self, popover.search)
        self.searched.emit("")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.open()
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _OPEN_KEYS:
            self.open()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        paint_caret(QPainter(self), self)

    @Slot()
    def _forget_popover(self) -> None:
        self.popover = None
        self.setFocus()


def _value_label(value: str) -> str:
    if value == RANDOM_WEIGHTS:
        return "nothing"
    model, _, name = value.partition("/")
    if "@" in model:
        return f"{name} of {model.replace('@', ' @ ')}"
    return PurePath(value).name if PurePath(value).is_absolute() else value


def _run_remark(view: JobView) -> str:
    run_time = formats.time_or_day(
        instant(view.status.ended_at or view.status.started_at or view.created), time()
    )
    return f"{view.state_label}, {run_time}"


def _checkpoint_remark(checkpoint: Checkpoint, job: JobView) -> str:
    metric = job.config.checkpoint.best_metric
    value = checkpoint.metrics.get(metric)
    metric_text = f"{metric_label(metric)} {formats.metric(value)}" if value is not None else ""
    return " · ".join(filter(None, (checkpoint.marks, metric_text)))


_STEPS = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: _MAX_ROWS - 1,
    Qt.Key.Key_PageUp: 1 - _MAX_ROWS,
}
_IGNORED_KEYS = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab, Qt.Key.Key_Backtab})
"""Keys that the search field does not get."""
