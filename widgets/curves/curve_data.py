"""The points of one curve: growing arrays that answer "what does a plot of this width show".

No Qt.  Three things here are not as they look.  A point that is NaN or infinite is a gap, not a
value, and stays in the arrays as NaN.  A resumed run writes again the steps after its checkpoint,
so points from its first step on are *replaced*, never drawn twice.  And what a plot gets is not
the points but one pair, least and largest, per column of pixels, from a pyramid of such pairs: a
plot of a million points costs what a plot of a thousand does, and a spike one point wide is
still seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from widgets.curves.pyramid import FACTOR, Column, Floats, Pyramid
from widgets.curves.smoothing import Average

_BLOCKS_PER_COLUMN = 2  # fewer would shift a pair by more than half a pixel


class XAxis(Enum):
    """What stands on the x axis. The value is what settings hold."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"
    """Seconds since the run's first point: curves of several runs start together."""
    CLOCK = "clock"
    """Seconds since 1970: curves of several sources lie where they happened."""


@dataclass(frozen=True)
class Sample:
    """One point of a curve, for the read-out."""

    index: int
    step: float
    epoch: float
    time_s: float
    raw: float
    smoothed: float


class CurveData:
    """One metric of one run.

    Points come in the order of their steps; a step that is not beyond the last one replaces
    everything from there on.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self._smoothing = _valid_weight(smoothing)
        self._step = Column()
        self._epoch = Column()
        self._time = Column()
        self._raw = Column()
        self._smooth = Column()
        self._raw_levels = Pyramid()
        self._smooth_levels = Pyramid()
        self._average = Average(self._smoothing)
        self._time_origin = math.nan
        self.revision = 0
        """Grows with each change, so that a plot knows whether it is up to date."""

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
        """The values; NaN where there is a gap."""
        return self._raw.values

    @property
    def smoothed(self) -> Floats:
        """The values after smoothing; the raw ones when there is none."""
        return self._smooth.values if self._smoothing > 0 else self._raw.values

    @property
    def smoothing(self) -> float:
        return self._smoothing

    def append(
        self, step: float, value: float, epoch: float = math.nan, time_s: float = math.nan
    ) -> None:
        """Add one point, or replace what there is from its step on."""
        self.extend([step], [value], [epoch], [time_s])

    def extend(
        self,
        steps: Sequence[float] | Floats,
        values: Sequence[float] | Floats,
        epochs: Sequence[float] | Floats | None = None,
        times_s: Sequence[float] | Floats | None = None,
    ) -> None:
        """Add points. Where their steps run backwards, the later points replace the earlier."""
        step = np.asarray(steps, np.float64)
        value = np.array(values, np.float64)
        epoch = _same_length(epochs, len(step))
        time_s = _same_length(times_s, len(step))
        if len(value) != len(step):
            raise ValueError(f"{len(step)} steps and {len(value)} values")
        if not len(step):
            return
        if not np.isfinite(step).all():
            raise ValueError("a step is not a number")
        value[~np.isfinite(value)] = math.nan
        kept = _not_replaced_later(step)
        if kept is not None:
            step, value, epoch, time_s = step[kept], value[kept], epoch[kept], time_s[kept]
        if self._step.size and step[0] <= self._step.values[-1]:
            self.truncate(float(step[0]))
        # An axis is looked up by bisection. Where it is not told, or a clock was set back, it
        # stands still.
        self._step.extend(step)
        self._epoch.extend(_rising(epoch, self._epoch.last))
        self._time.extend(_rising(time_s, self._time.last))
        self._raw.extend(value)
        self._raw_levels.extend(self._raw.values)
        if self._smoothing > 0:
            self._smooth.extend(self._average.extend(value))
            self._smooth_levels.extend(self._smooth.values)
        self.revision += 1

    def truncate(self, step: float) -> None:
        """Forget every point at `step` or beyond it."""
        size = int(np.searchsorted(self._step.values, step, "left"))
        if size == self._raw.size:
            return
        for column in (self._step, self._epoch, self._time, self._raw):
            column.shorten(size)
        self._raw_levels.shorten(size)
        self._smooth.shorten(size)
        self._smooth_levels.shorten(size)
        self._average = Average(self._smoothing)
        if self._smoothing > 0:
            self._average.skip(self._raw.values)
        self.revision += 1

    def set_smoothing(self, weight: float) -> None:
        """Smooth with another weight: 0 is none, 0.6 much, 0.99 very much."""
        weight = _valid_weight(weight)
        if weight != self._smoothing:
            self._smoothing = weight
            self._smooth_anew()
            self.revision += 1

    def set_time_origin(self, time_s: float) -> None:
        """Where `XAxis.TIME` begins, when that is not at the first point: what is measured once an
        epoch began with the run."""
        if time_s != self._time_origin:
            self._time_origin = time_s
            self.revision += 1

    def x(self, axis: XAxis) -> Floats:
        """Where the points are on an axis; rises, but for NaN where an axis was never told."""
        if axis is XAxis.STEP:
            return self._step.values
        if axis is XAxis.EPOCH:
            return self._epoch.values
        return self._time.values - self._origin(axis)

    def x_range(self, axis: XAxis) -> tuple[float, float] | None:
        """From the first point to the last, or None without points on this axis."""
        values = self._axis(axis)
        first = _first_told(values)
        if first == len(values):
            return None
        origin = self._origin(axis)
        return float(values[first]) - origin, float(values[-1]) - origin

    def columns(
        self, axis: XAxis, x0: float, x1: float, width_px: int, *, smoothed: bool = False
    ) -> tuple[Floats, Floats]:
        """x and y of what a plot of this width shows between `x0` and `x1`.

        At most a pair of points per column of pixels, the least and the largest; the points
        themselves where they are fewer.  One point more on either side, so that lines run out
        of the picture.  The smoothed line is the middle of each pair: it is there to be followed
        by the eye, and what is left of its noise would only make it thick.
        """
        values = self.smoothed if smoothed else self.raw
        levels = (
            self._smooth_levels if smoothed and self._smoothing > 0 else self._raw_levels
        ).levels
        x = self._axis(axis)
        origin = self._origin(axis)
        begin = max(int(np.searchsorted(x, x0 + origin, "left")) - 1, _first_told(x))
        end = min(int(np.searchsorted(x, x1 + origin, "right")) + 1, len(x))
        if end <= begin or width_px < 1 or not x1 > x0:
            return _EMPTY, _EMPTY
        count = end - begin
        if count <= 2 * width_px:
            return x[begin:end] - origin, values[begin:end]

        per_column = count / width_px
        level, block = 0, 1
        while level < len(levels) and block * FACTOR * _BLOCKS_PER_COLUMN <= per_column:
            level, block = level + 1, block * FACTOR
        # Whole blocks; what they leave at the end are points, of which a block is made here.
        first_block = begin // block
        whole = end // block
        if level:
            low = levels[level - 1].low[first_block:whole]
            high = levels[level - 1].high[first_block:whole]
        else:
            low = high = values[begin:end]
        starts = np.arange(first_block, first_block + len(low)) * block
        starts[0] = max(starts[0], begin)
        rest = values[whole * block : end] if level else _EMPTY
        if len(rest):
            low = np.append(low, np.fmin.reduce(rest))
            high = np.append(high, np.fmax.reduce(rest))
            starts = np.append(starts, max(whole * block, begin))
        at = x[starts] - origin
        column = np.floor((at - x0) * (width_px / (x1 - x0)))
        edges = np.flatnonzero(np.diff(column, prepend=-np.inf))
        low = np.fmin.reduceat(low, edges)
        high = np.fmax.reduceat(high, edges)
        # The last point is drawn where it is: the name of the curve stands beside it.
        last_x, last_y = x[end - 1] - origin, values[end - 1]
        middle = low / 2 + high / 2
        if smoothed and self._smoothing > 0:
            return np.append(at[edges], last_x), np.append(middle, last_y)
        px, py = np.repeat(at[edges], 2), np.empty(2 * len(edges))
        # A line that goes down meets the upper end of a column first.
        falls = np.concatenate(([True], middle[1:] <= middle[:-1]))
        py[0::2] = np.where(falls, high, low)
        py[1::2] = np.where(falls, low, high)
        return np.append(px, last_x), np.append(py, last_y)

    def at(self, axis: XAxis, x: float) -> Sample | None:
        """The point nearest to `x`; None outside the curve."""
        told = self.x_range(axis)
        if told is None or not told[0] <= x <= told[1]:
            return None
        values, wanted = self._axis(axis), x + self._origin(axis)
        index = min(int(np.searchsorted(values, wanted, "left")), len(values) - 1)
        if index > _first_told(values) and wanted - values[index - 1] < values[index] - wanted:
            index -= 1
        return self._sample(index)

    def last(self) -> Sample | None:
        """The last point that is a value."""
        values = self.raw
        # From the end, in blocks: a curve that ends in a million NaN is rare, one is not.
        for end in range(len(values), 0, -1024):
            start = max(end - 1024, 0)
            told = np.flatnonzero(~np.isnan(values[start:end]))
            if len(told):
                return self._sample(start + int(told[-1]))
        return None

    def _sample(self, index: int) -> Sample:
        return Sample(
            index,
            float(self.steps[index]),
            float(self.epochs[index]),
            float(self.times_s[index]),
            float(self.raw[index]),
            float(self.smoothed[index]),
        )

    def _axis(self, axis: XAxis) -> Floats:
        if axis is XAxis.STEP:
            return self._step.values
        return self._epoch.values if axis is XAxis.EPOCH else self._time.values

    def _origin(self, axis: XAxis) -> float:
        if axis is not XAxis.TIME:
            return 0.0
        if math.isfinite(self._time_origin):
            return self._time_origin
        values = self._time.values
        first = _first_told(values)
        return float(values[first]) if first < len(values) else 0.0

    def _smooth_anew(self) -> None:
        self._average = Average(self._smoothing)
        self._smooth = Column()
        self._smooth_levels = Pyramid()
        if self._smoothing > 0 and self._raw.size:
            self._smooth.extend(self._average.extend(self._raw.values))
            self._smooth_levels.extend(self._smooth.values)


_EMPTY: Floats = np.empty(0)


def _valid_weight(weight: float) -> float:
    if not 0 <= weight < 1:
        raise ValueError(f"a smoothing weight is from 0 to below 1, not {weight}")
    return weight


def _same_length(values: Sequence[float] | Floats | None, length: int) -> Floats:
    if values is None:
        return np.full(length, math.nan)
    result = np.array(values, np.float64)
    if len(result) != length:
        raise ValueError(f"{length} steps and {len(result)} places on another axis")
    return result


def _not_replaced_later(steps: Floats) -> NDArray[np.bool_] | None:
    """Which points stay when later ones have the same or a smaller step; None for all."""
    if len(steps) < 2 or (steps[1:] > steps[:-1]).all():
        return None
    least_after = np.minimum.accumulate(steps[::-1])[::-1]
    kept = np.ones(len(steps), np.bool_)
    kept[:-1] = steps[:-1] < least_after[1:]
    return kept


def _rising(values: Floats, last: float) -> Floats:
    """`values` made to rise: a gap repeats what was before it; leading gaps stay NaN."""
    values[np.isinf(values)] = math.nan
    joined = np.concatenate(([last], values))
    return np.fmax.accumulate(joined)[1:]


def _first_told(axis: Floats) -> int:
    """The index of the first point that has a place on an axis; its NaN are all in front."""
    if not len(axis) or not math.isnan(axis[0]):
        return 0
    told = np.flatnonzero(~np.isnan(axis))
    return int(told[0]) if len(told) else len(axis)
