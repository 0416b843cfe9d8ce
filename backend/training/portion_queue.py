"""Queue of portions of work for free workers, with backup copies of late portions.

Dean et al., "Large scale distributed deep networks" (NIPS 2012), section 4.2: the coordinator hands
out small portions, and copies of the slowest ones at the end. No process and no clock here.
"""

from __future__ import annotations

import math
from collections import deque

_LATE_FACTOR = 2.0
"""A portion is late after twice the mean time of the finished portions."""


class PortionQueue:
    """Queue of the portions 0, 1, … of one pass; with copies, the first result counts.

    Attributes:
        copy_count: The number of backup copies until now.
    """

    def __init__(self, portion_count: int, default_s: float = math.inf) -> None:
        """Begin a pass; ``default_s`` is the time of a portion until the first is finished."""
        self._free_portions = deque(range(portion_count))
        self._starts: dict[int, dict[int, float]] = {}
        self._default_s = default_s
        self._durations_s: list[float] = []
        self.copy_count = 0

    @property
    def is_finished(self) -> bool:
        return not self._free_portions and not self._starts

    @property
    def mean_s(self) -> float:
        return (
            sum(self._durations_s) / len(self._durations_s)
            if self._durations_s
            else self._default_s
        )

    def take(self, worker: int, now_s: float) -> int | None:
        """Return the next portion for a free worker; None if no work remains."""
        if self._free_portions:
            portion = self._free_portions.popleft()
        else:
            late_portions = [
                portion
                for portion, starts in self._starts.items()
                if now_s - max(starts.values()) > _LATE_FACTOR * self.mean_s
            ]
            if not late_portions:
                return None
            portion = min(late_portions, key=lambda portion: min(self._starts[portion].values()))
            self.copy_count += 1
        self._starts.setdefault(portion, {})[worker] = now_s
        return portion

    def finish(self, worker: int, portion: int, now_s: float) -> bool:
        """Return whether this result counts: of this pass, and the portion's first."""
        starts = self._starts.get(portion, {})
        if worker not in starts:
            return False
        del self._starts[portion]
        self._durations_s.append(now_s - starts[worker])
        return True

    def release(self, worker: int) -> None:
        """Give the portion of a worker that has ended to the next free worker."""
        for portion, starts in list(self._starts.items()):
            if starts.pop(worker, None) is not None and not starts:
                del self._starts[portion]
                self._free_portions.appendleft(portion)
