"""A plot as it is taken along: its title, axes, curves and marks, in any format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter

from widgets.common.paint import paint_text
from widgets.curves import picture
from widgets.curves.curve_legend import Legend
from widgets.curves.drawn_curve import DrawnCurve
from widgets.curves.drawn_lines import paint_lines
from widgets.curves.marks import Frame

_TITLE_H = 28


@dataclass(frozen=True)
class TakenPlot:
    """What is seen of a plot now.

    ``curves``: each with whether it is faint. ``plot``: pyqtgraph's, for axes and grid.
    """

    title: str
    plot: Any
    size: QSize
    legend: Legend | None
    curves: Sequence[tuple[DrawnCurve, bool]]
    log_y: bool
    frame: Frame
    paint_marks: Callable[[QPainter, Frame], None]

    def png(self, ratio: float) -> bytes:
        return picture.png(self._whole(), self._paint, ratio)

    def svg(self) -> bytes:
        return picture.svg(self._whole(), self.title, self._paint, self.plot.logicalDpiX())

    def pdf(self) -> bytes:
        return picture.pdf(self._whole(), self.title, self._paint, self.plot.logicalDpiX())

    def _whole(self) -> QSize:
        return QSize(self.size.width(), self.size.height() + _TITLE_H)

    def _paint(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_text(painter, QRectF(8, 2, self.size.width() - 16, 24), self.title, "strong")
        if self.legend is not None:
            painter.save()
            painter.translate(0, _TITLE_H)
            self.legend.paint(painter)
            painter.restore()
        top = self.plot.y() + _TITLE_H
        target = QRectF(0, top, self.plot.width(), self.plot.height())
        self._show_lines(False)
        self.plot.render(painter, target, self.plot.viewport().rect())
        self._show_lines(True)
        painter.save()
        painter.translate(0, top)
        for curve, faint in self.curves:
            paint_lines(painter, self.frame, curve, faint=faint, log_y=self.log_y)
        self.paint_marks(painter, self.frame)
        painter.restore()

    def _show_lines(self, shown: bool) -> None:
        for curve, _ in self.curves:
            curve.line.setVisible(shown)
            curve.raw.setVisible(shown and curve.has_raw)
