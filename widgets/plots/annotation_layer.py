"""The marks of one plot: their present state, painted in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter

from widgets.plots.annotations import (
    ABOVE,
    NAME_H,
    AxisSpan,
    Boundary,
    PlotGeometry,
    Post,
    ThresholdLine,
    curve_colour,
    paint_boundaries,
    paint_outliers,
    paint_posts,
    paint_span_texts,
    paint_thresholds,
)
from widgets.plots.axis_mapping import AxisMapping
from widgets.plots.axis_marks import AxisMarks, MarkKind, paint_row
from widgets.plots.curve_item import FAINT_ALPHA, DrawnCurve, pixels
from widgets.plots.end_labels import CurveEnd, name_rects, name_span, name_width, paint_endings
from widgets.plots.growable_array import Floats

_ASIDE = 15.0
_ON_NAME = 1000
_LEAST_X = 1e-9
"""The start of a span that began at 0 on a logarithmic axis: left of everything visible."""


@dataclass(frozen=True)
class PlotMarks:
    """The marks of a plot, apart from its curves."""

    posts: tuple[Post, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    spans: tuple[AxisSpan, ...] = ()
    thresholds: tuple[ThresholdLine, ...] = ()
    on_axis: AxisMarks = field(default_factory=AxisMarks)

    def past_posts(self, x: float, reach: float) -> float:
        """The x of the name of a curve that ends at `x`: right of a post that it would overlap."""
        return max([x, *(post.x for post in self.posts if x <= post.x <= x + reach)])

    def placed(self, places: AxisMapping) -> PlotMarks:
        """The same in places of the x axis; marks without a place are dropped."""
        if not places.log_x:
            return self
        return PlotMarks(
            tuple(replace(one, x=places.x(one.x)) for one in self.posts if one.x > 0),
            tuple(replace(one, x=places.x(one.x)) for one in self.boundaries if one.x > 0),
            tuple(
                replace(one, x0=places.x(max(one.x0, _LEAST_X)), x1=places.x(one.x1))
                for one in self.spans
                if one.x1 > _LEAST_X
            ),
            self.thresholds,
            self.on_axis.placed(places),
        )

    def paint(
        self,
        painter: QPainter,
        frame: PlotGeometry,
        places: AxisMapping,
        crowd: Callable[[QRectF], int],
    ) -> None:
        """Paint all of them.

        Args:
            crowd: Returns how much of the curves is in a rectangle.
        """
        paint_span_texts(painter, frame, self.spans)
        paint_boundaries(painter, frame, self.boundaries)
        drawn = [replace(each, y=places.y(each.y)) for each in self.thresholds]
        paint_thresholds(painter, frame, drawn)
        paint_posts(painter, frame, self.posts, crowd)
        self.on_axis.paint(painter, frame)


@dataclass(frozen=True)
class EndsOf:
    """The ends of a plot's curves: which have names, and which curve is highlighted."""

    places: AxisMapping
    named: bool
    lifted: str
    text: Callable[[DrawnCurve], str]
    marks: PlotMarks

    def paint(
        self, painter: QPainter, frame: PlotGeometry, curves: Iterable[tuple[str, DrawnCurve]]
    ) -> None:
        """Paint the ends of the curves.

        Dots and names at the ends, an arrow for each value outside the picture, and a cross where
        NaN begins.
        """
        listed = list(curves)
        for key, curve in listed:
            y = self.places.ys(curve.raw_y)
            # On a logarithmic axis zero has no place; it is not a value below the picture.
            paint_outliers(painter, frame, curve.raw_x, y, self._colour(key, curve))
            lost = self.places.xs(curve.data.lost(self.places.axis))
            paint_row(painter, frame, lost, MarkKind.NO_NUMBER)
        paint_endings(painter, frame, _lifted_last(self.endings(frame, listed)), self.named)

    def crowd(
        self, frame: PlotGeometry, curves: Iterable[tuple[str, DrawnCurve]]
    ) -> Callable[[QRectF], int]:
        """Return a function that counts how much of curves and names is in a rectangle."""
        listed = list(curves)
        lines = [self._line(frame, curve) for _, curve in listed]
        names = name_rects(frame, self.endings(frame, listed)) if self.named else []

        def count(rect: QRectF) -> int:
            crossed = sum(_crossings(x, y, rect) for x, y in lines if len(x))
            return crossed + _ON_NAME * sum(rect.intersects(name) for name in names)

        return count

    def endings(
        self,
        frame: PlotGeometry,
        curves: Iterable[tuple[str, DrawnCurve]],
    ) -> list[CurveEnd]:
        """The preferred places of the names of curves that end in the picture."""
        endings: list[CurveEnd] = []
        lines: list[tuple[Floats, Floats]] = []
        for key, curve in curves:
            if not curve.named or curve.last is None:
                continue
            x = self.places.x(curve.end(self.places.axis))
            y_end = self.places.y(curve.last.smoothed)
            if frame.has(x) and frame.y0 <= y_end <= frame.y1:
                words = self.text(curve)
                reach = name_width(words) / frame.rect.width() * (frame.x1 - frame.x0)
                past = frame.px(self.marks.past_posts(x, reach))
                colour = self._colour(key, curve)
                endings.append(CurveEnd(frame.at(x, y_end), words, colour, past=past))
                if self.named:
                    lines.append(self._line(frame, curve))
        if not self.named:
            return endings
        lines += self._thresholds(frame)
        return [
            replace(each, shift=_shift(frame, each, name_span(frame, each), lines))
            for each in endings
        ]

    def _colour(self, key: str, curve: DrawnCurve) -> QColor:
        is_faint = bool(self.lifted) and key != self.lifted
        return curve_colour(curve.colour, FAINT_ALPHA if is_faint else 1.0)

    def _line(self, frame: PlotGeometry, curve: DrawnCurve) -> tuple[Floats, Floats]:
        """A curve in pixels."""
        return pixels(frame, curve.x, self.places.ys(curve.y))

    def _thresholds(self, frame: PlotGeometry) -> list[tuple[Floats, Floats]]:
        """The threshold lines in pixels."""
        across = np.arange(frame.rect.left(), frame.rect.right())
        return [
            (across, np.full(len(across), frame.py(self.places.y(one.y))))
            for one in self.marks.thresholds
        ]


def _crossings(x: Floats, y: Floats, rect: QRectF) -> int:
    """The number of pixel columns in which a line crosses a rectangle."""
    columns = np.arange(rect.left(), rect.right())
    at = np.interp(columns, x, y, math.nan, math.nan)
    low, high = np.fmin(at[:-1], at[1:]), np.fmax(at[:-1], at[1:])
    # Between two columns a line with many points may rise and fall, too.
    inside = (x > rect.left()) & (x < rect.right()) & (y > rect.top()) & (y < rect.bottom())
    return int(((low < rect.bottom()) & (high > rect.top())).sum()) + int(inside.sum())


def _shift(
    frame: PlotGeometry,
    ending: CurveEnd,
    span: tuple[float, float],
    lines: Sequence[tuple[Floats, Floats]],
) -> float:
    """The vertical shift of the name that crosses the fewest lines.

    Right of its point only those count that cross the whole plot.
    """
    left, right = span
    beside = [y[(x > left) & (x < right)] for x, y in lines]
    below = np.concatenate(beside) - ending.point.y() if beside else np.empty(0)

    highest = frame.rect.top() - ABOVE + NAME_H / 2 - ending.point.y()
    lowest = frame.rect.bottom() - NAME_H / 2 - ending.point.y()

    def covered(shift: float) -> int:
        there = max(min(shift, lowest), highest)
        return int((np.abs(below - there) < NAME_H / 2).sum())

    return min((0.0, _ASIDE, -_ASIDE, 2 * _ASIDE, -2 * _ASIDE), key=covered)


def _lifted_last(endings: Sequence[CurveEnd]) -> list[CurveEnd]:
    """Faint ones first, so that no faint name covers the highlighted one."""
    return sorted(endings, key=lambda ending: ending.colour.alphaF())
