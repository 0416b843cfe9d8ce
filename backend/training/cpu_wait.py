"""Time in which this thread could compute but waited for a core that another program had."""

from __future__ import annotations

import os
import time

from backend.base.log import suppress

_STEP_INTERVAL = 8
"""Steps between two measurements; each reads the kernel's figure twice, in about 20 µs."""
_SCHEDSTAT = "/proc/thread-self/schedstat"


class CpuWait:
    """Meter of the wait for a core within the forward and backward pass of every eighth step.

    Threads of the same process that only wake up to poll wait as well, and do not slow a step. But
    they take cores: while the thread of Horovod polls, this thread may wait as long as that one
    computes, on each core alike. Where several threads compute a step, this is not corrected.
    """

    def __init__(self, threads: int = 1) -> None:
        """``threads``: the number of threads that compute a step."""
        self._cores = len(os.sched_getaffinity(0)) if threads == 1 else 0
        self._steps = 0
        self._start_wait_ms = self._start_others_ms = 0.0
        self._ms = 0.0

    def begin_step(self) -> None:
        if self._steps % _STEP_INTERVAL == 0:
            self._start_wait_ms, self._start_others_ms = thread_wait_ms(), other_threads_ms()

    def end_step(self) -> float:
        """Return the wait in milliseconds since `begin_step`, of the last measured step."""
        if self._steps % _STEP_INTERVAL == 0:
            self._ms = thread_wait_ms() - self._start_wait_ms
            if self._cores:
                own_ms = (other_threads_ms() - self._start_others_ms) / self._cores
                self._ms = max(0.0, self._ms - own_ms)
        self._steps += 1
        return self._ms


def other_threads_ms() -> float:
    """Return the CPU time of the other threads of this process until now."""
    return (time.process_time() - time.thread_time()) * 1e3


def thread_wait_ms() -> float:
    """Return the wait of this thread until now; 0 where the kernel does not count it."""
    with suppress(OSError, ValueError, IndexError), open(_SCHEDSTAT, encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e6
    return 0.0
