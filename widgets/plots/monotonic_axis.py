"""The places of a curve's points on an axis: numbers that never fall, mostly without memory.

No Qt.
"""

from __future__ import annotations

import math

import numpy as np

from widgets.plots.growable_array import Floats, GrowableArray, Indices, Side


class MonotonicAxis:
    """Numbers that never fall.

    First come unknown ones, as NaN; then evenly spaced ones, as steps are: only their number is
    stored. The rest is a column.

    Attributes:
        untold: The number of leading NaN.
    """

    def __init__(self) -> None:
        self.leading_nan_count = 0
        self._even = 0
        self._start, self._stride = 0.0, 0.0
        self._rest = GrowableArray()

    @property
    def size(self) -> int:
        return self._even_end + self._rest.size

    @property
    def first(self) -> float:
        """The first known value, NaN if there is none."""
        return self.value_at(self.leading_nan_count) if self.size > self.leading_nan_count else math.nan

    @property
    def last(self) -> float:
        return self.value_at(self.size - 1) if self.size else math.nan

    @property
    def values(self) -> Floats:
        return self.cut(0, self.size)

    @property
    def _even_end(self) -> int:
        return self.leading_nan_count + self._even

    def value_at(self, index: int) -> float:
        if index >= self._even_end:
            return self._rest.value_at(index - self._even_end)
        return self._even_at(index - self.leading_nan_count) if index >= self.leading_nan_count else math.nan

    def cut(self, begin: int, end: int) -> Floats:
        """Return those from ``begin`` up to, not including, ``end``."""
        rest = self._even_end
        if begin >= rest:
            return self._rest.cut(begin - rest, end - rest)
        untold = np.full(max(min(end, self.leading_nan_count) - begin, 0), math.nan)
        even = np.arange(max(begin, self.leading_nan_count), min(end, rest)) - self.leading_nan_count
        return np.concatenate(
            (untold, self._start + self._stride * even, self._rest.cut(0, max(end - rest, 0)))
        )

    def take(self, indices: Indices) -> Floats:
        """Return those at these rising indices."""
        rest = self._even_end
        gap_end, behind = np.searchsorted(indices, (self.leading_nan_count, rest))
        found = np.empty(len(indices))
        found[:gap_end] = math.nan
        even = found[gap_end:behind]
        # In place: a plot requests 30,000, and allocating memory takes longer than computing them.
        np.subtract(indices[gap_end:behind], self.leading_nan_count, out=even)
        even *= self._stride
        even += self._start
        if behind < len(indices):
            found[behind:] = self._rest.take(indices[behind:] - rest)
        return found

    def find(self, value: float, side: Side) -> int:
        """The number of values less than ``value``, or not larger; unknown ones count as such."""
        count = self._find_even(value, side)
        if count == self._even and self._rest.size:
            count += self._rest.find(value, side)
        return self.leading_nan_count + count

    def shorten(self, size: int) -> None:
        self._rest.shorten(max(size - self._even_end, 0))
        self._even = min(self._even, max(size - self.leading_nan_count, 0))
        self.leading_nan_count = min(self.leading_nan_count, size)

    def extend(self, new: Floats) -> None:
        """Add numbers that do not fall; NaN only before the first known value."""
        if self.size == self.leading_nan_count:
            known = ~np.isnan(new)
            front = int(known.argmax()) if known.any() else len(new)
            self.leading_nan_count += front
            new = new[front:]
        if len(new) and not self._rest.size:
            new = new[self._count_even(new) :]
        self._rest.extend(new)

    def _count_even(self, new: Floats) -> int:
        """Take those that continue evenly; return their number."""
        if not self._even:
            self._start = float(new[0])
        if self._even < 2 <= self._even + len(new):
            self._stride = float(new[1 - self._even]) - self._start
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = self._start + self._stride * np.arange(self._even, self._even + len(new))
        fits = new == wanted
        count = len(new) if fits.all() else int(fits.argmin())
        self._even += count
        if self._even < 2:
            self._stride = 0.0
        return count

    def _find_even(self, value: float, side: Side) -> int:
        if self._stride > 0:
            # An estimate: the quotient may be off by one.
            place = (value - self._start) / self._stride
            count = math.ceil(min(max(place, 0.0), float(self._even)))
        else:
            count = self._even if self._is_before(0, value, side) else 0
        while count and not self._is_before(count - 1, value, side):
            count -= 1
        while count < self._even and self._is_before(count, value, side):
            count += 1
        return count

    def _is_before(self, number: int, value: float, side: Side) -> bool:
        place = self._even_at(number)
        return place < value or (side == "right" and place == value)

    def _even_at(self, number: int) -> float:
        return self._start + self._stride * number
