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
from backend.records.jobs.config import NOTHING
from backend.records.jobs.metric_labels import metric_words
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.fields import LineEdit, SearchField, paint_caret
from widgets.common.labels import plain_tip
from widgets.common.layout import col
from widgets.common.popover import Popover
from widgets.common.record_table_model import AnyIndex, RowTableModel, TableColumn
from widgets.common.theme import FOCUS_W, ICON_SMALL, S2, S3, TARGET_MIN
from widgets.common.view_style import style_view

_OWN = "model’s own weights"
_OWN_TITLE = "Model’s own weights, if it has any"
_NOTHING_TITLE = "Nothing: random weights"
_FILE_TITLE = "Weights file…"
_READING = "Reading…"
_WIDTH, _ROWS_SHOWN = 460, 10
_OPENS = frozenset({Qt.Key.Key_Down, Qt.Key.Key_F4})


@dataclass(frozen=True)
class _Row:
    """``does`` is "value", "file", "job" or "back"; "" for a row that is only a message."""

    text: str
    aside: str = ""
    does: str = ""
    key: str = ""


class _Rows(RowTableModel[_Row]):
    """A model in which messages cannot be selected."""

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        is_said = index.isValid() and not self.rows[index.row()].does
        return Qt.ItemFlag.NoItemFlags if is_said else super().flags(index)


class StartFromChoice(Popover):
    """The list of options and its search; the keys of the search move through the list."""

    def __init__(self, field: StartFrom) -> None:
        super().__init__(field.window(), _WIDTH)
        self._field = field
        self._jobs: Sequence[JobView] | None = None
        self._job: JobView | None = None
        self._checkpoints: Sequence[Checkpoint] | None = None
        self._failure = self._asked = self._filled_for = ""
        self.search = SearchField("Search jobs, or type JOB/CHECKPOINT or a path")
        self.search.searched.connect(self._find)
        self.search.installEventFilter(self)
        self.rows = _Rows(
            (
                TableColumn[_Row]("", lambda one: one.text, lambda one: one.text),
                TableColumn[_Row]("", lambda one: one.aside, lambda one: one.aside),
            )
        )
        self.table = QTableView()
        style_view(self.table, "Weights to start from", row_h=TARGET_MIN)
        self.table.setModel(self.rows)
        self.table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.table.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.table.setFixedHeight(_ROWS_SHOWN * TARGET_MIN + 2 * FOCUS_W)
        head = self.table.horizontalHeader()
        head.hide()
        head.setStretchLastSection(False)
        head.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        head.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.table.clicked.connect(self._take)
        self.table.selectionModel().currentRowChanged.connect(self._say)
        self.setLayout(col(self.search, self.table, gap=S2, margins=(S3, S3, S3, S3)))
        self._fill()

    # -- input

    def show_jobs(self, jobs: Sequence[JobView]) -> None:
        """Show the jobs that match the search; jobs that never ran have no checkpoint."""
        self._jobs, self._failure = [view for view in jobs if view.run], ""
        self._fill()

    def show_checkpoints(self, job_id: str, found: Sequence[Checkpoint]) -> None:
        if self._job is not None and self._job.id == job_id:
            self._checkpoints, self._failure = found, ""
            self._fill()

    def show_error(self, sentence: str) -> None:
        """Show why jobs or checkpoints could not be read."""
        self._failure = sentence
        self._fill()

    # -- events

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Send arrows and Enter to the list while the search has the focus."""
        is_key = watched is self.search and event.type() == QEvent.Type.KeyPress
        if is_key and isinstance(event, QKeyEvent) and self._takes(Qt.Key(event.key())):
            return True
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._job is not None:
            self._open_job(None)
        else:
            super().keyPressEvent(event)

    def _takes(self, key: Qt.Key) -> bool:
        step = _STEPS.get(key)
        if step is not None:
            self._step(step)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.search.text() != self._filled_for:
                self._find(self.search.text())
            self._take(self.table.currentIndex())
        return step is not None or key in _KEPT

    def _step(self, by: int) -> None:
        able = [number for number, one in enumerate(self.rows.rows) if one.does]
        if not able:
            return
        now = self.table.currentIndex().row()
        at = able.index(now) if now in able else -1
        at = (at + by) % len(able) if abs(by) == 1 else max(0, min(at + by, len(able) - 1))
        self.table.selectRow(able[at])

    @Slot(str)
    def _find(self, text: str) -> None:
        if self._job is None and self._asked != text.strip():
            self._asked = text.strip()
            self._jobs = None
            self._field.searched.emit(self._asked)
        self._fill()

    def begin(self) -> None:
        """Request the first jobs."""
        self._field.searched.emit("")

    def _open_job(self, job: JobView | None) -> None:
        self._job, self._checkpoints, self._failure = job, None, ""
        self.search.clear()
        if job is not None:
            self._field.checkpoints_requested.emit(job.id)
        self._fill()

    def _fill(self) -> None:
        rows = self._rows_of_jobs() if self._job is None else self._rows_of(self._job)
        if self._failure:
            rows.append(_Row(self._failure))
        text, current = self.search.text(), self._current()
        self.rows.set_records(rows)
        able = [number for number, one in enumerate(rows) if one.does]
        # Keep the row that Enter would take when jobs arrive.
        stays = current in rows and current.does != "back" and text == self._filled_for
        better = [number for number in able if rows[number].does != "back"]
        self._filled_for = text
        if stays:
            self.table.selectRow(rows.index(current))
        elif able:
            self.table.selectRow((better or able)[0])
        self._say()

    def _current(self) -> _Row:
        at = self.table.currentIndex().row()
        return self.rows.rows[at] if 0 <= at < len(self.rows.rows) else _Row("")

    def _rows_of_jobs(self) -> list[_Row]:
        text = self.search.text().strip()
        rows = [
            _Row(_OWN_TITLE, does="value"),
            _Row(_NOTHING_TITLE, does="value", key=NOTHING),
            _Row(_FILE_TITLE, does="file"),
        ]
        words = text.casefold().split()
        rows = [one for one in rows if all(word in one.text.casefold() for word in words)]
        found = [_Row(view.name, _ran(view), "job", view.id) for view in self._jobs or ()]
        if self._jobs is None and not self._failure:
            found = [_Row(_READING)]
        typed = [_Row(f"Use “{text}”", "as typed", "value", text)] if text else []
        if "/" in text or "\\" in text:
            return typed + rows + found
        # Enter must not take a search text as a file while its answer is not here yet.
        return rows + found + (typed if self._jobs is not None else [])

    def _rows_of(self, job: JobView) -> list[_Row]:
        rows = [_Row("Back to all jobs", job.name, "back")]
        if self._checkpoints is None:
            return rows + ([] if self._failure else [_Row(_READING)])
        words = self.search.text().casefold().split()
        found = [
            _Row(formats.checkpoint(one.name), _held(one, job), "value", f"{job.id}/{one.name}")
            for one in sorted(self._checkpoints, key=lambda one: one.step, reverse=True)
            if all(
                word in f"{one.name} {formats.checkpoint(one.name)} {one.marks}".casefold()
                for word in words
            )
        ]
        return rows + (found or [_Row("No checkpoint matches." if words else "No checkpoint yet.")])

    @Slot(QModelIndex)
    def _take(self, index: QModelIndex) -> None:
        if not index.isValid() or not self.rows.rows[index.row()].does:
            return
        row = self.rows.rows[index.row()]
        if row.does == "job":
            self._open_job(next(view for view in self._jobs or () if view.id == row.key))
        elif row.does == "back":
            self._open_job(None)
        elif row.does == "file":
            self.close()
            self._field.file_requested.emit()
        else:
            words = f"{self._job.name}, {row.text}" if self._job is not None else ""
            self.close()
            self._field.choose(row.key, words)

    @Slot()
    def _say(self) -> None:
        """Describe for screen readers what Enter would choose."""
        row = self._current()
        self.search.setAccessibleDescription(", ".join(filter(None, (row.text, row.aside))))


class StartFrom(LineEdit):
    """A line edit for ``start_from`` of a job file, with a list of its possible values.

    A chosen value is shown in words until the user types.

    Attributes:
        choice: The list, while it is open.

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
        super().__init__(placeholder=_OWN, name=name)
        self._value = self._words = ""
        self.choice: StartFromChoice | None = None
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setTextMargins(0, 0, ICON_SMALL + S2, 0)
        self.textEdited.connect(self.changed)

    def value(self) -> str:
        """Return the value as the job file has it."""
        text = self.text().strip()
        return self._value if text == self._words else text

    def put(self, value: str, words: str = "") -> None:
        """Show a value, in words if there are any."""
        self._value, self._words = value, words or _words_of(value)
        self.setText(self._words)
        self.setCursorPosition(0)
        self.setToolTip(plain_tip(f"{self._words}\n{value}") if value != self._words else "")

    def name(self, value: str, words: str) -> None:
        """Set the words of a value that may be shown now."""
        if value == self.value():
            self.put(value, words)

    @Slot(str, str)
    def choose(self, value: str, words: str = "") -> None:
        """Set a value on behalf of the user."""
        self.put(value, words)
        self.changed.emit()

    def show_jobs(self, jobs: Sequence[JobView]) -> None:
        if self.choice is not None:
            self.choice.show_jobs(jobs)

    def show_checkpoints(self, job_id: str, found: Sequence[Checkpoint]) -> None:
        if self.choice is not None:
            self.choice.show_checkpoints(job_id, found)

    def show_error(self, sentence: str) -> None:
        if self.choice is not None:
            self.choice.show_error(sentence)

    def open(self) -> None:
        """Open the list, with the focus in its search."""
        choice = self.choice = StartFromChoice(self)
        choice.closed.connect(self._closed)
        choice.open_below(self, choice.search)
        choice.begin()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.open()
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _OPENS:
            self.open()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        paint_caret(QPainter(self), self)

    @Slot()
    def _closed(self) -> None:
        self.choice = None
        self.setFocus()


def _words_of(value: str) -> str:
    if value == NOTHING:
        return "nothing"
    model, _, name = value.partition("/")
    if "@" in model:
        return f"{name} of {model.replace('@', ' @ ')}"
    return PurePath(value).name if PurePath(value).is_absolute() else value


def _ran(view: JobView) -> str:
    when = formats.time_or_day(instant(view.status.ended_at or view.status.started_at or view.created), time())
    return f"{view.state.word}, {when}"


def _held(checkpoint: Checkpoint, job: JobView) -> str:
    metric = job.config.checkpoint.best_metric
    value = checkpoint.metrics.get(metric)
    best = f"{metric_words(metric)} {formats.metric(value)}" if value is not None else ""
    return " · ".join(filter(None, (checkpoint.marks, best)))


_STEPS = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: _ROWS_SHOWN - 1,
    Qt.Key.Key_PageUp: 1 - _ROWS_SHOWN,
}
_KEPT = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab, Qt.Key.Key_Backtab})
"""Keys that have no effect other than the one here."""
