"""A section of rarely changed fields, and the button that shows it."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, QTimer, Slot
from PySide6.QtWidgets import QScrollArea, QWidget

from widgets.common.buttons import Button
from widgets.common.layout import Item, col
from widgets.common.theme import S2, S4


class Details(QWidget):
    """Hidden until its button is pressed.

    Attributes:
        button: The button; the owner places it.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self.button = Button("More", kind="quiet", icon="caret-down", tip=what)
        # A fixed width: "More" and "Less" then take the same space.
        self.button.setFixedWidth(self.button.sizeHint().width())
        self.button.clicked.connect(self._turn)
        self.hide()

    def fill(self, *lines: Item) -> None:
        self.setLayout(col(*lines, gap=S2, margins=(0, 0, 0, S2)))

    def open(self) -> None:
        if self.isHidden():
            self._turn()

    @Slot()
    def _turn(self) -> None:
        self.setVisible(self.isHidden())
        is_open = not self.isHidden()
        self.button.setText("Less" if is_open else "More")
        self.button.set_icon("caret-up" if is_open else "caret-down")
        if is_open:
            # The page gets its new height with the next layout.
            QTimer.singleShot(0, self, self._bring_in)

    @Slot()
    def _bring_in(self) -> None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        page = self.parentWidget()
        while page is not None and not isinstance(page, QScrollArea):
            page = page.parentWidget()
        if page is not None:
            page.ensureWidgetVisible(self, 0, S4)
