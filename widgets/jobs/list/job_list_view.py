"""The list of jobs: rows can be dragged to other pages, and waiting jobs into another order."""

from __future__ import annotations

from PySide6.QtCore import (
    QMimeData,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from backend.records.base.validation import sanitize
from backend.records.jobs.summary import JobSummary
from backend.records.queue.entry import QueuedJob
from widgets.common import theme
from widgets.common.drag_and_drop import drag_pixmap, dragged_label, put_jobs
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.theme import FOCUS_W, R_CELL, S1, S2, S4
from widgets.common.view_style import context_menu_row
from widgets.jobs.actions.job_actions import MOVE_QUEUED, JobActions
from widgets.jobs.list.job_list_model import JOB_ROLE, QUEUE_ROLE, JobListModel

MIME = "application/x-ringmaster-job"
_STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
_CHIP_H = 22
_CHIP_CHARS = 24
_MAX_CHIP_SHARE = 0.6
"""The largest share of the list's width for the dragged name."""


class JobListView(QTableView):
    """A list of jobs: a table of one column, because QListView measures every row of 100,000 at
    each change of one row (0.6 s).

    Signals:
        menu_requested: Index of a row, and the screen position.
        open_requested: Enter was pressed on the current row.
        trash_requested: Move the ticked rows, or the current row, to the trash.

    A click with Ctrl ticks a row, with Shift all rows up to it; neither opens a job.

    Attributes:
        is_pressed: The mouse button is down on a row: a click, or a drag.
    """

    menu_requested = Signal(QModelIndex, QPoint)
    open_requested = Signal()
    trash_requested = Signal()

    def __init__(self, model: JobListModel, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self.setModel(model)
        self._model = model
        self.is_pressed = False
        self._ticks = model.ticks
        self._ticks.changed.connect(self.viewport().update)
        self._has_ticked = False
        """Whether the current press of the mouse button has ticked a row."""
        self._previous_index = QPersistentModelIndex()
        """The row before the press of the mouse button; a drag restores this current row."""
        self.setProperty("kind", "list")
        self.setDragEnabled(True)
        self.setAcceptDrops(True)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().hide()
        self._drop_target: tuple[QModelIndex, bool] | None = None
        """The row at the drop position, and whether the job goes before this row."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # A hidden header gets no resize event, and would not stretch its column.
        self.setColumnWidth(0, self.viewport().width())

    def startDrag(self, _actions: Qt.DropAction) -> None:
        index = self.currentIndex()
        if not index.isValid():
            return
        summary: JobSummary = index.data(JOB_ROLE)
        if summary.id in self._ticks:
            ids = self._model.ticked_ids()
        else:
            ids = (summary.id,) if summary.sweep is None else summary.sweep.ids
        content, drag_label = QMimeData(), dragged_label(ids, summary.name)
        put_jobs(content, ids, drag_label)
        drop_actions = default_action = Qt.DropAction.CopyAction
        queued_job = _queued_job(index) if len(ids) == 1 else None
        if queued_job is not None:
            content.setData(MIME, queued_job.entry.job_id.encode())
            default_action = Qt.DropAction.MoveAction
            drop_actions |= default_action
        drag = QDrag(self)
        drag.setMimeData(content)
        # Below the pointer: a picture of the row would hide the line at which it lands.
        drag.setPixmap(drag_pixmap(drag_label, self.devicePixelRatioF()))
        drag.setHotSpot(QPoint(-S4, -S4))
        drag.exec(drop_actions, default_action)
        self._set_target(None)
        self.is_pressed = False
        self.setCurrentIndex(self._model.index(self._previous_index.row(), 0))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasFormat(MIME):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        dragged_id = _dragged_id(event)
        target = self._target_at(event.position().toPoint())
        queued_job = _queued_job(target[0]) if target is not None else None
        if not dragged_id or queued_job is None or queued_job.entry.job_id == dragged_id:
            self._set_target(None)
            event.ignore()
            return
        self._set_target(target)
        event.acceptProposedAction()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self._set_target(None)

    def dropEvent(self, event: QDropEvent) -> None:
        dragged_id, target = _dragged_id(event), self._drop_target
        self._set_target(None)
        queued_job = _queued_job(target[0]) if target is not None else None
        if not dragged_id or target is None or queued_job is None:
            event.ignore()
            return
        event.acceptProposedAction()
        neighbour_id = queued_job.entry.job_id
        next_id, previous_id = (neighbour_id, "") if target[1] else ("", neighbour_id)
        self._actions.ask(MOVE_QUEUED, dragged_id, next_id, previous_id)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        is_left = event.button() is Qt.MouseButton.LeftButton and index.isValid()
        is_ctrl = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        is_shift = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
        self._has_ticked = is_left and (is_ctrl or is_shift)
        if not self._has_ticked:
            self._previous_index = QPersistentModelIndex(self.currentIndex())
            self.is_pressed = is_left
            super().mousePressEvent(event)
        elif is_shift:
            self._tick_range(index.row())
        else:
            current_index = self.currentIndex()
            if not self._ticks and current_index.isValid() and current_index.row() != index.row():
                # As in other programs, the row that is already current becomes ticked as well.
                self._ticks.add((self._line_id(current_index.row()),))
            self._ticks.toggle(self._line_id(index.row()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not (self._has_ticked and event.buttons()):
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.is_pressed = False
        if not self._has_ticked:
            super().mouseReleaseEvent(event)
        self._has_ticked = False

    def _tick_range(self, row: int) -> None:
        """Tick only the rows from the current row to this row."""
        current_row = max(self.currentIndex().row(), 0)
        ids = [self._line_id(r) for r in range(min(current_row, row), max(current_row, row) + 1)]
        self._ticks.keep(ids)
        self._ticks.add(ids)

    def _tick_step(self, offset: int) -> None:
        """Tick the current row and its neighbour; the neighbour becomes current."""
        current_row = self.currentIndex().row()
        if 0 <= current_row + offset < self._model.rowCount():
            self._ticks.add((self._line_id(current_row), self._line_id(current_row + offset)))
            self.setCurrentIndex(self._model.index(current_row + offset, 0))

    def _line_id(self, row: int) -> str:
        return self._model.summary_at(row).id

    def _handle_tick_key(self, event: QKeyEvent) -> bool:
        """Handle a key for ticks; return False for other keys."""
        key, has_row = event.key(), self.currentIndex().isValid()
        is_shift = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
        if key == Qt.Key.Key_Space and has_row and not event.modifiers():
            self._ticks.toggle(self._line_id(self.currentIndex().row()))
        elif key in _STEPS and is_shift and has_row:
            self._tick_step(_STEPS[Qt.Key(key)])
        elif key == Qt.Key.Key_Escape and self._ticks:
            self._ticks.clear()
        else:
            return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._handle_tick_key(event):
            return
        offset = _STEPS.get(Qt.Key(event.key()), 0)
        if not offset or event.modifiers() != Qt.KeyboardModifier.AltModifier:
            requests = {
                Qt.Key.Key_Return: self.open_requested,
                Qt.Key.Key_Enter: self.open_requested,
            }
            requests[Qt.Key.Key_Delete] = self.trash_requested
            request = requests.get(Qt.Key(event.key()))
            end_rows = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: self.model().rowCount() - 1}
            if request is not None and self.currentIndex().isValid():
                request.emit()
            elif event.key() in end_rows and not event.modifiers():
                # In a table these keys move within the row, which here is the whole list.
                self.setCurrentIndex(self.model().index(end_rows[Qt.Key(event.key())], 0))
            else:
                super().keyPressEvent(event)
            return
        current_index = self.currentIndex()
        queued_job = _queued_job(current_index)
        neighbour = _queued_job(current_index.sibling(current_index.row() + offset, 0))
        if queued_job is not None and neighbour is not None:
            neighbour_id = neighbour.entry.job_id
            next_id, previous_id = (neighbour_id, "") if offset < 0 else ("", neighbour_id)
            self._actions.ask(MOVE_QUEUED, queued_job.entry.job_id, next_id, previous_id)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        index, position = context_menu_row(self, event)
        if index.isValid():
            self.menu_requested.emit(index, position)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._drop_target is None:
            return
        index, is_before = self._drop_target
        queued_job = _queued_job(index)
        if queued_job is None:
            return
        box = QRectF(self.visualRect(index))
        y = box.top() if is_before else box.bottom() + 1
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        focus_color = theme.current().q("focus")
        painter.setPen(QPen(focus_color, FOCUS_W))
        painter.drawLine(int(box.left()) + S2, int(y), int(box.right()) - S2, int(y))
        text = self.accessibleDescription()
        width = min(text_width(text, "small_strong") + 2 * S2, box.width() * _MAX_CHIP_SHARE)
        top = min(max(y - _CHIP_H / 2, 0.0), self.viewport().height() - float(_CHIP_H))
        chip_rect = QRectF(box.right() - S4 - width, top, width, _CHIP_H)
        fill_round(painter, chip_rect, focus_color, R_CELL)
        paint_text(painter, chip_rect.adjusted(S2, 0, -S1, 0), text, "small_strong", "on_ink")
        painter.end()

    def _target_at(self, position: QPoint) -> tuple[QModelIndex, bool] | None:
        index = self.indexAt(position)
        if not index.isValid():
            return None
        return index, position.y() < self.visualRect(index).center().y()

    def _set_target(self, target: tuple[QModelIndex, bool] | None) -> None:
        if target != self._drop_target:
            self._drop_target = target
            self.setAccessibleDescription(self._drop_label())
            self.viewport().update()

    def _drop_label(self) -> str:
        """Return the new position of the dragged job as text."""
        neighbour = _queued_job(self._drop_target[0]) if self._drop_target is not None else None
        if self._drop_target is None or neighbour is None:
            return ""
        name = sanitize(neighbour.entry.name, _CHIP_CHARS)
        text = f"{'Before' if self._drop_target[1] else 'After'} {name}"
        dragged_job = _queued_job(self.currentIndex())
        if dragged_job is not None and dragged_job.entry.priority != neighbour.entry.priority:
            # The job gets the priority of its new neighbour; the drop hint says so.
            return f"{text}, priority {neighbour.entry.priority}"
        return text


def _queued_job(index: QModelIndex) -> QueuedJob | None:
    queued_job = index.data(QUEUE_ROLE) if index.isValid() else None
    return queued_job if isinstance(queued_job, QueuedJob) else None


def _dragged_id(event: QDropEvent) -> str:
    return bytes(event.mimeData().data(MIME).data()).decode("utf-8", "replace")
