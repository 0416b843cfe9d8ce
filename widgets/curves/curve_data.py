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
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_FACTOR = 16  # points to a block, blocks to the next block
_BLOCKS_PER_COLUMN = 2  # fewer would shift a pair by more than half a pixel
_FIRST_CAPACITY = 256
_MOVED_AT_ONCE = 1024
_LARGEST = 1e300  # beyond it the distance of two values may be no number


class XAxis(Enum):
    """What stands on the x axis. The value is what settings hold."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"
    """Seconds since the curve's first point: curves of several runs start together."""
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
        self._step = _Column()
        self._epoch = _Column()
        self._time = _Column()
        self._raw = _Column()
        self._smooth = _Column()
        self._raw_levels = _Pyramid()
        self._smooth_levels = _Pyramid()
        self._average = _Average(self._smoothing)
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
        self._smooth_anew()
        self.revision += 1

    def set_smoothing(self, weight: float) -> None:
        """Smooth with another weight: 0 is none, 0.6 much, 0.99 very much."""
        weight = _valid_weight(weight)
        if weight != self._smoothing:
            self._smoothing = weight
            self._smooth_anew()
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
        while level < len(levels) and block * _FACTOR * _BLOCKS_PER_COLUMN <= per_column:
            level, block = level + 1, block * _FACTOR
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
        values = self._time.values
        first = _first_told(values)
        return float(values[first]) if first < len(values) else 0.0

    def _smooth_anew(self) -> None:
        self._average = _Average(self._smoothing)
        self._smooth = _Column()
        self._smooth_levels = _Pyramid()
        if self._smoothing > 0 and self._raw.size:
            self._smooth.extend(self._average.extend(self._raw.values))
            self._smooth_levels.extend(self._smooth.values)


def robust_range(
    values: Sequence[tuple[Floats, int]], *, log: bool = False
) -> tuple[float, float] | None:
    """The y range that shows curves well, whatever is in them.

    Everything stays in view but what would flatten the rest to a line: values farther from the
    middle nine tenths than thirty times their spread.  The first points of a curve are never
    such: a loss starts high, and one who does not see the start thinks it is lost; only what is
    a million times off (a run that diverges at once) is left out even there.

    Args:
        values: For each curve what `CurveData.columns` gave, and how many of its first
            points are the very first ones of the curve, 0 when the view starts later.
        log: Values at or below zero are not in the picture.
    """
    parts: list[Floats] = []
    early: list[Floats] = []
    for series, first in values:
        for found, part in ((parts, series), (early, series[:first])):
            told = part[np.abs(part) <= _LARGEST]  # not NaN either
            found.append(np.log10(told[told > 0]) if log else told)
    everything = np.concatenate(parts) if parts else _EMPTY
    if not len(everything):
        return None
    low, middle, high = (float(q) for q in np.quantile(everything, (0.05, 0.5, 0.95)))
    spread = high - low
    if spread <= 0:
        spread = max(abs(middle) * 1e-3, 1e-12)
    near = everything[(everything >= low - 30 * spread) & (everything <= high + 30 * spread)]
    starts = np.concatenate(early)
    starts = starts[np.abs(starts - middle) <= 1e6 * spread]
    seen = np.concatenate((near, starts))
    bottom, top = float(seen.min()), float(seen.max())
    if top <= bottom:
        room = max(abs(middle) * 0.1, 1e-9)
        bottom, top = bottom - room, top + room
    return bottom, top


class _Column:
    """Numbers that grow.

    Adding is cheap each time, not only on average: the larger room that will be needed is filled
    little by little while the old one is still in use.  Copying millions of numbers at once is a
    stall that is seen.
    """

    def __init__(self) -> None:
        self._room: Floats = np.empty(_FIRST_CAPACITY)
        self._next: Floats | None = None
        self._moved = 0
        self.size = 0

    @property
    def values(self) -> Floats:
        return self._room[: self.size]

    @property
    def last(self) -> float:
        return float(self._room[self.size - 1]) if self.size else math.nan

    def shorten(self, size: int) -> None:
        self.size = min(size, self.size)
        self._moved = min(self._moved, self.size)

    def extend(self, new: Floats) -> None:
        size = self.size + len(new)
        if size > len(self._room):
            room = self._next
            if room is None or size > len(room):
                room, self._moved = np.empty(size + size // 2), 0
            room[self._moved : self.size] = self._room[self._moved : self.size]
            self._room, self._next, self._moved = room, None, 0
        self._room[self.size : size] = new
        self.size = size
        if self._next is None and size > len(self._room) // 2:
            self._next = np.empty(2 * len(self._room))
        if self._next is not None:
            end = min(self._moved + 4 * len(new) + _MOVED_AT_ONCE, size)
            self._next[self._moved : end] = self._room[self._moved : end]
            self._moved = end


class _Level:
    def __init__(self) -> None:
        self._low, self._high = _Column(), _Column()

    @property
    def low(self) -> Floats:
        return self._low.values

    @property
    def high(self) -> Floats:
        return self._high.values

    @property
    def size(self) -> int:
        return self._low.size

    def shorten(self, size: int) -> None:
        self._low.shorten(size)
        self._high.shorten(size)

    def extend(self, low: Floats, high: Floats) -> None:
        """Add the blocks that are full now. NaN is left out of a block unless it is all NaN."""
        whole = len(low) // _FACTOR
        begin = self.size
        if whole > begin:
            part = slice(begin * _FACTOR, whole * _FACTOR)
            self._low.extend(np.fmin.reduce(low[part].reshape(-1, _FACTOR), axis=1))
            self._high.extend(np.fmax.reduce(high[part].reshape(-1, _FACTOR), axis=1))


class _Pyramid:
    """Least and largest of each 16, 256, 4096 … points."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []

    def extend(self, values: Floats) -> None:
        low = high = values
        for level in self.levels:
            level.extend(low, high)
            low, high = level.low, level.high
        while len(low) >= _FACTOR:
            level = _Level()
            level.extend(low, high)
            self.levels.append(level)
            low, high = level.low, level.high

    def shorten(self, size: int) -> None:
        for level in self.levels:
            size //= _FACTOR
            level.shorten(size)


class _Average:
    """An exponential average without the pull to zero of its start.

    Each value is the mean of all so far with weights that fall by `weight` from point to point.
    Such a mean lies between the least and the largest value seen, and it is held there: a
    constant stays that very constant, which dividing two rounded sums does not promise.
    A gap stays a gap and counts for nothing.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._sum = 0.0
        self._norm = 0.0
        self._low, self._high = math.inf, -math.inf

    def extend(self, values: Floats) -> Floats:
        told = ~np.isnan(values)
        inner = values if told.all() else values[told]
        result = np.full(len(values), math.nan)
        if not len(inner):
            return result
        sums = _recur(inner * (1 - self._weight), self._weight, self._sum)
        norms = np.ones(len(inner))
        # Beyond this many points what is missing to one is less than the last digit.
        young = min(len(inner), math.ceil(-40 / math.log(self._weight)))
        norms[:young] -= (1 - self._norm) * self._weight ** np.arange(1, young + 1)
        low = np.minimum(np.minimum.accumulate(inner), self._low)
        high = np.maximum(np.maximum.accumulate(inner), self._high)
        result[told] = np.clip(sums / norms, low, high)
        self._sum, self._norm = float(sums[-1]), float(norms[-1])
        self._low, self._high = float(low[-1]), float(high[-1])
        return result


def _recur(values: Floats, weight: float, start: float) -> Floats:
    """y[i] = weight * y[i-1] + values[i], for a million values in milliseconds.

    The values are cut into rows that are worked out side by side as if each began at zero; what
    came before a row then fades along it.
    """
    length = len(values)
    width = max(round(math.sqrt(length)), 1)
    height = -(-length // width)
    padded = np.zeros(height * width)
    padded[:length] = values
    table = np.ascontiguousarray(padded.reshape(height, width).T)
    for i in range(1, width):
        table[i] += weight * table[i - 1]
    carry = np.empty(height)
    fade = weight**width
    ends, before = table[-1].tolist(), start
    for row in range(height):
        carry[row] = before
        before = ends[row] + fade * before
    table += weight ** np.arange(1, width + 1)[:, None] * carry
    return table.T.reshape(-1)[:length]


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
