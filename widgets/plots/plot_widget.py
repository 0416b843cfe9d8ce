"""pyqtgraph's plot in the style of the window: no frame, no axis lines, grid behind the curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyqtgraph as pg
from pyqtgraph.graphicsItems.PlotCurveItem import arrayToLineSegments
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QTransform
from PySide6.QtWidgets import (
    QGraphicsGridLayout,
    QGraphicsItem,
    QSizePolicy,
    QStyleOptionGraphicsItem,
    QWidget,
)

from widgets.common import theme
from widgets.plots.annotations import ABOVE, AxisSpan

LEFT_MIN = 34
SHADE_ALPHA = 0.14
RIGHT = 10
_BOTTOM_H, _BOTTOM_EMPTY_H = 22, 4


class _LeftAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis whose labels extend into the room above the plot; otherwise the top line has none."""

    def boundingRect(self) -> QRectF:
        own: QRectF = super().boundingRect()
        return own.adjusted(0, -ABOVE, 0, 0)


@dataclass(frozen=True)
class QuietPlot:
    """A plot. ``view`` is the widget; ``box`` takes items, and the axes show its ranges."""

    view: Any
    box: Any
    left: Any
    bottom: Any


def quiet_plot(show_x: bool) -> QuietPlot:
    """A plot whose wheel and drag move only x, and whose owner sets the ranges.

    It uses pyqtgraph's parts and not its ``PlotWidget``, which adds ninety widgets of an unused
    menu, two more axes and a title: 8 ms for each plot instead of 3, and as many widgets to style
    at each change of theme.
    """
    view = pg.GraphicsView(background=None)
    view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
    view.enableMouse(False)
    view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    view.viewport().setMouseTracking(True)
    # A graphics view accepts every drop and ignores it; the window handles drops.
    view.setAcceptDrops(False)
    view.viewport().setAcceptDrops(False)
    whole = pg.GraphicsWidget()
    box = pg.ViewBox(parent=whole, enableMenu=False)
    box.setMouseEnabled(x=True, y=False)
    box.setDefaultPadding(0)
    box.disableAutoRange()
    left, bottom = _axis(_LeftAxis("left"), box), _axis(pg.AxisItem("bottom"), box)
    left.setWidth(LEFT_MIN)
    left.setGrid(255)
    bottom.setHeight(_BOTTOM_H if show_x else _BOTTOM_EMPTY_H)
    bottom.setStyle(showValues=show_x)
    grid = QGraphicsGridLayout()
    grid.setContentsMargins(0, ABOVE, RIGHT, 0)
    grid.setSpacing(0)
    grid.addItem(left, 0, 0)
    grid.addItem(box, 0, 1)
    grid.addItem(bottom, 1, 1)
    whole.setLayout(grid)
    view.setCentralItem(whole)
    return QuietPlot(view, box, left, bottom)


def _axis(axis: Any, box: Any) -> Any:
    # Otherwise the text of its label, which is empty, is laid out again with each range.
    axis.enableAutoSIPrefix(False)
    axis.linkToView(box)
    axis.setFlag(QGraphicsItem.GraphicsItemFlag.ItemNegativeZStacksBehindParent)
    axis.setZValue(-1000)  # otherwise the grid is over the curves
    axis.setStyle(
        tickLength=0,
        tickTextOffset=6,
        autoExpandTextSpace=False,
        autoReduceTextSpace=False,
        hideOverlappingLabels=24,
        textFillLimits=[(0, 1.0)],
    )
    return axis


def dress_axes(*axes: Any) -> None:
    """Apply the colours and fonts of the current theme."""
    t = theme.current()
    for side in axes:
        side.setPen(pg.mkPen(None))
        side.setTickPen(pg.mkPen(t.q("grid"), width=1))
        side.setTextPen(t.q("text3"))
        side.setStyle(tickFont=theme.font("tiny"))


def shade(span: AxisSpan) -> Any:
    """The tint of a span of the x axis, behind the curves."""
    colour = theme.current().fill(span.tone)
    colour.setAlphaF(SHADE_ALPHA)
    item = pg.LinearRegionItem((span.x0, span.x1), movable=False, brush=colour, pen=pg.mkPen(None))
    item.setZValue(-5)
    return item


class _Curve(pg.PlotCurveItem):  # type: ignore[misc]  # pyqtgraph has no types
    """A curve whose segments are transformed before they are painted.

    Lines that Qt has to scale take eight times as long: 4 ms for 150 of them, not 0.5.
    """

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget) -> None:
        if self.opts["segmentedLineMode"] != "on" or self.opts["fillLevel"] is not None:
            super().paint(painter, option, widget)
            return
        place = painter.worldTransform()
        x, y = self.getData()
        lines = arrayToLineSegments(
            place.m11() * x + place.dx(), place.m22() * y + place.dy(), "finite", finiteCheck=True
        )
        painter.save()
        painter.setWorldTransform(QTransform())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, self.opts["antialias"])
        painter.setPen(self.opts["pen"])
        painter.drawLines(*lines.drawargs())
        painter.restore()


def curve_item(z: int) -> Any:
    """A line with gaps at NaN."""
    item = _Curve()
    item.setZValue(z)
    item.opts["connect"] = "finite"
    item.opts["antialias"] = True
    return item
