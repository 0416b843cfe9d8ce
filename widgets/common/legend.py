"""A legend entry for a GPU cell: a small cell and a word."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from widgets.common.labels import Label
from widgets.common.layout import row
from widgets.common.state_badge import GpuUse, paint_gpu_cell


class _Cell(QWidget):
    def __init__(self, use: GpuUse, unhealthy: bool, share: float) -> None:
        super().__init__()
        self._use, self._unhealthy, self._share = use, unhealthy, share
        self.setFixedSize(18, 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        rect = QRectF(self.rect())
        paint_gpu_cell(
            QPainter(self), rect, self._use, unhealthy=self._unhealthy, share=self._share
        )


def legend_key(use: GpuUse, word: str, *, unhealthy: bool = False, share: float = 1.0) -> QWidget:
    """See `paint_gpu_cell` for the arguments."""
    holder = QWidget()
    holder.setLayout(row(_Cell(use, unhealthy, share), Label(word, "tiny", "text2"), gap=6))
    return holder
