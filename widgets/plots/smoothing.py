"""A moving average of a curve, for a million points in milliseconds.

No Qt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from widgets.plots.growable_array import Floats, GrowableArray
from widgets.plots.minmax_pyramid import Pyramid

_STRETCH = 2048
"""A multiple of the pyramid's block size."""
_LAST_DIGIT = 1e-18
"""A smaller share of a sum does not change it."""


@dataclass(frozen=True, slots=True)
class Average:
    """An exponential average, corrected for its start at zero, after some points.

    Each value is the mean of all before with weights that fall by `weight` from point to point.
    Such a mean is between the minimum and the maximum seen, and is clamped to them: a constant
    stays exactly constant, which a quotient of two rounded sums does not guarantee. A gap stays a
    gap and is ignored.
    """

    weight: float
    total: float = 0.0
    norm: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def advance(self, values: Floats) -> tuple[Floats, Average]:
        """Return the averages at the next points, and the state after them."""
        known = ~np.isnan(values)
        inner = values if known.all() else values[known]
        result = np.full(len(values), math.nan)
        if not len(inner):
            return result, self
        sums = _recur(inner * (1 - self.weight), self.weight, self.total)
        norms = 1 - (1 - self.norm) * _fading(self.weight, len(inner))
        low = np.minimum(np.minimum.accumulate(inner), self.low)
        high = np.maximum(np.maximum.accumulate(inner), self.high)
        after = Average(
            self.weight, float(sums[-1]), float(norms[-1]), float(low[-1]), float(high[-1])
        )
        sums[: len(norms)] /= norms
        result[known] = np.clip(sums, low, high)
        return result, after


class SmoothedColumn:
    """The moving average of a column, at each of its points.

    It is not stored: from the state after each block of points, computing the next block takes 50
    µs. Only the pyramid is stored, because it needs all points.

    Args:
        raw: The column. After each change of it, call `follow` or `shorten`.

    Attributes:
        weight: The share of the earlier average in the next, from 0 to 1.
        levels: Minima and maxima, for drawing.
    """

    def __init__(self, weight: float, raw: GrowableArray) -> None:
        self.weight = weight
        self.levels = Pyramid()
        self._raw = raw
        self._known = [Average(weight)]

    def follow(self) -> None:
        """Take the growth of the column."""
        while True:
            begin = (len(self._known) - 1) * _STRETCH
            end = min(begin + _STRETCH, self._raw.size)
            values, after = self._known[-1].advance(self._raw.cut(begin, end))
            self.levels.extend(values[self.levels.size - begin :])
            if end < begin + _STRETCH:
                return
            self._known.append(after)

    def shorten(self, size: int) -> None:
        """Take the shortening of the column."""
        del self._known[size // _STRETCH + 1 :]
        self.levels.shorten(size)

    def cut(self, begin: int, end: int) -> Floats:
        """Return those from the point ``begin`` up to, not including, ``end``."""
        if end <= begin:
            return np.empty(0)
        number = begin // _STRETCH
        first = number * _STRETCH
        values, _ = self._known[number].advance(self._raw.cut(first, end))
        return values[begin - first :]


def _fading(weight: float, length: int) -> Floats:
    """The weights of a value 1, 2, 3 … points later, until they are below the last digit."""
    reach = min(length, math.ceil(math.log(_LAST_DIGIT) / math.log(weight)))
    return weight ** np.arange(1.0, reach + 1)


def _recur(values: Floats, weight: float, start: float) -> Floats:
    """y[i] = weight * y[i-1] + values[i], for a million values in milliseconds, in place.

    Each sum over the last n values is added to the one n before it: n doubles each time.
    """
    reach, fade = 1, weight
    while reach < len(values) and fade > _LAST_DIGIT:
        values[reach:] += fade * values[:-reach]
        reach, fade = 2 * reach, fade * fade
    fading = _fading(weight, len(values))
    values[: len(fading)] += start * fading
    return values
