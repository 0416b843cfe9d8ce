"""A moving average of a curve, for a million points in milliseconds.

No Qt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from widgets.plots.growable_array import Floats, GrowableArray
from widgets.plots.minmax_pyramid import Pyramid

_BLOCK_SIZE = 2048
"""A multiple of the pyramid's block size."""
_LAST_DIGIT = 1e-18
"""A smaller share of a sum does not change it."""


@dataclass(frozen=True, slots=True)
class Average:
    """An exponential average, corrected for its start at zero, after some points.

    Each value is the mean of all previous values, with weights that fall by `weight` per point.
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
        is_number = ~np.isnan(values)
        numbers = values if is_number.all() else values[is_number]
        result = np.full(len(values), math.nan)
        if not len(numbers):
            return result, self
        sums = _accumulate_recursively(numbers * (1 - self.weight), self.weight, self.total)
        norms = 1 - (1 - self.norm) * _fading_weights(self.weight, len(numbers))
        low = np.minimum(np.minimum.accumulate(numbers), self.low)
        high = np.maximum(np.maximum.accumulate(numbers), self.high)
        next_state = Average(
            self.weight, float(sums[-1]), float(norms[-1]), float(low[-1]), float(high[-1])
        )
        sums[: len(norms)] /= norms
        result[is_number] = np.clip(sums, low, high)
        return result, next_state


class SmoothedColumn:
    """The moving average of a column, at each of its points.

    The averages are not stored: from the state after each block of points, the next block takes 50
    µs to compute. Only the pyramid is stored, because it needs all points.

    Args:
        raw: The column. After each change of it, call `append_growth` or `shorten`.

    Attributes:
        weight: The share of the earlier average in the next, from 0 to 1.
        levels: Minima and maxima, for drawing.
    """

    def __init__(self, weight: float, raw: GrowableArray) -> None:
        self.weight = weight
        self.levels = Pyramid()
        self._raw = raw
        self._states = [Average(weight)]

    def append_growth(self) -> None:
        """Follow the growth of the column."""
        while True:
            start = (len(self._states) - 1) * _BLOCK_SIZE
            end = min(start + _BLOCK_SIZE, self._raw.size)
            values, next_state = self._states[-1].advance(self._raw.cut(start, end))
            self.levels.extend(values[self.levels.size - start :])
            if end < start + _BLOCK_SIZE:
                return
            self._states.append(next_state)

    def shorten(self, size: int) -> None:
        """Follow the shortening of the column."""
        del self._states[size // _BLOCK_SIZE + 1 :]
        self.levels.shorten(size)

    def cut(self, start: int, end: int) -> Floats:
        """Return the averages from the point ``start`` up to, not including, ``end``."""
        if end <= start:
            return np.empty(0)
        number = start // _BLOCK_SIZE
        block_start = number * _BLOCK_SIZE
        values, _ = self._states[number].advance(self._raw.cut(block_start, end))
        return values[start - block_start :]


def _fading_weights(weight: float, length: int) -> Floats:
    """The weights of a value 1, 2, 3 … points later, until they are below the last digit."""
    count = min(length, math.ceil(math.log(_LAST_DIGIT) / math.log(weight)))
    return weight ** np.arange(1.0, count + 1)


def _accumulate_recursively(values: Floats, weight: float, start: float) -> Floats:
    """y[i] = weight * y[i-1] + values[i], for a million values in milliseconds, in place.

    Each sum over the last n values is added to the one n before it: n doubles each time.
    """
    shift, shift_weight = 1, weight
    while shift < len(values) and shift_weight > _LAST_DIGIT:
        values[shift:] += shift_weight * values[:-shift]
        shift, shift_weight = 2 * shift, shift_weight * shift_weight
    weights = _fading_weights(weight, len(values))
    values[: len(weights)] += start * weights
    return values
