"""Numbers that grow, and the least and largest of each 16, 256, 4096 … of them.

No Qt.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

FACTOR = 16
"""Points to a block, blocks to the next block."""
_FIRST_CAPACITY = 256
_MOVED_AT_ONCE = 1024


class Column:
    """Numbers that grow.

    Adding is cheap each time, not only on average: the larger room that will be needed is filled
    little by little while the old one is still in use.  Copying millions of numbers at once is a
    stall that is seen.
    """

    def __init__(self) -> None:
        self._room: Floats = np.empty(_FIRST_CAPACITY)
        self._next: Floats | None = None
        self._moved = 0
        self.size = 0

    @property
    def values(self) -> Floats:
        return self._room[: self.size]

    @property
    def last(self) -> float:
        return float(self._room[self.size - 1]) if self.size else math.nan

    def shorten(self, size: int) -> None:
        self.size = min(size, self.size)
        self._moved = min(self._moved, self.size)

    def extend(self, new: Floats) -> None:
        size = self.size + len(new)
        if size > len(self._room):
            room = self._next
            if room is None or size > len(room):
                room, self._moved = np.empty(size + size // 2), 0
            room[self._moved : self.size] = self._room[self._moved : self.size]
            self._room, self._next, self._moved = room, None, 0
        self._room[self.size : size] = new
        self.size = size
        if self._next is None and size > len(self._room) // 2:
            self._next = np.empty(2 * len(self._room))
        if self._next is not None:
            end = min(self._moved + 4 * len(new) + _MOVED_AT_ONCE, size)
            self._next[self._moved : end] = self._room[self._moved : end]
            self._moved = end


class _Level:
    def __init__(self) -> None:
        self._low, self._high = Column(), Column()

    @property
    def low(self) -> Floats:
        return self._low.values

    @property
    def high(self) -> Floats:
        return self._high.values

    @property
    def size(self) -> int:
        return self._low.size

    def shorten(self, size: int) -> None:
        self._low.shorten(size)
        self._high.shorten(size)

    def extend(self, low: Floats, high: Floats) -> None:
        """Add the blocks that are full now. NaN is left out of a block unless it is all NaN."""
        whole = len(low) // FACTOR
        begin = self.size
        if whole > begin:
            part = slice(begin * FACTOR, whole * FACTOR)
            self._low.extend(np.fmin.reduce(low[part].reshape(-1, FACTOR), axis=1))
            self._high.extend(np.fmax.reduce(high[part].reshape(-1, FACTOR), axis=1))


class Pyramid:
    """Least and largest of each 16, 256, 4096 … points."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []

    def extend(self, values: Floats) -> None:
        low = high = values
        for level in self.levels:
            level.extend(low, high)
            low, high = level.low, level.high
        while len(low) >= FACTOR:
            level = _Level()
            level.extend(low, high)
            self.levels.append(level)
            low, high = level.low, level.high

    def shorten(self, size: int) -> None:
        for level in self.levels:
            size //= FACTOR
            level.shorten(size)
