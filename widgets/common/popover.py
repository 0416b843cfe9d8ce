"""A small panel over the page, below its anchor."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QFrame, QWidget

from widgets.common.theme import S1, S2


class _Background(QWidget):
    """The window outside the popover.

    Signals:
        pressed: A click outside the popover.
    """

    pressed = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.hide()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()
        self.pressed.emit()


class Popover(QFrame):
    """A panel that Escape, a click outside it, or a resize of the window closes.

    The panel is part of the window, because a window of its own would take the keyboard.

    Signals:
        closed: The panel was closed.
    """

    closed = Signal()

    def __init__(self, window: QWidget, width: int) -> None:
        super().__init__(window)
        self.setObjectName("popover")
        self.hide()
        self.setFixedWidth(width)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._window = window
        self._background = _Background(window)
        self._background.pressed.connect(self.close)

    def open_below(self, control: QWidget, focus_widget: QWidget) -> None:
        """Show the panel below a control, or above if it does not fit; focus ``focus_widget``."""
        window = self._window
        self.adjustSize()
        position = control.mapTo(window, QPoint(0, control.height() + S1))
        if position.y() + self.height() > window.height():
            position = control.mapTo(window, QPoint(0, -self.height() - S1))
        right, bottom = window.width() - self.width() - S2, window.height() - self.height() - S2
        self.move(max(min(position.x(), right), S2), max(min(position.y(), bottom), S2))
        self._background.setGeometry(window.rect())
        self._background.show()
        self._background.raise_()
        self.show()
        self.raise_()
        window.installEventFilter(self)
        focus_widget.setFocus()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        """Close on resize: the fields are elsewhere then."""
        if receiver is self._window and event.type() == QEvent.Type.Resize and self.isVisible():
            self.close()
        return super().eventFilter(receiver, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._background.hide()
        self._background.deleteLater()
        self.closed.emit()
        super().closeEvent(event)
