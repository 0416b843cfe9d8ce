"""The base of all dialogs: a title, the content, the line of an error, and buttons."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QWidget

from widgets.common.buttons import Button, Kind
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, Item, col, fit_height, fit_into_parent, row
from widgets.common.theme import S3, S4, S6


class Dialog(QDialog):
    """A dialog of fixed width whose height follows its content, or is the given ``height``.

    Qt itself keeps the first height of a dialog, or assumes a narrower width for wrapped text, and
    spreads the excess between the parts.
    """

    def __init__(
        self, title: str, width: int, parent: QWidget | None = None, *, height: int = 0
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("dialog")
        self._follows_content = not height
        self._error = Label("", "small", "bad", wrap=True, selectable=True)
        self._error.hide()
        if height:
            fit_into_parent(self, parent, width, height)
        else:
            self.setFixedWidth(width)

    def fill(self, *items: Item, head: Item = None, foot: tuple[Item, ...] = ()) -> None:
        """Lay out the title, the content, the line of an error, and the buttons.

        Args:
            head: In place of the title.
            foot: The buttons, at the right; buttons before a `STRETCH` at the left.
        """
        title = head if head is not None else Label(self.windowTitle(), "title")
        buttons = foot if STRETCH in foot or not foot else (STRETCH, *foot)
        button_row = row(*buttons) if foot else None
        layout = col(title, *items, self._error, button_row, gap=S3, margins=(S6, S4, S6, S4))
        self.setLayout(layout)

    def show_error(self, message: str) -> None:
        """Show why the action failed; "" for nothing."""
        self._error.setText(message)
        self._error.setVisible(bool(message))

    def default_button(
        self, text: str, action: Callable[[], object], *, kind: Kind = "primary", icon: str = ""
    ) -> Button:
        """The button that Enter presses."""
        button = Button(text, kind=kind, icon=icon)
        button.setDefault(True)
        button.clicked.connect(action)
        return button

    def close_button(self, text: str = "Close") -> Button:
        """A button that closes the dialog without doing anything."""
        button = Button(text)
        button.clicked.connect(self.reject)
        return button

    def event(self, event: QEvent) -> bool:
        is_handled = bool(super().event(event))
        if event.type() == QEvent.Type.LayoutRequest and self._follows_content:
            fit_height(self)
        return is_handled

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._follows_content:
            fit_height(self)
