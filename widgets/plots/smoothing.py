"""The average that follows a curve, for a million points in milliseconds.

No Qt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from widgets.plots.growable_array import Floats, GrowableArray
from widgets.plots.minmax_pyramid import Pyramid

_STRETCH = 2048
"""A multiple of what a block of the pyramid holds."""
_LAST_DIGIT = 1e-18
"""What is less of a sum does not change it."""


@dataclass(frozen=True, slots=True)
class Average:
    """An exponential average without the pull to zero of its start, after some points.

    Each value is the mean of all so far with weights that fall by `weight` from point to point.
    Such a mean lies between the least and the largest value seen, and it is held there: a
    constant stays that very constant, which dividing two rounded sums does not promise.
    A gap stays a gap and counts for nothing.
    """

    weight: float
    total: float = 0.0
    norm: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def over(self, values: Floats) -> tuple[Floats, Average]:
        """The averages at the points that come next, and what is known after them."""
        told = ~np.isnan(values)
        inner = values if told.all() else values[told]
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
        result[told] = np.clip(sums, low, high)
        return result, after


class Smoothed:
    """The average that follows a column, at each of its points.

    It is not kept: from what is known after each stretch of points, the next stretch is a matter of
    50 µs.  Only the pyramid is kept, for it takes all of them.

    Args:
        raw: The column. After each change of it, `follow` or `shorten` is called.
    """

    def __init__(self, weight: float, raw: GrowableArray) -> None:
        self.weight = weight
        self.levels = Pyramid()
        self._raw = raw
        self._known = [Average(weight)]

    def follow(self) -> None:
        """The column has grown."""
        while True:
            begin = (len(self._known) - 1) * _STRETCH
            end = min(begin + _STRETCH, self._raw.size)
            values, after = self._known[-1].over(self._raw.cut(begin, end))
            self.levels.extend(values[self.levels.size - begin :])
            if end < begin + _STRETCH:
                return
            self._known.append(after)

    def shorten(self, size: int) -> None:
        """The column has become so short."""
        del self._known[size // _STRETCH + 1 :]
        self.levels.shorten(size)

    def cut(self, begin: int, end: int) -> Floats:
        """From the point ``begin`` to before ``end``."""
        if end <= begin:
            return np.empty(0)
        number = begin // _STRETCH
        first = number * _STRETCH
        values, _ = self._known[number].over(self._raw.cut(first, end))
        return values[begin - first :]


def _fading(weight: float, length: int) -> Floats:
    """What is left of a value 1, 2, 3 … points later, until that is less than the last digit."""
    reach = min(length, math.ceil(math.log(_LAST_DIGIT) / math.log(weight)))
    return weight ** np.arange(1.0, reach + 1)


def _recur(values: Floats, weight: float, start: float) -> Floats:
    """y[i] = weight * y[i-1] + values[i], for a million values in milliseconds, in their place.

    To each sum of the last so many values the one before it is added: twice as many each time.
    """
    reach, fade = 1, weight
    while reach < len(values) and fade > _LAST_DIGIT:
        values[reach:] += fade * values[:-reach]
        reach, fade = 2 * reach, fade * fade
    fading = _fading(weight, len(values))
    values[: len(fading)] += start * fading
    return values
