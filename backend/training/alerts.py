"""Warnings for problems that raise no error: a diverging loss, and steps that stop coming."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from backend.records.jobs.alarm import DIVERGED, STANDSTILL, Alarm

FACTOR = 4.0
"""fastai's learning rate finder takes a run for diverged when its smoothed loss is over 4 times its
best (``fastai/callback/schedule.py``: ``smooth_loss > 4*best_loss``); torch-lr-finder uses 5.
"""
WINDOW = 32
"""Steps whose median is the smoothed loss: half of them must be high, so outliers do not count."""
_SOUND_FACTOR = 2.0
_TIMED = 64
PATIENCE_FACTOR = 10.0
LEAST_PATIENCE_S = 45.0
"""A cable that is unplugged for 15 s can keep the steps of a run waiting for twice as long."""


class DivergenceWatch:
    """Divergence of the loss; the same result on every rank, because all get the same losses.

    A run has diverged if the median of the last steps is over `FACTOR` times the lowest such
    median, and at least half of the training's gain is lost: noise about a loss near zero is not
    divergence. If a loss may be negative, a ratio means nothing, and there is no warning.

    Attributes:
        sound_step: Up to this step the weights are good, according to the losses. A median reports
            a rise half a window late, so this is that much earlier than the last good median.
    """

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._first = math.nan
        self._best = math.inf
        self._best_step = 0
        self._is_over = False
        self.sound_step = 0

    def see(self, step: int, loss: float) -> Alarm | None:
        """Return the alarm at the step that raises it; not again before the loss has come back."""
        if not math.isfinite(loss):
            return None
        self._losses.append(loss)
        if len(self._losses) < WINDOW:
            self.sound_step = max(0, step - WINDOW // 2)
            return None
        median = sorted(self._losses)[WINDOW // 2]
        if math.isnan(self._first):
            self._first = median
        if median < self._best:
            self._best, self._best_step = median, step
        if self._best <= 0 or median <= _SOUND_FACTOR * self._best:
            self.sound_step = max(0, step - WINDOW // 2)
            self._is_over = False
            return None
        gained = self._first - self._best
        over = median > FACTOR * self._best and median - self._best > gained / 2
        if not over or self._is_over:
            return None
        self._is_over = True
        return Alarm(
            DIVERGED,
            step,
            f"The loss is {median:.3g}, {median / self._best:.1f} times its best "
            f"({self._best:.3g} at step {self._best_step}).",
        )


class StandstillWatch:
    """Measures the time of a step, and reports when the next one is long overdue."""

    def __init__(
        self,
        least_s: float = LEAST_PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._least_s = least_s
        self._monotonic = monotonic
        self._seconds: deque[float] = deque(maxlen=_TIMED)
        self._since = monotonic()

    def steps(self, seconds: Sequence[float]) -> None:
        """Record steps, with the seconds that each took."""
        self._seconds.extend(seconds)
        self.moved()

    def moved(self) -> None:
        """Record other progress: an evaluation began, a checkpoint was made."""
        self._since = self._monotonic()

    def check(self, step: int) -> Alarm | None:
        """Return the alarm while the step after ``step`` is overdue."""
        if not self._seconds:
            return None
        usual = statistics.median(self._seconds)
        waited = self._monotonic() - self._since
        if waited <= max(self._least_s, PATIENCE_FACTOR * usual):
            return None
        return Alarm(
            STANDSTILL,
            step,
            f"No step since step {step}; a step takes {_time(usual)}, and this one has taken "
            f"more than {_time(max(self._least_s, PATIENCE_FACTOR * usual))}.",
        )


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.0f} min"
