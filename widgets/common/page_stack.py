"""Pages of which one is seen, in the room that is left for them."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QStackedWidget, QWidget

from widgets.common.progressive_paint import ProgressivePaint


class Stack(QStackedWidget):
    """Takes what room there is, asks no page for its wishes, and paints a page piece by piece.

    Qt's own asks all of them, seen or not, how high they would be in this width: a tenth of what
    the window computes while it is used (tests/benchmarks/soak.py).
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
        """The page that is seen shows something else: it is painted anew piece by piece."""
        page = self.currentWidget()
        if page is not None and self.isVisible():
            self._curtain.hang(page)

    def hasHeightForWidth(self) -> bool:
        return False

    def sizeHint(self) -> QSize:
        return self._least

    def minimumSizeHint(self) -> QSize:
        return self._least
