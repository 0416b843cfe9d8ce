"""A legend entry for a GPU cell: a small cell and a word."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.state_badge import GpuUse, paint_gpu_cell


class _Cell(QWidget):
    def __init__(self, use: GpuUse, unwell: bool, share: float) -> None:
        super().__init__()
        self._use, self._unwell, self._share = use, unwell, share
        self.setFixedSize(18, 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        rect = QRectF(self.rect())
        paint_gpu_cell(QPainter(self), rect, self._use, unwell=self._unwell, share=self._share)


def legend_key(use: GpuUse, word: str, *, unwell: bool = False, share: float = 1.0) -> QWidget:
    """See `paint_gpu_cell` for the arguments."""
    holder = QWidget()
    holder.setLayout(row(_Cell(use, unwell, share), Label(word, "tiny", "text2"), gap=6))
    return holder
