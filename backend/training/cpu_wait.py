"""The time in which threads of this process could compute but waited for a core."""

from __future__ import annotations

import math
from pathlib import Path

from backend.base.log import suppress

_INTERVAL_S = 1.0
"""Reading 64 threads takes a millisecond."""


class CpuWait:
    """Waiting for a core as milliseconds of a step, from the scheduler's figures of each thread."""

    def __init__(self) -> None:
        self._read_s = -math.inf
        self._ms = 0.0
        self._steps = 0
        self._step_ms = 0.0

    def step(self, now_s: float) -> float:
        """Count a step that ended now; return the wait in a step of the last second."""
        self._steps += 1
        if now_s - self._read_s >= _INTERVAL_S:
            ms = waited_ms()
            if self._read_s > -math.inf:
                # The time of a thread that ended is gone.
                self._step_ms = max(0.0, ms - self._ms) / self._steps
            self._read_s, self._ms, self._steps = now_s, ms, 0
        return self._step_ms


def waited_ms() -> float:
    """Return the wait of all threads until now; 0 where the kernel does not count it."""
    total_ns = 0
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                total_ns += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return total_ns / 1e6
