"""Statistics of one channel's numbers: mean, deviation, range, and distribution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy

from backend.records.library.preview import ChannelStatistics, Histogram
from backend.training.tools.thumbnails import Array

_BINS = 65
"""The range 0…1 including its end is then 64 bins and the one that begins at 1."""
_LARGEST, _SMALLEST = 1e300, 1e-300
"""Beyond these, bins would be wider or narrower than a double can represent."""
_FINEST = 2.0**-40
"""Of the first values: the initial width of a bin."""


class ChannelSpread:
    """Statistics over many arrays, one after the other.

    Mean and deviation after Chan et al. 1979, which loses no digits.
    """

    def __init__(self) -> None:
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._low = math.inf
        self._high = -math.inf
        self._bins = _Bins()
        self.nan_count = 0
        self.inf_count = 0

    def add(self, row: Array) -> bool:
        """Add a row; return True if a value is NaN or infinite."""
        values = row.astype(numpy.float64)
        has_bad_values = False
        if row.dtype.kind in "fc":
            finite = numpy.isfinite(values)
            if not finite.all():
                nan_values = int(numpy.isnan(values).sum())
                self.nan_count += nan_values
                self.inf_count += int(values.size - finite.sum()) - nan_values
                values = values[finite]
                has_bad_values = True
        if values.size:
            mean, n = float(values.mean()), self._n + values.size
            mean_difference = mean - self._mean
            self._squares += (
                float(((values - mean) ** 2).sum())
                + mean_difference * mean_difference * self._n * values.size / n
            )
            self._mean += mean_difference * values.size / n
            self._n = n
            self._low = min(self._low, float(values.min()))
            self._high = max(self._high, float(values.max()))
            self._bins.add(values)
        return has_bad_values

    def result(self, path: str, number: int) -> ChannelStatistics:
        statistics = ChannelStatistics(
            path, number, None, None, None, None, self.nan_count, self.inf_count
        )
        if not self._n:
            return statistics
        figures = (self._mean, math.sqrt(self._squares / self._n), self._low, self._high)
        mean, std, low, high = (value if math.isfinite(value) else None for value in figures)
        return replace(
            statistics, mean=mean, std=std, low=low, high=high, histogram=self._bins.histogram()
        )


class _Bins:
    """Counts in bins of equal width, which doubles as the range grows, so each value is read once.

    The width is a power of two and bins begin at multiples of it: whole numbers and the steps of a
    byte are distributed evenly.
    """

    def __init__(self) -> None:
        self._counts = numpy.zeros(0, numpy.int64)
        self._first_bin = 0
        """The bin of ``_counts[0]``, counted from zero in widths."""
        self._width = 0.0

    def add(self, values: Array) -> None:
        values = values[numpy.abs(values) < _LARGEST]
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not self._width:
            size = max(abs(low), abs(high)) or 1.0
            self._width = 2.0 ** math.floor(math.log2(max(size * _FINEST, _SMALLEST)))
        while not self._can_hold(low, high):
            self._double_width()
        first_bin, last_bin = math.floor(low / self._width), math.floor(high / self._width)
        if not len(self._counts):
            self._first_bin = first_bin
        left_padding = max(0, self._first_bin - first_bin)
        right_padding = max(0, last_bin - self._first_bin - len(self._counts) + 1)
        self._counts = numpy.pad(self._counts, (left_padding, right_padding))
        self._first_bin -= left_padding
        bin_indices = numpy.floor(values / self._width).astype(numpy.int64) - self._first_bin
        self._counts += numpy.bincount(bin_indices, minlength=len(self._counts))

    def _can_hold(self, low: float, high: float) -> bool:
        """Return whether these and all values before fit in few enough bins."""
        first_bin, last_bin = low / self._width, high / self._width
        if len(self._counts):
            first_bin = min(first_bin, self._first_bin)
            last_bin = max(last_bin, self._first_bin + len(self._counts) - 1)
        return (
            math.isfinite(last_bin - first_bin)
            and math.floor(last_bin) - math.floor(first_bin) < _BINS
        )

    def _double_width(self) -> None:
        left_padding, right_padding = self._first_bin % 2, (self._first_bin + len(self._counts)) % 2
        padded_counts = (
            numpy.pad(self._counts, (left_padding, right_padding))
            if len(self._counts)
            else self._counts
        )
        self._counts = padded_counts.reshape(-1, 2).sum(axis=1)
        self._first_bin //= 2
        self._width *= 2

    def _is_sparse(self) -> bool:
        """Return whether every other bin is empty: bins of twice the width would show the same."""
        filled = numpy.flatnonzero(self._counts) + self._first_bin
        return len(filled) > 1 and not (filled % 2).any()

    def histogram(self) -> Histogram | None:
        """Return None without a value. As coarse as the values are: three bins for 0, 1, 2."""
        if not len(self._counts):
            return None
        while self._is_sparse():
            self._double_width()
        counts = tuple(self._counts.tolist())
        return Histogram(self._first_bin * self._width, self._width, counts)
