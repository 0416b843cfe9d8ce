"""The precision of a detector by its recall, and the legend of colours in pictures and plots."""

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
_PLOT_W, _PLOT_H, _AXIS_W, _LINE_H, _KEY_W = 300, 220, 40, 18, 22
_TICKS = (0.0, 0.5, 1.0)
LegendEntry = tuple[str, int, bool]
"""A label, the number of a colour (-1 for the text colour), and whether its line is broken."""


def line_pen(colour: int, is_broken: bool) -> QPen:
    style = Qt.PenStyle.DashLine if is_broken else Qt.PenStyle.SolidLine
    palette = theme.current()
    return QPen(palette.q("text2") if colour < 0 else palette.curve(colour), 2.0, style)


class ColourLegend(QWidget):
    """A legend: a short line in its colour before each label."""

    def __init__(self, *entries: LegendEntry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries = entries
        self.setFixedHeight(_LINE_H * len(entries))
        self.setAccessibleName(", ".join(label for label, _, _ in entries))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        for number, (label, colour, is_broken) in enumerate(self._entries):
            center_y = (number + 0.5) * _LINE_H
            painter.setPen(line_pen(colour, is_broken))
            painter.drawLine(QPointF(0, center_y), QPointF(_KEY_W, center_y))
            text_x = _KEY_W + S2
            box = QRectF(text_x, number * _LINE_H, self.width() - text_x, _LINE_H)
            paint_text(painter, box, label, "tiny", "text2")


class PrecisionRecall(QWidget):
    """A curve for each class, at an overlap of 0.50 and, broken, of 0.75."""

    def __init__(
        self, classes: tuple[DetectionMeasures, ...], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._classes = classes[:MAX_CLASSES]
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Precision by recall")
        descriptions = (
            f"{c.name}: AP50 {formats.percent(c.ap50)}, AP75 {formats.percent(c.ap75)}"
            for c in self._classes
        )
        self.setAccessibleDescription("; ".join(descriptions))

    def sizeHint(self) -> QSize:
        return QSize(_AXIS_W + _PLOT_W + S4, _PLOT_H + 3 * _LINE_H)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        plot = QRectF(_AXIS_W, _LINE_H / 2, _PLOT_W, _PLOT_H)
        for share in _TICKS:
            y, x = plot.bottom() - share * _PLOT_H, plot.left() + share * _PLOT_W
            painter.setPen(theme.current().q("line"))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
            y_label = QRectF(0, y - _LINE_H / 2, _AXIS_W - S2, _LINE_H)
            paint_text(painter, y_label, f"{share:.1f}", "tiny", "text2", right=True)
            x_label = QRectF(x - _AXIS_W / 2, plot.bottom(), _AXIS_W, _LINE_H)
            paint_text(painter, x_label, f"{share:.1f}", "tiny", "text2", center=True)
        title = QRectF(plot.left(), plot.bottom() + _LINE_H, _PLOT_W, _LINE_H)
        paint_text(painter, title, "Recall", "tiny", "text2", center=True)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number, measures in enumerate(self._classes):
            for values, is_broken in ((measures.at_50, False), (measures.at_75, True)):
                painter.setPen(line_pen(number, is_broken))
                last_index = max(1, len(values) - 1)
                painter.drawPolyline(
                    [
                        QPointF(
                            plot.left() + index / last_index * _PLOT_W,
                            plot.bottom() - (value or 0.0) * _PLOT_H,
                        )
                        for index, value in enumerate(values)
                    ]
                )
