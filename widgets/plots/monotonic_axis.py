"""The values of a curve's points on an axis: numbers that never fall, mostly without memory.

No Qt.
"""

from __future__ import annotations

import math

import numpy as np

from widgets.plots.growable_array import Floats, GrowableArray, Indices, Side


class MonotonicAxis:
    """Numbers that never fall.

    First come unknown numbers, as NaN; then evenly spaced numbers, as steps are: only the count is
    stored. All others are in a column.

    Attributes:
        nan_count: The number of leading NaN.
    """

    def __init__(self) -> None:
        self.nan_count = 0
        self._even_count = 0
        self._start, self._stride = 0.0, 0.0
        self._column = GrowableArray()

    @property
    def size(self) -> int:
        return self._even_end + self._column.size

    @property
    def first_value(self) -> float:
        """The first known value, NaN if there is none."""
        return self.value_at(self.nan_count) if self.size > self.nan_count else math.nan

    @property
    def last_value(self) -> float:
        return self.value_at(self.size - 1) if self.size else math.nan

    @property
    def values(self) -> Floats:
        return self.cut(0, self.size)

    @property
    def _even_end(self) -> int:
        return self.nan_count + self._even_count

    def value_at(self, index: int) -> float:
        if index >= self._even_end:
            return self._column.value_at(index - self._even_end)
        return self._even_value(index - self.nan_count) if index >= self.nan_count else math.nan

    def cut(self, start: int, end: int) -> Floats:
        """Return the values from ``start`` up to, not including, ``end``."""
        column_start = self._even_end
        if start >= column_start:
            return self._column.cut(start - column_start, end - column_start)
        nans = np.full(max(min(end, self.nan_count) - start, 0), math.nan)
        numbers = np.arange(max(start, self.nan_count), min(end, column_start)) - self.nan_count
        return np.concatenate(
            (
                nans,
                self._start + self._stride * numbers,
                self._column.cut(0, max(end - column_start, 0)),
            )
        )

    def take(self, indices: Indices) -> Floats:
        """Return the values at these rising indices."""
        column_start = self._even_end
        nan_end, even_end = np.searchsorted(indices, (self.nan_count, column_start))
        values = np.empty(len(indices))
        values[:nan_end] = math.nan
        even_values = values[nan_end:even_end]
        # In place: a plot requests 30,000, and allocating memory takes longer than computing them.
        np.subtract(indices[nan_end:even_end], self.nan_count, out=even_values)
        even_values *= self._stride
        even_values += self._start
        if even_end < len(indices):
            values[even_end:] = self._column.take(indices[even_end:] - column_start)
        return values

    def find(self, value: float, side: Side) -> int:
        """The number of values less than ``value``, or not larger; NaN counts as less."""
        count = self._find_even(value, side)
        if count == self._even_count and self._column.size:
            count += self._column.find(value, side)
        return self.nan_count + count

    def shorten(self, size: int) -> None:
        self._column.shorten(max(size - self._even_end, 0))
        self._even_count = min(self._even_count, max(size - self.nan_count, 0))
        self.nan_count = min(self.nan_count, size)

    def extend(self, values: Floats) -> None:
        """Add numbers that do not fall; NaN only before the first known value."""
        if self.size == self.nan_count:
            is_number = ~np.isnan(values)
            nan_count = int(is_number.argmax()) if is_number.any() else len(values)
            self.nan_count += nan_count
            values = values[nan_count:]
        if len(values) and not self._column.size:
            values = values[self._append_even(values) :]
        self._column.extend(values)

    def _append_even(self, values: Floats) -> int:
        """Append the values that continue evenly; return their number."""
        if not self._even_count:
            self._start = float(values[0])
        if self._even_count < 2 <= self._even_count + len(values):
            self._stride = float(values[1 - self._even_count]) - self._start
        with np.errstate(over="ignore", invalid="ignore"):
            even_values = self._start + self._stride * np.arange(
                self._even_count, self._even_count + len(values)
            )
        is_even = values == even_values
        count = len(values) if is_even.all() else int(is_even.argmin())
        self._even_count += count
        if self._even_count < 2:
            self._stride = 0.0
        return count

    def _find_even(self, value: float, side: Side) -> int:
        if self._stride > 0:
            # An estimate: the quotient may be off by one.
            position = (value - self._start) / self._stride
            count = math.ceil(min(max(position, 0.0), float(self._even_count)))
        else:
            count = self._even_count if self._is_value_before(0, value, side) else 0
        while count and not self._is_value_before(count - 1, value, side):
            count -= 1
        while count < self._even_count and self._is_value_before(count, value, side):
            count += 1
        return count

    def _is_value_before(self, number: int, value: float, side: Side) -> bool:
        own_value = self._even_value(number)
        return own_value < value or (side == "right" and own_value == value)

    def _even_value(self, number: int) -> float:
        return self._start + self._stride * number
