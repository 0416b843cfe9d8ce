"""pyqtgraph's plot as a widget with an overlay: ranges in, wheel, drag and pointer out."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, Signal, Slot
from PySide6.QtGui import QMouseEvent, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from widgets.plots.annotations import Overlay, PlotGeometry
from widgets.plots.plot_widget import quiet_plot

_OF_SCENES = (
    QEvent.Type.Show,
    QEvent.Type.Hide,
    QEvent.Type.WindowActivate,
    QEvent.Type.WindowDeactivate,
)
"""Events that Qt forwards to the scene, which repaints everything although nothing changed."""


class PlotSurface(QWidget):
    """The base of a plot of curves. It reports events and knows no curves.

    Args:
        paint_over: Paints what is over the curves, in pixels of the plot's view.

    Signals:
        _room_changed: The plot was resized.
        _range_changed: Another range of x is in view, and not by `_put_range`.
        _moved_by_hand: The user zoomed or panned.
        _pointer_moved: The position of the pointer on the plot.
        _pointer_left: The pointer left the plot.
        _double_clicked: A double click on the plot.
    """

    _room_changed = Signal()
    _range_changed = Signal()
    _moved_by_hand = Signal()
    _pointer_moved = Signal(QPointF)
    _pointer_left = Signal()
    _double_clicked = Signal()

    def __init__(
        self,
        show_x: bool,
        paint_over: Callable[[QPainter], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._setting = False
        plot = quiet_plot(show_x)
        self._plot, self._box = plot.view, plot.box
        self._left, self._bottom = plot.left, plot.bottom
        self._overlay = Overlay(paint_over, self._plot.viewport())
        self.setMinimumSize(120, 80)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._plot.viewport().installEventFilter(self)
        self._box.sigXRangeChanged.connect(self._x_changed)
        self._box.sigRangeChangedManually.connect(self._moved_by_hand)
        # The room of the plot itself changes after that of the widget, and with the labels of the y
        # axis.
        self._box.sigResized.connect(self._room_changed)

    def x_range(self) -> tuple[float, float]:
        """The range of x in view."""
        low, high = self._box.viewRange()[0]
        return float(low), float(high)

    def stretch_px(self) -> tuple[float, float]:
        """The ends of the visible range, in pixels from the widget's left edge."""
        rect, left = self._frame().rect, self._plot.x()
        return left + rect.left(), left + rect.right()

    def move_to(self, x0: float, x1: float) -> None:
        """Show this range, as if the user zoomed or panned."""
        self._put_range(x0, x1)
        self._moved_by_hand.emit()

    def y_range(self) -> tuple[float, float]:
        """The values in view; logarithms if y is logarithmic."""
        low, high = self._box.viewRange()[1]
        return float(low), float(high)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.Resize:
            self._overlay.setGeometry(self._plot.viewport().rect())
        elif kind == QEvent.Type.MouseMove and isinstance(event, QMouseEvent):
            self._pointer_moved.emit(event.position())
        elif kind == QEvent.Type.Leave:
            self._pointer_left.emit()
        elif kind == QEvent.Type.MouseButtonDblClick:
            self._double_clicked.emit()
            return True
        elif kind in _OF_SCENES:
            return True
        return super().eventFilter(watched, event)

    def _width_px(self) -> int:
        return max(int(self._box.width()), 2)

    def _put_range(self, x0: float, x1: float) -> None:
        if not x1 > x0 or (x0, x1) == self.x_range():
            return
        self._setting = True
        self._box.setXRange(x0, x1, padding=0)
        self._setting = False

    def _frame(self) -> PlotGeometry:
        rect: QRectF = self._box.mapRectToScene(self._box.boundingRect())
        return PlotGeometry(rect, *self.x_range(), *self.y_range())

    @Slot()
    def _x_changed(self) -> None:
        if not self._setting:
            self._range_changed.emit()
