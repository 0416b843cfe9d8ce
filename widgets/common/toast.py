"""A message over the window about the last action of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QWidget

from widgets.common.buttons import Button
from widgets.common.cards import ProgressLine
from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.painting import text_width
from widgets.common.theme import TOAST_MS

_ROUNDING_PX = 2
_EVASION_MS = 250


@dataclass(frozen=True)
class NextStep:
    """A text, and the button of the next step, which calls ``action``."""

    text: str
    button: str
    action: Callable[[], object]


class Toast(QFrame):
    """A message about the last action of the user, for six seconds, with a button for Undo.

    The toast is at the bottom right over its parent, above the buttons of a page's foot and above
    progress lines there.

    The toast stays while the pointer is on it or its button has the focus.

    Signals:
        undone: Undo was pressed; carries the tag given to `show_message`.
    """

    undone = Signal(str)
    _MARGIN, _MAX_W = 16, 640
    _TEXT_MARGINS, _UNDO_MARGINS = (16, 10, 16, 10), (16, 4, 6, 4)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._parent = parent
        self.setObjectName("toast")
        self._tag = ""
        self._text = Label("", "medium", "on_ink", wrap=True)
        self._text.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._undo = Button("Undo", kind="toast")
        self._undo.clicked.connect(self._emit_undone)
        self._row = row(self._text, self._undo)
        self.setLayout(self._row)
        self._timer = QTimer(self, singleShot=True, interval=TOAST_MS)
        self._timer.timeout.connect(self._hide_unless_used)
        self._position_timer = QTimer(self, interval=_EVASION_MS)
        self._position_timer.timeout.connect(self._move_to_corner)
        parent.installEventFilter(self)
        self.hide()

    def show_message(self, text: str, *, undo_tag: str = "") -> None:
        """Show `text`; with `undo_tag` also Undo, which returns the tag."""
        self._tag = undo_tag
        self._show_text(text, "Undo" if undo_tag else "")

    @Slot()
    def update_position(self) -> None:
        """Move to the position that fits the page below, once the page is laid out."""
        if self.isVisible():
            QTimer.singleShot(0, self, self._move_to_corner)

    def _show_text(self, text: str, button: str) -> None:
        self._text.setText(text)
        self._undo.setText(button)
        self._undo.setVisible(bool(button))
        self._row.setContentsMargins(*(self._UNDO_MARGINS if button else self._TEXT_MARGINS))
        self.setAccessibleName(text)
        self._move_to_corner()
        self.show()
        self.raise_()
        self._timer.start()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._move_to_corner()
        return super().eventFilter(receiver, event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._position_timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._position_timer.stop()

    @Slot()
    def _hide_unless_used(self) -> None:
        if self.underMouse() or self._undo.hasFocus():
            self._timer.start()
        else:
            self.hide()

    @Slot()
    def _emit_undone(self) -> None:
        self.hide()
        self._timer.stop()
        self.undone.emit(self._tag)

    @Slot()
    def _move_to_corner(self) -> None:
        margins = self._row.contentsMargins()
        extra_w = margins.left() + margins.right()
        if self._undo.text():
            extra_w += self._row.spacing() + self._undo.sizeHint().width()
        max_text_w = min(self._parent.width() - 2 * self._MARGIN - extra_w, self._MAX_W)
        # The size hint of a wrapped label is narrower than its text. A text that just fits is
        # broken where the scale rounds its width.
        width = text_width(self._text.text(), "medium") + _ROUNDING_PX
        self._text.setFixedWidth(min(width, max_text_w))
        width = self._row.sizeHint().width()
        self.resize(width, self._row.heightForWidth(width))
        rect = QRect(
            self._parent.width() - self.width() - self._MARGIN,
            self._parent.height() - self.height() - self._MARGIN,
            self.width(),
            self.height(),
        )
        buttons = self._parent.findChildren(Button)
        foot_buttons = [
            button
            for button in buttons
            if button.property("kind") in ("big", "tall") or button.text() == "Cancel"
        ]
        for part in (*foot_buttons, *self._parent.findChildren(ProgressLine)):
            if part.isVisible():
                part_rect = QRect(part.mapTo(self._parent, QPoint()), part.size())
                if part_rect.intersects(rect.adjusted(0, 0, 0, self._MARGIN)):
                    rect.moveBottom(part_rect.top() - self._MARGIN)
        self.move(rect.topLeft())
