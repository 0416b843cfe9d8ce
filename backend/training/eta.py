"""Estimate of a run's remaining time."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

_WINDOW_S = 120.0
LEAST_STEPS = 10
_FORWARD_SHARE = 1 / 3
"""Share of a training step: a backward pass takes about twice as long as its forward pass (Kaplan
and others, "Scaling laws for neural language models", 2020, section 2.1).
"""


class Eta:
    """Steps at the pace of the last two minutes; evaluations and checkpoints are added.

    Each is timed separately, so that none of them causes a jump. An evaluation that has not run yet
    is estimated from its number of batches: first by the time of a batch in its rehearsal, or by
    that of a step if there was none, then by the time of its batches. There is no estimate before
    `LEAST_STEPS` steps.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._window: deque[tuple[int, float]] = deque()
        self._steps = 0
        self._seconds = 0.0
        self._all_steps = 0
        self._saves_s = 0.0
        self._evaluation_batches = 0
        self._rehearsed_batch_s: float | None = None
        self._evaluations: deque[float] = deque(maxlen=5)
        self._evaluating_since: float | None = None
        self._batches_done = 0

    def plan(self, evaluation_batches: int, batch_s: float | None = None) -> None:
        """Set how many batches one rank has in an evaluation, and what one took in a rehearsal."""
        self._evaluation_batches = evaluation_batches
        self._rehearsed_batch_s = batch_s

    def steps(self, count: int, seconds: float) -> None:
        """Record the seconds that ``count`` more steps took together."""
        self._window.append((count, seconds))
        self._steps += count
        self._all_steps += count
        self._seconds += seconds
        while len(self._window) > 1:
            old_count, old_seconds = self._window[0]
            if self._seconds - old_seconds <= _WINDOW_S or self._steps - old_count < LEAST_STEPS:
                return
            self._window.popleft()
            self._steps -= old_count
            self._seconds -= old_seconds

    def saved(self, seconds: float) -> None:
        """Record how long the training waited for a checkpoint."""
        self._saves_s += seconds

    def evaluation_began(self) -> None:
        self._evaluating_since = self._monotonic()
        self._batches_done = 0

    def evaluation_at(self, batches: int) -> None:
        """Record the batches done of the current evaluation."""
        self._batches_done = batches

    def evaluation(self, seconds: float) -> None:
        """Record how long an evaluation took."""
        self._evaluations.append(seconds)
        self._evaluating_since = None

    def left(self, steps: int, evaluations: int) -> float | None:
        """Return seconds; ``evaluations`` includes the current one.

        None if it is not known: after few steps, or where there are more than were planned.
        """
        if self._all_steps < LEAST_STEPS or steps < 0:
            return None
        one = self._evaluation_s
        seconds = steps * self._step_s + evaluations * one
        if self._evaluating_since is not None and evaluations:
            seconds -= min(self._monotonic() - self._evaluating_since, one)
        return seconds

    def pace(self, steps_per_epoch: int, has_evaluations: bool) -> float | None:
        """Return seconds a step, including everything between steps, over a whole epoch."""
        if self._all_steps < LEAST_STEPS:
            return None
        evaluation = self._evaluation_s if has_evaluations else 0.0
        return self._step_s + evaluation / max(1, steps_per_epoch)

    @property
    def _step_s(self) -> float:
        return self._seconds / self._steps + self._saves_s / self._all_steps

    @property
    def _evaluation_s(self) -> float:
        if self._evaluations:
            return statistics.fmean(self._evaluations)
        if self._evaluating_since is not None and self._batches_done:
            gone = self._monotonic() - self._evaluating_since
            return gone * max(1.0, self._evaluation_batches / self._batches_done)
        batch_s = self._rehearsed_batch_s
        if batch_s is None:
            batch_s = _FORWARD_SHARE * self._seconds / self._steps
        return self._evaluation_batches * batch_s
