"""Warnings for problems that raise no error: a diverging loss, and steps that stop coming."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from backend.records.jobs.status import DIVERGED, STANDSTILL, Alarm

FACTOR = 4.0
"""fastai's learning rate finder takes a run for diverged when its smoothed loss is over 4 times its
best (``fastai/callback/schedule.py``: ``smooth_loss > 4*best_loss``); torch-lr-finder uses 5.
"""
WINDOW = 32
"""Number of steps whose median is the smoothed loss, so that outliers do not count."""
_SOUND_FACTOR = 2.0
_STEP_COUNT = 64
PATIENCE_FACTOR = 10.0
MIN_PATIENCE_S = 45.0
"""A cable that is unplugged for 15 s can keep the steps of a run waiting for twice as long."""


class DivergenceWatch:
    """Detector of a diverging loss; the same result on every rank, as all get the same losses.

    A run has diverged if the median of the last steps is over `FACTOR` times the lowest such
    median, and at least half of the training's gain is lost: noise about a loss near zero is not
    divergence. If a loss may be negative, a ratio means nothing, and there is no warning.

    Attributes:
        sound_step: The last step with good weights, according to the losses. A median reports a
            rise half a window late, so this is half a window before the last good median.
    """

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._first_median = math.nan
        self._best_median = math.inf
        self._best_step = 0
        self._has_diverged = False
        self.sound_step = 0

    def add(self, step: int, loss: float) -> Alarm | None:
        """Add a loss; return the alarm of a new divergence, once until the loss has come back."""
        if not math.isfinite(loss):
            return None
        self._losses.append(loss)
        if len(self._losses) < WINDOW:
            self.sound_step = max(0, step - WINDOW // 2)
            return None
        median = sorted(self._losses)[WINDOW // 2]
        if math.isnan(self._first_median):
            self._first_median = median
        if median < self._best_median:
            self._best_median, self._best_step = median, step
        if self._best_median <= 0 or median <= _SOUND_FACTOR * self._best_median:
            self.sound_step = max(0, step - WINDOW // 2)
            self._has_diverged = False
            return None
        gain = self._first_median - self._best_median
        is_high = median > FACTOR * self._best_median and median - self._best_median > gain / 2
        if not is_high or self._has_diverged:
            return None
        self._has_diverged = True
        return Alarm(
            DIVERGED,
            step,
            f"The loss is {median:.3g}, {median / self._best_median:.1f} times its best "
            f"({self._best_median:.3g} at step {self._best_step}).",
        )


class StandstillWatch:
    """Detector of steps that stop: measures the time of a step, and reports an overdue step."""

    def __init__(
        self,
        min_patience_s: float = MIN_PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._min_patience_s = min_patience_s
        self._monotonic = monotonic
        self._seconds: deque[float] = deque(maxlen=_STEP_COUNT)
        self._last_progress_s = monotonic()

    def add_steps(self, seconds: Sequence[float]) -> None:
        """Record steps, with the seconds of each."""
        self._seconds.extend(seconds)
        self.add_progress()

    def add_progress(self) -> None:
        """Record other progress: an evaluation began, a checkpoint was made."""
        self._last_progress_s = self._monotonic()

    def check(self, step: int) -> Alarm | None:
        """Return the alarm while the step after ``step`` is overdue."""
        if not self._seconds:
            return None
        median_s = statistics.median(self._seconds)
        waited_s = self._monotonic() - self._last_progress_s
        patience_s = max(self._min_patience_s, PATIENCE_FACTOR * median_s)
        if waited_s <= patience_s:
            return None
        return Alarm(
            STANDSTILL,
            step,
            f"No step since step {step}; a step takes {_time_label(median_s)}, and this one has "
            f"taken more than {_time_label(patience_s)}.",
        )


def _time_label(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.0f} min"
