"""Something is dragged over a widget and dropped there, by the events that Qt would send."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

from widgets.common.drag_and_drop import dragged_label, put_jobs

_ACTIONS = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction
_BUTTON_AND_KEYS = (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)


def jobs(*ids: str) -> QMimeData:
    content = QMimeData()
    put_jobs(content, ids, dragged_label(ids, ids[0]))
    return content


def file(*paths: object) -> QMimeData:
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return content


def drag_over(widget: QWidget, content: QMimeData, point: QPoint | None = None) -> bool:
    """Held over a widget, in its middle by default; whether it would be taken."""
    position = widget.rect().center() if point is None else point
    enter = QDragEnterEvent(position, _ACTIONS, content, *_BUTTON_AND_KEYS)
    # The event filters and the way up to the window are Qt's own.
    enter.ignore()
    QApplication.sendEvent(widget, enter)
    if enter.isAccepted():
        QApplication.sendEvent(
            widget, QDragMoveEvent(position, _ACTIONS, content, *_BUTTON_AND_KEYS)
        )
    return enter.isAccepted()


def drag_away(widget: QWidget) -> None:
    QApplication.sendEvent(widget, QDragLeaveEvent())


def drop(widget: QWidget, content: QMimeData, point: QPoint | None = None) -> None:
    """Drop on a widget. As Qt does, send nothing to one that refuses what is held over it.

    Qt 6 gives a drop to the last widget that accepted, by a plain pointer: with the widget of an
    earlier test it crashed.
    """
    position = widget.rect().center() if point is None else point
    if drag_over(widget, content, position):
        QApplication.sendEvent(
            widget, QDropEvent(QPointF(position), _ACTIONS, content, *_BUTTON_AND_KEYS)
        )
