"""The visible range of a plot's curves: all of it, until the user zooms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QWidget

from widgets.common.painting import text_width
from widgets.plots import plot_range
from widgets.plots.axis_mapping import AxisMapping
from widgets.plots.curve_data import XAxis
from widgets.plots.curve_item import View
from widgets.plots.plot_base import PlotSurface
from widgets.plots.plot_curves import PlotCurves
from widgets.plots.plot_range import Range, Scale
from widgets.plots.plot_widget import LEFT_MIN, RIGHT


class RangedPlot(PlotSurface):
    """Both axes of a plot of curves. Wheel zooms x, drag pans, double click fits.

    Ranges and all other *places* on an axis are logarithms if it is logarithmic.

    Signals:
        x_range_changed: The user zoomed or panned: the new ends, for other plots of the page.
        fitted: The user wants everything in view again.
        redrawn: The visible range or content may have changed.
    """

    x_range_changed = Signal(float, float)
    fitted = Signal()
    redrawn = Signal()

    def __init__(
        self,
        show_x: bool,
        paint_over: Callable[[QPainter], None],
        axis: XAxis,
        tick_text: Callable[[float], str],
        scale: Scale | None,
        parent: QWidget | None = None,
    ) -> None:
        """Build a plot without curves.

        Args:
            show_x: The x axis has labels.
            paint_over: Paints what is over the curves, in pixels of the plot's view.
            tick_text: Formats a value on the y axis.
            scale: The part of the y axis that is always in view.
        """
        super().__init__(show_x, paint_over, parent)
        self._curves = PlotCurves(self._box, lambda: self.devicePixelRatioF())
        self._axis = axis
        self._tick_text = tick_text
        self._scale = scale
        self._log_y = self._log_x = False
        self._fitted = True
        self._held = 0
        self._fixed_x: Range | None = None
        self._room_changed.connect(self.refresh)
        self._range_changed.connect(self._redraw)
        self._moved_by_hand.connect(self._keep_in_sight)
        self._double_clicked.connect(self._fit_again)

    @property
    def axis(self) -> XAxis:
        return self._axis

    def set_axis(self, axis: XAxis) -> None:
        """Set another x axis; everything is in view again."""
        if axis is not self._axis:
            self._axis = axis
            self._fixed_x = None
            self._place_marks()
            self.fit()

    @property
    def log_x(self) -> bool:
        """Return True if x is logarithmic.

        The time of day is never logarithmic, because it has no origin.
        """
        return self._log_x and self._axis is not XAxis.CLOCK

    def set_log_x(self, on: bool) -> None:
        """Set a logarithmic x axis, all of it in view. It has no points at or below zero."""
        if on != self._log_x:
            self._log_x = on
            self._place_marks()
            self.fit()

    @property
    def log_y(self) -> bool:
        return self._log_y

    def set_log_y(self, on: bool) -> None:
        """Set a logarithmic y axis. Values at or below zero are gaps."""
        if on != self._log_y:
            self._log_y = on
            self.refresh()

    def fit(self) -> None:
        """Show all points, and from now on also new ones."""
        self._fitted = True
        self.refresh()

    def is_fitted(self) -> bool:
        return self._fitted

    def set_x_range(self, x0: float, x1: float) -> None:
        """Show this range, as another plot of the page does."""
        self._fitted = False
        self._put_range(x0, x1)
        self.refresh()

    def set_fixed_x(self, x0: float, x1: float) -> None:
        """Set the whole x axis if the curves do not determine it: the last three hours."""
        self._fixed_x = (x0, x1)
        self.refresh()

    def data_begin(self) -> float:
        """The first place of the first curve; minus infinity without one."""
        return self._curves.begin(self._axis, log=self.log_x)

    def data_end(self) -> float:
        """The last place of the last curve; infinity without one.

        Right of it is room for names.
        """
        return self._curves.end(self._axis, log=self.log_x)

    @contextmanager
    def drawn_once(self) -> Iterator[None]:
        """Draw all changes inside the block once, at the end: a drawing visits every curve."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if not self._held:
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Draw the present data of the curves. Cheap if nothing changed."""
        if self._held:
            return
        if self._fitted:
            whole = self._whole_range()
            if whole is not None:
                self._put_range(*whole)
        self._redraw()

    # -- For subclasses with more content

    def _place_marks(self) -> None:
        """The places on the x axis changed."""

    def _name_rooms(self) -> list[tuple[float, float]]:
        """For each name at the end of a curve its x, and its share of the plot's width."""
        return []

    def _thresholds(self) -> list[float]:
        """Values that are included in the view if they are near."""
        return []

    def _view(self) -> View:
        return View(
            self._axis,
            *self.x_range(),
            *self.y_range(),
            self._width_px(),
            self._log_y,
            self.log_x,
        )

    @property
    def _places(self) -> AxisMapping:
        """Map values to both axes in their present state."""
        return AxisMapping(self._axis, self.log_x, self._log_y)

    # -- Internal

    def _whole_range(self) -> Range | None:
        """The whole x axis, and the room for names beyond its end."""
        if self._fixed_x is not None:
            low, high = plot_range.widened(*self._fixed_x)
            # A curve may extend beyond what was requested.
            seen = [room for room in self._name_rooms() if room[0] <= high]
            return plot_range.with_names((low, high), seen)
        told = self._curves.x_ranges(self._axis, log=self.log_x)
        return plot_range.whole(told, self._name_rooms(), log=self.log_x)

    @Slot()
    def _keep_in_sight(self) -> None:
        whole = self._whole_range()
        low, high = self.x_range()
        if whole is not None:
            # Zooming out or panning beyond all curves is corrected.
            width = min(high - low, whole[1] - whole[0])
            low = min(max(low, whole[0]), whole[1] - width)
            high = low + width
            self._put_range(low, high)
        self._fitted = whole is not None and (low, high) == whole
        self._redraw()
        self.x_range_changed.emit(low, high)

    @Slot()
    def _fit_again(self) -> None:
        self.fit()
        self.fitted.emit()

    @Slot()
    def _redraw(self) -> None:
        view = self._view()
        changed = self._curves.cut(view)
        shown = plot_range.values(
            self._curves.early(view),
            self._thresholds(),
            float(self._box.height()),
            log=self._log_y,
            scale=self._scale,
        )
        self._box.setYRange(*shown, padding=0)
        if changed:
            self._curves.draw(self._view())
        self._put_ticks()
        self._overlay.update()
        self.redrawn.emit()

    def _put_ticks(self) -> None:
        if not self._curves.has_points():
            self._left.setTicks([[]])
            self._bottom.setTicks([[]])
            return
        height = float(self._box.height())
        places = plot_range.y_ticks(self.y_range(), height, self._tick_text, log=self._log_y)
        self._left.setTicks([places])
        widest = max((text_width(text, "tiny") for _, text in places), default=0)
        self._left.setWidth(max(widest + 12, LEFT_MIN))
        stretch = self.x_range(), self._width_px(), self._axis
        along = plot_range.x_ticks(*stretch, log=self.log_x)
        self._bottom.setTicks([[each for each in along if self._has_room(*each)]])

    def _has_room(self, x: float, text: str) -> bool:
        """Return True if a tick is in the range of the curves and its label is not cut off."""
        low, high = self.x_range()
        if self._fitted and self._fixed_x is None and x > self.data_end():
            return False
        beyond = (high - x) / (high - low) * self._width_px() + RIGHT
        return text_width(text, "tiny") / 2 <= beyond
