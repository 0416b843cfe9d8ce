"""A plot of named curves that grow while one looks at it.

pyqtgraph draws the axes, the grid and the lines, and turns wheel and drag into ranges; it gets
from `CurveData` what one pixel column each can show, through ``setData`` and never anew.  All text
and all marks (names at the ends, the read-out, posts, run boundaries) are painted over it by one
transparent widget, because they are laid out in pixels: names must not cover each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import (
    QEvent,
    QObject,
    QPointF,
    QRectF,
    QSize,
    Signal,
    Slot,
)
from PySide6.QtGui import (
    QMouseEvent,
    QPainter,
)
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from widgets.common import formats, theme
from widgets.common.paint import paint_text, text_width
from widgets.common.theme import SOLID_CURVES
from widgets.curves import picture, ticks
from widgets.curves.curve_data import CurveData, Floats, Sample, XAxis, robust_range
from widgets.curves.export import curves_csv
from widgets.curves.hover_link import HoverLink
from widgets.curves.marks import (
    LINE_W,
    NAME_GAP,
    Boundary,
    Ending,
    Frame,
    Legend,
    Overlay,
    Post,
    ReadOutRow,
    Span,
    Threshold,
    curve_colour,
    curve_pen,
    is_dashed,
    paint_boundaries,
    paint_endings,
    paint_outliers,
    paint_pointer,
    paint_posts,
    paint_read_out,
    paint_span_texts,
    paint_thresholds,
)
from widgets.curves.quiet_plot import LEFT_MIN, curve_item, dress_axes, quiet_plot, shade

RAW_ALPHA = 0.28
_EARLY_POINTS = 10
_PICTURE_TITLE_H = 28
_Y_ROOM = 8
_RAW_ROWS_UP_TO = 3
_MANY_POINTS = 300
_LEGEND_FROM = SOLID_CURVES + 1


@dataclass
class _Curve:
    name: str
    data: CurveData
    colour: int | str
    smooth: bool
    with_raw: bool
    named: bool
    width: float
    fill: bool
    line: Any
    raw: Any
    x: Floats = field(default_factory=lambda: np.empty(0))
    y: Floats = field(default_factory=lambda: np.empty(0))
    raw_y: Floats = field(default_factory=lambda: np.empty(0))
    raw_x: Floats = field(default_factory=lambda: np.empty(0))
    last: Sample | None = None
    drawn: tuple[object, ...] = ()


class CurvePanel(QWidget):
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
        """
        super().__init__(parent)
        self.title = title
        self._axis = axis
        self._value_text, self._tick_text = value_text, tick_text
        self._from_zero, self._end_names = from_zero, end_names
        self._with_read_out = read_out
        self._log_y = False
        self._smoothing = 0.0
        self._fitted = True
        self._lifted = ""
        self._curves: dict[str, _Curve] = {}
        self._posts: tuple[Post, ...] = ()
        self._boundaries: tuple[Boundary, ...] = ()
        self._spans: tuple[Span, ...] = ()
        self._thresholds: tuple[Threshold, ...] = ()
        self._fixed_x: tuple[float, float] | None = None
        self._empty_text = "No points yet"
        self._setting = False
        self._shades: list[Any] = []

        self._plot = quiet_plot(show_x)
        self._left, self._bottom = self._plot.getAxis("left"), self._plot.getAxis("bottom")
        self._box = self._plot.getViewBox()
        self._listen()
        self._legend = Legend(LEFT_MIN, self)
        self._legend.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self._legend)
        layout.addWidget(self._plot, 1)
        self._overlay = Overlay(self._paint_over, self._plot.viewport())
        self._link = link if link is not None else HoverLink(self)
        self._link.moved.connect(self._hover_changed)
        self._link.left.connect(self._hover_changed)
        self.setMinimumSize(120, 80)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(title)
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
        curve = _Curve(name, data, colour, smooth, with_raw, named, width, fill, line, raw)
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
    ) -> None:
        """What stands on the plot beside curves; what is not given stays as it is."""
        if posts is not None:
            self._posts = tuple(posts)
        if boundaries is not None:
            self._boundaries = tuple(boundaries)
        if spans is not None and tuple(spans) != self._spans:
            self._spans = tuple(spans)
            self._lay_spans()
        if thresholds is not None:
            self._thresholds = tuple(thresholds)
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
                self._draw(each, curve)
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

    def x_range(self) -> tuple[float, float]:
        """The stretch in view."""
        low, high = self._box.viewRange()[0]
        return float(low), float(high)

    def stretch_px(self) -> tuple[float, float]:
        """Where the stretch in view begins and ends, in pixels from the widget's left edge."""
        rect, left = self._frame().rect, self._plot.x()
        return left + rect.left(), left + rect.right()

    def y_range(self) -> tuple[float, float]:
        """The values in view; logarithms when y is logarithmic."""
        low, high = self._box.viewRange()[1]
        return float(low), float(high)

    def refresh(self) -> None:
        """Draw what the curves hold now. Cheap when nothing changed."""
        if self._fitted:
            whole = self._whole_range()
            if whole is not None:
                self._put_range(*whole)
        self._redraw()

    def read(self, x: float) -> tuple[list[tuple[str, str]], str]:
        """Name and value of every curve at `x`, and where that is: what the read-out says."""
        rows, place = self._read(self._frame(), x)
        return [(row.name, row.value) for row in rows], place

    # To take along

    def csv(self) -> bytes:
        """The points in view of every curve, as a table."""
        x0, x1 = (-math.inf, math.inf) if self._fitted else self.x_range()
        curves = [(self.title, curve.name, curve.data) for curve in self._curves.values()]
        return curves_csv(curves, self._axis, x0, x1)

    def png(self, ratio: float = 2.0) -> bytes:
        """The plot as a picture, with its title."""
        return picture.png(self._picture_size(), self._paint_picture, ratio)

    def svg(self) -> bytes:
        """The plot as a drawing, with its title."""
        size, dpi = self._picture_size(), self.logicalDpiX()
        return picture.svg(size, self.title, self._paint_picture, dpi)

    # Events

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._dress()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.Resize:
            self._overlay.setGeometry(self._plot.viewport().rect())
        elif kind == QEvent.Type.MouseMove and isinstance(event, QMouseEvent):
            self._pointer_at(event.position())
        elif kind == QEvent.Type.Leave:
            self._link.leave()
        elif kind == QEvent.Type.MouseButtonDblClick:
            self.fit()
            self.fitted.emit()
            return True
        return super().eventFilter(watched, event)

    # Inside

    def _listen(self) -> None:
        self._plot.viewport().installEventFilter(self)
        self._box.sigXRangeChanged.connect(self._range_changed)
        self._box.sigRangeChangedManually.connect(self._moved_by_hand)
        # The room of the plot itself changes after that of the widget, and with the labels of
        # the y axis.
        self._box.sigResized.connect(self._room_changed)

    def _dress(self) -> None:
        dress_axes(self._plot)
        for key, curve in self._curves.items():
            self._pen(key, curve)
        self._lay_spans()
        self._overlay.update()

    def _pen(self, key: str, curve: _Curve) -> None:
        faint = bool(self._lifted) and key != self._lifted
        curve.line.setPen(curve_pen(curve.colour, curve.width, 0.25 if faint else 1.0))
        if curve.fill:
            curve.line.setFillLevel(0.0)
            curve.line.setBrush(curve_colour(curve.colour, 0.03 if faint else 0.10))
        raw_colour = curve_colour(curve.colour, 0.08 if faint else RAW_ALPHA)
        curve.raw.setPen(pg.mkPen(raw_colour, width=1))
        curve.raw.setVisible(self._has_raw(curve))
        curve.line.setZValue(11 if key == self._lifted else 10)

    def _lay_spans(self) -> None:
        for old in self._shades:
            self._plot.removeItem(old)
        self._shades = []
        for span in self._spans:
            item = shade(span)
            self._plot.addItem(item, ignoreBounds=True)
            self._shades.append(item)

    def _has_raw(self, curve: _Curve) -> bool:
        return curve.smooth and curve.with_raw and curve.data.smoothing > 0

    def _legend_changed(self) -> None:
        named = [curve for curve in self._curves.values() if curve.named]
        self._legend.show_curves([(curve.name, curve.colour) for curve in named])
        self._legend.setVisible(len(named) >= _LEGEND_FROM)

    def _width_px(self) -> int:
        return max(int(self._box.width()), 2)

    def _has_points(self) -> bool:
        return any(len(curve.data) for curve in self._curves.values())

    def _whole_range(self) -> tuple[float, float] | None:
        """Everything on the x axis, and beyond its end the room that the names need."""
        ranges = [curve.data.x_range(self._axis) for curve in self._curves.values()]
        told = [each for each in ranges if each is not None]
        if self._fixed_x is not None:
            low, high = self._fixed_x
        elif told:
            low, high = min(each[0] for each in told), max(each[1] for each in told)
        else:
            return None
        if high <= low:
            low, high = low - 0.5, high + 0.5
        if self._fixed_x is not None or not self._end_names:
            return low, high
        width = self._width_px()
        right = high
        for curve in self._curves.values():
            curve.last = curve.data.last()
            if not curve.named or curve.last is None:
                continue
            end = self._x_of(curve, curve.last)
            share = (text_width(self._end_text(curve), "small_strong") + NAME_GAP + 2) / width
            if share < 0.4 and math.isfinite(end):
                right = max(right, (end - low * share) / (1 - share))
        return low, right

    def _put_range(self, x0: float, x1: float) -> None:
        if not x1 > x0 or (x0, x1) == self.x_range():
            return
        self._setting = True
        self._box.setXRange(x0, x1, padding=0)
        self._setting = False

    @Slot()
    def _room_changed(self) -> None:
        self.refresh()

    @Slot()
    def _range_changed(self) -> None:
        if not self._setting:
            self._redraw()

    @Slot()
    def _moved_by_hand(self) -> None:
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

    def _redraw(self) -> None:
        x0, x1 = self.x_range()
        width = self._width_px()
        early: list[tuple[Floats, int]] = []
        changed = False
        for curve in self._curves.values():
            drawn = (curve.data, curve.data.revision, self._axis, x0, x1, width, self._log_y)
            if drawn != curve.drawn:
                changed = True
                curve.drawn = drawn
                self._cut(curve, x0, x1, width)
            begins = curve.data.x_range(self._axis)
            in_view = begins is not None and begins[0] >= x0
            early.append((curve.raw_y, _EARLY_POINTS if in_view else 0))
        self._put_y(early)
        if changed:
            for key, curve in self._curves.items():
                self._draw(key, curve)
        self._put_ticks()
        self._overlay.update()
        self.redrawn.emit()

    def _cut(self, curve: _Curve, x0: float, x1: float, width: int) -> None:
        curve.x, curve.y = curve.data.columns(self._axis, x0, x1, width, smoothed=True)
        if curve.data.smoothing > 0:
            curve.raw_x, curve.raw_y = curve.data.columns(self._axis, x0, x1, width)
        else:
            curve.raw_x, curve.raw_y = curve.x, curve.y
        curve.last = curve.data.last()

    def _draw(self, key: str, curve: _Curve) -> None:
        # A stroke per segment costs a third of one stroke for all, but each begins its dashes
        # anew, and where two meet is a blot: seen where they are long, and where translucent.
        faint = bool(self._lifted) and key != self._lifted
        split = len(curve.x) > _MANY_POINTS and not faint and not is_dashed(curve.colour)
        curve.line.setSegmentedLineMode("on" if split else "off")
        curve.line.setData(curve.x, self._drawable(curve.y))
        if self._has_raw(curve):
            # Smooth edges of a thousand strokes up and down are not seen and cost 5 ms a curve.
            curve.raw.opts["antialias"] = len(curve.raw_x) < self._width_px() / 2
            curve.raw.setData(curve.raw_x, self._drawable(curve.raw_y))
        if curve.fill:
            curve.line.setFillLevel(self.y_range()[0])

    def _drawable(self, values: Floats) -> Floats:
        if self._log_y:
            positive = np.where(values > 0, values, math.nan)
            return np.log10(positive)
        # A painter's coordinates overflow far below 1e30; what is out of view may lie nearer.
        low, high = self.y_range()
        room = 1000 * (high - low)
        return np.clip(values, low - room, high + room)

    def _put_y(self, early: list[tuple[Floats, int]]) -> None:
        wanted = robust_range(early, log=self._log_y)
        if wanted is None:
            wanted = (0.0, 1.0)
        low, high = wanted
        for threshold in self._thresholds:
            y = self._y(threshold.y)
            if math.isfinite(y) and abs(y - high) < 3 * (high - low):
                low, high = min(low, y), max(high, y)
        if self._from_zero and not self._log_y:
            low, high = min(low, 0.0), max(high, 0.0)
        elif not self._log_y and 0 <= low < 0.35 * high:
            low = 0.0
        # Room for half a figure of the axis at either end, and for the dot of a last point.
        room = (high - low) * _Y_ROOM / max(self._box.height() - 2 * _Y_ROOM, _Y_ROOM)
        self._box.setYRange(low - room, high + room, padding=0)

    def _put_ticks(self) -> None:
        if not self._has_points():
            self._left.setTicks([[]])
            self._bottom.setTicks([[]])
            return
        low, high = self.y_range()
        most = min(max(int(self._box.height() / 30), 2), 6)
        if self._log_y:
            places = ticks.logarithmic(low, high, most)
        else:
            places = [(y, self._tick_text(y)) for y, _ in ticks.linear(low, high, most)]
        self._left.setTicks([places])
        widest = max((text_width(text, "tiny") for _, text in places), default=0)
        self._left.setWidth(max(widest + 12, LEFT_MIN))
        low, high = self.x_range()
        most = min(max(self._width_px() // 70, 2), 8)
        make = {
            XAxis.STEP: ticks.linear,
            XAxis.EPOCH: ticks.linear,
            XAxis.TIME: ticks.elapsed,
            XAxis.CLOCK: ticks.clock,
        }[self._axis]
        self._bottom.setTicks([make(low, high, most)])

    def _x_of(self, curve: _Curve, sample: Sample) -> float:
        if self._axis is XAxis.STEP:
            return sample.step
        if self._axis is XAxis.EPOCH:
            return sample.epoch
        return float(curve.data.x(self._axis)[sample.index])

    def _y(self, value: float) -> float:
        if not self._log_y:
            return value
        return math.log10(value) if value > 0 else math.nan

    def _end_text(self, curve: _Curve) -> str:
        if curve.last is None or self._legend.isVisibleTo(self):
            return curve.name
        return f"{curve.name} {self._value_text(curve.last.smoothed)}"

    def _frame(self) -> Frame:
        rect: QRectF = self._box.mapRectToScene(self._box.boundingRect())
        return Frame(rect, *self.x_range(), *self.y_range())

    def _pointer_at(self, position: QPointF) -> None:
        frame = self._frame()
        if frame.rect.contains(position):
            self._link.point(frame.x_at(position.x()))
        else:
            self._link.leave()

    def _paint_over(self, painter: QPainter) -> None:
        frame = self._frame()
        self._paint_marks(painter, frame)
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
        paint_span_texts(painter, frame, self._spans)
        paint_boundaries(painter, frame, self._boundaries)
        drawn = [replace(each, y=self._y(each.y)) for each in self._thresholds]
        paint_thresholds(painter, frame, drawn)
        paint_posts(painter, frame, self._posts)
        endings = []
        for key, curve in self._curves.items():
            faint = bool(self._lifted) and key != self._lifted
            colour = curve_colour(curve.colour, 0.25 if faint else 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                y = np.log10(curve.raw_y) if self._log_y else curve.raw_y
            # On a logarithmic axis zero is no value, not one that lies far below.
            paint_outliers(painter, frame, curve.raw_x, np.where(np.isinf(y), math.nan, y), colour)
            if not curve.named or curve.last is None:
                continue
            x = self._x_of(curve, curve.last)
            y_end = self._y(curve.last.smoothed)
            if frame.has(x) and frame.y0 <= y_end <= frame.y1:
                endings.append(Ending(frame.at(x, y_end), self._end_text(curve), colour))
        paint_endings(painter, frame, endings, self._end_names)

    def _read(self, frame: Frame, x: float) -> tuple[list[ReadOutRow], str]:
        """The lines of the read-out at `x`, and where it is in words."""
        rows: list[ReadOutRow] = []
        nearest: Sample | None = None
        for curve in self._curves.values():
            sample = curve.data.at(self._axis, x) if curve.named else None
            if sample is None:
                continue
            if nearest is None:
                nearest = sample
            colour = curve_colour(curve.colour)
            y = self._y(sample.smoothed)
            in_picture = math.isfinite(y) and frame.y0 <= y <= frame.y1
            point = frame.at(self._x_of(curve, sample), y) if in_picture else None
            rows.append(ReadOutRow(colour, curve.name, self._value_text(sample.smoothed), point))
            if self._has_raw(curve) and len(self._curves) <= _RAW_ROWS_UP_TO:
                raw = self._value_text(sample.raw)
                rows.append(ReadOutRow(colour, f"{curve.name}, raw", raw))
        # What is too narrow for its words still tells them to who points at it.
        rows += [
            ReadOutRow(theme.current().fill(span.tone), span.text, "")
            for span in self._spans
            if span.text and span.x0 <= x <= span.x1
        ]
        return rows, self._place_text(x, nearest)

    def _place_text(self, x: float, sample: Sample | None) -> str:
        """ "step 7 800 · epoch 20 · 14:48": the axis first, then what else is known."""
        if self._axis is XAxis.CLOCK:
            return formats.clock_s(x)
        if sample is None:
            return ""
        step = f"step {formats.count(round(sample.step))}"
        epoch = f"epoch {sample.epoch:.4g}" if math.isfinite(sample.epoch) else ""
        time = formats.clock(sample.time_s) if math.isfinite(sample.time_s) else ""
        if self._axis is XAxis.EPOCH:
            parts = [epoch, step, time]
        elif self._axis is XAxis.TIME:
            parts = [f"after {formats.duration(x)}", step, epoch]
        else:
            parts = [step, epoch, time]
        return " · ".join(part for part in parts if part)

    @Slot()
    def _hover_changed(self) -> None:
        self._overlay.update()

    def _picture_size(self) -> QSize:
        return QSize(self.width(), self.height() + _PICTURE_TITLE_H)

    def _paint_picture(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_text(painter, QRectF(8, 2, self.width() - 16, 24), self.title, "strong")
        if self._legend.isVisibleTo(self):
            painter.save()
            painter.translate(0, _PICTURE_TITLE_H)
            self._legend.paint(painter)
            painter.restore()
        top = self._plot.y() + _PICTURE_TITLE_H
        target = QRectF(0, top, self._plot.width(), self._plot.height())
        self._plot.render(painter, target, self._plot.viewport().rect())
        painter.save()
        painter.translate(0, top)
        self._paint_marks(painter, self._frame())
        painter.restore()
