"""One limit for everything that a test waits for, and one way to wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 120.0
"""The longest wait for a fact that is certain to come. Success ends a wait at once, so the limit
costs nothing; a trivial test took 81 s where other programs kept both cores busy."""
LIMIT_MS = int(LIMIT_S * 1000)
_POLL_INTERVAL_S = 0.005


class Clock:
    """A clock in seconds that a test sets; each reading moves it on by ``step_s``."""

    def __init__(self, now: float = 1000.0, step_s: float = 0.0) -> None:
        self.now, self._step_s = now, step_s

    def __call__(self) -> float:
        self.now += self._step_s
        return self.now


def wait_for(
    condition: Callable[[], T],
    description: str = "",
    limit_s: float = LIMIT_S,
    hint: Callable[[], str] = str,
) -> T:
    """Return the first true value of ``fact()``.

    Raises:
        AssertionError: It is not true within the limit: ``what`` was waited for, and what ``hint``
            knows about it.
    """
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(
                f"Not within {limit_s:g} s: {description or condition}. {hint()}".strip()
            )
        time.sleep(_POLL_INTERVAL_S)
    return value
