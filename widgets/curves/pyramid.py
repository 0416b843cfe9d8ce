"""Numbers that grow, and the least and largest of each 16, 256, 4096 … of them.

No Qt.
"""

from __future__ import annotations

import math
import mmap
import sys
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

FACTOR = 16
"""Points to a block, blocks to the next block."""
_BLOCKS_PER_COLUMN = 2  # fewer would shift a pair by more than half a pixel
_FIRST_CAPACITY = 256
_MOVED_AT_ONCE = 1024
_OWN_PAGES_BYTES = 1 << 15


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
                room, self._moved = _room(size + size // 2), 0
            room[self._moved : self.size] = self._room[self._moved : self.size]
            self._room, self._next, self._moved = room, None, 0
        self._room[self.size : size] = new
        self.size = size
        if self._next is None and size > len(self._room) // 2:
            self._next = _room(2 * len(self._room))
        if self._next is not None:
            end = min(self._moved + 4 * len(new) + _MOVED_AT_ONCE, size)
            self._next[self._moved : end] = self._room[self._moved : end]
            self._moved = end


def _room(count: int) -> Floats:
    """Room for numbers. Large rooms are the system's own pages, and leave no hole in a heap.

    They come and go with each job that is opened, and small things that stay settle where they
    had been: the heaps of a window with 20 live jobs grew by 38 MB an hour, with as much in use
    at the end as at the beginning. That glibc gives pages of their own to all pieces of this size
    helps as much, but painting makes hundreds of them for a frame, at 20 µs each.
    """
    room_bytes = count * np.dtype(np.float64).itemsize
    if sys.platform != "linux" or room_bytes < _OWN_PAGES_BYTES:
        return np.empty(count)
    return np.frombuffer(mmap.mmap(-1, room_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


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

    def blocks(
        self, values: Floats, begin: int, end: int, per_column: float
    ) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Points ``begin`` … ``end`` in blocks, a few to a column of pixels.

        Args:
            values: Those that this is the pyramid of.
            per_column: How many points lie in a column.

        Returns:
            Where each block begins, its least and its largest.
        """
        level, block = 0, 1
        while level < len(self.levels) and block * FACTOR * _BLOCKS_PER_COLUMN <= per_column:
            level, block = level + 1, block * FACTOR
        if not level:
            return np.arange(begin, end), values[begin:end], values[begin:end]
        known = self.levels[level - 1]
        whole = end // block
        first = min(-(-begin // block), whole)
        # What whole blocks leave at either end are points, of which a block is made here.
        after = max(whole * block, begin)
        head, tail = values[begin : first * block], values[after:end]
        inner = np.arange(first, whole) * block
        starts = np.concatenate(([begin][: len(head)], inner, [after][: len(tail)]))
        low = (_of_all(np.fmin, head), known.low[first:whole], _of_all(np.fmin, tail))
        high = (_of_all(np.fmax, head), known.high[first:whole], _of_all(np.fmax, tail))
        return starts.astype(np.int64), np.concatenate(low), np.concatenate(high)


def _of_all(pick: np.ufunc, rest: Floats) -> Floats:
    """One number, or none of none."""
    return np.array([pick.reduce(rest)]) if len(rest) else np.empty(0)
