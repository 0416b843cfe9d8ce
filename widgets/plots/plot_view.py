"""pyqtgraph's axes and view box in the style of the window; their owner paints the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter
from PySide6.QtWidgets import QGraphicsGridLayout, QGraphicsItem, QSizePolicy

from widgets.common import theme
from widgets.plots.annotations import TOP_MARGIN, PlotGeometry

LEFT_AXIS_MIN_W = 34
RIGHT_MARGIN = 10
_BOTTOM_H, _BOTTOM_EMPTY_H = 22, 4
_SCENE_EVENTS = (
    QEvent.Type.Show,
    QEvent.Type.Hide,
    QEvent.Type.WindowActivate,
    QEvent.Type.WindowDeactivate,
)
"""Events that Qt forwards to the scene, which repaints everything although nothing changed."""


class _LeftAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis whose labels extend above the plot; otherwise the top line has no label."""

    def boundingRect(self) -> QRectF:
        rect: QRectF = super().boundingRect()
        return rect.adjusted(0, -TOP_MARGIN, 0, 0)


class PlotView(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph has no types
    """Axes with labels and a grid. Wheel and drag move only x; the owner sets the ranges.

    The view uses pyqtgraph's parts and not its ``PlotItem``, which adds ninety widgets of a menu,
    two more axes and a title: 8 ms for each plot instead of 3, and as many widgets to style at each
    change of theme.

    Args:
        paint: Paints the content over the grid, in pixels; also for an export.

    Attributes:
        box: The view box, which has the ranges.
        left_axis, bottom_axis: The axes.

    Signals:
        pointer_moved: The position of the pointer.
        pointer_left: The pointer left the plot.
        double_clicked: A double click on the plot.
    """

    pointer_moved = Signal(QPointF)
    pointer_left = Signal()
    double_clicked = Signal()

    def __init__(self, show_x: bool, paint: Callable[[QPainter], None]) -> None:
        super().__init__(background=None)
        self._paint = paint
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setMouseTracking(True)
        # A graphics view accepts every drop and ignores it; the window handles drops.
        self.setAcceptDrops(False)
        self.viewport().setAcceptDrops(False)
        root = pg.GraphicsWidget()
        self.box = pg.ViewBox(parent=root, enableMenu=False)
        self.box.setMouseEnabled(x=True, y=False)
        self.box.setDefaultPadding(0)
        self.box.disableAutoRange()
        self.left_axis, self.bottom_axis = _LeftAxis("left"), pg.AxisItem("bottom")
        for axis in (self.left_axis, self.bottom_axis):
            self._link_axis(axis)
        self.left_axis.setWidth(LEFT_AXIS_MIN_W)
        self.left_axis.setGrid(255)
        self.bottom_axis.setHeight(_BOTTOM_H if show_x else _BOTTOM_EMPTY_H)
        self.bottom_axis.setStyle(showValues=show_x)
        grid = QGraphicsGridLayout()
        grid.setContentsMargins(0, TOP_MARGIN, RIGHT_MARGIN, 0)
        grid.setSpacing(0)
        grid.addItem(self.left_axis, 0, 0)
        grid.addItem(self.box, 0, 1)
        grid.addItem(self.bottom_axis, 1, 1)
        root.setLayout(grid)
        self.setCentralItem(root)

    def frame(self) -> PlotGeometry:
        """The rectangle of the curves, and the ranges in view."""
        rect = self.box.mapRectToScene(self.box.boundingRect())
        (x0, x1), (y0, y1) = self.box.viewRange()
        return PlotGeometry(rect, float(x0), float(x1), float(y0), float(y1))

    def apply_theme(self) -> None:
        """Apply the colours and fonts of the current theme."""
        t = theme.current()
        for axis in (self.left_axis, self.bottom_axis):
            axis.setPen(pg.mkPen(None))
            axis.setTickPen(pg.mkPen(t.q("grid"), width=1))
            axis.setTextPen(t.q("text3"))
            axis.setStyle(tickFont=theme.font("tiny"))

    def drawForeground(self, painter: QPainter, rect: QRectF) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint(painter)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.pointer_left.emit()
        return event.type() in _SCENE_EVENTS or bool(super().viewportEvent(event))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self.pointer_moved.emit(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.double_clicked.emit()

    def _link_axis(self, axis: Any) -> None:
        # Otherwise the text of its label, which is empty, is laid out again with each range.
        axis.enableAutoSIPrefix(False)
        axis.linkToView(self.box)
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
