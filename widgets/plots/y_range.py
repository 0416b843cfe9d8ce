"""Which values a plot shows: all of them, but for those that would flatten the rest.

No Qt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from widgets.plots.growable_array import Floats

_LARGEST = 1e300  # beyond it the distance of two values may be no number
_LEAST_SHARE = 5e-5
"""Of the values. Narrower than that the figures of an axis, of six digits, would all be one."""
_EMPTY: Floats = np.empty(0)


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
        return bottom - room, top + room
    room = 0.0 if log else (_LEAST_SHARE * max(abs(bottom), abs(top)) - (top - bottom)) / 2
    return (bottom - room, top + room) if room > 0 else (bottom, top)
