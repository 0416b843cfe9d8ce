"""The time in which this thread could compute but waited for a core."""

from __future__ import annotations

from backend.base.log import suppress

_EVERY = 8
"""Steps between two measurements; each reads the kernel's figure twice, in about 20 µs."""
_FIGURES = "/proc/thread-self/schedstat"


class CpuWait:
    """The wait for a core within the forward and backward pass of every eighth step.

    Threads of the same process that only wake up to poll wait as well, and do not slow a step.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._began_ms = 0.0
        self._ms = 0.0

    def begin(self) -> None:
        if self._steps % _EVERY == 0:
            self._began_ms = waited_ms()

    def end(self) -> float:
        """Return the milliseconds since `begin` of the last step that was measured."""
        if self._steps % _EVERY == 0:
            self._ms = waited_ms() - self._began_ms
        self._steps += 1
        return self._ms


def waited_ms() -> float:
    """Return the wait of this thread until now; 0 where the kernel does not count it."""
    with suppress(OSError, ValueError, IndexError), open(_FIGURES, encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e6
    return 0.0
