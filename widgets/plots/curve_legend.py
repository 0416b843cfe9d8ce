"""The legend above a plot of many curves."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from widgets.common.painting import paint_text, text_width
from widgets.plots.annotations import LINE_W, curve_pen

LEGEND_H = 20


class Legend(QWidget):
    """Names with a sample of their line, above a plot with more than four curves."""

    _LINE, _GAP, _ITEM_GAP = 18, 6, 16

    def __init__(self, left_px: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._left_px = left_px
        self._curves: list[tuple[str, int | str]] = []
        self.setFixedHeight(LEGEND_H)

    def show_curves(self, curves: list[tuple[str, int | str]]) -> None:
        self._curves = curves
        self.setAccessibleName(", ".join(name for name, _ in curves))
        self._update_height()
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._update_height()

    def paintEvent(self, event: QPaintEvent) -> None:
        self.paint(QPainter(self))

    def paint(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for (name, colour), rect in zip(self._curves, self._item_rects(), strict=True):
            centre_y, x = rect.center().y(), rect.left()
            painter.setPen(curve_pen(colour, LINE_W))
            painter.drawLine(QPointF(x, centre_y), QPointF(x + self._LINE, centre_y))
            text_rect = rect.adjusted(self._LINE + self._GAP, 0, 0, 0)
            paint_text(painter, text_rect, name, "small", "text2")

    def _update_height(self) -> None:
        rects = self._item_rects()
        self.setFixedHeight(round(rects[-1].bottom()) if rects else LEGEND_H)

    def _item_rects(self) -> list[QRectF]:
        rects: list[QRectF] = []
        x, y = float(self._left_px), 0.0
        max_width = max(self.width() - self._left_px, 1)
        for name, _ in self._curves:
            width = min(self._LINE + self._GAP + text_width(name, "small") + 1, max_width)
            if rects and x + width > self.width():
                x, y = float(self._left_px), y + LEGEND_H
            rects.append(QRectF(x, y, width, LEGEND_H))
            x += width + self._ITEM_GAP
        return rects
