"""A plot of curves for export: its axes, curves and marks, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from widgets.plots.annotations import PlotGeometry
from widgets.plots.axis_mapping import AxisMapping
from widgets.plots.curve_item import DrawnCurve
from widgets.plots.curve_legend import Legend
from widgets.plots.export_lines import paint_lines


@dataclass(frozen=True)
class TakenPlot:
    """The present content of a plot.

    ``curves``: each with True if it is faint. ``plot``: pyqtgraph's, for axes and grid.
    """

    plot: Any
    legend: Legend | None
    curves: Sequence[tuple[DrawnCurve, bool]]
    places: AxisMapping
    frame: PlotGeometry
    paint_marks: Callable[[QPainter, PlotGeometry], None]

    def paint(self, painter: QPainter) -> None:
        if self.legend is not None:
            self.legend.paint(painter)
        top = self.plot.y()
        target = QRectF(0, top, self.plot.width(), self.plot.height())
        self._show_lines(False)
        self.plot.render(painter, target, self.plot.viewport().rect())
        self._show_lines(True)
        painter.translate(0, top)
        for curve, faint in self.curves:
            paint_lines(painter, self.frame, curve, self.places, faint=faint)
        self.paint_marks(painter, self.frame)

    def _show_lines(self, shown: bool) -> None:
        for curve, _ in self.curves:
            curve.line.setVisible(shown)
            curve.raw.setVisible(shown and curve.has_raw)
