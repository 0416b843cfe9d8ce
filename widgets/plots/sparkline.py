"""A small history without axes; its owner shows the last value next to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QBrush, QLinearGradient, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from widgets.common import theme
from widgets.plots.curve_item import paint_fill, paint_segments
from widgets.plots.growable_array import Floats


def paint_sparkline(
    painter: QPainter,
    rect: QRectF,
    values: Floats,
    low: float,
    high: float,
    color_role: str = "live",
) -> None:
    """Paint a history into `rect`, the newest value at the right edge; NaN is a gap."""
    if len(values) < 2 or rect.width() < 2 or not high > low:
        return
    colour = theme.current().fill(color_role)
    shares = np.clip((values - low) / (high - low), 0.0, 1.0)
    step = rect.width() / (len(values) - 1)
    bottom, height = rect.bottom() - 1, rect.height() - 2
    top_colour, bottom_colour = theme.current().fill(color_role), theme.current().fill(color_role)
    top_colour.setAlphaF(0.22)
    bottom_colour.setAlphaF(0.02)
    shade = QLinearGradient(0, rect.top(), 0, rect.bottom())
    shade.setColorAt(0, top_colour)
    shade.setColorAt(1, bottom_colour)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    x = rect.left() + step * np.arange(len(values), dtype=np.float64)
    y = bottom - height * shares
    paint_fill(painter, x, y, rect.bottom(), QBrush(shade))
    painter.setPen(QPen(colour, 1.5))
    paint_segments(painter, x, y)
    painter.restore()


class Sparkline(QWidget):
    """A history of at most some hundred values, over a fixed range."""

    def __init__(
        self,
        name: str,
        *,
        low: float = 0.0,
        high: float = 100.0,
        color_role: str = "live",
        height: int = 28,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._low, self._high, self._color_role = low, high, color_role
        self._values: Floats = np.empty(0)
        self.setFixedHeight(height)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(name)

    def set_values(self, values: Sequence[float] | Floats, color_role: str = "") -> None:
        """Set the values, the newest last, and the color; an empty `color_role` keeps the color."""
        self._values = np.array(values, np.float64)
        self._color_role = color_role or self._color_role
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        rect = QRectF(self.rect())
        paint_sparkline(QPainter(self), rect, self._values, self._low, self._high, self._color_role)
