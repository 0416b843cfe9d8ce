"""A dialog that is never taller than its content."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QWidget

from widgets.common.layout import fit_height


class FittedDialog(QDialog):
    """A dialog of fixed width whose height follows its layout.

    Qt itself keeps the first height of a dialog, or assumes a narrower width for wrapped text, and
    spreads the excess between the parts.
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
