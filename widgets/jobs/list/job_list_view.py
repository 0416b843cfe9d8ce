"""The list of jobs: rows can be dragged elsewhere, and waiting jobs into another order."""

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
from widgets.common.job_mime import drag_pixmap, dragged_label, put_jobs
from widgets.common.painting import fill_round, paint_text, text_width
from widgets.common.theme import FOCUS_W, R_CELL, S1, S2, S4
from widgets.common.view_style import context_menu_row
from widgets.jobs.actions.job_actions import MOVE_QUEUED, JobActions
from widgets.jobs.list.job_list_model import JOB_ROLE, QUEUE_ROLE, JobListModel

MIME = "application/x-ringmaster-job"
_STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
_CHIP_H = 22
_CHIP_CHARS = 24
_CHIP_MOST = 0.6
"""The share of the list's width that the dragged name may take."""


class JobListView(QTableView):
    """A list of jobs: a table of one column, because QListView measures every row of 100,000 at
    each change of one row (0.6 s).

    Signals:
        menu_requested: Index of a row, and the screen position.
        opened: Enter was pressed on the current row.
        trash_requested: Move the ticked rows, or the current row, to the trash.

    A click with Ctrl ticks a row, with Shift all rows up to it; neither opens a job.

    Attributes:
        is_held: The button that was pressed on a row is still down: a click, or a drag.
    """

    menu_requested = Signal(QModelIndex, QPoint)
    open_requested = Signal()
    trash_requested = Signal()

    def __init__(self, model: JobListModel, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self.setModel(model)
        self._rows = model
        self.is_pressed = False
        self._ticks = model.ticks
        self._ticks.changed.connect(self.viewport().update)
        self._has_ticked = False
        """Pressed with the button that is still held."""
        self._before = QPersistentModelIndex()
        """The current row before the button was pressed; a drag does not change it."""
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
        self._target: tuple[QModelIndex, bool] | None = None
        """The row at the drop position, and whether the job goes before it."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # A hidden header gets no resize event, and would not stretch its column.
        self.setColumnWidth(0, self.viewport().width())

    def startDrag(self, _actions: Qt.DropAction) -> None:
        index = self.currentIndex()
        if not index.isValid():
            return
        line: JobSummary = index.data(JOB_ROLE)
        if line.id in self._ticks:
            ids = self._rows.ticked_ids()
        else:
            ids = (line.id,) if line.sweep is None else line.sweep.ids
        content, words = QMimeData(), dragged_label(ids, line.name)
        put_jobs(content, ids, words)
        acts = usual = Qt.DropAction.CopyAction
        place = _place(index) if len(ids) == 1 else None
        if place is not None:
            content.setData(MIME, place.entry.job_id.encode())
            acts, usual = acts | Qt.DropAction.MoveAction, Qt.DropAction.MoveAction
        drag = QDrag(self)
        drag.setMimeData(content)
        # Below the pointer: a picture of the row would hide the line at which it lands.
        drag.setPixmap(drag_pixmap(words, self.devicePixelRatioF()))
        drag.setHotSpot(QPoint(-S4, -S4))
        drag.exec(acts, usual)
        self._aim(None)
        self.is_pressed = False
        self.setCurrentIndex(self._rows.index(self._before.row(), 0))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasFormat(MIME):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        moved = _dragged(event)
        target = self._target_at(event.position().toPoint())
        place = _place(target[0]) if target is not None else None
        if not moved or place is None or place.entry.job_id == moved:
            self._aim(None)
            event.ignore()
            return
        self._aim(target)
        event.acceptProposedAction()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self._aim(None)

    def dropEvent(self, event: QDropEvent) -> None:
        moved, target = _dragged(event), self._target
        self._aim(None)
        place = _place(target[0]) if target is not None else None
        if not moved or target is None or place is None:
            event.ignore()
            return
        event.acceptProposedAction()
        beside = place.entry.job_id
        before, after = (beside, "") if target[1] else ("", beside)
        self._actions.ask(MOVE_QUEUED, moved, before, after)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        is_left = event.button() is Qt.MouseButton.LeftButton and index.isValid()
        with_ctrl = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        with_shift = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
        self._has_ticked = is_left and (with_ctrl or with_shift)
        if not self._has_ticked:
            self._before = QPersistentModelIndex(self.currentIndex())
            self.is_pressed = is_left
            super().mousePressEvent(event)
        elif with_shift:
            self._tick_up_to(index.row())
        else:
            here = self.currentIndex()
            if not self._ticks and here.isValid() and here.row() != index.row():
                # As in other programs, the row that is already current becomes ticked as well.
                self._ticks.add((self._id(here.row()),))
            self._ticks.toggle(self._id(index.row()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not (self._has_ticked and event.buttons()):
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.is_pressed = False
        if not self._has_ticked:
            super().mouseReleaseEvent(event)
        self._has_ticked = False

    def _tick_up_to(self, row: int) -> None:
        """Tick only the rows from the current one to this one."""
        begin = max(self.currentIndex().row(), 0)
        ids = [self._id(each) for each in range(min(begin, row), max(begin, row) + 1)]
        self._ticks.keep(ids)
        self._ticks.add(ids)

    def _tick_and_go(self, by: int) -> None:
        """Tick the current row and the next one in this direction, which becomes current."""
        here = self.currentIndex().row()
        if 0 <= here + by < self._rows.rowCount():
            self._ticks.add((self._id(here), self._id(here + by)))
            self.setCurrentIndex(self._rows.index(here + by, 0))

    def _id(self, row: int) -> str:
        return self._rows.summary_at(row).id

    def _ticks_by_key(self, event: QKeyEvent) -> bool:
        """Handle a key for ticks; return whether it was one."""
        key, has_row = event.key(), self.currentIndex().isValid()
        shift = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
        if key == Qt.Key.Key_Space and has_row and not event.modifiers():
            self._ticks.toggle(self._id(self.currentIndex().row()))
        elif key in _STEPS and shift and has_row:
            self._tick_and_go(_STEPS[Qt.Key(key)])
        elif key == Qt.Key.Key_Escape and self._ticks:
            self._ticks.clear()
        else:
            return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._ticks_by_key(event):
            return
        by = _STEPS.get(Qt.Key(event.key()), 0)
        if not by or event.modifiers() != Qt.KeyboardModifier.AltModifier:
            requests = {
                Qt.Key.Key_Return: self.open_requested,
                Qt.Key.Key_Enter: self.open_requested,
            }
            requests[Qt.Key.Key_Delete] = self.trash_requested
            request = requests.get(Qt.Key(event.key()))
            ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: self.model().rowCount() - 1}
            if request is not None and self.currentIndex().isValid():
                request.emit()
            elif event.key() in ends and not event.modifiers():
                # In a table these keys move within the row, which here is the whole list.
                self.setCurrentIndex(self.model().index(ends[Qt.Key(event.key())], 0))
            else:
                super().keyPressEvent(event)
            return
        here = self.currentIndex()
        own, other = _place(here), _place(here.sibling(here.row() + by, 0))
        if own is not None and other is not None:
            beside = other.entry.job_id
            before, after = (beside, "") if by < 0 else ("", beside)
            self._actions.ask(MOVE_QUEUED, own.entry.job_id, before, after)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        index, at = context_menu_row(self, event)
        if index.isValid():
            self.menu_requested.emit(index, at)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._target is None:
            return
        index, before = self._target
        place = _place(index)
        if place is None:
            return
        box = QRectF(self.visualRect(index))
        y = box.top() if before else box.bottom() + 1
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        focus = theme.current().q("focus")
        painter.setPen(QPen(focus, FOCUS_W))
        painter.drawLine(int(box.left()) + S2, int(y), int(box.right()) - S2, int(y))
        text = self.accessibleDescription()
        width = min(text_width(text, "small_strong") + 2 * S2, box.width() * _CHIP_MOST)
        top = min(max(y - _CHIP_H / 2, 0.0), self.viewport().height() - float(_CHIP_H))
        chip = QRectF(box.right() - S4 - width, top, width, _CHIP_H)
        fill_round(painter, chip, focus, R_CELL)
        paint_text(painter, chip.adjusted(S2, 0, -S1, 0), text, "small_strong", "on_ink")
        painter.end()

    def _target_at(self, at: QPoint) -> tuple[QModelIndex, bool] | None:
        index = self.indexAt(at)
        if not index.isValid():
            return None
        return index, at.y() < self.visualRect(index).center().y()

    def _aim(self, target: tuple[QModelIndex, bool] | None) -> None:
        if target != self._target:
            self._target = target
            self.setAccessibleDescription(self._words())
            self.viewport().update()

    def _words(self) -> str:
        """Return where a drop would move the dragged job."""
        place = _place(self._target[0]) if self._target is not None else None
        if self._target is None or place is None:
            return ""
        name = sanitize(place.entry.name, _CHIP_CHARS)
        text = f"{'Before' if self._target[1] else 'After'} {name}"
        moved = _place(self.currentIndex())
        if moved is not None and moved.entry.priority != place.entry.priority:
            # The job gets the priority of its new neighbour; the drop hint says so.
            return f"{text}, priority {place.entry.priority}"
        return text


def _place(index: QModelIndex) -> QueuedJob | None:
    found = index.data(QUEUE_ROLE) if index.isValid() else None
    return found if isinstance(found, QueuedJob) else None


def _dragged(event: QDropEvent) -> str:
    return bytes(event.mimeData().data(MIME).data()).decode("utf-8", "replace")
