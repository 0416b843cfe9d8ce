"""Step time of each rank, and detection of slow ranks."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Sequence

STEPS = 100
_MIN_BEHIND = 90
_MAX_LIMIT_MS = 50.0
_SHARE, _NOISE_MS = 0.2, 10.0


class SlowRanks:
    """Detector over the last 100 steps of a run.

    A rank is slow if its own time, without waiting, was above that of the others by more than 50
    ms, or by more than 20 % of a step and 10 ms, in 90 of the last 100 steps. The time of the
    others is the low median of all ranks: if half of them are slow, the time of the fast half.

    Each step is judged separately, and one rank has to be behind in nearly all of them: processes
    that share a CPU alternate in being slower, and a mean or a median over a moment blames either
    of them. Below 10 ms the scheduler of one computer decides: two ranks at 18 and 27 ms do not
    show a slow node. A GPU at half its clock is behind in every step. 90 and not 100, because a
    checkpoint or a burst of the loader sometimes delays a step of the other ranks.
    """

    def __init__(self) -> None:
        self._steps: deque[Sequence[float]] = deque(maxlen=STEPS)

    def add_steps(self, steps: Iterable[Sequence[float]]) -> None:
        """Add steps, each with the milliseconds of all ranks."""
        self._steps.extend(steps)

    def step_ms(self) -> tuple[float, ...]:
        """Return the median time of a step per rank."""
        return tuple(round(statistics.median(times), 3) for times in zip(*self._steps, strict=True))

    def slow_ranks(self) -> tuple[int, ...]:
        """Return the slow ranks; none before there are 100 steps."""
        if len(self._steps) < STEPS:
            return ()
        behind_counts = [0] * len(self._steps[0])
        for times in self._steps:
            for rank, is_behind in enumerate(are_behind(times)):
                behind_counts[rank] += is_behind
        return tuple(rank for rank, count in enumerate(behind_counts) if count >= _MIN_BEHIND)


def are_behind(times_ms: Sequence[float]) -> list[bool]:
    """Return a flag for each rank: whether its time exceeds the others' by more than noise."""
    # A parameter server makes no steps: its time is 0.
    median_ms = statistics.median_low([time for time in times_ms if time] or times_ms)
    limit_ms = median_ms + min(_MAX_LIMIT_MS, max(_SHARE * median_ms, _NOISE_MS))
    return [rank_ms > limit_ms for rank_ms in times_ms]
