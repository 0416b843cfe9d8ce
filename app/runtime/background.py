"""Threads for the work of the window; no other module of it starts one.

A thread here runs a plain function: it owns no state and touches no Qt object. Its outcome, a
frozen value or an exception, comes back as a call on the GUI thread, and so do its reports of
progress.

Work goes into named queues. Two functions of one queue never overlap ("job 7" is started once at a
time); different queues run in parallel.
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

from backend.base import worker_yield
from backend.base.errors import BackendError, unforeseen
from backend.base.progress import Progress

T = TypeVar("T")

ReportCallback = Callable[[float | None, str], None]
"""Share done (None: unknown) and the current step."""

_REPORT_INTERVAL_S = 0.05
_SWITCH_INTERVAL_S = 0.0001
CLOSE_LIMIT_S = 60.0
"""Time limit of `Background.close`, long enough for a start that was just requested.

A call into a lost share may never return.
"""


@dataclass(frozen=True)
class _Task:
    queue_name: str
    work: Callable[[], Any]
    on_success: Callable[[Any], object]
    on_error: Callable[[BackendError], object]


class Runner(Protocol):
    """The part of `Background` that controllers use; tests provide one without threads."""

    def run(
        self,
        queue_name: str,
        work: Callable[[], T],
        on_success: Callable[[T], object],
        on_error: Callable[[BackendError], object],
    ) -> None:
        """Run ``work`` in its queue, then call ``on_success`` or ``on_error`` on the GUI thread."""

    def progress(self, on_report: ReportCallback) -> Progress:
        """Return a progress whose reports call ``on_report`` on the GUI thread."""

    def notify(self, message: str) -> None:
        """Show a message about an action of the user."""


class Background(QObject):
    """Run functions off the GUI thread. Everything but the work itself is on the GUI thread.

    Signals:
        notified: A message for the toast.
    """

    notified = Signal(str)
    _work_finished = Signal(object, object)
    _report_sent = Signal(object)

    def __init__(self, worker_count: int = 32, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # A computing worker keeps Python's lock for that long while the GUI thread waits for it, at
        # each call into Qt: a search of 100,000 jobs made a repaint take 0.4 s.
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._pool = ThreadPoolExecutor(
            worker_count, "background", worker_yield.let_others_go_first
        )
        self._queues: defaultdict[str, deque[_Task]] = defaultdict(deque)
        self._is_closed = False
        # Callers keep the references they need: no object of finished work may stay.
        self._active_progresses: WeakSet[Progress] = WeakSet()
        self._running_futures: set[Future[Any]] = set()
        self._work_finished.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._report_sent.connect(self._deliver_report, Qt.ConnectionType.QueuedConnection)

    def run(
        self,
        queue_name: str,
        work: Callable[[], T],
        on_success: Callable[[T], object],
        on_error: Callable[[BackendError], object],
    ) -> None:
        """Run ``work`` in its queue, then call ``on_success`` or ``on_error`` on the GUI thread.

        An exception other than `BackendError` and `OSError` is a bug, and is raised on the GUI
        thread for the excepthook.
        """
        if self._is_closed:
            return
        self._queues[queue_name].append(_Task(queue_name, work, on_success, on_error))
        if len(self._queues[queue_name]) == 1:
            self._start(queue_name)

    def notify(self, message: str) -> None:
        self.notified.emit(message)

    def progress(self, on_report: ReportCallback) -> Progress:
        """Return a progress whose reports call ``on_report`` on the GUI thread."""
        progress = _ProgressReporter(self, on_report)
        self._active_progresses.add(progress)
        return progress

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> bool:
        """Drop waiting work, cancel what can be cancelled, and return when running work has ended.

        Return False if something still runs after ``limit_s``. Python would wait for it at exit.
        """
        self._is_closed = True
        for progress in self._active_progresses:
            progress.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # Work that never began is never reported as done.
        started_futures = [future for future in self._running_futures if not future.cancelled()]
        all_ended = not wait(started_futures, limit_s).not_done
        if all_ended:
            # A thread may still emit a signal of this object for a future that has just ended.
            self._pool.shutdown(wait=True)
        return all_ended

    def _start(self, queue_name: str) -> None:
        task = self._queues[queue_name][0]
        future = self._pool.submit(task.work)
        self._running_futures.add(future)
        future.add_done_callback(
            lambda future: self._work_finished.emit(task, future)  # emitted on the worker thread
        )

    @Slot(object, object)
    def _deliver(self, task: _Task, future: Future[Any]) -> None:
        """Call back with an outcome. The callback may run the event loop, or raise."""
        self._running_futures.discard(future)
        if self._is_closed:
            return
        self._queues[task.queue_name].popleft()
        if self._queues[task.queue_name]:
            self._start(task.queue_name)
        else:
            del self._queues[task.queue_name]
        error = future.exception()
        if error is None:
            task.on_success(future.result())
        elif isinstance(error, BackendError):
            task.on_error(error)
        elif isinstance(error, OSError):
            task.on_error(unforeseen(error))
        else:
            raise error

    @Slot(object)
    def _deliver_report(self, report: Callable[[], object]) -> None:
        if not self._is_closed:
            report()


class _ProgressReporter(Progress):
    """Report at most twenty times a second; the last report of a kind is never held back."""

    def __init__(self, background: Background, on_report: ReportCallback) -> None:
        super().__init__()
        self._background = background
        self._on_report = on_report
        self._last_report_s = 0.0
        self._step = ""

    def report(self, done: float, total: float, step: str) -> None:
        now_s = time.monotonic()
        must_send = step != self._step or (total and done >= total)
        if not must_send and now_s < self._last_report_s + _REPORT_INTERVAL_S:
            return
        self._last_report_s, self._step = now_s, step
        share = done / total if total else None
        self._background._report_sent.emit(partial(self._on_report, share, step))
