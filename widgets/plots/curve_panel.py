"""A plot of named curves that grow while one looks at it.

pyqtgraph draws the axes, the grid and the lines, and turns wheel and drag into ranges; it gets
from `CurveData` what one pixel column each can show, through ``setData`` and never anew.  All text
and all marks (names at the ends, the read-out, posts, run boundaries) are painted over it by one
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
        """A plot without curves.

        Args:
            title: For those who hear it and for saved pictures; not drawn in the window.
            value_text: How a value is written at the end of a curve and in the read-out.
            tick_text: How a value is written on the y axis.
            scale: What of the y axis is always in view; else the values alone say it.
            end_names: Names and values stand at the ends of the curves; small plots have them
                in their head instead, and where the pointer is they say only while it is on them.
            show_x: The x axis has figures; not in a plot with another one right below it.
            several_runs: Each curve is a run of its own: at one step they are not at one time.
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
        self._keys = PlotKeys(self)
        self._dressed_for: tuple[theme.Theme, float] | None = None
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
        """Take all curves out."""
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
        """What stands on the plot beside curves; what is not given stays as it is."""
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
        """What an empty plot says."""
        if text != self._empty_text:
            self._empty_text = text
            self._overlay.update()

    def lift(self, key: str) -> None:
        """Draw one curve as usual and the others faint; "" for all as usual."""
        if self._curves.lift(key, self._view()):
            self._overlay.update()

    @property
    def smoothing(self) -> float:
        return self._curves.smoothing

    def set_smoothing(self, weight: float) -> None:
        """Smooth all curves that are to be smoothed, from 0 (not) to below 1."""
        self._curves.smooth(min(max(weight, 0.0), 0.999))
        self.refresh()

    # What the pointer reads

    @property
    def pointed(self) -> float | None:
        """Where the read-out is, None where there is none."""
        return self._link.x

    def point_at(self, x: float | None) -> None:
        """Put the read-out of all plots of the page at a place, and say it; None for nowhere."""
        if x is None:
            self._link.leave()
        else:
            self._link.point(x)
        rows, title = self.read(self._places.x_at(x)) if x is not None else ([], "")
        words = [f"{name} {value}".strip() for name, value in rows]
        said = ": ".join(filter(None, (title, ", ".join(words))))
        self.setAccessibleDescription(". ".join(filter(None, (said, self.left_out()))))

    def read(self, x: float) -> tuple[list[tuple[str, str]], str]:
        """Name and value of every curve at `x`, and where that is: what the read-out says."""
        rows, title = self._read(self._frame(), self._places.x(x))
        return [(row.name, row.value) for row in rows], title

    def left_out(self) -> str:
        """What a logarithmic axis cannot show of the curves, in a sentence."""
        return self._curves.left_out(self._view())

    # To take along

    def as_picture(self) -> Picture:
        """The plot as it is seen, with its title."""
        curves = [(curve, self._curves.is_faint(key)) for key, curve in self._curves.items()]
        legend = self._legend if self._legend.isVisibleTo(self) else None
        plot = TakenPlot(self._plot, legend, curves, self._places, self._frame(), self._paint_marks)
        return Picture(self.title, self.size(), plot.paint)

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
        """Qt tells of a change of style whenever a plot moves to another parent, too."""
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
        """Names that are in the legend too stand at the ends only where they have room."""
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
            # Small plots are below the one with the pointer, which says where that is.
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
        """The lines of the read-out at a place, and where that is in words."""
        curves = self._curves.values()
        places, alone = self._places, not self._several_runs
        x = places.x_at(place)
        rows, nearest = read_rows(curves, x, frame, places, self._value_text, alone=alone)
        # What is too narrow for its words still tells them to who points at it.
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
