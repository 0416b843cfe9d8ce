"""Calls that may never return: a share that is away, a driver that hangs.

Neither can be interrupted, so such a call runs in a thread that is abandoned when it hangs. An
abandoned thread ends by itself if the call returns later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_MAX_HANGING_CALLS = 4
"""A share that was mounted again answers although the calls to the old one hang forever."""


class TimeoutCall:
    """One call at a time; while one hangs, the next ones are refused at once.

    A call that hangs for longer than ``give_up_s`` is abandoned, and another one is tried.
    """

    def __init__(self, limit_s: float, give_up_s: float = 60.0) -> None:
        self._limit_s = limit_s
        self._give_up_s = give_up_s
        self._thread: threading.Thread | None = None
        self._started_s = 0.0
        self._abandoned_threads: list[threading.Thread] = []

    def call(self, work: Callable[[], _T]) -> _T:
        """Return the result of ``work``.

        Raises:
            TimeoutError: It did not return within the limit, or an earlier call still hangs.
        """
        answer: list[_T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                answer.append(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                failure.append(error)

        if not self._start(run):
            raise TimeoutError("an earlier call hangs")
        assert self._thread is not None
        self._thread.join(self._limit_s)
        if failure:
            raise failure[0]
        if not answer:
            raise TimeoutError(f"no answer within {self._limit_s:g} s")
        return answer[0]

    def run_in_background(self, work: Callable[[], object]) -> bool:
        """Run ``work``, which must not raise, in the background; return False if one still runs."""
        return self._start(work)

    def _start(self, run: Callable[[], Any]) -> bool:
        if self._thread is not None and self._thread.is_alive():
            self._abandoned_threads = [
                thread for thread in self._abandoned_threads if thread.is_alive()
            ]
            hangs_s = time.monotonic() - self._started_s
            if hangs_s < self._give_up_s or len(self._abandoned_threads) >= _MAX_HANGING_CALLS:
                return False
            self._abandoned_threads.append(self._thread)
        self._thread = threading.Thread(target=run, daemon=True)
        self._started_s = time.monotonic()
        self._thread.start()
        return True
