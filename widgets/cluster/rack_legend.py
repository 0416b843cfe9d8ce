"""What the cells of the rack mean, below it."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from widgets.cluster.rack import Density
from widgets.common.layout import STRETCH, row
from widgets.common.state_badge import GpuUse, paint_gpu_cell
from widgets.common.text import Label
from widgets.common.theme import S1, S2


class _Key(QWidget):
    def __init__(self, use: GpuUse, unwell: bool = False) -> None:
        super().__init__()
        self._use, self._unwell = use, unwell
        self.setFixedSize(18, 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        paint_gpu_cell(QPainter(self), QRectF(self.rect()), self._use, unwell=self._unwell)


class RackLegend(QWidget):
    """Keys of the cells."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = Label("", "tiny", "text3", elide="right")
        self._hint = Label("Point at a node to see it large", "tiny", "text3", elide="right")
        self.setLayout(
            row(
                _key("ours", "Ringmaster job"),
                S2,
                _key("other", "somebody else"),
                S2,
                _key("free", "free"),
                S2,
                _key("free", "unwell", unwell=True),
                S2,
                self._figures,
                STRETCH,
                self._hint,
                gap=S1,
                margins=(S1, 0, S1, 0),
            )
        )

    def show_for(self, density: Density, with_gpus: bool) -> None:
        """Say how use is drawn at this density; nothing where there is no GPU."""
        self.setVisible(with_gpus)
        wall = density is Density.WALL
        self._figures.setText("height: use" if wall else "bar: use · figures: use, temperature")
        self._hint.setVisible(wall)


def _key(use: GpuUse, word: str, *, unwell: bool = False) -> QWidget:
    holder = QWidget()
    holder.setLayout(row(_Key(use, unwell), Label(word, "tiny", "text2"), gap=6))
    return holder
