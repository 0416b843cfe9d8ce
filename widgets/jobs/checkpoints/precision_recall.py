"""The precision of a detector by its recall, and the keys of colours in pictures and plots."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.prediction import DetectionMeasures
from widgets.common import formats, theme
from widgets.common.painting import paint_text
from widgets.common.theme import S2, S4

MAX_CLASSES = 6
"""Colours of more classes could not be distinguished."""
_PLOT_W, _PLOT_H, _LEFT, _LINE_H, _KEY_W = 300, 220, 40, 18, 22
_TICKS = (0.0, 0.5, 1.0)
LegendEntry = tuple[str, int, bool]
"""A word, the number of a colour (-1 for that of text), and whether its line is broken."""


def line_pen(colour: int, is_broken: bool) -> QPen:
    style = Qt.PenStyle.DashLine if is_broken else Qt.PenStyle.SolidLine
    now = theme.current()
    return QPen(now.q("text2") if colour < 0 else now.curve(colour), 2.0, style)


class ColourLegend(QWidget):
    """A short line in its colour before each word."""

    def __init__(self, *keys: LegendEntry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keys = keys
        self.setFixedHeight(_LINE_H * len(keys))
        self.setAccessibleName(", ".join(word for word, _, _ in keys))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        for number, (word, colour, is_broken) in enumerate(self._keys):
            middle = (number + 0.5) * _LINE_H
            painter.setPen(line_pen(colour, is_broken))
            painter.drawLine(QPointF(0, middle), QPointF(_KEY_W, middle))
            left = _KEY_W + S2
            room = QRectF(left, number * _LINE_H, self.width() - left, _LINE_H)
            paint_text(painter, room, word, "tiny", "text2")


class PrecisionRecall(QWidget):
    """A curve for each class, at an overlap of 0.50 and, broken, of 0.75."""

    def __init__(
        self, classes: tuple[DetectionMeasures, ...], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._classes = classes[:MAX_CLASSES]
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Precision by recall")
        words = (
            f"{one.name}: AP50 {formats.percent(one.ap50)}, AP75 {formats.percent(one.ap75)}"
            for one in self._classes
        )
        self.setAccessibleDescription("; ".join(words))

    def sizeHint(self) -> QSize:
        return QSize(_LEFT + _PLOT_W + S4, _PLOT_H + 3 * _LINE_H)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        plot = QRectF(_LEFT, _LINE_H / 2, _PLOT_W, _PLOT_H)
        for share in _TICKS:
            y, x = plot.bottom() - share * _PLOT_H, plot.left() + share * _PLOT_W
            painter.setPen(theme.current().q("line"))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
            left = QRectF(0, y - _LINE_H / 2, _LEFT - S2, _LINE_H)
            paint_text(painter, left, f"{share:.1f}", "tiny", "text2", right=True)
            below = QRectF(x - _LEFT / 2, plot.bottom(), _LEFT, _LINE_H)
            paint_text(painter, below, f"{share:.1f}", "tiny", "text2", center=True)
        title = QRectF(plot.left(), plot.bottom() + _LINE_H, _PLOT_W, _LINE_H)
        paint_text(painter, title, "Recall", "tiny", "text2", center=True)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number, one in enumerate(self._classes):
            for values, is_broken in ((one.at_50, False), (one.at_75, True)):
                painter.setPen(line_pen(number, is_broken))
                last = max(1, len(values) - 1)
                painter.drawPolyline(
                    [
                        QPointF(
                            plot.left() + place / last * _PLOT_W,
                            plot.bottom() - (value or 0.0) * _PLOT_H,
                        )
                        for place, value in enumerate(values)
                    ]
                )
