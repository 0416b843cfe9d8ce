"""A plot of labelled curves that grow while they are displayed.

pyqtgraph draws the axes and the grid, and turns wheel and drag into ranges; `CurveData` has one
point per pixel column. Curves, marks and all text are painted over it in pixels, because names must
not cover each other, and a saved picture is painted the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from widgets.common import formats, theme
from widgets.common.layout import col
from widgets.common.painting import paint_focus, text_width
from widgets.common.theme import SOLID_CURVES
from widgets.plots import plot_range
from widgets.plots.annotation_layer import CurveEnds, PlotMarks
from widgets.plots.annotations import (
    LINE_W,
    AxisSpan,
    Boundary,
    PlotGeometry,
    ReadOutRow,
    ThresholdLine,
    VerticalMarker,
    paint_hidden_values_message,
    paint_pointer,
    paint_read_out,
    paint_shades,
)
from widgets.plots.axis_marks import AxisMark, AxisMarks
from widgets.plots.cursor_readout import HoverLink, nan_start_labels, position_text, read_rows
from widgets.plots.curve_data import AxisMapping, CurveData, XAxis
from widgets.plots.curve_item import DrawnCurve, PlotCurves
from widgets.plots.end_labels import Legend, name_width
from widgets.plots.image_export import Picture
from widgets.plots.plot_range import Range, Scale
from widgets.plots.plot_view import LEFT_AXIS_MIN_W, RIGHT_MARGIN, PlotView

_MIN_LEGEND_CURVES = SOLID_CURVES + 1
_MAX_NAME_SHARE = 0.33
_STEP, _LEAP, _PAN = 0.01, 0.1, 0.25
"""The distances that a key moves by, as shares of the visible range."""
_ZOOM = 0.6

_WRAPPED_TEXT = Qt.AlignmentFlag.AlignCenter.value | Qt.TextFlag.TextWordWrap.value


class CurvePanel(QWidget):
    """Curves over a common x axis, with their names, their marks and the read-out.

    Wheel zooms x, drag pans, double click fits: all curves are in view, until the user zooms. The
    keys Left and Right move the read-out along the curves, with Shift they pan, + and - zoom around
    the read-out, Home and End go to the ends. Esc hides the read-out.

    Ranges and all other *coordinates* of an axis are logarithms if it is logarithmic.

    Attributes:
        curves: The curves by their keys.
        marks: The marks at their coordinates on the present axes.
        title: The metric; also names its pictures and tables.
        is_fitted: All points are in view, also new ones.

    Signals:
        x_range_changed: The user zoomed or panned: the new ends, for other plots of the page.
        fit_requested: The user wants everything in view again.
        redraw_finished: The visible range or content may have changed.
    """

    x_range_changed = Signal(float, float)
    fit_requested = Signal()
    redraw_finished = Signal()

    def __init__(
        self,
        title: str,
        *,
        link: HoverLink | None = None,
        axis: XAxis = XAxis.STEP,
        value_text: Callable[[float], str] = formats.metric,
        tick_text: Callable[[float], str] = formats.tick,
        x_text: Callable[[float], str] | None = None,
        scale: Scale | None = None,
        end_names: bool = True,
        show_x: bool = True,
        several_runs: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """Build a plot without curves.

        Args:
            title: For accessibility and for saved pictures; not drawn in the window.
            value_text: Formats a value at the end of a curve and in the read-out.
            tick_text: Formats a value on the y axis.
            x_text: Formats an x value in the read-out; None if it is a step or a time.
            scale: The part of the y axis that is always in view; None for automatic.
            end_names: Names and values are at the ends of the curves; small plots have them in
            their header instead, and show the place of the pointer only under it.
            show_x: The x axis has labels; False if another plot is right below it.
            several_runs: Each curve is a run of its own: one step is at several times.
        """
        super().__init__(parent)
        self.set_title(title)
        self.axis = axis
        self._value_text, self._tick_text, self._x_text = value_text, tick_text, x_text
        self._scale = scale
        self._end_names = end_names
        self._several_runs = several_runs
        self.log_y = self._log_x = False
        self.is_fitted = True
        self._batch_depth = 0
        self._fixed_x: Range | None = None
        self._to_file = False
        self.curves = PlotCurves()
        self._value_marks = self.marks = PlotMarks()
        self._empty_text = "No points yet"
        self._plot = PlotView(show_x, self._paint)
        self._legend = Legend(LEFT_AXIS_MIN_W, self)
        self._legend.hide()
        self.setLayout(col(self._legend, (self._plot, 1), gap=4))
        self.setMinimumSize(120, 80)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._link = link if link is not None else HoverLink(self)
        self._link.pointer_moved.connect(self._repaint)
        self._link.pointer_left.connect(self._repaint)
        self._plot.pointer_moved.connect(self._handle_pointer)
        self._plot.pointer_left.connect(self._link.leave)
        self._plot.double_clicked.connect(self._fit_on_request)
        self._plot.box.sigRangeChangedManually.connect(self._clamp_range)
        # The size of the plot itself changes after that of the widget, and with the labels of the y
        # axis.
        self._plot.box.sigResized.connect(self.refresh)
        self._applied_theme: theme.Theme | None = None
        self._apply_theme()

    # -- Content

    def set_title(self, title: str) -> None:
        self.title = title
        self.setAccessibleName(title)

    def set_curve(
        self,
        key: str,
        name: str,
        data: CurveData,
        colour: int | str = 0,
        *,
        smooth: bool = True,
        with_raw: bool = True,
        with_label: bool = True,
        width: float = LINE_W,
        fill: bool = False,
    ) -> None:
        """Add a curve, or change the one with this key. Call `refresh` when `data` has grown.

        Args:
            colour: The number of a curve's colour (dashed from the fifth on), or a token of the
            theme, such as ``line_strong`` for peers.
            smooth: The page's smoothing applies to this curve; not to the few points of a
            validation.
            with_raw: The raw line is visible behind the smoothed one.
            with_label: The curve has name and value at its end and a line in the read-out.
        """
        self.curves[key] = DrawnCurve(name, data, colour, smooth, with_raw, with_label, width, fill)
        if smooth:
            data.set_smoothing(self.smoothing)
        self._curves_changed()

    def remove_curve(self, key: str) -> None:
        if self.curves.pop(key, None) is not None:
            self._curves_changed()

    def clear(self) -> None:
        """Remove all curves."""
        if self.curves:
            self.curves.clear()
            self._curves_changed()

    def set_marks(
        self,
        *,
        vertical_markers: Sequence[VerticalMarker] | None = None,
        boundaries: Sequence[Boundary] | None = None,
        spans: Sequence[AxisSpan] | None = None,
        thresholds: Sequence[ThresholdLine] | None = None,
        axis_marks: Sequence[AxisMark] | None = None,
    ) -> None:
        """Set the marks besides the curves; omitted marks stay unchanged."""
        previous_marks = self._value_marks
        self._value_marks = PlotMarks(
            tuple(
                previous_marks.vertical_markers if vertical_markers is None else vertical_markers
            ),
            tuple(previous_marks.boundaries if boundaries is None else boundaries),
            tuple(previous_marks.spans if spans is None else spans),
            tuple(previous_marks.thresholds if thresholds is None else thresholds),
            previous_marks.axis_marks if axis_marks is None else AxisMarks(axis_marks),
        )
        self._map_marks()
        self.refresh()

    def set_empty_text(self, text: str) -> None:
        """Set the text of an empty plot."""
        if text != self._empty_text:
            self._empty_text = text
            self._repaint()

    def highlight(self, key: str) -> None:
        """Highlight one curve and draw the others faint; "" for none."""
        self.curves.requested_key = key
        self._repaint()

    @property
    def smoothing(self) -> float:
        return self.curves.smoothing

    def set_smoothing(self, weight: float) -> None:
        """Set the smoothing of all curves that allow it, from 0 (none) to below 1."""
        self.curves.smoothing = min(max(weight, 0.0), 0.999)
        for curve in self.curves.values():
            if curve.smooth:
                curve.data.set_smoothing(self.curves.smoothing)
        self.refresh()

    # -- Axes

    def set_axis(self, axis: XAxis) -> None:
        """Set another x axis; all curves are in view again."""
        if axis is not self.axis:
            self.axis = axis
            self._fixed_x = None
            self._map_marks()
            self.fit()

    @property
    def log_x(self) -> bool:
        """Return True if x is logarithmic.

        The time of day is never logarithmic, because it has no origin.
        """
        return self._log_x and self.axis is not XAxis.CLOCK

    def set_log_x(self, enabled: bool) -> None:
        """Set a logarithmic x axis, all in view. Points at or below zero are hidden."""
        if enabled != self._log_x:
            self._log_x = enabled
            self._map_marks()
            self.fit()

    def set_log_y(self, enabled: bool) -> None:
        """Set a logarithmic y axis. Values at or below zero are gaps."""
        if enabled != self.log_y:
            self.log_y = enabled
            self.refresh()

    def fit(self) -> None:
        """Show all points, and from now on also new ones."""
        self.is_fitted = True
        self.refresh()

    def set_x_range(self, x0: float, x1: float) -> None:
        """Show this range, as another plot of the page does."""
        self.is_fitted = False
        self._set_range(x0, x1)
        self.refresh()

    def set_fixed_x(self, x0: float, x1: float) -> None:
        """Set the range of the x axis if the curves do not determine it: the last three hours."""
        self._fixed_x = (x0, x1)
        self.refresh()

    def data_start(self) -> float:
        """The smallest x coordinate of all curves; minus infinity without a curve."""
        return min((low for low, _ in self.curves.x_ranges(self._mapping)), default=-math.inf)

    def data_end(self) -> float:
        """The largest x coordinate of all curves; infinity without a curve.

        Names are right of it.
        """
        return max((high for _, high in self.curves.x_ranges(self._mapping)), default=math.inf)

    def x_range(self) -> Range:
        """The range of x in view."""
        low, high = self._plot.box.viewRange()[0]
        return float(low), float(high)

    def y_range(self) -> Range:
        """The values in view; logarithms if y is logarithmic."""
        frame = self._plot.frame()
        return frame.y0, frame.y1

    def visible_span_px(self) -> tuple[float, float]:
        """The ends of the visible range, in pixels from the widget's left edge."""
        rect, plot_x = self._plot.frame().rect, self._plot.x()
        return plot_x + rect.left(), plot_x + rect.right()

    @contextmanager
    def batch_redraws(self) -> Iterator[None]:
        """Draw all changes inside the block once, at the end: a drawing visits every curve."""
        self._batch_depth += 1
        try:
            yield
        finally:
            self._batch_depth -= 1
        if not self._batch_depth:
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Draw the present data of the curves. Cheap if nothing changed."""
        if self._batch_depth:
            return
        if self.is_fitted:
            full_range = self._full_range()
            if full_range is not None:
                self._set_range(*full_range)
        self._redraw()

    # -- Read-out

    @property
    def pointer_x(self) -> float | None:
        """The x coordinate of the read-out, None if it is hidden."""
        return self._link.x

    def move_pointer(self, x: float | None) -> None:
        """Move the read-out of all plots of the page to `x` and announce it; None hides it."""
        if x is None:
            self._link.leave()
        else:
            self._link.point(x)
        rows, title = self.readout(self._mapping.x_at(x)) if x is not None else ([], "")
        values = [f"{name} {value}".strip() for name, value in rows]
        readout_text = ": ".join(filter(None, (title, ", ".join(values))))
        self.setAccessibleDescription(
            ". ".join(filter(None, (readout_text, self.hidden_values_message())))
        )

    def readout(self, x: float) -> tuple[list[tuple[str, str]], str]:
        """The name and value of every curve at `x`, and the position: the text of the read-out."""
        rows, title = self._readout(self._plot.frame(), self._mapping.x(x))
        return [(row.name, row.value) for row in rows], title

    def hidden_values_message(self) -> str:
        """The message about points that the axes do not show."""
        return self.curves.hidden_values_message(
            self._mapping, self._plot.frame(), self._value_text
        )

    # -- Export

    def as_picture(self) -> Picture:
        """The plot as it is displayed, with its title."""
        return Picture(self.title, self.size(), self._paint_picture)

    # -- Events

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._apply_theme()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._repaint()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Hide the focus ring; without the focus no key holds the read-out."""
        super().focusOutEvent(event)
        self._link.leave()
        self._repaint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        is_pan = modifiers == Qt.KeyboardModifier.ShiftModifier
        if (modifiers and not is_pan) or not self._handle_key(event.key(), is_pan):
            super().keyPressEvent(event)

    def _handle_key(self, key: int, is_pan: bool) -> bool:
        """Perform the action of a key; return False if it has none."""
        keys = Qt.Key
        low, high = self.x_range()
        start, end = max(low, self.data_start()), min(high, self.data_end())
        x = self.pointer_x if self.pointer_x is not None and low <= self.pointer_x <= high else None
        direction = -1 if key in (keys.Key_Left, keys.Key_PageUp) else 1
        if key in (keys.Key_Left, keys.Key_Right) and is_pan:
            self._show_range(
                low + direction * _PAN * (high - low), high + direction * _PAN * (high - low)
            )
        elif key in (keys.Key_Left, keys.Key_Right, keys.Key_PageUp, keys.Key_PageDown):
            share = _STEP if key in (keys.Key_Left, keys.Key_Right) else _LEAP
            target = (low + end) / 2 if x is None else x + direction * share * (high - low)
            self.move_pointer(target if x is None else min(max(target, start), end))
        elif key in (keys.Key_Home, keys.Key_End):
            self.move_pointer(start if key == keys.Key_Home else end)
        elif key in (keys.Key_Plus, keys.Key_Equal, keys.Key_Minus):
            centre = (low + high) / 2 if x is None else x
            factor = 1 / _ZOOM if key == keys.Key_Minus else _ZOOM
            self._show_range(centre - (centre - low) * factor, centre + (high - centre) * factor)
        elif key == keys.Key_Escape and self.pointer_x is not None:
            self.move_pointer(None)
        else:
            return False
        return True

    # -- Range

    @property
    def _mapping(self) -> AxisMapping:
        """Map values to both axes in their present state."""
        return AxisMapping(self.axis, self.log_x, self.log_y)

    def _width_px(self) -> int:
        return max(int(self._plot.box.width()), 2)

    def _set_range(self, x0: float, x1: float) -> None:
        if x1 > x0 and (x0, x1) != self.x_range():
            self._plot.box.setXRange(x0, x1, padding=0)

    def _show_range(self, x0: float, x1: float) -> None:
        """Show this range, as if the user zoomed or panned."""
        self._set_range(x0, x1)
        self._clamp_range()

    def _full_range(self) -> Range | None:
        """The full x range, with space for names beyond its end."""
        if self._fixed_x is not None:
            low, high = plot_range.widen_empty_range(*self._fixed_x)
            # A curve may extend beyond what was requested.
            visible_names = [name for name in self._name_widths() if name[0] <= high]
            return plot_range.widen_for_names((low, high), visible_names)
        ranges = self.curves.x_ranges(self._mapping)
        return plot_range.full_range(ranges, self._name_widths(), log=self.log_x)

    @Slot()
    def _clamp_range(self) -> None:
        full_range = self._full_range()
        low, high = self.x_range()
        if full_range is not None:
            # Zooming out or panning beyond all curves is corrected.
            width = min(high - low, full_range[1] - full_range[0])
            low = min(max(low, full_range[0]), full_range[1] - width)
            high = low + width
            self._set_range(low, high)
        self.is_fitted = full_range is not None and (low, high) == full_range
        self._redraw()
        self.x_range_changed.emit(low, high)

    @Slot()
    def _fit_on_request(self) -> None:
        self.fit()
        self.fit_requested.emit()

    @Slot()
    def _redraw(self) -> None:
        mapping, (x0, x1) = self._mapping, self.x_range()
        for curve in self.curves.values():
            curve.cut_points(mapping, x0, x1, self._width_px())
        y_range = plot_range.value_range(
            self.curves.values_and_starts(mapping, x0),
            [mapping.y(threshold.y) for threshold in self.marks.thresholds],
            float(self._plot.box.height()),
            log=self.log_y,
            scale=self._scale,
        )
        self._plot.box.setYRange(*y_range, padding=0)
        self._set_ticks()
        self._repaint()
        self.redraw_finished.emit()

    def _set_ticks(self) -> None:
        if not self.curves.has_points():
            self._plot.left_axis.setTicks([[]])
            self._plot.bottom_axis.setTicks([[]])
            return
        height = float(self._plot.box.height())
        y_ticks = plot_range.y_ticks(self.y_range(), height, self._tick_text, log=self.log_y)
        self._plot.left_axis.setTicks([y_ticks])
        max_width = max((text_width(text, "tiny") for _, text in y_ticks), default=0)
        self._plot.left_axis.setWidth(max(max_width + 12, LEFT_AXIS_MIN_W))
        x_axis = self.x_range(), self._width_px(), self.axis
        x_ticks = plot_range.x_ticks(*x_axis, log=self.log_x)
        self._plot.bottom_axis.setTicks([[tick for tick in x_ticks if self._fits_label(*tick)]])

    def _fits_label(self, x: float, text: str) -> bool:
        """Return True if a tick is in the range of the curves and its label fits."""
        low, high = self.x_range()
        if self.is_fitted and self._fixed_x is None and x > self.data_end():
            return False
        right_space = (high - x) / (high - low) * self._width_px() + RIGHT_MARGIN
        return text_width(text, "tiny") / 2 <= right_space

    # -- Painting

    def _apply_theme(self) -> None:
        """Apply a new theme; Qt also reports a change of style when a plot gets another parent."""
        if theme.current() != self._applied_theme:
            self._applied_theme = theme.current()
            self._plot.apply_theme()
            self._repaint()

    def _map_marks(self) -> None:
        self.marks = self._value_marks.to_coordinates(self._mapping)

    def _has_end_names(self) -> bool:
        """Return True if names are at the ends of curves; beside a legend only if they fit."""
        if not self._end_names or not self._legend.isVisibleTo(self):
            return self._end_names
        names = [curve.name for curve in self.curves.labelled_curves()]
        max_width = max((text_width(name, "small_strong") for name in names), default=0)
        return max_width < _MAX_NAME_SHARE * self._width_px()

    def _curves_changed(self) -> None:
        labelled_curves = self.curves.labelled_curves()
        self._legend.show_curves([(curve.name, curve.colour) for curve in labelled_curves])
        self._legend.setVisible(len(labelled_curves) >= _MIN_LEGEND_CURVES)
        self.refresh()

    def _name_widths(self) -> list[tuple[float, float]]:
        """For each name at the end of a curve its x, and its share of the plot's width."""
        for curve in self.curves.values():
            curve.last_point = curve.data.last_point()
        widths = []
        for curve in self.curves.labelled_curves() if self._has_end_names() else ():
            if curve.last_point is not None:
                share = name_width(self._end_text(curve)) / self._width_px()
                reach = share * (self.data_end() - self.data_start())
                end_x = self._mapping.x(curve.end_x(self.axis))
                widths.append((self.marks.label_x(end_x, reach), share))
        return widths

    def _end_text(self, curve: DrawnCurve) -> str:
        if curve.last_point is None or self._legend.isVisibleTo(self):
            return curve.name
        name = curve.name if self._several_runs else curve.line_name
        return f"{name} {self._value_text(curve.last_point.smoothed)}"

    @Slot(QPointF)
    def _handle_pointer(self, position: QPointF) -> None:
        frame = self._plot.frame()
        if frame.rect.contains(position):
            self._link.point(frame.x_at(position.x()))
        else:
            self._link.leave()

    def _paint(self, painter: QPainter) -> None:
        """Paint the content over the grid; pointer and focus only in the window."""
        frame = self._plot.frame()
        self._paint_curves(painter, frame)
        if self._to_file:
            return
        if self.hasFocus():
            paint_focus(painter, QRectF(self._plot.viewport().rect()))
        x = self._link.x
        if x is None or not frame.contains_x(x):
            return
        rows, title = self._readout(frame, x)
        if rows:
            paint_pointer(painter, frame, x, rows)
            # Small plots are below the plot with the pointer, which shows the position.
            shows_title = self._end_names or self.underMouse() or self.hasFocus()
            paint_read_out(painter, frame, x, title if shows_title else "", rows)

    def _paint_curves(self, painter: QPainter, frame: PlotGeometry) -> None:
        """Paint the curves and all marks."""
        paint_shades(painter, frame, self.marks.spans)
        if not self.curves.has_points():
            painter.setFont(theme.font("small"))
            painter.setPen(theme.current().q("text3"))
            painter.drawText(frame.rect, _WRAPPED_TEXT, self._empty_text)
            return
        mapping, highlighted_key, is_faint = (
            self._mapping,
            self.curves.highlighted_key,
            self.curves.is_faint,
        )
        curves = tuple(self.curves.items())
        painter.save()
        # Qt paints a translucent line with many turns six times as fast with a clip.
        painter.setClipRect(frame.rect)
        for key, curve in curves:
            curve.paint_raw(painter, frame, mapping, is_faint=is_faint(key), to_file=self._to_file)
        for key, curve in sorted(curves, key=lambda item: item[0] == highlighted_key):
            curve.paint_line(painter, frame, mapping, is_faint=is_faint(key), to_file=self._to_file)
        painter.restore()
        curve_ends = CurveEnds(
            mapping, self._has_end_names(), highlighted_key, self._end_text, self.marks
        )
        count_points_under = (
            curve_ends.points_counter(frame, curves)
            if self.marks.vertical_markers
            else lambda _rect: 0
        )
        self.marks.paint(painter, frame, mapping, count_points_under)
        curve_ends.paint(painter, frame, curves)
        paint_hidden_values_message(painter, frame, self.hidden_values_message())

    def _paint_picture(self, painter: QPainter) -> None:
        if self._legend.isVisibleTo(self):
            self._legend.paint(painter)
        target = QRectF(0, self._plot.y(), self._plot.width(), self._plot.height())
        self._to_file = True
        self._plot.render(painter, target, self._plot.viewport().rect())
        self._to_file = False

    def _readout(self, frame: PlotGeometry, coordinate: float) -> tuple[list[ReadOutRow], str]:
        """The lines of the read-out at a coordinate, and the position as text."""
        curves = self.curves.values()
        mapping, is_single_run = self._mapping, not self._several_runs
        x = mapping.x_at(coordinate)
        rows, nearest_point = read_rows(
            curves, x, frame, mapping, self._value_text, is_single_run=is_single_run
        )
        # A span too narrow for its text shows it under the pointer.
        rows += [
            ReadOutRow(theme.current().fill(span.color_role), span.text, "")
            for span in self.marks.spans
            if span.text and span.x0 <= coordinate <= span.x1
        ]
        events = [mark.label for mark in self.marks.axis_marks.marks_near(frame, coordinate)]
        events += nan_start_labels(curves, coordinate, frame, mapping)
        x_text = self._x_text
        position = (
            x_text(x)
            if x_text is not None
            else position_text(self.axis, x, nearest_point, is_single_run=is_single_run)
        )
        return rows, " · ".join([position, *events] if position else events)

    @Slot()
    def _repaint(self) -> None:
        self._plot.viewport().update()
