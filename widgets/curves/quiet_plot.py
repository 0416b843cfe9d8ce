"""pyqtgraph's plot without its usual looks: no frame, no axis lines, the grid behind the curves."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import Qt

from widgets.common import theme
from widgets.curves.marks import ABOVE, Span

LEFT_MIN = 34
SHADE_ALPHA = 0.14
RIGHT = 10
_BOTTOM_H, _BOTTOM_EMPTY_H = 22, 4


def quiet_plot(show_x: bool) -> Any:
    """A plot whose wheel and drag move x alone, and whose ranges are set by its owner."""
    axes = {"left": pg.AxisItem("left"), "bottom": pg.AxisItem("bottom")}
    # Each menu is made of ninety widgets, and nobody sees it.
    plot = pg.PlotWidget(axisItems=axes, background=None, enableMenu=False)
    plot.setFrameShape(pg.PlotWidget.Shape.NoFrame)
    plot.hideButtons()
    plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    plot.viewport().setMouseTracking(True)
    # A view of graphics takes every drop and does nothing with it; the window knows what to do.
    plot.setAcceptDrops(False)
    plot.viewport().setAcceptDrops(False)
    plot.plotItem.layout.setContentsMargins(0, ABOVE, RIGHT, 0)
    box = plot.getViewBox()
    box.setMouseEnabled(x=True, y=False)
    box.setDefaultPadding(0)
    box.disableAutoRange()
    for side in axes.values():
        side.setZValue(-1000)  # or the grid lies over the curves
        side.setStyle(
            tickLength=0,
            tickTextOffset=6,
            autoExpandTextSpace=False,
            autoReduceTextSpace=False,
            hideOverlappingLabels=24,
            textFillLimits=[(0, 1.0)],
        )
    axes["left"].setWidth(LEFT_MIN)
    axes["left"].setGrid(255)
    axes["bottom"].setHeight(_BOTTOM_H if show_x else _BOTTOM_EMPTY_H)
    axes["bottom"].setStyle(showValues=show_x)
    return plot


def dress_axes(plot: Any) -> None:
    """The colours and fonts of the theme now."""
    t = theme.current()
    for name in ("left", "bottom"):
        side = plot.getAxis(name)
        side.setPen(pg.mkPen(None))
        side.setTickPen(pg.mkPen(t.q("grid"), width=1))
        side.setTextPen(t.q("text3"))
        side.setStyle(tickFont=theme.font("tiny"))


def shade(span: Span) -> Any:
    """The tint of a stretch of the x axis, behind the curves."""
    colour = theme.current().fill(span.tone)
    colour.setAlphaF(SHADE_ALPHA)
    item = pg.LinearRegionItem((span.x0, span.x1), movable=False, brush=colour, pen=pg.mkPen(None))
    item.setZValue(-5)
    return item


def curve_item(z: int) -> Any:
    """A line with gaps where there is NaN."""
    item = pg.PlotCurveItem()
    item.setZValue(z)
    item.opts["connect"] = "finite"
    item.opts["antialias"] = True
    return item
