"""Estimate of a run's remaining time."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

_WINDOW_S = 120.0
MIN_STEPS = 10
_FORWARD_SHARE = 1 / 3
"""Share of a training step: a backward pass takes about twice as long as its forward pass (Kaplan
and others, "Scaling laws for neural language models", 2020, section 2.1).
"""


class Eta:
    """Estimator of the remaining time, by the pace of the last two minutes.

    Steps, evaluations and checkpoints are timed separately, so that none of them causes a jump. An
    evaluation that has not run yet is estimated from its number of batches: first by the time of a
    batch in its rehearsal, or of a step without a rehearsal, then by the time of its batches. There
    is no estimate before `MIN_STEPS` steps.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._step_times: deque[tuple[int, float]] = deque()
        self._window_steps = 0
        self._window_s = 0.0
        self._all_steps = 0
        self._saves_s = 0.0
        self._evaluation_batches = 0
        self._rehearsed_batch_s: float | None = None
        self._evaluation_times: deque[float] = deque(maxlen=5)
        self._evaluation_start_s: float | None = None
        self._evaluated_batches = 0

    def plan(self, evaluation_batches: int, batch_s: float | None = None) -> None:
        """Set the number of a rank's batches in an evaluation, and the rehearsed seconds of one."""
        self._evaluation_batches = evaluation_batches
        self._rehearsed_batch_s = batch_s

    def add_steps(self, count: int, seconds: float) -> None:
        """Record the seconds that ``count`` more steps took together."""
        self._step_times.append((count, seconds))
        self._window_steps += count
        self._all_steps += count
        self._window_s += seconds
        while len(self._step_times) > 1:
            old_count, old_seconds = self._step_times[0]
            if (
                self._window_s - old_seconds <= _WINDOW_S
                or self._window_steps - old_count < MIN_STEPS
            ):
                return
            self._step_times.popleft()
            self._window_steps -= old_count
            self._window_s -= old_seconds

    def add_save(self, seconds: float) -> None:
        """Record the seconds in which the training waited for a checkpoint."""
        self._saves_s += seconds

    def begin_evaluation(self) -> None:
        self._evaluation_start_s = self._monotonic()
        self._evaluated_batches = 0

    def add_batches(self, batch_count: int) -> None:
        """Record the number of finished batches of the current evaluation."""
        self._evaluated_batches = batch_count

    def end_evaluation(self, seconds: float) -> None:
        """Record the seconds of an evaluation."""
        self._evaluation_times.append(seconds)
        self._evaluation_start_s = None

    def remaining_s(self, steps: int, evaluations: int) -> float | None:
        """Return the remaining seconds; ``evaluations`` includes the current evaluation.

        None if they are not known: after few steps, or after more steps than planned.
        """
        if self._all_steps < MIN_STEPS or steps < 0:
            return None
        evaluation_s = self._evaluation_s
        seconds = steps * self._step_s + evaluations * evaluation_s
        if self._evaluation_start_s is not None and evaluations:
            seconds -= min(self._monotonic() - self._evaluation_start_s, evaluation_s)
        return seconds

    def step_pace_s(self, steps_per_epoch: int, has_evaluations: bool) -> float | None:
        """Return the seconds of a step, with all work between steps, over a whole epoch."""
        if self._all_steps < MIN_STEPS:
            return None
        evaluation_s = self._evaluation_s if has_evaluations else 0.0
        return self._step_s + evaluation_s / max(1, steps_per_epoch)

    @property
    def _step_s(self) -> float:
        return self._window_s / self._window_steps + self._saves_s / self._all_steps

    @property
    def _evaluation_s(self) -> float:
        if self._evaluation_times:
            return statistics.fmean(self._evaluation_times)
        if self._evaluation_start_s is not None and self._evaluated_batches:
            elapsed_s = self._monotonic() - self._evaluation_start_s
            return elapsed_s * max(1.0, self._evaluation_batches / self._evaluated_batches)
        batch_s = self._rehearsed_batch_s
        if batch_s is None:
            batch_s = _FORWARD_SHARE * self._window_s / self._window_steps
        return self._evaluation_batches * batch_s
