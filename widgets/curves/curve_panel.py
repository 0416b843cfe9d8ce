"""A plot of named curves that grow while one looks at it.

pyqtgraph draws the axes, the grid and the lines, and turns wheel and drag into ranges; it gets
from `CurveData` what one pixel column each can show, through ``setData`` and never anew.  All text
and all marks (names at the ends, the read-out, posts, run boundaries) are painted over it by one
transparent widget, because they are laid out in pixels: names must not cover each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from PySide6.QtCore import QEvent, QPointF, QRectF, Signal, Slot
from PySide6.QtGui import QFocusEvent, QPainter
from PySide6.QtWidgets import QVBoxLayout, QWidget

from widgets.common import formats, theme
from widgets.common.paint import paint_focus, paint_text, text_width
from widgets.common.theme import SOLID_CURVES
from widgets.curves import plot_range
from widgets.curves.axis_marks import AxisMark, AxisMarks
from widgets.curves.curve_data import CurveData, XAxis
from widgets.curves.drawn_curve import DrawnCurve, View
from widgets.curves.hover_link import HoverLink
from widgets.curves.marks import (
    LINE_W,
    NAME_GAP,
    Boundary,
    Frame,
    Legend,
    Post,
    ReadOutRow,
    Span,
    Threshold,
    paint_pointer,
    paint_read_out,
)
from widgets.curves.plot_keys import PlotKeys
from widgets.curves.plot_marks import EndsOf, PlotMarks
from widgets.curves.plot_surface import PlotSurface
from widgets.curves.pyramid import Floats
from widgets.curves.quiet_plot import LEFT_MIN, RIGHT, curve_item, dress_axes, shade
from widgets.curves.read_out import place_text, read_rows
from widgets.curves.taken_plot import TakenPlot

_EARLY_POINTS = 10
_LEGEND_FROM = SOLID_CURVES + 1
_NAME_SHARE = 0.33


class CurvePanel(PlotSurface):
    """Curves over a common x axis. Wheel zooms x, drag pans, double click fits.

    Signals:
        x_range_changed: A person zoomed or panned: the new ends, for other plots of the page.
        fitted: A person wants everything in view again.
        redrawn: What is in view, or where, may be other than before.
    """

    x_range_changed = Signal(float, float)
    fitted = Signal()
    redrawn = Signal()

    def __init__(
        self,
        title: str,
        *,
        link: HoverLink | None = None,
        axis: XAxis = XAxis.STEP,
        value_text: Callable[[float], str] = formats.metric,
        tick_text: Callable[[float], str] = formats.tick,
        from_zero: bool = False,
        end_names: bool = True,
        read_out: bool = True,
        show_x: bool = True,
        several_runs: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """A plot without curves.

        Args:
            title: For those who hear it and for saved pictures; not drawn in the window.
            value_text: How a value is written at the end of a curve and in the read-out.
            tick_text: How a value is written on the y axis.
            from_zero: The y axis begins at zero.
            end_names: Names and values stand at the ends of the curves; small plots have them
                in their head instead.
            read_out: The box with all values follows the pointer; else only line and dots do.
            show_x: The x axis has figures; not in a plot with another one right below it.
            several_runs: Each curve is a run of its own: at one step they are not at one time.
        """
        super().__init__(show_x, self._paint_over, parent)
        self.title = title
        self._axis = axis
        self._value_text, self._tick_text = value_text, tick_text
        self._from_zero, self._end_names = from_zero, end_names
        self._with_read_out = read_out
        self._several_runs = several_runs
        self._log_y = False
        self._smoothing = 0.0
        self._fitted = True
        self._lifted = ""
        self._held = 0
        self._curves: dict[str, DrawnCurve] = {}
        self._marks = PlotMarks()
        self._fixed_x: tuple[float, float] | None = None
        self._empty_text = "No points yet"
        self._shades: list[Any] = []

        self._legend = Legend(LEFT_MIN, self)
        self._legend.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self._legend)
        layout.addWidget(self._plot, 1)
        self._link = link if link is not None else HoverLink(self)
        self._link.moved.connect(self._hover_changed)
        self._link.left.connect(self._hover_changed)
        self._room_changed.connect(self.refresh)
        self._range_changed.connect(self._redraw)
        self._moved_by_hand.connect(self._keep_in_sight)
        self._pointer_moved.connect(self._point)
        self._pointer_left.connect(self._link.leave)
        self._double_clicked.connect(self._fit_again)
        self.setAccessibleName(title)
        self._keys = PlotKeys(self)
        self._dress()

    # What is shown

    def set_curve(
        self,
        key: str,
        name: str,
        data: CurveData,
        colour: int | str = 0,
        *,
        smooth: bool = True,
        with_raw: bool = True,
        named: bool = True,
        width: float = LINE_W,
        fill: bool = False,
    ) -> None:
        """Add a curve, or change the one with this key. Call `refresh` when `data` has grown.

        Args:
            colour: The number of a curve's colour (dashed from the fifth on), or a token of the
                theme, as ``line_strong`` for peers.
            smooth: The page's smoothing is for this curve too; not for the few points of a
                validation.
            with_raw: Behind the smoothed line the raw one is seen.
            named: It has name and value at its end and a line in the read-out.
        """
        old = self._curves.get(key)
        if old is None:
            raw, line = curve_item(1), curve_item(10)
            for item in (raw, line):
                self._plot.addItem(item, ignoreBounds=True)
        else:
            raw, line = old.raw, old.line
        curve = DrawnCurve(name, data, colour, smooth, with_raw, named, width, fill, line, raw)
        self._curves[key] = curve
        if smooth:
            data.set_smoothing(self._smoothing)
        self._pen(key, curve)
        self._legend_changed()
        self.refresh()

    def remove_curve(self, key: str) -> None:
        curve = self._curves.pop(key, None)
        if curve is not None:
            self._plot.removeItem(curve.raw)
            self._plot.removeItem(curve.line)
            self._legend_changed()
            self.refresh()

    def clear(self) -> None:
        """Take all curves out."""
        for key in tuple(self._curves):
            self.remove_curve(key)

    def keys(self) -> tuple[str, ...]:
        return tuple(self._curves)

    def set_marks(
        self,
        *,
        posts: Sequence[Post] | None = None,
        boundaries: Sequence[Boundary] | None = None,
        spans: Sequence[Span] | None = None,
        thresholds: Sequence[Threshold] | None = None,
        on_axis: Sequence[AxisMark] | None = None,
    ) -> None:
        """What stands on the plot beside curves; what is not given stays as it is."""
        before = self._marks
        self._marks = PlotMarks(
            before.posts if posts is None else tuple(posts),
            before.boundaries if boundaries is None else tuple(boundaries),
            before.spans if spans is None else tuple(spans),
            before.thresholds if thresholds is None else tuple(thresholds),
            before.on_axis if on_axis is None else AxisMarks(on_axis),
        )
        if self._marks.spans != before.spans:
            self._lay_spans()
        self.refresh()

    def set_empty_text(self, text: str) -> None:
        """What an empty plot says."""
        self._empty_text = text
        self._overlay.update()

    def lift(self, key: str) -> None:
        """Draw one curve as usual and the others faint; "" for all as usual."""
        if key != self._lifted:
            self._lifted = key if key in self._curves else ""
            for each, curve in self._curves.items():
                self._pen(each, curve)
                curve.draw(self._view(), faint=self._is_faint(each))
            self._overlay.update()

    # How it is shown

    @property
    def axis(self) -> XAxis:
        return self._axis

    def set_axis(self, axis: XAxis) -> None:
        """Another x axis; everything is in view again."""
        if axis is not self._axis:
            self._axis = axis
            self._fixed_x = None
            self.fit()

    @property
    def log_y(self) -> bool:
        return self._log_y

    def set_log_y(self, on: bool) -> None:
        """Logarithmic y axis. Values at or below zero are gaps there."""
        if on != self._log_y:
            self._log_y = on
            self.refresh()

    @property
    def smoothing(self) -> float:
        return self._smoothing

    def set_smoothing(self, weight: float) -> None:
        """Smooth all curves that are to be smoothed, from 0 (not) to below 1."""
        self._smoothing = min(max(weight, 0.0), 0.999)
        for key, curve in self._curves.items():
            if curve.smooth:
                curve.data.set_smoothing(self._smoothing)
                self._pen(key, curve)
        self.refresh()

    def fit(self) -> None:
        """All points in view, and from now on those that come."""
        self._fitted = True
        self.refresh()

    def is_fitted(self) -> bool:
        return self._fitted

    def set_x_range(self, x0: float, x1: float) -> None:
        """Show this stretch, as another plot of the page does."""
        self._fitted = False
        self._put_range(x0, x1)
        self.refresh()

    def set_fixed_x(self, x0: float, x1: float) -> None:
        """What "everything" is on the x axis when the curves do not say: the last three hours."""
        self._fixed_x = (x0, x1)
        self.refresh()

    @contextmanager
    def drawn_once(self) -> Iterator[None]:
        """Whatever changes within is drawn once, at the end: a drawing looks at every curve."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if not self._held:
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Draw what the curves hold now. Cheap when nothing changed."""
        if self._held:
            return
        if self._fitted:
            whole = self._whole_range()
            if whole is not None:
                self._put_range(*whole)
        self._redraw()

    @property
    def pointed(self) -> float | None:
        """Where the read-out is, None where there is none."""
        return self._link.x

    def point_at(self, x: float | None) -> None:
        """Put the read-out of all plots of the page there, and say it; None for nowhere."""
        if x is None:
            self._link.leave()
        else:
            self._link.point(x)
        rows, place = self.read(x) if x is not None else ([], "")
        words = [f"{name} {value}".strip() for name, value in rows]
        self.setAccessibleDescription(": ".join(filter(None, (place, ", ".join(words)))))

    def data_end(self) -> float:
        """Where the last curve ends; infinity without one."""
        return self._data_end()

    def data_begin(self) -> float:
        """Where the first curve begins; minus infinity without one."""
        told = [curve.data.x_range(self._axis) for curve in self._curves.values()]
        return min((each[0] for each in told if each is not None), default=-math.inf)

    def read(self, x: float) -> tuple[list[tuple[str, str]], str]:
        """Name and value of every curve at `x`, and where that is: what the read-out says."""
        rows, place = self._read(self._frame(), x)
        return [(row.name, row.value) for row in rows], place

    # To take along

    def png(self, ratio: float = 2.0) -> bytes:
        """The plot as a picture, with its title."""
        return self._taken().png(ratio)

    def svg(self) -> bytes:
        """The plot as a drawing, with its title."""
        return self._taken().svg()

    def pdf(self) -> bytes:
        """The plot as a page of its own size, with its title."""
        return self._taken().pdf()

    def _taken(self) -> TakenPlot:
        curves = [(curve, self._is_faint(key)) for key, curve in self._curves.items()]
        legend = self._legend if self._legend.isVisibleTo(self) else None
        return TakenPlot(
            self.title,
            self._plot,
            self.size(),
            legend,
            curves,
            self._log_y,
            self._frame(),
            self._paint_marks,
        )

    # Events

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._dress()

    def event(self, event: QEvent) -> bool:
        # Of a move to a finer screen Qt does not tell `changeEvent`.
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._dress()
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The ring comes.

        It is not for `PlotKeys` to hear of the focus: a plot that dies gives it up, and a filter
        that then asks the dead plot ends the program (PySide 6.8 to 6.11 on Python 3.11).
        """
        super().focusInEvent(event)
        self._overlay.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The ring goes, and without the focus nobody holds the read-out by keys."""
        super().focusOutEvent(event)
        self._link.leave()
        self._overlay.update()

    # Inside

    def _dress(self) -> None:
        dress_axes(self._plot)
        self._pen_all()
        self._lay_spans()
        self._overlay.update()

    def _pen(self, key: str, curve: DrawnCurve) -> None:
        ratio = self.devicePixelRatioF()
        curve.pen(faint=self._is_faint(key), lifted=key == self._lifted, ratio=ratio)

    def _pen_all(self) -> None:
        for key, curve in self._curves.items():
            self._pen(key, curve)

    def _is_faint(self, key: str) -> bool:
        return bool(self._lifted) and key != self._lifted

    def _view(self) -> View:
        x0, x1 = self.x_range()
        y0, y1 = self.y_range()
        return View(self._axis, x0, x1, y0, y1, self._width_px(), self._log_y)

    def _lay_spans(self) -> None:
        for old in self._shades:
            self._plot.removeItem(old)
        self._shades = []
        for span in self._marks.spans:
            item = shade(span)
            self._plot.addItem(item, ignoreBounds=True)
            self._shades.append(item)

    def _names_ends(self) -> bool:
        """Names that are in the legend too stand at the ends only where they have room."""
        if not self._end_names or not self._legend.isVisibleTo(self):
            return self._end_names
        named = [curve.name for curve in self._curves.values() if curve.named]
        widest = max((text_width(name, "small_strong") for name in named), default=0)
        return widest < _NAME_SHARE * self._width_px()

    def _legend_changed(self) -> None:
        named = [curve for curve in self._curves.values() if curve.named]
        self._legend.show_curves([(curve.name, curve.colour) for curve in named])
        self._legend.setVisible(len(named) >= _LEGEND_FROM)

    def _has_points(self) -> bool:
        return any(len(curve.data) for curve in self._curves.values())

    def _data_end(self) -> float:
        """Where the last curve ends; what is right of it is room for names."""
        told = [curve.data.x_range(self._axis) for curve in self._curves.values()]
        return max((each[1] for each in told if each is not None), default=math.inf)

    def _whole_range(self) -> plot_range.Range | None:
        """Everything on the x axis, and beyond its end the room that the names need."""
        if self._fixed_x is not None:
            return plot_range.widened(*self._fixed_x)
        told = [curve.data.x_range(self._axis) for curve in self._curves.values()]
        names: list[tuple[float, float]] = []
        for curve in self._curves.values():
            curve.last = curve.data.last()
        for curve in self._curves.values() if self._names_ends() else ():
            if curve.named and curve.last is not None:
                wide = text_width(self._end_text(curve), "small_strong") + NAME_GAP + 2
                names.append((curve.end(self._axis), wide / self._width_px()))
        return plot_range.whole([each for each in told if each is not None], names)

    @Slot()
    def _keep_in_sight(self) -> None:
        whole = self._whole_range()
        low, high = self.x_range()
        if whole is not None:
            # One who zooms out past everything, or pans it out of sight, is brought back.
            width = min(high - low, whole[1] - whole[0])
            low = min(max(low, whole[0]), whole[1] - width)
            high = low + width
            self._put_range(low, high)
        self._fitted = whole is not None and (low, high) == whole
        self._redraw()
        self.x_range_changed.emit(low, high)

    @Slot()
    def _redraw(self) -> None:
        view = self._view()
        early: list[tuple[Floats, int]] = []
        changed = False
        for curve in self._curves.values():
            changed = curve.cut(view) or changed
            begins = curve.data.x_range(self._axis)
            in_view = begins is not None and begins[0] >= view.x0
            early.append((curve.raw_y, _EARLY_POINTS if in_view else 0))
        self._put_y(early)
        if changed:
            view = self._view()
            for key, curve in self._curves.items():
                curve.draw(view, faint=self._is_faint(key))
        self._put_ticks()
        self._overlay.update()
        self.redrawn.emit()

    def _put_y(self, early: list[tuple[Floats, int]]) -> None:
        shown = plot_range.values(
            early,
            [self._y(threshold.y) for threshold in self._marks.thresholds],
            float(self._box.height()),
            log=self._log_y,
            from_zero=self._from_zero,
        )
        self._box.setYRange(*shown, padding=0)

    def _put_ticks(self) -> None:
        if not self._has_points():
            self._left.setTicks([[]])
            self._bottom.setTicks([[]])
            return
        height = float(self._box.height())
        places = plot_range.y_ticks(self.y_range(), height, self._tick_text, log=self._log_y)
        self._left.setTicks([places])
        widest = max((text_width(text, "tiny") for _, text in places), default=0)
        self._left.setWidth(max(widest + 12, LEFT_MIN))
        self._bottom.setTicks([[each for each in self._x_ticks() if self._has_room(*each)]])

    def _x_ticks(self) -> list[tuple[float, str]]:
        return plot_range.x_ticks(self.x_range(), self._width_px(), self._axis)

    def _has_room(self, x: float, text: str) -> bool:
        """Whether a tick is where curves are and its figure is not cut at the right edge."""
        low, high = self.x_range()
        if self._fitted and self._fixed_x is None and x > self._data_end():
            return False
        beyond = (high - x) / (high - low) * self._width_px() + RIGHT
        return text_width(text, "tiny") / 2 <= beyond

    def _y(self, value: float) -> float:
        if not self._log_y:
            return value
        return math.log10(value) if value > 0 else math.nan

    def _end_text(self, curve: DrawnCurve) -> str:
        if curve.last is None or self._legend.isVisibleTo(self):
            return curve.name
        return f"{curve.name} {self._value_text(curve.last.smoothed)}"

    @Slot(QPointF)
    def _point(self, position: QPointF) -> None:
        frame = self._frame()
        if frame.rect.contains(position):
            self._link.point(frame.x_at(position.x()))
        else:
            self._link.leave()

    @Slot()
    def _fit_again(self) -> None:
        self.fit()
        self.fitted.emit()

    def _paint_over(self, painter: QPainter) -> None:
        frame = self._frame()
        self._paint_marks(painter, frame)
        if self.hasFocus():
            paint_focus(painter, QRectF(self._overlay.rect()))
        x = self._link.x
        if x is None or not frame.has(x):
            return
        rows, title = self._read(frame, x)
        if rows:
            paint_pointer(painter, frame, x, rows)
            if self._with_read_out:
                paint_read_out(painter, frame, x, title, rows)

    def _paint_marks(self, painter: QPainter, frame: Frame) -> None:
        if not self._has_points():
            paint_text(painter, frame.rect, self._empty_text, "small", "text3", center=True)
            return
        self._marks.paint(painter, frame, self._y)
        ends = EndsOf(self._axis, self._log_y, self._names_ends(), self._lifted, self._end_text)
        ends.paint(painter, frame, self._curves.items(), self._y)

    def _read(self, frame: Frame, x: float) -> tuple[list[ReadOutRow], str]:
        """The lines of the read-out at `x`, and where it is in words."""
        curves = self._curves.values()
        alone = not self._several_runs
        rows, nearest = read_rows(
            curves, self._axis, x, frame, self._y, self._value_text, alone=alone
        )
        # What is too narrow for its words still tells them to who points at it.
        rows += [
            ReadOutRow(theme.current().fill(span.tone), span.text, "")
            for span in self._marks.spans
            if span.text and span.x0 <= x <= span.x1
        ]
        place = place_text(self._axis, x, nearest, alone=alone)
        happened = [mark.words for mark in self._marks.on_axis.at(frame, x)]
        return rows, " · ".join([place, *happened] if place else happened)

    @Slot()
    def _hover_changed(self) -> None:
        self._overlay.update()
