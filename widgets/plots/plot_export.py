"""A plot of curves for export: its axes, curves and marks, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from widgets.plots.annotations import PlotGeometry, curve_colour, curve_pen
from widgets.plots.axis_mapping import AxisMapping
from widgets.plots.curve_item import FAINT_ALPHA, RAW_ALPHA, RAW_FAINT_ALPHA, DrawnCurve
from widgets.plots.curve_legend import Legend
from widgets.plots.growable_array import Floats


def _paint_lines(
    painter: QPainter, frame: PlotGeometry, curve: DrawnCurve, places: AxisMapping, *, faint: bool
) -> None:
    """Paint the line of a curve, the raw trace behind it, and the fill below it.

    All are clipped to the plot by arithmetic. In the window pyqtgraph draws them, and Qt clips; SVG
    cannot rely on that: most viewers ignore its clip paths, so a diverging loss ran over the title;
    and a pen of constant width, as in the window, is a hairline in an enlarged drawing.
    """
    if curve.has_raw:
        colour = curve_colour(curve.colour, RAW_FAINT_ALPHA if faint else RAW_ALPHA)
        painter.setPen(QPen(colour, 1))
        for part in pieces(frame, curve.raw_x, places.ys(curve.raw_y)):
            painter.drawPolyline(_polygon(part))
    painter.setPen(curve_pen(curve.colour, curve.width, FAINT_ALPHA if faint else 1.0))
    for part in pieces(frame, curve.x, places.ys(curve.y)):
        if curve.fill:
            painter.save()
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(curve_colour(curve.colour, 0.03 if faint else 0.10))
            foot = frame.rect.bottom()
            ends = np.array([[part[-1, 0], foot], [part[0, 0], foot]])
            painter.drawPolygon(_polygon(np.concatenate((part, ends))))
            painter.restore()
        painter.drawPolyline(_polygon(part))


def pieces(frame: PlotGeometry, x: Floats, y: Floats) -> list[Floats]:
    """The parts of a line inside the plot, in pixels: arrays of shape (points, 2).

    A gap (NaN) splits it, and so does every part outside. Each segment is clipped separately (Liang
    and Barsky, doi:10.1145/357332.357333).
    """
    rect = frame.rect
    points = np.column_stack(
        (
            rect.left() + (x - frame.x0) / (frame.x1 - frame.x0) * rect.width(),
            rect.bottom() - (y - frame.y0) / (frame.y1 - frame.y0) * rect.height(),
        )
    )
    low, high = (rect.left(), rect.top()), (rect.right(), rect.bottom())
    start, way = points[:-1], np.diff(points, axis=0)
    enters, leaves = np.zeros(len(way)), np.ones(len(way))
    inside = np.isfinite(way).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for side in (0, 1):
            a = (low[side] - start[:, side]) / way[:, side]
            b = (high[side] - start[:, side]) / way[:, side]
            moves = way[:, side] != 0
            enters = np.where(moves, np.maximum(enters, np.minimum(a, b)), enters)
            leaves = np.where(moves, np.minimum(leaves, np.maximum(a, b)), leaves)
            at = start[:, side]
            inside &= moves | ((at >= low[side]) & (at <= high[side]))
    kept = np.flatnonzero(inside & (enters <= leaves))
    if not len(kept):
        return []
    begins = start[kept] + way[kept] * enters[kept, None]
    ends = start[kept] + way[kept] * leaves[kept, None]
    # Two segments form one line if neither is clipped at the point between them.
    joined = (np.diff(kept) == 1) & (leaves[kept][:-1] >= 1) & (enters[kept][1:] <= 0)
    breaks = np.flatnonzero(~joined) + 1
    parts = zip(np.split(begins, breaks), np.split(ends, breaks), strict=True)
    return [np.concatenate((first, last[-1:])) for first, last in parts]


def _polygon(points: Floats) -> QPolygonF:
    return QPolygonF([QPointF(x, y) for x, y in points.tolist()])


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
            _paint_lines(painter, self.frame, curve, self.places, faint=faint)
        self.paint_marks(painter, self.frame)

    def _show_lines(self, shown: bool) -> None:
        for curve, _ in self.curves:
            curve.line.setVisible(shown)
            curve.raw.setVisible(shown and curve.has_raw)
