"""A dialog that is never higher than what it shows."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QWidget

from widgets.common.layout import fit_height


class FittedDialog(QDialog):
    """As wide as is said, and at any time as high as its layout needs at that width.

    By itself Qt keeps the height that a dialog once had, or takes wrapped text for narrower than
    it is, and spreads what is left between the parts.
    """

    def __init__(self, title: str, width: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("dialog")
        self.setFixedWidth(width)

    def event(self, event: QEvent) -> bool:
        done = bool(super().event(event))
        if event.type() == QEvent.Type.LayoutRequest:
            fit_height(self)
        return done

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        fit_height(self)
