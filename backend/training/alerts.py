"""Watches what no error tells: a loss that rises and does not come back, steps that do not come."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from backend.records.jobs.alarm import DIVERGED, STANDSTILL, Alarm

FACTOR = 4.0
"""fastai's learning rate finder takes a run for diverged when its smoothed loss is over 4 times its
best (``fastai/callback/schedule.py``: ``smooth_loss > 4*best_loss``); torch-lr-finder takes 5."""
WINDOW = 32
"""Steps whose median is the smoothed loss: half of them must be high, so that no outlier counts."""
_SOUND_FACTOR = 2.0
_TIMED = 64
PATIENCE_FACTOR = 10.0
LEAST_PATIENCE_S = 45.0
"""A cable that is out for 15 s keeps the steps of a run waiting for up to twice as long."""


class DivergenceWatch:
    """Sees every loss; the same on every rank, because all are shown the same losses.

    Diverged is a median of the last steps that is over `FACTOR` times the lowest such median, and
    that has lost at least half of what the training had gained: noise about a loss near zero is no
    divergence. Where a loss may be negative a ratio says nothing, and nothing is said.

    Attributes:
        sound_step: Up to here the weights are good as far as the losses tell. A median tells of a
            rise half a window late, so this is so much earlier than the last good median.
    """

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._first = math.nan
        self._best = math.inf
        self._best_step = 0
        self._is_over = False
        self.sound_step = 0

    def see(self, step: int, loss: float) -> Alarm | None:
        """The alarm, at the step that raises it; not again before the loss has come back."""
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
            f"The loss is at {median:.3g}, {median / self._best:.1f} times its best "
            f"({self._best:.3g} at step {self._best_step}).",
        )


class StandstillWatch:
    """Knows how long a step takes, and says when the next one is long overdue."""

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
        """Steps came, which took so long each."""
        self._seconds.extend(seconds)
        self.moved()

    def moved(self) -> None:
        """Something else went on: an evaluation began, a checkpoint was made."""
        self._since = self._monotonic()

    def check(self, step: int) -> Alarm | None:
        """The alarm while the step after ``step`` is overdue."""
        if not self._seconds:
            return None
        usual = statistics.median(self._seconds)
        waited = self._monotonic() - self._since
        if waited <= max(self._least_s, PATIENCE_FACTOR * usual):
            return None
        return Alarm(
            STANDSTILL,
            step,
            f"No step since step {step}; one takes {_time(usual)}, and this one has taken more "
            f"than {_time(max(self._least_s, PATIENCE_FACTOR * usual))}.",
        )


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.0f} min"
