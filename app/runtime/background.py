"""The only module that starts threads.

A thread here runs a plain function and nothing else: it owns no state and touches no Qt object.
Its outcome, a frozen value or an exception, comes back as a call on the GUI thread, and so do its
reports of progress.

Work goes into named lanes. Two pieces in one lane never overlap ("job 7" is started once at a
time); different lanes do.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from PySide6.QtCore import QObject, Qt, Signal, Slot

from backend.base import worker_yield
from backend.base.errors import BackendError
from backend.base.progress import Progress
from widgets.common.chunked_work import ChunkedWork

T = TypeVar("T")

Report = Callable[[float | None, str], None]
"""Share done (None: unknown) and what is being done."""

_REPORT_INTERVAL_S = 0.05
_SWITCH_S = 0.0001
CLOSE_LIMIT_S = 60.0
"""As long as a start takes that a person still wished for. A call into a share that is away may
never return."""
_TURN_S = 0.008
"""Half a frame for what comes home; then painting and keys have their turn."""


@dataclass(frozen=True)
class _Task:
    lane: str
    work: Callable[[], Any]
    then: Callable[[Any], None]
    otherwise: Callable[[BackendError], None]


class Runner(Protocol):
    """What controllers need of `Background`; tests give them one without threads."""

    def run(
        self,
        lane: str,
        work: Callable[[], T],
        then: Callable[[T], None],
        otherwise: Callable[[BackendError], None],
    ) -> None:
        """Run ``work`` when its lane is free, then call ``then`` or ``otherwise`` here."""

    def progress(self, on_report: Report) -> Progress:
        """For work that takes long: its reports come to ``on_report``, on the GUI thread."""


class Background(QObject):
    """Runs functions off the GUI thread. Everything but the work itself is on the GUI thread."""

    _ended = Signal(object, object)
    _reported = Signal(object, object, str)

    def __init__(self, workers: int = 32, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # A worker that computes keeps Python's lock for that long while the GUI thread waits for
        # it, which is at each call into Qt: a search of 100,000 jobs made a repaint take 0.4 s.
        sys.setswitchinterval(_SWITCH_S)
        self._pool = ThreadPoolExecutor(workers, "background", worker_yield.let_others_go_first)
        self._lanes: defaultdict[str, deque[_Task]] = defaultdict(deque)
        self._closed = False
        # Whoever needs one keeps it: of work that has ended nothing may stay.
        self._under_way: WeakSet[Progress] = WeakSet()
        self._running: set[Future[Any]] = set()
        # The looks at twenty jobs end together, and Qt delivers all that was posted before it
        # looks at keys: 70 ms at a time (tests/benchmarks/soak.py).
        self._home: deque[tuple[_Task, Future[Any]]] = deque()
        self._turns = ChunkedWork(self)
        self._ended.connect(self._came_home, Qt.ConnectionType.QueuedConnection)
        self._reported.connect(self._hand_report, Qt.ConnectionType.QueuedConnection)

    def run(
        self,
        lane: str,
        work: Callable[[], T],
        then: Callable[[T], None],
        otherwise: Callable[[BackendError], None],
    ) -> None:
        """Run ``work`` when its lane is free, then call ``then`` or ``otherwise`` here.

        An exception that is no `BackendError` is a bug, and is raised here for the excepthook.
        """
        if self._closed:
            return
        self._lanes[lane].append(_Task(lane, work, then, otherwise))
        if len(self._lanes[lane]) == 1:
            self._start(lane)

    def progress(self, on_report: Report) -> Progress:
        """For work that takes long: its reports come to ``on_report``, on the GUI thread."""
        made = _Reporting(self, on_report)
        self._under_way.add(made)
        return made

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> bool:
        """Drop what waits, cancel what can be, and return when what runs has ended.

        False: after ``limit_s`` something still runs. Python itself would wait for it at its end.
        """
        self._closed = True
        for progress in self._under_way:
            progress.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # One that never began is never said to be done.
        began = [future for future in self._running if not future.cancelled()]
        has_ended = not wait(began, limit_s).not_done
        if has_ended:
            # What has ended is only then told from its thread, by a signal of this object's.
            self._pool.shutdown(wait=True)
        return has_ended

    def _start(self, lane: str) -> None:
        task = self._lanes[lane][0]
        future = self._pool.submit(task.work)
        self._running.add(future)
        future.add_done_callback(
            lambda future: self._ended.emit(task, future)  # emitted on the worker thread
        )

    @Slot(object, object)
    def _came_home(self, task: _Task, future: Future[Any]) -> None:
        self._home.append((task, future))
        # Not at once: all that came home together is delivered in one turn.
        if self._turns.is_done:
            self._turns.put(repeat(self._hand_back_some))

    def _hand_back_some(self) -> None:
        """As much as fits into a turn. What is handed back may turn the loop, or be a bug."""
        end = time.monotonic() + _TURN_S
        while self._home and time.monotonic() < end:
            self._hand_back(*self._home.popleft())
        if not self._home:
            self._turns.stop()

    def _hand_back(self, task: _Task, future: Future[Any]) -> None:
        self._running.discard(future)
        if self._closed:
            return
        self._lanes[task.lane].popleft()
        if self._lanes[task.lane]:
            self._start(task.lane)
        else:
            del self._lanes[task.lane]
        error = future.exception()
        if error is None:
            task.then(future.result())
        elif isinstance(error, BackendError):
            task.otherwise(error)
        else:
            raise error

    @Slot(object, object, str)
    def _hand_report(self, on_report: Report, share: float | None, what: str) -> None:
        if not self._closed:
            on_report(share, what)


class _Reporting(Progress):
    """Reports at most twenty times a second; the last one of a kind is never held back."""

    def __init__(self, background: Background, on_report: Report) -> None:
        super().__init__()
        self._background = background
        self._on_report = on_report
        self._last_s = 0.0
        self._what = ""

    def report(self, done: float, total: float, what: str) -> None:
        now = time.monotonic()
        is_news = what != self._what or (total and done >= total)
        if not is_news and now < self._last_s + _REPORT_INTERVAL_S:
            return
        self._last_s, self._what = now, what
        share = done / total if total else None
        self._background._reported.emit(self._on_report, share, what)
