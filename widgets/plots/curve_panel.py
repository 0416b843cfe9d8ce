"""A plot of named curves that grow while they are displayed.

pyqtgraph draws the axes, the grid and the lines, and turns wheel and drag into ranges; `CurveData`
passes it one point per pixel column through ``setData``, and items are reused. All text and all
marks (names at the ends, the read-out, posts, run boundaries) are painted over it by one
transparent widget, because they are laid out in pixels: names must not cover each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QPointF, QRectF, Slot
from PySide6.QtGui import QFocusEvent, QPainter
from PySide6.QtWidgets import QVBoxLayout, QWidget

from widgets.common import formats, theme
from widgets.common.painting import paint_focus, paint_text, text_width
from widgets.common.theme import SOLID_CURVES
from widgets.plots.annotation_layer import EndsOf, PlotMarks
from widgets.plots.annotations import (
    LINE_W,
    AxisSpan,
    Boundary,
    PlotGeometry,
    Post,
    ReadOutRow,
    ThresholdLine,
    paint_left_out,
    paint_pointer,
    paint_read_out,
)
from widgets.plots.axis_marks import AxisMark, AxisMarks
from widgets.plots.cursor_readout import lost_near, place_text, read_rows
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_item import DrawnCurve
from widgets.plots.curve_legend import Legend
from widgets.plots.end_labels import name_width
from widgets.plots.image_export import Picture
from widgets.plots.linked_cursor import HoverLink
from widgets.plots.plot_export import TakenPlot
from widgets.plots.plot_range import Scale
from widgets.plots.plot_widget import LEFT_MIN, dress_axes, shade
from widgets.plots.shortcuts import PlotKeys
from widgets.plots.zoomable_plot import RangedPlot

_LEGEND_FROM = SOLID_CURVES + 1
_NAME_SHARE = 0.33


class CurvePanel(RangedPlot):
    """Curves over a common x axis, with their names, their marks and the read-out."""

    def __init__(
        self,
        title: str,
        *,
        link: HoverLink | None = None,
        axis: XAxis = XAxis.STEP,
        value_text: Callable[[float], str] = formats.metric,
        tick_text: Callable[[float], str] = formats.tick,
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
            scale: The part of the y axis that is always in view; None for automatic.
            end_names: Names and values are at the ends of the curves; small plots have them in
            their header instead, and show the place of the pointer only under it.
            show_x: The x axis has labels; False if another plot is right below it.
            several_runs: Each curve is a run of its own: one step is at several times.
        """
        super().__init__(show_x, self._paint_over, axis, tick_text, scale, parent)
        self.title = title
        self._value_text = value_text
        self._end_names = end_names
        self._several_runs = several_runs
        self._told_marks = self._marks = PlotMarks()
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
        self._pointer_moved.connect(self._point)
        self._pointer_left.connect(self._link.leave)
        self.setAccessibleName(title)
        self._keys = PlotKeys(self, lambda: self.pointed, self.point_at)
        self._dressed_for: tuple[theme.Theme, float] | None = None
        self._dress()

    # -- Content

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
            theme, such as ``line_strong`` for peers.
            smooth: The page's smoothing applies to this curve; not to the few points of a
            validation.
            with_raw: The raw line is visible behind the smoothed one.
            named: It has name and value at its end and a line in the read-out.
        """
        self._curves.put(
            key,
            name,
            data,
            colour,
            smooth=smooth,
            with_raw=with_raw,
            named=named,
            width=width,
            fill=fill,
        )
        self._legend_changed()
        self.refresh()

    def remove_curve(self, key: str) -> None:
        if self._curves.remove(key):
            self._legend_changed()
            self.refresh()

    def clear(self) -> None:
        """Remove all curves."""
        gone = [key for key in tuple(self._curves) if self._curves.remove(key)]
        if gone:
            self._legend_changed()
            self.refresh()

    def keys(self) -> tuple[str, ...]:
        return tuple(self._curves)

    def set_marks(
        self,
        *,
        posts: Sequence[Post] | None = None,
        boundaries: Sequence[Boundary] | None = None,
        spans: Sequence[AxisSpan] | None = None,
        thresholds: Sequence[ThresholdLine] | None = None,
        on_axis: Sequence[AxisMark] | None = None,
    ) -> None:
        """Set the marks besides the curves; omitted ones stay unchanged."""
        before = self._told_marks
        self._told_marks = PlotMarks(
            before.posts if posts is None else tuple(posts),
            before.boundaries if boundaries is None else tuple(boundaries),
            before.spans if spans is None else tuple(spans),
            before.thresholds if thresholds is None else tuple(thresholds),
            before.on_axis if on_axis is None else AxisMarks(on_axis),
        )
        self._place_marks()
        self.refresh()

    def set_empty_text(self, text: str) -> None:
        """Set the text of an empty plot."""
        if text != self._empty_text:
            self._empty_text = text
            self._overlay.update()

    def lift(self, key: str) -> None:
        """Highlight one curve and draw the others faint; "" for none."""
        if self._curves.lift(key, self._view()):
            self._overlay.update()

    @property
    def smoothing(self) -> float:
        return self._curves.smoothing

    def set_smoothing(self, weight: float) -> None:
        """Set the smoothing of all curves that allow it, from 0 (none) to below 1."""
        self._curves.smooth(min(max(weight, 0.0), 0.999))
        self.refresh()

    # -- Read-out

    @property
    def pointed(self) -> float | None:
        """The place of the read-out, None if it is hidden."""
        return self._link.x

    def point_at(self, x: float | None) -> None:
        """Move the read-out of all plots of the page to a place and announce it; None hides it."""
        if x is None:
            self._link.leave()
        else:
            self._link.point(x)
        rows, title = self.read(self._places.x_at(x)) if x is not None else ([], "")
        words = [f"{name} {value}".strip() for name, value in rows]
        said = ": ".join(filter(None, (title, ", ".join(words))))
        self.setAccessibleDescription(". ".join(filter(None, (said, self.left_out()))))

    def read(self, x: float) -> tuple[list[tuple[str, str]], str]:
        """The name and value of every curve at `x`, and the place: the text of the read-out."""
        rows, title = self._read(self._frame(), self._places.x(x))
        return [(row.name, row.value) for row in rows], title

    def left_out(self) -> str:
        """A sentence about the points that a logarithmic axis cannot show."""
        return self._curves.left_out(self._view())

    # -- Export

    def as_picture(self) -> Picture:
        """The plot as it is displayed, with its title."""
        curves = [(curve, self._curves.is_faint(key)) for key, curve in self._curves.items()]
        legend = self._legend if self._legend.isVisibleTo(self) else None
        plot = TakenPlot(self._plot, legend, curves, self._places, self._frame(), self._paint_marks)
        return Picture(self.title, self.size(), plot.paint)

    # -- Events

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._dress()

    def event(self, event: QEvent) -> bool:
        # Qt does not report a move to a high-resolution screen to `changeEvent`.
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._dress()
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus ring.

        Not in `PlotKeys`: a plot that is destroyed gives up the focus, and an event filter that
        then calls the dead plot ends the program (PySide 6.8 to 6.11 on Python 3.11).
        """
        super().focusInEvent(event)
        self._overlay.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Hide the focus ring; without the focus no key holds the read-out."""
        super().focusOutEvent(event)
        self._link.leave()
        self._overlay.update()

    # -- Internal

    def _dress(self) -> None:
        """Qt also reports a change of style whenever a plot gets another parent."""
        dress = theme.current(), self.devicePixelRatioF()
        if dress == self._dressed_for:
            return
        self._dressed_for = dress
        dress_axes(self._left, self._bottom)
        self._curves.pen()
        self._lay_spans()
        self._overlay.update()

    def _place_marks(self) -> None:
        before, self._marks = self._marks, self._told_marks.placed(self._places)
        if self._marks.spans != before.spans:
            self._lay_spans()

    def _lay_spans(self) -> None:
        for old in self._shades:
            self._box.removeItem(old)
        self._shades = []
        for span in self._marks.spans:
            item = shade(span)
            self._box.addItem(item, ignoreBounds=True)
            self._shades.append(item)

    def _names_ends(self) -> bool:
        """Names that are also in the legend are at the ends only if they have room."""
        if not self._end_names or not self._legend.isVisibleTo(self):
            return self._end_names
        named = [curve.name for curve in self._curves.named()]
        widest = max((text_width(name, "small_strong") for name in named), default=0)
        return widest < _NAME_SHARE * self._width_px()

    def _legend_changed(self) -> None:
        named = self._curves.named()
        self._legend.show_curves([(curve.name, curve.colour) for curve in named])
        self._legend.setVisible(len(named) >= _LEGEND_FROM)

    def _name_rooms(self) -> list[tuple[float, float]]:
        for curve in self._curves.values():
            curve.last = curve.data.last()
        rooms = []
        for curve in self._curves.named() if self._names_ends() else ():
            if curve.last is not None:
                share = name_width(self._end_text(curve)) / self._width_px()
                reach = share * (self.data_end() - self.data_begin())
                end = self._places.x(curve.end(self._axis))
                rooms.append((self._marks.past_posts(end, reach), share))
        return rooms

    def _thresholds(self) -> list[float]:
        return [self._places.y(threshold.y) for threshold in self._marks.thresholds]

    def _end_text(self, curve: DrawnCurve) -> str:
        if curve.last is None or self._legend.isVisibleTo(self):
            return curve.name
        name = curve.name if self._several_runs else curve.name_of_line
        return f"{name} {self._value_text(curve.last.smoothed)}"

    @Slot(QPointF)
    def _point(self, position: QPointF) -> None:
        frame = self._frame()
        if frame.rect.contains(position):
            self._link.point(frame.x_at(position.x()))
        else:
            self._link.leave()

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
            # Small plots are below the one with the pointer, which shows the place.
            is_here = self._end_names or self.underMouse() or self.hasFocus()
            paint_read_out(painter, frame, x, title if is_here else "", rows)

    def _paint_marks(self, painter: QPainter, frame: PlotGeometry) -> None:
        if not self._curves.has_points():
            paint_text(painter, frame.rect, self._empty_text, "small", "text3", center=True)
            return
        named, lifted = self._names_ends(), self._curves.lifted
        ends = EndsOf(self._places, named, lifted, self._end_text, self._marks)
        curves = tuple(self._curves.items())
        crowd = ends.crowd(frame, curves) if self._marks.posts else lambda _rect: 0
        self._marks.paint(painter, frame, self._places, crowd)
        ends.paint(painter, frame, curves)
        paint_left_out(painter, frame, self.left_out())

    def _read(self, frame: PlotGeometry, place: float) -> tuple[list[ReadOutRow], str]:
        """The lines of the read-out at a place, and the place as text."""
        curves = self._curves.values()
        places, alone = self._places, not self._several_runs
        x = places.x_at(place)
        rows, nearest = read_rows(curves, x, frame, places, self._value_text, alone=alone)
        # A span too narrow for its text shows it under the pointer.
        rows += [
            ReadOutRow(theme.current().fill(span.tone), span.text, "")
            for span in self._marks.spans
            if span.text and span.x0 <= place <= span.x1
        ]
        happened = [mark.label for mark in self._marks.on_axis.at(frame, place)]
        happened += lost_near(curves, place, frame, places)
        where = place_text(self._axis, x, nearest, alone=alone)
        return rows, " · ".join([where, *happened] if where else happened)

    @Slot()
    def _hover_changed(self) -> None:
        self._overlay.update()
