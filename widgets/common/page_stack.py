"""A stack of pages in the available room."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QStackedWidget, QWidget

from widgets.common.progressive_paint import ProgressivePaint


class Stack(QStackedWidget):
    """Take the available room without querying size hints, and paint a page in pieces.

    Qt's own stack queries the height for this width of all pages, visible or not: a tenth of the
    window's processor time in use (tests/benchmarks/soak.py).
    """

    def __init__(self, least_w: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._least = QSize(least_w, 0)
        self._curtain = ProgressivePaint(self)

    def setCurrentWidget(self, page: QWidget) -> None:
        if page is not self.currentWidget():
            super().setCurrentWidget(page)
            self.renew()

    def renew(self) -> None:
        """Repaint the visible page in pieces after its content changed."""
        page = self.currentWidget()
        if page is not None and self.isVisible():
            self._curtain.hang(page)

    def hasHeightForWidth(self) -> bool:
        return False

    def sizeHint(self) -> QSize:
        return self._least

    def minimumSizeHint(self) -> QSize:
        return self._least
