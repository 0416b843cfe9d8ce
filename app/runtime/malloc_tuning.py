"""Keep glibc from holding the memory that was freed.

By default glibc makes up to eight heaps for each core. With 64 nodes and 20 live jobs the free
space between used pieces then grows by 15 MB in four minutes (tests/benchmarks/soak.py).
"""

from __future__ import annotations

import ctypes
import sys

ARENAS = 2
LARGE_BYTES = 1 << 18
"""Larger pieces (pictures of plots, curves, node histories) are mapped outside the heaps."""
_TRIM_BYTES = 1 << 24
"""With the limit above fixed, glibc would trim at each 128 kB."""
_OPTIONS = {-8: ARENAS, -3: LARGE_BYTES, -1: _TRIM_BYTES}
"""By M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h."""


def keep_heaps_small() -> bool:
    """Limit the heaps, before the first thread; return False if glibc is not the allocator."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and all(mallopt(*option) for option in _OPTIONS.items())
