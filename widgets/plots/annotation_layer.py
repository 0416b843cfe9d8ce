"""The marks of one plot: their present state, painted in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter

from widgets.plots.annotations import (
    NAME_H,
    TOP_MARGIN,
    AxisSpan,
    Boundary,
    PlotGeometry,
    ThresholdLine,
    VerticalMarker,
    curve_colour,
    paint_boundaries,
    paint_outliers,
    paint_span_texts,
    paint_thresholds,
    paint_vertical_markers,
)
from widgets.plots.axis_marks import AxisMarks, MarkKind, paint_row
from widgets.plots.curve_data import AxisMapping
from widgets.plots.curve_item import FAINT_ALPHA, DrawnCurve, to_pixels
from widgets.plots.end_labels import CurveEnd, name_rects, name_span, name_width, paint_curve_ends
from widgets.plots.growable_array import Floats

_SHIFT_STEP = 15.0
_NAME_OVERLAP_COST = 1000
_MIN_X = 1e-9
"""The start of a span from 0 on a logarithmic axis: left of the visible range."""


@dataclass(frozen=True)
class PlotMarks:
    """The marks of a plot, apart from its curves."""

    vertical_markers: tuple[VerticalMarker, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    spans: tuple[AxisSpan, ...] = ()
    thresholds: tuple[ThresholdLine, ...] = ()
    axis_marks: AxisMarks = field(default_factory=AxisMarks)

    def label_x(self, x: float, reach: float) -> float:
        """The x of the name of a curve that ends at `x`: right of a marker that would overlap."""
        return max(
            [x, *(marker.x for marker in self.vertical_markers if x <= marker.x <= x + reach)]
        )

    def to_coordinates(self, mapping: AxisMapping) -> PlotMarks:
        """The same marks in coordinates of the x axis; marks without a coordinate are dropped."""
        if not mapping.log_x:
            return self
        return PlotMarks(
            tuple(
                replace(mark, x=mapping.x(mark.x)) for mark in self.vertical_markers if mark.x > 0
            ),
            tuple(replace(mark, x=mapping.x(mark.x)) for mark in self.boundaries if mark.x > 0),
            tuple(
                replace(mark, x0=mapping.x(max(mark.x0, _MIN_X)), x1=mapping.x(mark.x1))
                for mark in self.spans
                if mark.x1 > _MIN_X
            ),
            self.thresholds,
            self.axis_marks.to_coordinates(mapping),
        )

    def paint(
        self,
        painter: QPainter,
        frame: PlotGeometry,
        mapping: AxisMapping,
        count_points_under: Callable[[QRectF], int],
    ) -> None:
        """Paint all marks.

        Args:
            count_points_under: Returns how much of the curves is in a rectangle.
        """
        paint_span_texts(painter, frame, self.spans)
        paint_boundaries(painter, frame, self.boundaries)
        visible_thresholds = [
            replace(threshold, y=mapping.y(threshold.y)) for threshold in self.thresholds
        ]
        paint_thresholds(painter, frame, visible_thresholds)
        paint_vertical_markers(painter, frame, self.vertical_markers, count_points_under)
        self.axis_marks.paint(painter, frame)


@dataclass(frozen=True)
class CurveEnds:
    """The ends of a plot's curves: which have names, and which curve is highlighted."""

    mapping: AxisMapping
    with_labels: bool
    highlighted_key: str
    label_text: Callable[[DrawnCurve], str]
    marks: PlotMarks

    def paint(
        self, painter: QPainter, frame: PlotGeometry, curves: Iterable[tuple[str, DrawnCurve]]
    ) -> None:
        """Paint the ends of the curves.

        Dots and names at the ends, an arrow for each value outside the picture, and a cross where
        NaN begins.
        """
        items = list(curves)
        for key, curve in items:
            y = self.mapping.ys(curve.raw_y)
            # On a logarithmic axis zero has no coordinate; it is not a value below the picture.
            paint_outliers(painter, frame, curve.raw_x, y, self._colour(key, curve))
            nan_starts = self.mapping.xs(curve.data.nan_starts(self.mapping.axis))
            paint_row(painter, frame, nan_starts, MarkKind.NON_FINITE)
        paint_curve_ends(
            painter, frame, _sort_by_alpha(self.curve_ends(frame, items)), self.with_labels
        )

    def points_counter(
        self, frame: PlotGeometry, curves: Iterable[tuple[str, DrawnCurve]]
    ) -> Callable[[QRectF], int]:
        """Return a function that counts how much of curves and names is in a rectangle."""
        items = list(curves)
        lines = [self._line(frame, curve) for _, curve in items]
        names = name_rects(frame, self.curve_ends(frame, items)) if self.with_labels else []

        def count(rect: QRectF) -> int:
            crossing_count = sum(_count_crossings(x, y, rect) for x, y in lines if len(x))
            return crossing_count + _NAME_OVERLAP_COST * sum(
                rect.intersects(name) for name in names
            )

        return count

    def curve_ends(
        self,
        frame: PlotGeometry,
        curves: Iterable[tuple[str, DrawnCurve]],
    ) -> list[CurveEnd]:
        """The preferred positions of the names of curves that end in the picture."""
        labelled_ends: list[CurveEnd] = []
        lines: list[tuple[Floats, Floats]] = []
        for key, curve in curves:
            if not curve.with_label or curve.last_point is None:
                continue
            x = self.mapping.x(curve.end_x(self.mapping.axis))
            y_end = self.mapping.y(curve.last_point.smoothed)
            if frame.contains_x(x) and frame.y0 <= y_end <= frame.y1:
                text = self.label_text(curve)
                reach = name_width(text) / frame.rect.width() * (frame.x1 - frame.x0)
                min_x = frame.px(self.marks.label_x(x, reach))
                colour = self._colour(key, curve)
                labelled_ends.append(CurveEnd(frame.point(x, y_end), text, colour, min_x=min_x))
                if self.with_labels:
                    lines.append(self._line(frame, curve))
        if not self.with_labels:
            return labelled_ends
        lines += self._threshold_lines(frame)
        return [
            replace(end, shift=_best_shift(frame, end, name_span(frame, end), lines))
            for end in labelled_ends
        ]

    def _colour(self, key: str, curve: DrawnCurve) -> QColor:
        is_faint = bool(self.highlighted_key) and key != self.highlighted_key
        return curve_colour(curve.colour, FAINT_ALPHA if is_faint else 1.0)

    def _line(self, frame: PlotGeometry, curve: DrawnCurve) -> tuple[Floats, Floats]:
        """A curve in pixels."""
        return to_pixels(frame, curve.x, self.mapping.ys(curve.y))

    def _threshold_lines(self, frame: PlotGeometry) -> list[tuple[Floats, Floats]]:
        """The threshold lines in pixels."""
        columns = np.arange(frame.rect.left(), frame.rect.right())
        return [
            (columns, np.full(len(columns), frame.py(self.mapping.y(threshold.y))))
            for threshold in self.marks.thresholds
        ]


def _count_crossings(x: Floats, y: Floats, rect: QRectF) -> int:
    """The number of pixel columns in which a line crosses a rectangle."""
    columns = np.arange(rect.left(), rect.right())
    column_y = np.interp(columns, x, y, math.nan, math.nan)
    low, high = np.fmin(column_y[:-1], column_y[1:]), np.fmax(column_y[:-1], column_y[1:])
    # Between two columns a line with many points may rise and fall, too.
    is_inside = (x > rect.left()) & (x < rect.right()) & (y > rect.top()) & (y < rect.bottom())
    return int(((low < rect.bottom()) & (high > rect.top())).sum()) + int(is_inside.sum())


def _best_shift(
    frame: PlotGeometry,
    curve_end: CurveEnd,
    span: tuple[float, float],
    lines: Sequence[tuple[Floats, Floats]],
) -> float:
    """The vertical shift of the name that crosses the fewest lines.

    Right of the point only lines that cross the whole plot count.
    """
    x0, x1 = span
    near_parts = [y[(x > x0) & (x < x1)] for x, y in lines]
    offsets = np.concatenate(near_parts) - curve_end.point.y() if near_parts else np.empty(0)

    min_shift = frame.rect.top() - TOP_MARGIN + NAME_H / 2 - curve_end.point.y()
    max_shift = frame.rect.bottom() - NAME_H / 2 - curve_end.point.y()

    def count_covered(shift: float) -> int:
        name_offset = max(min(shift, max_shift), min_shift)
        return int((np.abs(offsets - name_offset) < NAME_H / 2).sum())

    return min(
        (0.0, _SHIFT_STEP, -_SHIFT_STEP, 2 * _SHIFT_STEP, -2 * _SHIFT_STEP), key=count_covered
    )


def _sort_by_alpha(curve_ends: Sequence[CurveEnd]) -> list[CurveEnd]:
    """Sort faint names first, so that none covers the highlighted name."""
    return sorted(curve_ends, key=lambda end: end.colour.alphaF())
