"""The average that follows a curve, for a million points in milliseconds.

No Qt.
"""

from __future__ import annotations

import math

import numpy as np

from widgets.curves.pyramid import Floats


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
