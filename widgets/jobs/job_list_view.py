"""The list of jobs, in which those that wait can be dragged into another order."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QModelIndex, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import (
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from backend.records.queue import QueuePlace
from backend.records.values import printable
from widgets.common import theme
from widgets.common.paint import fill_round, paint_text, text_width
from widgets.common.theme import FOCUS_W, R_CELL, S1, S2, S4
from widgets.jobs.job_list_model import QUEUE_ROLE

MIME = "application/x-ringmaster-job"
_CHIP_H = 22
_CHIP_CHARS = 24
_CHIP_MOST = 0.6
"""Of the list's width: a long name is cut."""


class JobListView(QTableView):
    """A list of jobs: a table of one column, because a QListView measures every row of 100,000
    each time that one changes (0.6 s).

    Signals:
        moved: A waiting job was dropped: its id, and the id before and the id after which it is to
            stand; one of them is "".
    """

    moved = Signal(str, str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
        """The row beside which the job would go, and whether before it."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # A header that stretches its sections does so when it is shown, and this one never is.
        self.setColumnWidth(0, self.viewport().width())

    def startDrag(self, _actions: Qt.DropAction) -> None:
        place = _place(self.currentIndex())
        if place is None:
            return
        drag = QDrag(self)
        content = QMimeData()
        content.setData(MIME, place.entry.job_id.encode())
        drag.setMimeData(content)
        drag.setPixmap(self._picture())
        drag.setHotSpot(QPoint(S4, S4))
        drag.exec(Qt.DropAction.MoveAction)
        self._aim(None)

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
        self.moved.emit(moved, before, after)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        by = steps.get(Qt.Key(event.key()), 0)
        if not by or event.modifiers() != Qt.KeyboardModifier.AltModifier:
            super().keyPressEvent(event)
            return
        here = self.currentIndex()
        own, other = _place(here), _place(here.sibling(here.row() + by, 0))
        if own is not None and other is not None:
            beside = other.entry.job_id
            before, after = (beside, "") if by < 0 else ("", beside)
            self.moved.emit(own.entry.job_id, before, after)

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
        name = printable(place.entry.name, _CHIP_CHARS)
        text = f"{'Before' if before else 'After'} {name}"
        moved = _place(self.currentIndex())
        if moved is not None and moved.entry.priority != place.entry.priority:
            # It gets the priority of its new neighbour; nobody shall wonder afterwards.
            text = f"{text}, priority {place.entry.priority}"
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
            self.viewport().update()

    def _picture(self) -> QPixmap:
        """The row as it is, so that one sees what is carried."""
        return self.viewport().grab(self.visualRect(self.currentIndex()))


def _place(index: QModelIndex) -> QueuePlace | None:
    found = index.data(QUEUE_ROLE) if index.isValid() else None
    return found if isinstance(found, QueuePlace) else None


def _dragged(event: QDropEvent) -> str:
    return bytes(event.mimeData().data(MIME).data()).decode("utf-8", "replace")
