"""Something is dragged over a widget and dropped there, by the events that Qt would send."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

from widgets.common.job_mime import dragged_label, put_jobs

_ACTS = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction
_HELD = (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)


def jobs(*ids: str) -> QMimeData:
    content = QMimeData()
    put_jobs(content, ids, dragged_label(ids, ids[0]))
    return content


def file(*paths: object) -> QMimeData:
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return content


def over(widget: QWidget, content: QMimeData, at: QPoint | None = None) -> bool:
    """Held over a widget, in its middle by default; whether it would be taken."""
    where = widget.rect().center() if at is None else at
    enter = QDragEnterEvent(where, _ACTS, content, *_HELD)
    # The event filters and the way up to the window are Qt's own.
    enter.ignore()
    QApplication.sendEvent(widget, enter)
    if enter.isAccepted():
        QApplication.sendEvent(widget, QDragMoveEvent(where, _ACTS, content, *_HELD))
    return enter.isAccepted()


def away(widget: QWidget) -> None:
    QApplication.sendEvent(widget, QDragLeaveEvent())


def drop(widget: QWidget, content: QMimeData, at: QPoint | None = None) -> None:
    """Drop on a widget. As Qt does, send nothing to one that refuses what is held over it.

    Qt 6 gives a drop to the last widget that accepted, by a plain pointer: with the widget of an
    earlier test it crashed.
    """
    where = widget.rect().center() if at is None else at
    if over(widget, content, where):
        QApplication.sendEvent(widget, QDropEvent(QPointF(where), _ACTS, content, *_HELD))
