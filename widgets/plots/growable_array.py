"""Growing arrays of numbers.

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
_MIN_MMAP_BYTES = 1 << 15


class GrowableArray:
    """Numbers that grow, in blocks of half a megabyte.

    A full block is never moved: one large buffer would be copied whenever it is too small, which
    for millions of numbers is a visible stall, and would need twice the memory meanwhile.

    Attributes:
        size: The number of values.
    """

    def __init__(self) -> None:
        self._blocks: list[Floats] = [np.empty(_FIRST_CAPACITY)]
        self.size = 0

    @property
    def values(self) -> Floats:
        return self.cut(0, self.size)

    @property
    def last_value(self) -> float:
        return self.value_at(self.size - 1) if self.size else math.nan

    def value_at(self, index: int) -> float:
        return float(self._blocks[index // _BLOCK][index % _BLOCK])

    def cut(self, start: int, end: int) -> Floats:
        """Return the values from ``start`` up to, not including, ``end``."""
        if end <= start:
            return np.empty(0)
        first_block, last_block = start // _BLOCK, (end - 1) // _BLOCK
        if first_block == last_block:
            return self._block(first_block)[
                start - first_block * _BLOCK : end - first_block * _BLOCK
            ]
        parts = [self._block(number) for number in range(first_block, last_block + 1)]
        parts[0] = parts[0][start - first_block * _BLOCK :]
        parts[-1] = parts[-1][: end - last_block * _BLOCK]
        return np.concatenate(parts)

    def take(self, indices: Indices) -> Floats:
        """Return the values at these rising indices."""
        edges = np.searchsorted(indices, np.arange(1, len(self._blocks)) * _BLOCK)
        parts = np.split(indices, edges)
        return np.concatenate(
            [block[part % _BLOCK] for block, part in zip(self._blocks, parts, strict=True)]
        )

    def find(self, value: float, side: Side) -> int:
        """The number of values less than ``value``, or not larger; all values must rise."""
        bisect = bisect_left if side == "left" else bisect_right
        number = max(bisect(self._blocks, value, key=_first_value) - 1, 0)
        return number * _BLOCK + int(np.searchsorted(self._block(number), value, side))

    def shorten(self, size: int) -> None:
        self.size = min(size, self.size)
        del self._blocks[max(-(-self.size // _BLOCK), 1) :]

    def extend(self, values: Floats) -> None:
        copied_count = 0
        while copied_count < len(values):
            number, filled_count = divmod(self.size, _BLOCK)
            if number == len(self._blocks):
                self._blocks.append(_allocate(_BLOCK))
            count = min(len(values) - copied_count, _BLOCK - filled_count)
            block = self._ensure_capacity(number, filled_count + count)
            block[filled_count : filled_count + count] = values[copied_count : copied_count + count]
            copied_count += count
            self.size += count

    def _block(self, number: int) -> Floats:
        """The filled part of a block."""
        return self._blocks[number][: self.size - number * _BLOCK]

    def _ensure_capacity(self, number: int, count: int) -> Floats:
        """Return a block with a capacity of at least ``count``.

        Only the first block ever grows: curves may be short and many.
        """
        block = self._blocks[number]
        if count > len(block):
            larger_block = _allocate(min(max(count, 2 * len(block)), _BLOCK))
            larger_block[: len(block)] = block
            self._blocks[number] = block = larger_block
        return block


def _first_value(block: Floats) -> float:
    return float(block[0])


def _allocate(count: int) -> Floats:
    """Allocate a buffer. Large ones are separate pages of the system and leave no hole in a heap.

    They come and go with each opened job, and small objects that stay would fill their places: the
    heaps of a window with 20 live jobs grew by 38 MB an hour, with as much in use at the end as at
    the beginning. Separate pages from glibc for all pieces of this size help as much, but painting
    makes hundreds of them per frame, at 20 µs each.
    """
    size_bytes = count * np.dtype(np.float64).itemsize
    if sys.platform != "linux" or size_bytes < _MIN_MMAP_BYTES:
        return np.empty(count)
    return np.frombuffer(mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
