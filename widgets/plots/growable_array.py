"""Numbers that grow.

No Qt.
"""

from __future__ import annotations

import math
import mmap
import sys
from bisect import bisect_left, bisect_right
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Side: TypeAlias = Literal["left", "right"]

_BLOCK = 1 << 16
_FIRST_CAPACITY = 256
_OWN_PAGES_BYTES = 1 << 15


class GrowableArray:
    """Numbers that grow, in blocks of half a megabyte.

    A block that is full stays where it is: one large room would be copied whenever it is too small,
    which of millions of numbers is a stall that is seen, and would be held twice meanwhile.
    """

    def __init__(self) -> None:
        self._blocks: list[Floats] = [np.empty(_FIRST_CAPACITY)]
        self.size = 0

    @property
    def values(self) -> Floats:
        return self.cut(0, self.size)

    @property
    def last(self) -> float:
        return self.at(self.size - 1) if self.size else math.nan

    def at(self, index: int) -> float:
        return float(self._blocks[index // _BLOCK][index % _BLOCK])

    def cut(self, begin: int, end: int) -> Floats:
        """Those from ``begin`` to before ``end``."""
        if end <= begin:
            return np.empty(0)
        first, last = begin // _BLOCK, (end - 1) // _BLOCK
        if first == last:
            return self._block(first)[begin - first * _BLOCK : end - first * _BLOCK]
        parts = [self._block(number) for number in range(first, last + 1)]
        parts[0] = parts[0][begin - first * _BLOCK :]
        parts[-1] = parts[-1][: end - last * _BLOCK]
        return np.concatenate(parts)

    def take(self, indices: Indices) -> Floats:
        """Those at these places, which rise."""
        edges = np.searchsorted(indices, np.arange(1, len(self._blocks)) * _BLOCK)
        parts = np.split(indices, edges)
        return np.concatenate(
            [block[part % _BLOCK] for block, part in zip(self._blocks, parts, strict=True)]
        )

    def find(self, value: float, side: Side) -> int:
        """How many are less than ``value``, or not larger, where all of them rise."""
        bisect = bisect_left if side == "left" else bisect_right
        number = max(bisect(self._blocks, value, key=_first) - 1, 0)
        return number * _BLOCK + int(np.searchsorted(self._block(number), value, side))

    def shorten(self, size: int) -> None:
        self.size = min(size, self.size)
        del self._blocks[max(-(-self.size // _BLOCK), 1) :]

    def extend(self, new: Floats) -> None:
        done = 0
        while done < len(new):
            number, filled = divmod(self.size, _BLOCK)
            if number == len(self._blocks):
                self._blocks.append(_room(_BLOCK))
            count = min(len(new) - done, _BLOCK - filled)
            block = self._roomy(number, filled + count)
            block[filled : filled + count] = new[done : done + count]
            done += count
            self.size += count

    def _block(self, number: int) -> Floats:
        """What of a block is filled."""
        return self._blocks[number][: self.size - number * _BLOCK]

    def _roomy(self, number: int, count: int) -> Floats:
        """A block with room for so many. Only the first one ever has to grow: curves may be short,
        and many."""
        block = self._blocks[number]
        if count > len(block):
            grown = _room(min(max(count, 2 * len(block)), _BLOCK))
            grown[: len(block)] = block
            self._blocks[number] = block = grown
        return block


def _first(block: Floats) -> float:
    return float(block[0])


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
