"""What was freed goes back to the system.

glibc keeps it for each thread that asked for it. Beside 64 nodes and 20 live jobs, with as many
objects after 20 minutes as after 5, the process grew by 100 MB an hour; given back each minute, it
stays as large as it was (tests/benchmarks/soak.py).
"""

from __future__ import annotations

import ctypes
import sys

from PySide6.QtCore import QObject, QTimer, Slot

from app.background import Runner
from backend.errors import BackendError

INTERVAL_MS = 60_000


class FreedMemory(QObject):
    """Gives freed memory back now and then, beside the window."""

    def __init__(self, runner: Runner, parent: QObject) -> None:
        super().__init__(parent)
        self._runner = runner
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._give_back)
        self._timer.start(INTERVAL_MS)

    @Slot()
    def _give_back(self) -> None:
        self._runner.run("memory", give_back, lambda _: None, _never)


def give_back() -> bool:
    """Whether anything was given back; False too where the system's allocator cannot."""
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    return trim is not None and bool(trim(0))


def _never(error: BackendError) -> None:
    raise error
