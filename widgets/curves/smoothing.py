"""The average that follows a curve, for a million points in milliseconds.

No Qt.
"""

from __future__ import annotations

import math

import numpy as np

from widgets.curves.pyramid import Floats

_LAST_DIGIT = 1e-18
"""What is less of a sum does not change it."""


class Average:
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
        norms = 1 - (1 - self._norm) * _fading(self._weight, len(inner))
        low = np.minimum(np.minimum.accumulate(inner), self._low)
        high = np.maximum(np.maximum.accumulate(inner), self._high)
        self._sum, self._norm = float(sums[-1]), float(norms[-1])
        self._low, self._high = float(low[-1]), float(high[-1])
        sums[: len(norms)] /= norms
        result[told] = np.clip(sums, low, high)
        return result

    def skip(self, values: Floats) -> None:
        """These are known to have been averaged: go on after them."""
        inner = values[~np.isnan(values)]
        if not len(inner):
            return
        fading = _fading(self._weight, len(inner))
        last = inner[len(inner) - len(fading) :]
        weights = np.concatenate(([1.0], fading[:-1]))[::-1]
        self._sum = self._sum * float(fading[-1]) + (1 - self._weight) * float(last @ weights)
        self._norm = 1 - (1 - self._norm) * float(fading[-1])
        self._low = min(self._low, float(inner.min()))
        self._high = max(self._high, float(inner.max()))


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
