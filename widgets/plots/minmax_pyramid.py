"""Minimum and maximum of each 16, 256, 4096 … of growing numbers.

No Qt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from widgets.plots.growable_array import Floats, GrowableArray, Indices

PointReader: TypeAlias = Callable[[int, int], Floats]
"""Returns the points from an index up to, not including, another."""

FACTOR = 16
"""Points per block, and blocks per block of the next level."""
_BLOCKS_PER_COLUMN = 2  # fewer would shift a pair by more than half a pixel


class _Level:
    def __init__(self) -> None:
        self.low, self.high = GrowableArray(), GrowableArray()

    @property
    def size(self) -> int:
        return self.low.size

    def shorten(self, size: int) -> None:
        self.low.shorten(size)
        self.high.shorten(size)

    def extend(self, low: Floats, high: Floats) -> None:
        """Add the blocks that these points complete, after the present ones."""
        count = len(low) // FACTOR
        if count:
            complete_blocks = slice(0, count * FACTOR)
            self.low.extend(np.fmin.reduce(low[complete_blocks].reshape(-1, FACTOR), axis=1))
            self.high.extend(np.fmax.reduce(high[complete_blocks].reshape(-1, FACTOR), axis=1))


class Pyramid:
    """Minimum and maximum of each 16, 256, 4096 … points.

    A block ignores NaN unless it is all NaN.
    """

    def __init__(self) -> None:
        self._levels: list[_Level] = []

    @property
    def size(self) -> int:
        """The number of stored points, without those of an incomplete block."""
        return self._levels[0].size * FACTOR if self._levels else 0

    def extend(self, values: Floats) -> None:
        """Add the points from `size` on, if there are any."""
        low = high = values
        for number, level in enumerate(self._levels):
            level.extend(low, high)
            start = self._levels[number + 1].size * FACTOR if number + 1 < len(self._levels) else 0
            low, high = (extremes.cut(start, level.size) for extremes in (level.low, level.high))
        while len(low) >= FACTOR:
            level = _Level()
            level.extend(low, high)
            self._levels.append(level)
            low, high = level.low.values, level.high.values

    def shorten(self, size: int) -> None:
        for level in self._levels:
            size //= FACTOR
            level.shorten(size)

    def blocks(
        self, read: PointReader, start: int, end: int, points_per_column: float
    ) -> tuple[Indices, Floats, Floats]:
        """Points ``start`` … ``end`` in blocks, a few per pixel column.

        Args:
            read: Returns the points of this pyramid.
            points_per_column: The number of points per pixel column.

        Returns:
            The start of each block, its minimum and its maximum.
        """
        level, block_size = 0, 1
        while (
            level < len(self._levels)
            and block_size * FACTOR * _BLOCKS_PER_COLUMN <= points_per_column
        ):
            level, block_size = level + 1, block_size * FACTOR
        if not level:
            values = read(start, end)
            return np.arange(start, end), values, values
        stored_level = self._levels[level - 1]
        block_end = end // block_size
        block_start = min(-(-start // block_size), block_end)
        # The points before and after the complete blocks form blocks made here.
        tail_start = max(block_end * block_size, start)
        head, tail = read(start, block_start * block_size), read(tail_start, end)
        inner_starts = np.arange(block_start, block_end) * block_size
        starts = np.concatenate(([start][: len(head)], inner_starts, [tail_start][: len(tail)]))
        low = (
            _reduce_to_one(np.fmin, head),
            stored_level.low.cut(block_start, block_end),
            _reduce_to_one(np.fmin, tail),
        )
        high = (
            _reduce_to_one(np.fmax, head),
            stored_level.high.cut(block_start, block_end),
            _reduce_to_one(np.fmax, tail),
        )
        return starts.astype(np.int64), np.concatenate(low), np.concatenate(high)


def _reduce_to_one(reduction: np.ufunc, values: Floats) -> Floats:
    """Reduce values to one number, or to none for an empty array."""
    return np.array([reduction.reduce(values)]) if len(values) else np.empty(0)
