"""Return freed memory to the system.

glibc keeps it for each thread that requested it, in up to eight heaps for each core. With 64 nodes
and 20 live jobs, and as many objects after 20 minutes as after 5, the process grew by 100 MB an
hour. With a trim each minute, free space between used pieces still grew from 41 to 56 MB in four
minutes; with two heaps in all it stays at 10 (tests/benchmarks/soak.py).

Once a large piece was freed, pieces up to its size (pictures of plots, curves, node histories) also
come from these heaps and leave holes. So large pieces are mapped separately from the start.
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
"""Values from glibc's malloc.h."""
_TRIM_BYTES = 1 << 24
"""With the limit above fixed, glibc would trim at each 128 kB."""


class FreedMemory(QObject):
    """Return freed memory periodically, off the GUI thread. Made before the first thread."""

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
    """Let all threads share these heaps, and keep large pieces out of them.

    Return False if the system's allocator cannot.
    """
    options = {
        _M_ARENA_MAX: ARENAS,
        _M_MMAP_THRESHOLD: LARGE_BYTES,
        _M_TRIM_THRESHOLD: _TRIM_BYTES,
    }
    return all(_call_glibc("mallopt", *option) for option in options.items())


def give_back() -> bool:
    """Trim the heaps; return True if memory was returned, False if not or not possible."""
    return _call_glibc("malloc_trim", 0)


def _call_glibc(name: str, *arguments: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    function = getattr(ctypes.CDLL(None), name, None)  # musl has none of them
    return function is not None and bool(function(*arguments))


def _never(error: BackendError) -> None:
    raise error
