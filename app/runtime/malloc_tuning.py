"""What was freed goes back to the system.

glibc keeps it for each thread that asked for it, up to eight heaps for each core. Beside 64 nodes
and 20 live jobs, with as many objects after 20 minutes as after 5, the process grew by 100 MB an
hour. Given back each minute, what lay free between used pieces still grew from 41 to 56 MB in four
minutes; with two heaps in all it stays at 10 (tests/benchmarks/soak.py).

Once a large piece was freed, pieces up to its size (pictures of plots, curves, the past of a node)
come out of these heaps, too, and leave holes there: they are the system's own from the first on.
"""

from __future__ import annotations

import ctypes
import sys

from PySide6.QtCore import QObject, QTimer, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError

INTERVAL_MS = 60_000
ARENAS = 2
LARGE_BYTES = 1 << 18
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""As glibc's malloc.h has them."""
_TRIM_BYTES = 1 << 24
"""Once the limit above is fixed, glibc would give back at each 128 kB."""


class FreedMemory(QObject):
    """Gives freed memory back now and then, beside the window. Made before the first thread."""

    def __init__(self, runner: Runner, parent: QObject) -> None:
        super().__init__(parent)
        keep_heaps_small()
        self._runner = runner
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._give_back)
        self._timer.start(INTERVAL_MS)

    @Slot()
    def _give_back(self) -> None:
        self._runner.run("memory", give_back, lambda _: None, _never)


def keep_heaps_small() -> bool:
    """From now on all threads share these heaps, and large pieces are in none of them.

    False where the system's allocator cannot.
    """
    options = {
        _M_ARENA_MAX: ARENAS,
        _M_MMAP_THRESHOLD: LARGE_BYTES,
        _M_TRIM_THRESHOLD: _TRIM_BYTES,
    }
    return all(_told_glibc("mallopt", *option) for option in options.items())


def give_back() -> bool:
    """Whether anything was given back; False too where the system's allocator cannot."""
    return _told_glibc("malloc_trim", 0)


def _told_glibc(name: str, *arguments: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    function = getattr(ctypes.CDLL(None), name, None)  # musl has none of them
    return function is not None and bool(function(*arguments))


def _never(error: BackendError) -> None:
    raise error
