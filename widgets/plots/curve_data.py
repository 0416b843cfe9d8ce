"""The points of one curve: growing arrays that return what a plot of a given width shows.

No Qt. Three points to note. NaN or infinity is a gap, not a value, and stays in the arrays as NaN.
A resumed run writes the steps after its checkpoint again, so points from its first step on are
*replaced*, never drawn twice. And a plot gets not the points but one pair, minimum and maximum, per
pixel column, from a pyramid of such pairs: a plot of a million points costs as much as one of a
thousand, and a spike one point wide stays visible.

A point takes 8 bytes for its value and 1 or 2 for the pyramids; its axis values take no
memory if they are unknown or evenly spaced (`MonotonicAxis`), and the smoothed line is computed for
the visible part only (`Smoothed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from widgets.plots.growable_array import Floats, GrowableArray
from widgets.plots.minmax_pyramid import Pyramid
from widgets.plots.monotonic_axis import MonotonicAxis
from widgets.plots.smoothing import SmoothedColumn

_MIN_OCTAVE_POINTS = 1024  # fewer points need no octave of their own


class XAxis(Enum):
    """The quantity on the x axis. The value is stored in the settings."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"
    """Seconds since the run's first point: curves of several runs start together."""
    CLOCK = "clock"
    """Seconds since 1970: curves of several sources are at their real times."""


class GapReason(Enum):
    """The reason why a point has no value."""

    NO_READING = "no reading"
    NOT_MEASURED = "not measured"
    """Or NaN or infinite, if there was a value at every step before."""
    NON_FINITE = "NaN or infinite"
    """Every step has a value."""


@dataclass(frozen=True)
class CurvePoint:
    """One point of a curve, for the read-out."""

    index: int
    step: float
    epoch: float
    time_s: float
    raw: float
    smoothed: float


@dataclass(frozen=True)
class DrawnAxis:
    """The axis of a curve as it is drawn: from its origin, linear or logarithmic."""

    x: MonotonicAxis
    origin: float
    is_log: bool

    def value(self, coordinate: float) -> float:
        return (_power(coordinate) if self.is_log else coordinate) + self.origin

    def coordinates(self, x: Floats) -> Floats:
        return np.log10(x - self.origin) if self.is_log else x - self.origin

    def even_parts(
        self, start: int, end: int, width_px: int, px_per_unit: float
    ) -> Iterator[tuple[int, int, float]]:
        """Yield parts of the points, with the number of points per pixel column.

        In no part are the points much denser at the end than at the beginning.
        """
        if not self.is_log:
            yield start, end, (end - start) / width_px
            return
        edges = [end]
        upper_x = self.x.value_at(end - 1) - self.origin
        while edges[-1] - start > _MIN_OCTAVE_POINTS:
            upper_x /= 2
            edge = max(self.x.find(upper_x + self.origin, "left"), start)
            if edge < edges[-1]:
                edges.append(edge)
        if edges[-1] > start:
            edges.append(start)
        for part_start, part_end in pairwise(reversed(edges)):
            low_x, high_x = self.coordinates(self.x.take(np.array([part_start, part_end - 1])))
            part_px = max(int((high_x - low_x) * px_per_unit), 1)
            yield part_start, part_end, (part_end - part_start) / part_px


@dataclass(frozen=True)
class PixelColumns:
    """The lowest and the highest value in each pixel column that a curve crosses."""

    x: Floats
    low: Floats
    high: Floats

    @classmethod
    def of_blocks(
        cls, x: Floats, low: Floats, high: Floats, x0: float, px_per_unit: float
    ) -> PixelColumns:
        starts = np.flatnonzero(np.diff(np.floor((x - x0) * px_per_unit), prepend=-np.inf))
        return cls(x[starts], np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts))

    @property
    def centre(self) -> Floats:
        return self.low / 2 + self.high / 2

    def pairs(self) -> tuple[Floats, Floats]:
        """Return x and y of both ends of each column; a falling line meets the upper end first."""
        centre = self.centre
        is_falling = np.concatenate(([True], centre[1:] <= centre[:-1]))
        end_values = np.where(is_falling, (self.high, self.low), (self.low, self.high))
        return np.repeat(self.x, 2), end_values.T.ravel()


class CurveData:
    """One metric of one run.

    Points come in the order of their steps; a step that is not larger than the last one replaces
    everything from there on.
    """

    def __init__(
        self, smoothing: float = 0.0, gap_reason: GapReason = GapReason.NO_READING
    ) -> None:
        self._gap_reason = gap_reason
        self._step = MonotonicAxis()
        self._epoch = MonotonicAxis()
        self._time = MonotonicAxis()
        self._raw = GrowableArray()
        self._raw_levels = Pyramid()
        self._smooth: SmoothedColumn | None = None
        self._time_origin = math.nan
        self._nan_starts = GrowableArray()
        self.revision = 0
        """Increases with each change, so that a plot detects changes."""
        self.set_smoothing(smoothing)

    def __len__(self) -> int:
        return self._raw.size

    @property
    def steps(self) -> Floats:
        return self._step.values

    @property
    def epochs(self) -> Floats:
        return self._epoch.values

    @property
    def times_s(self) -> Floats:
        return self._time.values

    @property
    def raw(self) -> Floats:
        """The values; NaN for a gap."""
        return self._raw.values

    @property
    def smoothed(self) -> Floats:
        """The values after smoothing; the raw values without smoothing."""
        return self._cut(0, len(self), is_smoothed=True)

    @property
    def smoothing(self) -> float:
        return self._smooth.weight if self._smooth is not None else 0.0

    def append(
        self, step: float, value: float, epoch: float = math.nan, time_s: float = math.nan
    ) -> None:
        """Add one point, or replace the points from its step on."""
        self.extend([step], [value], [epoch], [time_s])

    def extend(
        self,
        steps: Sequence[float] | Floats,
        values: Sequence[float] | Floats,
        epochs: Sequence[float] | Floats | None = None,
        times_s: Sequence[float] | Floats | None = None,
    ) -> None:
        """Add points. If their steps run backwards, later points replace earlier ones."""
        step = np.asarray(steps, np.float64)
        value = np.array(values, np.float64)
        epoch = _same_length(epochs, len(step))
        time_s = _same_length(times_s, len(step))
        if len(value) != len(step):
            raise ValueError(f"{len(step)} steps and {len(value)} values")
        if not len(step):
            return
        if not np.isfinite(step).all():
            raise ValueError("a step is NaN or infinite")
        is_kept = _surviving_points(step)
        if is_kept is not None:
            step, value, epoch, time_s = (
                step[is_kept],
                value[is_kept],
                epoch[is_kept],
                time_s[is_kept],
            )
        if self._step.size and step[0] <= self._step.last_value:
            self.truncate(float(step[0]))
        self._record_nan_starts(value)
        value[~np.isfinite(value)] = math.nan
        # An axis is searched by bisection. If it is unknown, or a clock was set back, it stays
        # constant.
        self._step.extend(step)
        self._epoch.extend(_make_rising(epoch, self._epoch.last_value))
        self._time.extend(_make_rising(time_s, self._time.last_value))
        self._raw.extend(value)
        self._raw_levels.extend(self._raw.cut(self._raw_levels.size, self._raw.size))
        if self._smooth is not None:
            self._smooth.append_growth()
        self.revision += 1

    def truncate(self, step: float) -> None:
        """Remove every point at `step` or later."""
        size = self._step.find(step, "left")
        if size == self._raw.size:
            return
        for axis in (self._step, self._epoch, self._time):
            axis.shorten(size)
        self._raw.shorten(size)
        self._nan_starts.shorten(self._nan_starts.find(size, "left"))
        self._raw_levels.shorten(size)
        if self._smooth is not None:
            self._smooth.shorten(size)
        self.revision += 1

    def set_smoothing(self, weight: float) -> None:
        """Smooth with another weight: 0 is none, 0.6 much, 0.99 very much."""
        weight = _valid_weight(weight)
        if weight != self.smoothing:
            self._smooth = SmoothedColumn(weight, self._raw) if weight > 0 else None
            if self._smooth is not None:
                self._smooth.append_growth()
            self.revision += 1

    def set_time_origin(self, time_s: float) -> None:
        """Set the start of `XAxis.TIME` if it is not the first point.

        A metric that is measured once an epoch starts with the run.
        """
        if time_s != self._time_origin:
            self._time_origin = time_s
            self.revision += 1

    def x(self, axis: XAxis) -> Floats:
        """The values of the points on an axis; rising, or NaN if the axis is unknown."""
        return self._axis(axis).values - self._origin(axis)

    def x_at_index(self, index: int, axis: XAxis) -> float:
        """The value of one point on an axis."""
        return self._axis(axis).value_at(index) - self._origin(axis)

    def x_at_steps(self, steps: Floats, axis: XAxis) -> Floats:
        """The values of steps on an axis: of the last point up to each, NaN before the first."""
        indices = [self._step.find(step, "right") - 1 for step in steps.tolist()]
        return np.array([self.x_at_index(i, axis) if i >= 0 else math.nan for i in indices])

    def x_range(self, axis: XAxis, *, log: bool = False) -> tuple[float, float] | None:
        """The axis values of the first and last point, or None without points on this axis.

        On a logarithmic axis these are logarithms, and values up to 0 are no points.
        """
        values, origin = self._axis(axis), self._origin(axis)
        first_index = self._first_index(axis, log=log)
        if first_index == values.size:
            return None
        low, high = values.value_at(first_index) - origin, values.last_value - origin
        return (math.log10(low), math.log10(high)) if log else (low, high)

    def nonpositive_count(self, axis: XAxis) -> int:
        """The number of points that a logarithmic axis cannot show: those up to 0."""
        return self._first_index(axis, log=True) - self._axis(axis).nan_count

    def nan_starts(self, axis: XAxis) -> Floats:
        """The axis values where NaN begins, rising.

        Infinity counts as NaN, and so does a gap after two values; after one value the metric is
        measured only now and then.
        """
        index = self._nan_starts.values.astype(np.int64)
        is_measured = self._gap_reason is not GapReason.NO_READING
        if is_measured and not len(index) and len(self) and self.last_point() is None:
            index = np.zeros(1, np.int64)
        return self._axis(axis).take(index) - self._origin(axis)

    def columns(
        self,
        axis: XAxis,
        x0: float,
        x1: float,
        width_px: int,
        *,
        is_smoothed: bool = False,
        log: bool = False,
    ) -> tuple[Floats, Floats]:
        """x and y for a plot of this width between `x0` and `x1`.

        At most a pair of points per pixel column, minimum and maximum; the points themselves if
        they are fewer. One more point on either side, so that lines leave the picture. The smoothed
        line is the middle of each pair, because its remaining noise would only make it thick. With
        ``log`` x0, x1 and the result are logarithms of x.
        """
        if width_px < 1 or not x1 > x0:
            return _EMPTY, _EMPTY
        x = self._axis(axis)
        drawn_axis = DrawnAxis(x, self._origin(axis), log)
        start = max(x.find(drawn_axis.value(x0), "left") - 1, self._first_index(axis, log=log))
        end = min(x.find(drawn_axis.value(x1), "right") + 1, x.size)
        if end <= start:
            return _EMPTY, _EMPTY
        read = partial(self._cut, is_smoothed=is_smoothed)
        if end - start <= 2 * width_px:
            return drawn_axis.coordinates(x.cut(start, end)), read(start, end)
        smooth = self._smooth if is_smoothed else None
        levels = self._raw_levels if smooth is None else smooth.levels
        px_per_unit = width_px / (x1 - x0)
        parts = drawn_axis.even_parts(start, end, width_px, px_per_unit)
        blocks = zip(*(levels.blocks(read, *part) for part in parts), strict=True)
        starts, low, high = (np.concatenate(arrays) for arrays in blocks)
        block_x = drawn_axis.coordinates(x.take(starts))
        columns = PixelColumns.of_blocks(block_x, low, high, x0, px_per_unit)
        line_x, line_y = columns.pairs() if smooth is None else (columns.x, columns.centre)
        # The last point keeps its own x: the name of the curve is next to it.
        last_x, last_y = drawn_axis.coordinates(x.cut(end - 1, end)), read(end - 1, end)
        return np.append(line_x, last_x), np.append(line_y, last_y)

    def nearest_point(self, axis: XAxis, x: float) -> CurvePoint | None:
        """The point nearest to `x`; None outside the curve."""
        span = self.x_range(axis)
        if span is None or not span[0] <= x <= span[1]:
            return None
        values, target = self._axis(axis), x + self._origin(axis)
        index = min(values.find(target, "left"), values.size - 1)
        if (
            index > values.nan_count
            and target - values.value_at(index - 1) < values.value_at(index) - target
        ):
            index -= 1
        return self._point(index)

    def last_point(self) -> CurvePoint | None:
        """The last point that has a value."""
        # From the end, in blocks: a curve may end in a million NaN, but usually does not.
        for end in range(len(self), 0, -1024):
            start = max(end - 1024, 0)
            numbers = np.flatnonzero(~np.isnan(self._raw.cut(start, end)))
            if len(numbers):
                return self._point(start + int(numbers[-1]))
        return None

    def _point(self, index: int) -> CurvePoint:
        return CurvePoint(
            index,
            self._step.value_at(index),
            self._epoch.value_at(index),
            self._time.value_at(index),
            self._raw.value_at(index),
            float(self._cut(index, index + 1, is_smoothed=True)[0]),
        )

    def _cut(self, start: int, end: int, *, is_smoothed: bool) -> Floats:
        if is_smoothed and self._smooth is not None:
            return self._smooth.cut(start, end)
        return self._raw.cut(start, end)

    def _record_nan_starts(self, values: Floats) -> None:
        """Before `values` are added, record the points at which NaN begins."""
        new_gaps = ~np.isfinite(values)
        if self._gap_reason is GapReason.NO_READING or not new_gaps.any():
            return
        last_gaps = np.isnan(self._raw.cut(max(self._raw.size - 2, 0), self._raw.size))
        last_two_gaps = np.concatenate((np.array([True, False])[: 2 - len(last_gaps)], last_gaps))
        gaps_from_last_two = np.concatenate((last_two_gaps, new_gaps))
        is_start = new_gaps & ~gaps_from_last_two[1:-1]
        if self._gap_reason is GapReason.NOT_MEASURED:
            is_start &= np.isinf(values) | ~gaps_from_last_two[:-2]
        self._nan_starts.extend(np.flatnonzero(is_start).astype(np.float64) + self._raw.size)

    def _first_index(self, axis: XAxis, *, log: bool) -> int:
        """The index of the first point that has a coordinate."""
        values = self._axis(axis)
        return values.find(self._origin(axis), "right") if log else values.nan_count

    def _axis(self, axis: XAxis) -> MonotonicAxis:
        if axis is XAxis.STEP:
            return self._step
        return self._epoch if axis is XAxis.EPOCH else self._time

    def _origin(self, axis: XAxis) -> float:
        if axis is not XAxis.TIME:
            return 0.0
        if math.isfinite(self._time_origin):
            return self._time_origin
        return self._time.first_value if self._time.size > self._time.nan_count else 0.0


_EMPTY: Floats = np.empty(0)


def _power(exponent: float) -> float:
    return float(10.0 ** min(max(exponent, -300.0), 300.0))


def _valid_weight(weight: float) -> float:
    if not 0 <= weight < 1:
        raise ValueError(f"a smoothing weight must be at least 0 and below 1, not {weight}")
    return weight


def _same_length(values: Sequence[float] | Floats | None, length: int) -> Floats:
    if values is None:
        return np.full(length, math.nan)
    result = np.array(values, np.float64)
    if len(result) != length:
        raise ValueError(f"{length} steps and {len(result)} values on another axis")
    return result


def _surviving_points(steps: Floats) -> NDArray[np.bool_] | None:
    """A mask of the points that no later point replaces (same or smaller step); None for all."""
    if len(steps) < 2 or (steps[1:] > steps[:-1]).all():
        return None
    min_later_step = np.minimum.accumulate(steps[::-1])[::-1]
    surviving_mask = np.ones(len(steps), np.bool_)
    surviving_mask[:-1] = steps[:-1] < min_later_step[1:]
    return surviving_mask


def _make_rising(values: Floats, last_value: float) -> Floats:
    """Make `values` rise: a gap repeats the previous value; leading gaps stay NaN."""
    values[np.isinf(values)] = math.nan
    values_with_last = np.concatenate(([last_value], values))
    return np.fmax.accumulate(values_with_last)[1:]


@dataclass(frozen=True)
class AxisMapping:
    """Map values to *coordinates* of the plot's ranges: the value, or its logarithm.

    Zero and negative values have no coordinate on a logarithmic axis: NaN.
    """

    axis: XAxis
    log_x: bool = False
    log_y: bool = False

    def x(self, x: float) -> float:
        """The coordinate of `x`, which is in the unit of the axis."""
        return _logarithm(x) if self.log_x else x

    def x_at(self, coordinate: float) -> float:
        """The value at a coordinate, in the unit of the axis."""
        return 10.0 ** min(max(coordinate, -300.0), 300.0) if self.log_x else coordinate

    def y(self, value: float) -> float:
        return _logarithm(value) if self.log_y else value

    def xs(self, xs: Floats) -> Floats:
        """The coordinates of rising `xs`, without values that have none."""
        return np.log10(xs[xs > 0]) if self.log_x else xs

    def ys(self, values: Floats) -> Floats:
        if not self.log_y:
            return values
        return np.log10(np.where(values > 0, values, math.nan))


def _logarithm(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan
