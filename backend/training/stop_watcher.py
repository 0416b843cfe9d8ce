"""How a wish to stop reaches the ranks: rank 0 alone looks at ``job.lock``.

Each rank looking for itself left at different steps in 22 of 150 tries. The wish travels with the
ballot instead (`ballot`), and all ranks leave after the same step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from backend.base.log import suppress
from backend.records.jobs.stop_request import stop_requested

INTERVAL_S = 0.1


class StopWatcher:
    """A thread that looks for the lock until `close`. ``wanted`` is read at every step."""

    def __init__(self, lock: Path, run: int, on_wanted: Callable[[], None] = lambda: None) -> None:
        self.wanted = False
        self._lock = lock
        self._run = run
        self._on_wanted = on_wanted
        self._closed = threading.Event()
        # A wish that is older than the rank counts before the first step; a thread may be too late.
        self._look()
        self._thread = threading.Thread(target=self._watch, name="stop-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self.wanted and not self._closed.wait(INTERVAL_S):
            self._look()

    def _look(self) -> None:
        # A share that is away for a while must not end the job; it is asked again.
        with suppress(OSError):
            if stop_requested(self._lock, self._run):
                self.wanted = True
                self._on_wanted()
