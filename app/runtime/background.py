"""The only module that starts threads.

A thread here runs a plain function: it owns no state and touches no Qt object. Its outcome, a
frozen value or an exception, comes back as a call on the GUI thread, and so do its reports of
progress.

Work goes into named lanes. Two pieces in one lane never overlap ("job 7" is started once at a
time); different lanes run in parallel.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.base import worker_yield
from backend.base.errors import BackendError, unforeseen
from backend.base.progress import Progress

T = TypeVar("T")

Report = Callable[[float | None, str], None]
"""Share done (None: unknown) and the current step."""

_REPORT_INTERVAL_S = 0.05
_SWITCH_S = 0.0001
CLOSE_LIMIT_S = 60.0
"""The time for a start that was just requested. A call into a lost share may never return."""


@dataclass(frozen=True)
class _Task:
    lane: str
    work: Callable[[], Any]
    then: Callable[[Any], None]
    otherwise: Callable[[BackendError], None]


class Runner(Protocol):
    """The part of `Background` that controllers use; tests provide one without threads."""

    def run(
        self,
        lane: str,
        work: Callable[[], T],
        then: Callable[[T], None],
        otherwise: Callable[[BackendError], None],
    ) -> None:
        """Run ``work`` in its lane, then call ``then`` or ``otherwise`` on the GUI thread."""

    def progress(self, on_report: Report) -> Progress:
        """Return a progress whose reports call ``on_report`` on the GUI thread."""

    def notify(self, sentence: str) -> None:
        """Show a sentence about what the user did."""


class Controller(QObject):
    """Serves a part of the window: runs the work of services, and shows dialogs over ``window``."""

    def __init__(self, runner: Runner, window: QWidget, parent: QObject | None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._window = window


class Background(QObject):
    """Run functions off the GUI thread. Everything but the work itself is on the GUI thread.

    Signals:
        notified: A sentence for the toast.
    """

    notified = Signal(str)
    _ended = Signal(object, object)
    _reported = Signal(object)

    def __init__(self, workers: int = 32, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # A computing worker keeps Python's lock for that long while the GUI thread waits for it, at
        # each call into Qt: a search of 100,000 jobs made a repaint take 0.4 s.
        sys.setswitchinterval(_SWITCH_S)
        self._pool = ThreadPoolExecutor(workers, "background", worker_yield.let_others_go_first)
        self._lanes: defaultdict[str, deque[_Task]] = defaultdict(deque)
        self._closed = False
        # Callers keep the references they need: no object of finished work may stay.
        self._under_way: WeakSet[Progress] = WeakSet()
        self._running: set[Future[Any]] = set()
        self._ended.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._reported.connect(self._hand_report, Qt.ConnectionType.QueuedConnection)

    def run(
        self,
        lane: str,
        work: Callable[[], T],
        then: Callable[[T], None],
        otherwise: Callable[[BackendError], None],
    ) -> None:
        """Run ``work`` in its lane, then call ``then`` or ``otherwise`` on the GUI thread.

        An exception other than `BackendError` and `OSError` is a bug, and is raised here for the
        excepthook.
        """
        if self._closed:
            return
        self._lanes[lane].append(_Task(lane, work, then, otherwise))
        if len(self._lanes[lane]) == 1:
            self._start(lane)

    def notify(self, sentence: str) -> None:
        self.notified.emit(sentence)

    def progress(self, on_report: Report) -> Progress:
        """Return a progress whose reports call ``on_report`` on the GUI thread."""
        made = _Reporting(self, on_report)
        self._under_way.add(made)
        return made

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> bool:
        """Drop waiting work, cancel what can be cancelled, and return when running work has ended.

        Return False if something still runs after ``limit_s``. Python would wait for it at exit.
        """
        self._closed = True
        for progress in self._under_way:
            progress.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # Work that never began is never reported as done.
        began = [future for future in self._running if not future.cancelled()]
        has_ended = not wait(began, limit_s).not_done
        if has_ended:
            # Only then are ended ones reported from their threads, by a signal of this object.
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
    def _deliver(self, task: _Task, future: Future[Any]) -> None:
        """Call back with an outcome. The callback may run the event loop, or raise."""
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
        elif isinstance(error, OSError):
            task.otherwise(unforeseen(error))
        else:
            raise error

    @Slot(object)
    def _hand_report(self, report: Callable[[], object]) -> None:
        if not self._closed:
            report()


class _Reporting(Progress):
    """Report at most twenty times a second; the last report of a kind is never held back."""

    def __init__(self, background: Background, on_report: Report) -> None:
        super().__init__()
        self._background = background
        self._on_report = on_report
        self._last_s = 0.0
        self._what = ""

    def report(self, done: float, total: float, what: str) -> None:
        now = time.monotonic()
        is_new = what != self._what or (total and done >= total)
        if not is_new and now < self._last_s + _REPORT_INTERVAL_S:
            return
        self._last_s, self._what = now, what
        share = done / total if total else None
        self._background._reported.emit(partial(self._on_report, share, what))
