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
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from widgets.curves.pyramid import Column, Floats, Pyramid
from widgets.curves.smoothing import Average

_STRETCH_POINTS = 1024  # so many points need no octave of their own


class XAxis(Enum):
    """What stands on the x axis. The value is what settings hold."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"
    """Seconds since the run's first point: curves of several runs start together."""
    CLOCK = "clock"
    """Seconds since 1970: curves of several sources lie where they happened."""


class Gaps(Enum):
    """What it means that a point has no value."""

    NOBODY_LOOKED = "nobody looked"
    NOT_MEASURED = "not measured"
    """Or no number, where values came step after step before."""
    NO_NUMBER = "no number"
    """Every step has a value."""


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

    def __init__(self, smoothing: float = 0.0, gaps: Gaps = Gaps.NOBODY_LOOKED) -> None:
        self._gaps = gaps
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
        self._lost = Column()
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
        kept = _not_replaced_later(step)
        if kept is not None:
            step, value, epoch, time_s = step[kept], value[kept], epoch[kept], time_s[kept]
        if self._step.size and step[0] <= self._step.values[-1]:
            self.truncate(float(step[0]))
        self._note_lost(value)
        value[~np.isfinite(value)] = math.nan
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
        self._lost.shorten(int(np.searchsorted(self._lost.values, size, "left")))
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

    def x_range(self, axis: XAxis, *, log: bool = False) -> tuple[float, float] | None:
        """From the first point to the last, or None without points on this axis.

        On a logarithmic axis these are logarithms, and what is not beyond 0 is no point.
        """
        values, origin = self._axis(axis), self._origin(axis)
        first = self._first(axis, log=log)
        if first == len(values):
            return None
        low, high = float(values[first]) - origin, float(values[-1]) - origin
        return (math.log10(low), math.log10(high)) if log else (low, high)

    def without_place(self, axis: XAxis) -> int:
        """How many points a logarithmic axis cannot show: those at 0 and before."""
        return self._first(axis, log=True) - self._first(axis, log=False)

    def lost(self, axis: XAxis) -> Floats:
        """Where values begin to be no numbers, rising.

        What is infinite is none, and so is a gap behind two values; behind one it is a metric that
        is measured now and then.
        """
        index = self._lost.values.astype(np.int64)
        is_told = self._gaps is not Gaps.NOBODY_LOOKED
        if is_told and not len(index) and len(self) and self.last() is None:
            index = np.zeros(1, np.int64)
        return self.x(axis)[index]

    def columns(
        self,
        axis: XAxis,
        x0: float,
        x1: float,
        width_px: int,
        *,
        smoothed: bool = False,
        log: bool = False,
    ) -> tuple[Floats, Floats]:
        """x and y of what a plot of this width shows between `x0` and `x1`.

        At most a pair of points per column of pixels, the least and the largest; the points
        themselves where they are fewer.  One point more on either side, so that lines run out
        of the picture.  The smoothed line is the middle of each pair: it is there to be followed
        by the eye, and what is left of its noise would only make it thick.

        Args:
            log: x0, x1 and what is returned are logarithms of x.
        """
        x, origin = self._axis(axis), self._origin(axis)
        is_smooth = smoothed and self._smoothing > 0
        values = self.smoothed if smoothed else self.raw
        low_x, high_x = (_power(x0), _power(x1)) if log else (x0, x1)
        first = self._first(axis, log=log)
        begin = max(int(np.searchsorted(x, low_x + origin, "left")) - 1, first)
        end = min(int(np.searchsorted(x, high_x + origin, "right")) + 1, len(x))
        if end <= begin or width_px < 1 or not x1 > x0:
            return _EMPTY, _EMPTY

        def placed(told: Floats) -> Floats:
            return np.log10(told - origin) if log else told - origin

        if end - begin <= 2 * width_px:
            return placed(x[begin:end]), values[begin:end]
        levels = self._smooth_levels if is_smooth else self._raw_levels
        edges = [begin, end]
        if log:
            edges = _octaves(x, origin, begin, end)
        parts = []
        for one, next_one in pairwise(edges):
            px = width_px
            if log:
                ends = placed(x[[one, next_one - 1]])
                px = max(int((ends[1] - ends[0]) / (x1 - x0) * width_px), 1)
            parts.append(levels.blocks(values, one, next_one, (next_one - one) / px))
        starts, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
        at = placed(x[starts])
        column = np.floor((at - x0) * (width_px / (x1 - x0)))
        cuts = np.flatnonzero(np.diff(column, prepend=-np.inf))
        low = np.fmin.reduceat(low, cuts)
        high = np.fmax.reduceat(high, cuts)
        # The last point is drawn where it is: the name of the curve stands beside it.
        last_x, last_y = placed(x[end - 1 : end]), values[end - 1]
        middle = low / 2 + high / 2
        if is_smooth:
            return np.append(at[cuts], last_x), np.append(middle, last_y)
        in_pairs, py = np.repeat(at[cuts], 2), np.empty(2 * len(cuts))
        # A line that goes down meets the upper end of a column first.
        falls = np.concatenate(([True], middle[1:] <= middle[:-1]))
        py[0::2] = np.where(falls, high, low)
        py[1::2] = np.where(falls, low, high)
        return np.append(in_pairs, last_x), np.append(py, last_y)

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

    def _note_lost(self, new: Floats) -> None:
        """Before `new` is added: where in it values begin to be no numbers."""
        gap = ~np.isfinite(new)
        if self._gaps is Gaps.NOBODY_LOOKED or not gap.any():
            return
        told = np.isnan(self._raw.values[-2:])
        before = np.concatenate((np.array([True, False])[: 2 - len(told)], told))
        both = np.concatenate((before, gap))
        begins = gap & ~both[1:-1]
        if self._gaps is Gaps.NOT_MEASURED:
            begins &= np.isinf(new) | ~both[:-2]
        self._lost.extend(np.flatnonzero(begins).astype(np.float64) + self._raw.size)

    def _first(self, axis: XAxis, *, log: bool) -> int:
        """The index of the first point that has a place."""
        values = self._axis(axis)
        told = _first_told(values)
        if not log:
            return told
        return told + int(np.searchsorted(values[told:], self._origin(axis), "right"))

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


def _octaves(x: Floats, origin: float, begin: int, end: int) -> list[int]:
    """Where to part points so that, on a logarithmic axis, in no part they lie much denser at its
    end than at its beginning."""
    edges = [end]
    upper = float(x[end - 1]) - origin
    while edges[-1] - begin > _STRETCH_POINTS:
        upper /= 2
        edge = max(int(np.searchsorted(x, upper + origin, "left")), begin)
        if edge < edges[-1]:
            edges.append(edge)
    if edges[-1] > begin:
        edges.append(begin)
    return edges[::-1]


def _power(exponent: float) -> float:
    return float(10.0 ** min(max(exponent, -300.0), 300.0))


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
