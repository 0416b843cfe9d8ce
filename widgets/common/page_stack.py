"""A stack of pages in the available room."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QStackedWidget, QWidget


class Stack(QStackedWidget):
    """Take the available room without querying size hints.

    Qt's own stack demands the room of its largest page, visible or not: the jobs page alone would
    make the window 1081 pixels wide.
    """

    def __init__(self, least_w: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._least = QSize(least_w, 0)

    def hasHeightForWidth(self) -> bool:
        return False

    def sizeHint(self) -> QSize:
        return self._least

    def minimumSizeHint(self) -> QSize:
        return self._least
