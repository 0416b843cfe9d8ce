"""The curves of a plot: their visible parts, common ranges, painting in the window and in files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from pyqtgraph.functions import arrayToQPath, arrayToQPolygonF
from pyqtgraph.graphicsItems.PlotCurveItem import arrayToLineSegments
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from widgets.common import formats
from widgets.plots.annotations import PlotGeometry, curve_colour, curve_pen, is_dashed
from widgets.plots.curve_data import AxisMapping, CurveData, CurvePoint, XAxis
from widgets.plots.growable_array import Floats
from widgets.plots.plot_range import Range

RAW_ALPHA = 0.28
FAINT_ALPHA = 0.25
RAW_FAINT_ALPHA = 0.08
_FILL_ALPHA, _FILL_FAINT_ALPHA = 0.10, 0.03
_MANY_POINTS = 300
_WINDING_VARIATION, _BAND_VARIATION = 2, 20
"""The total rise and fall of a curve, in plot heights, from which it is drawn differently."""


class Stroke(Enum):
    """The drawing method of a line. Times are for 150 points that wind over 900 × 260 px."""

    CONTINUOUS = auto()
    """One antialiased stroke: 30 ms."""
    SEGMENTS = auto()
    """A stroke for each two points: 1 ms.

    Dashes restart in each of them, and translucent ones have a blot where two meet.
    """
    HAIR = auto()
    """One stroke, one device pixel wide: 0.2 ms."""
    BAND = auto()
    """One thin stroke without antialiasing, for lines that rise and fall in each pixel column.

    Antialiasing is not visible there, and four such curves took 66 ms a frame.
    """


@dataclass
class DrawnCurve:
    """A curve in a plot. `with_label`: a name at its end, and a line in the read-out."""

    name: str
    data: CurveData
    colour: int | str
    smooth: bool
    with_raw: bool
    with_label: bool
    width: float
    fill: bool
    x: Floats = field(default_factory=lambda: np.empty(0))
    y: Floats = field(default_factory=lambda: np.empty(0))
    raw_y: Floats = field(default_factory=lambda: np.empty(0))
    raw_x: Floats = field(default_factory=lambda: np.empty(0))
    last_point: CurvePoint | None = None
    _cut_arguments: tuple[object, ...] = ()

    @property
    def has_raw(self) -> bool:
        return self.smooth and self.with_raw and self.data.smoothing > 0

    @property
    def line_name(self) -> str:
        """The name, with a note if the line is smoothed; the line behind it is raw."""
        return f"{self.name}, smoothed" if self.has_raw else self.name

    def end_x(self, axis: XAxis) -> float:
        """The x of the last point, in the unit of the x axis; NaN without a point."""
        return math.nan if self.last_point is None else self.point_x(self.last_point, axis)

    def point_x(self, point: CurvePoint, axis: XAxis) -> float:
        if axis is XAxis.STEP:
            return point.step
        if axis is XAxis.EPOCH:
            return point.epoch
        return self.data.x_at_index(point.index, axis)

    def cut_points(self, mapping: AxisMapping, x0: float, x1: float, width_px: int) -> None:
        """Cut the points to a range of x. Cheap if nothing changed."""
        column_arguments = (mapping.axis, x0, x1, width_px)
        arguments = (self.data.revision, *column_arguments, mapping.log_x)
        if arguments == self._cut_arguments:
            return
        self._cut_arguments = arguments
        self.x, self.y = self.data.columns(*column_arguments, is_smoothed=True, log=mapping.log_x)
        if self.data.smoothing > 0:
            self.raw_x, self.raw_y = self.data.columns(*column_arguments, log=mapping.log_x)
        else:
            self.raw_x, self.raw_y = self.x, self.y
        self.last_point = self.data.last_point()

    def values_outside(self, mapping: AxisMapping, frame: PlotGeometry) -> list[float]:
        """Return the values above or below the plot: those that have an arrow at its edge."""
        y = mapping.ys(self.raw_y)
        in_view = (self.raw_x >= frame.x0) & (self.raw_x <= frame.x1)
        return [float(value) for value in self.raw_y[in_view & ((y > frame.y1) | (y < frame.y0))]]

    def paint_raw(
        self,
        painter: QPainter,
        frame: PlotGeometry,
        mapping: AxisMapping,
        *,
        is_faint: bool,
        to_file: bool,
    ) -> None:
        """Paint the raw trace behind the smoothed line; see `paint_line`."""
        if not self.has_raw:
            return
        x, y = _line_in_pixels(frame, self.raw_x, mapping.ys(self.raw_y), to_file=to_file)
        # Antialiasing of a thousand steep strokes is invisible and costs 5 ms a curve.
        is_smooth = to_file or len(x) < frame.rect.width() / 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, is_smooth)
        painter.setPen(
            QPen(curve_colour(self.colour, RAW_FAINT_ALPHA if is_faint else RAW_ALPHA), 1)
        )
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(arrayToQPath(x, y, "finite"))

    def paint_line(
        self,
        painter: QPainter,
        frame: PlotGeometry,
        mapping: AxisMapping,
        *,
        is_faint: bool,
        to_file: bool,
    ) -> None:
        """Paint the line and the fill below it.

        Args:
            to_file: Speed does not matter: one stroke, which any viewer can enlarge, and which is
            clipped here, because most viewers of SVG ignore clip paths.
        """
        x, y = _line_in_pixels(frame, self.x, mapping.ys(self.y), to_file=to_file)
        if self.fill:
            shade = curve_colour(self.colour, _FILL_FAINT_ALPHA if is_faint else _FILL_ALPHA)
            paint_fill(painter, x, y, frame.rect.bottom(), shade)
        stroke = (
            Stroke.CONTINUOUS if to_file else self._best_stroke(frame.rect, y, is_faint=is_faint)
        )
        alpha = FAINT_ALPHA if is_faint else 1.0
        pen = curve_pen(self.colour, self.width, alpha)
        if stroke is Stroke.HAIR:
            # One device pixel, on high-resolution screens too: from two on it takes as long as the
            # whole.
            pen.setWidth(0)
        elif stroke is Stroke.BAND:
            pen = QPen(curve_colour(self.colour, alpha), 1)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, stroke is not Stroke.BAND)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if stroke is Stroke.SEGMENTS:
            # Round ends take ten times as long.
            pen.setCapStyle(Qt.PenCapStyle.SquareCap)
            painter.setPen(pen)
            paint_segments(painter, x, y)
        else:
            painter.setPen(pen)
            painter.drawPath(arrayToQPath(x, y, "finite"))

    def _best_stroke(self, rect: QRectF, y: Floats, *, is_faint: bool) -> Stroke:
        clipped_y = np.clip(y, rect.top(), rect.bottom())
        variation = float(np.nansum(np.abs(np.diff(clipped_y)))) / max(rect.height(), 1.0)
        is_raw = self.data.smoothing == 0 and len(self.x) > rect.width()
        # A filled curve is alone in its plot, as the learning rate is, which has as many points and
        # is smooth.
        if is_raw and (not self.fill or variation > _BAND_VARIATION):
            return Stroke.BAND
        if is_faint or is_dashed(self.colour):
            return Stroke.HAIR if variation > _WINDING_VARIATION else Stroke.CONTINUOUS
        if variation > _WINDING_VARIATION or (len(self.x) > _MANY_POINTS and not is_raw):
            return Stroke.SEGMENTS
        return Stroke.CONTINUOUS


def paint_fill(
    painter: QPainter, x: Floats, y: Floats, bottom: float, brush: QBrush | QColor
) -> None:
    """Paint the area below a line, in pixels; NaN is a gap."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(brush)
    edges = np.flatnonzero(np.diff(np.isfinite(y), prepend=False, append=False))
    for start, end in edges.reshape(-1, 2).tolist():
        polygon_x = np.pad(x[start:end], 1, "edge")
        polygon_y = np.pad(y[start:end], 1, constant_values=bottom)
        painter.drawPolygon(arrayToQPolygonF(polygon_x, polygon_y))


def paint_segments(painter: QPainter, x: Floats, y: Floats) -> None:
    """Paint a stroke for each two points of a line, in pixels."""
    # A name of its own: Qt reads the memory of this object, which nothing else keeps.
    lines = arrayToLineSegments(x, y, "finite", finiteCheck=True)
    painter.drawLines(*lines.drawargs())


def to_pixels(frame: PlotGeometry, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A line in pixels, at most 1000 heights outside: a painter's coordinates overflow."""
    rect, margin = frame.rect, 1000 * frame.rect.height()
    # A diverged curve may be at infinity.
    with np.errstate(over="ignore"):
        return frame.px(x), np.clip(frame.py(y), rect.top() - margin, rect.bottom() + margin)


def clip_line(frame: PlotGeometry, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The parts of a line inside the plot, in pixels, with NaN between them.

    Each segment is clipped separately (Liang and Barsky, doi:10.1145/357332.357333).
    """
    rect = frame.rect
    points = np.column_stack(to_pixels(frame, x, y))
    low, high = (rect.left(), rect.top()), (rect.right(), rect.bottom())
    starts, steps = points[:-1], np.diff(points, axis=0)
    enter_shares, leave_shares = np.zeros(len(steps)), np.ones(len(steps))
    is_inside = np.isfinite(steps).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for side in (0, 1):
            low_shares = (low[side] - starts[:, side]) / steps[:, side]
            high_shares = (high[side] - starts[:, side]) / steps[:, side]
            is_moving = steps[:, side] != 0
            enter_shares = np.where(
                is_moving,
                np.maximum(enter_shares, np.minimum(low_shares, high_shares)),
                enter_shares,
            )
            leave_shares = np.where(
                is_moving,
                np.minimum(leave_shares, np.maximum(low_shares, high_shares)),
                leave_shares,
            )
            side_starts = starts[:, side]
            is_inside &= is_moving | ((side_starts >= low[side]) & (side_starts <= high[side]))
    visible_indices = np.flatnonzero(is_inside & (enter_shares <= leave_shares))
    if not len(visible_indices):
        return np.empty(0), np.empty(0)
    clipped_starts = (
        starts[visible_indices] + steps[visible_indices] * enter_shares[visible_indices, None]
    )
    clipped_ends = (
        starts[visible_indices] + steps[visible_indices] * leave_shares[visible_indices, None]
    )
    # Two segments form one line if neither is clipped at the point between them.
    is_joined = (
        (np.diff(visible_indices) == 1)
        & (leave_shares[visible_indices][:-1] >= 1)
        & (enter_shares[visible_indices][1:] <= 0)
    )
    break_indices = np.flatnonzero(~is_joined) + 1
    separators = np.full((2 * len(break_indices), 2), math.nan)
    separators[::2] = clipped_ends[break_indices - 1]
    line = np.insert(clipped_starts, np.repeat(break_indices, 2), separators, axis=0)
    return np.append(line[:, 0], clipped_ends[-1, 0]), np.append(line[:, 1], clipped_ends[-1, 1])


def _line_in_pixels(
    frame: PlotGeometry, x: Floats, y: Floats, *, to_file: bool
) -> tuple[Floats, Floats]:
    return (clip_line if to_file else to_pixels)(frame, x, y)


class PlotCurves(dict[str, DrawnCurve]):
    """Curves by their keys, in the order of insertion.

    Attributes:
        smoothing: For the curves that allow it, from 0 (none) to below 1.
        requested_key: Key of the curve to highlight, which may not exist yet; "" for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.smoothing = 0.0
        self.requested_key = ""

    @property
    def highlighted_key(self) -> str:
        """Key of the highlighted curve, while the others are faint, "" for none."""
        return self.requested_key if self.requested_key in self else ""

    def is_faint(self, key: str) -> bool:
        return self.highlighted_key not in ("", key)

    def labelled_curves(self) -> list[DrawnCurve]:
        """The curves with a name at their end and a line in the read-out."""
        return [curve for curve in self.values() if curve.with_label]

    def has_points(self) -> bool:
        return any(len(curve.data) for curve in self.values())

    def x_ranges(self, mapping: AxisMapping) -> list[Range]:
        """The range of each curve with points on this axis, in coordinates."""
        ranges = [curve.data.x_range(mapping.axis, log=mapping.log_x) for curve in self.values()]
        return [x_range for x_range in ranges if x_range is not None]

    def hidden_values_message(
        self, mapping: AxisMapping, frame: PlotGeometry, value_text: Callable[[float], str]
    ) -> str:
        """The message about points that the axes do not show; "" if they show all."""
        has_nonpositive = mapping.log_y and any(bool((c.raw_y <= 0).any()) for c in self.values())
        hidden_count = sum(
            c.data.nonpositive_count(mapping.axis) for c in self.values() if mapping.log_x
        )
        messages = ["Values at or below 0 are gaps."] if has_nonpositive else []
        if hidden_count:
            verb = "is" if hidden_count == 1 else "are"
            messages.append(f"{formats.plural(hidden_count, 'point')} at 0 {verb} not shown.")
        outside_values = [
            y for curve in self.values() for y in curve.values_outside(mapping, frame)
        ]
        if outside_values:
            extreme_value = max(outside_values, key=abs)
            direction = "up" if extreme_value > 0 else "down"
            hint = "; log y shows them" if min(outside_values) > 0 and not mapping.log_y else ""
            messages.append(
                f"Values {direction} to {value_text(extreme_value)} are at the arrows{hint}."
            )
        return " ".join(messages)

    def values_and_starts(self, mapping: AxisMapping, x0: float) -> list[tuple[Floats, bool]]:
        """The input of `plot_range.robust_range`: raw values, and whether the first is in view."""
        ranges = [curve.data.x_range(mapping.axis, log=mapping.log_x) for curve in self.values()]
        return [
            (curve.raw_y, x_range is not None and x_range[0] >= x0)
            for curve, x_range in zip(self.values(), ranges, strict=True)
        ]
