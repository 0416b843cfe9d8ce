"""The share of this computer's processors that other programs use during a run."""

from __future__ import annotations

import os
import resource

from backend.node.metrics.probe import cpu_counts


class OtherPrograms:
    """Compares what all processors did with what this process and its ended children used."""

    def __init__(self) -> None:
        self._start = _read()

    def share(self) -> float | None:
        """Return the share since the beginning, from 0 to 1; None if it is not known."""
        elapsed_s, busy_s, own_busy_s = (
            end_s - start_s for end_s, start_s in zip(_read(), self._start)
        )
        return min(1.0, max(0.0, busy_s - own_busy_s) / elapsed_s) if elapsed_s > 0 else None


def _read() -> tuple[float, float, float]:
    """Return all seconds of all processors since boot, those in use, and this program's."""
    total, idle = (ticks / os.sysconf("SC_CLK_TCK") for ticks in cpu_counts()["cpu"])
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return total, total - idle, sum(usage.ru_utime + usage.ru_stime for usage in usages)
