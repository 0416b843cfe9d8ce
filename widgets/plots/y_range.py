"""The range of values of a plot: all of them, except outliers that would flatten the rest.

No Qt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from widgets.plots.growable_array import Floats

_LARGEST = 1e300  # beyond it the distance of two values may overflow
_LEAST_SHARE = 5e-5
"""Share of the values. In a narrower range all labels of six digits would be equal."""
_EMPTY: Floats = np.empty(0)


def robust_range(
    values: Sequence[tuple[Floats, int]], *, log: bool = False
) -> tuple[float, float] | None:
    """Return the y range that shows curves well, for any values.

    Everything stays in view except outliers that would flatten the rest to a line: values that are
    more than thirty times the spread away from the middle nine tenths. The first points of a curve
    are never outliers, because a loss starts high and its start should be visible; only values a
    million times off (a run that diverges at once) are dropped even there.

    Args:
        values: For each curve the result of `CurveData.columns`, and how many of its first points
        are the very first ones of the curve, 0 if the view starts later.
        log: Ignore values at or below zero.
    """
    parts: list[Floats] = []
    early: list[Floats] = []
    for series, first in values:
        for found, part in ((parts, series), (early, series[:first])):
            told = part[np.abs(part) <= _LARGEST]  # excludes NaN as well
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
        return bottom - room, top + room
    room = 0.0 if log else (_LEAST_SHARE * max(abs(bottom), abs(top)) - (top - bottom)) / 2
    return (bottom - room, top + room) if room > 0 else (bottom, top)
