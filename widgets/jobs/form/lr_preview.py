"""A preview of the learning rate over the whole job."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from widgets.common import formats, theme
from widgets.common.painting import paint_text, round_pen
from widgets.common.theme import S1, S2
from widgets.plots.image_export import Picture

TITLE = "Learning rate by epoch"
_LEFT_W, _BOTTOM_H, _TOP_H = 52, 18, 8


class RatePreview(QWidget):
    """A curve of learning rates at equal distances over the epochs of a job."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rates: tuple[float, ...] = ()
        self._epochs = 0
        self.setMinimumHeight(132)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(TITLE)

    def show_rates(self, rates: tuple[float, ...], epochs: int) -> None:
        if (rates, epochs) != (self._rates, self._epochs):
            self._rates, self._epochs = rates, epochs
            if rates:
                start, peak, end = map(formats.typed_number, (rates[0], max(rates), rates[-1]))
                self.setAccessibleDescription(f"From {start} over {peak} to {end}")
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint(painter)

    def as_picture(self) -> Picture:
        """Return the curve as it is seen."""
        return Picture(TITLE, self.size(), self._paint)

    def _paint(self, painter: QPainter) -> None:
        t = theme.current()
        plot = QRectF(
            _LEFT_W, _TOP_H, self.width() - _LEFT_W - S2, self.height() - _TOP_H - _BOTTOM_H
        )
        max_rate = max(self._rates, default=0.0)
        if max_rate <= 0:
            paint_text(
                painter,
                plot,
                "It follows when these settings are valid.",
                "small",
                "text3",
            )
            return
        for share in (0.0, 0.5, 1.0):
            y = plot.bottom() - share * plot.height()
            painter.setPen(t.q("grid"))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            label = QRectF(0, y - S2, _LEFT_W - S2, 2 * S2)
            paint_text(painter, label, _rate_text(max_rate * share), "tiny", "text3", right=True)
        for share in (0.0, 0.5, 1.0):
            x = plot.left() + share * plot.width()
            label = QRectF(x - 30, plot.bottom() + S1, 60, _BOTTOM_H - S1)
            if share == 1.0:
                label.moveRight(plot.right() + S2)
            text = formats.tick(self._epochs * share)
            paint_text(
                painter, label, text, "tiny", "text3", center=share < 1.0, right=share == 1.0
            )
        points = [
            QPointF(
                plot.left() + plot.width() * index / max(1, len(self._rates) - 1),
                plot.bottom() - plot.height() * rate / max_rate,
            )
            for index, rate in enumerate(self._rates)
        ]
        painter.setPen(round_pen(t.q("grid"), 0.0))
        area = QPolygonF([QPointF(plot.left(), plot.bottom()), *points, plot.bottomRight()])
        painter.setPen(t.curve(0, 0.0))
        painter.setBrush(t.curve(0, 0.12))
        painter.drawPolygon(area)
        painter.setPen(round_pen(t.curve(0), 2.2))
        painter.drawPolyline(QPolygonF(points))


def _rate_text(value: float) -> str:
    """Format ``0.08``: at most three digits, without trailing zeros."""
    return formats.typed_number(float(f"{value:.3g}"))
