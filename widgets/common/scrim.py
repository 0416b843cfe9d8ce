"""A dimming layer over a window behind a dialog or the palette."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from widgets.common import theme

_VEIL_ALPHA = 0.28


class Scrim(QWidget):
    """A layer that is shown while a modal dialog blocks the window."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        window.installEventFilter(self)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.WindowBlocked:
            self.raise_()
            self.show()
        elif kind == QEvent.Type.WindowUnblocked:
            self.hide()
        if kind in (QEvent.Type.WindowBlocked, QEvent.Type.Resize):
            self.setGeometry(self._window.rect())
        return super().eventFilter(watched, event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        paint_veil(self)


def paint_veil(widget: QWidget) -> None:
    QPainter(widget).fillRect(widget.rect(), theme.current().q("shadow", _VEIL_ALPHA))
