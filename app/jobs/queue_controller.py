"""Turn user actions on the queue into calls of its service, and show the results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.jobs.status_poller import StatusPoller
from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.jobs.view import JobView, RunUpdate
from backend.records.queue.entry import Queue
from backend.services.queue.service import QueueService
from widgets.jobs.actions import job_actions as do
from widgets.jobs.page.jobs_page import JobsPage

_LANE = "queue"


class QueueController(QObject):
    """Serve the queue within the page Jobs.

    Signals:
        shown: The whole `Queue`, after each read.
    """

    shown = Signal(object)

    def __init__(
        self,
        service: QueueService,
        runner: Runner,
        poller: StatusPoller,
        page: JobsPage,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._service = service
        self._runner = runner
        self._poller = poller
        self._page = page
        self._looking = self._again = False
        self._queue = Queue()
        poller.updated.connect(self._see)
        page.job_actions.add_handler(do.QUEUE, self._enqueue)
        page.job_actions.add_handler(do.LEAVE_QUEUE, self._leave)
        page.job_actions.add_handler(do.MOVE_TO_TOP, self._to_top)
        page.job_actions.add_handler(do.CHANGE_QUEUED, self._change)
        page.job_actions.add_handler(do.MOVE_QUEUED, self._move)
        page.job_actions.add_handler(do.PAUSE_QUEUE, self._pause)

    @Slot(object)
    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """Take the list of jobs; if one is queued, read the queue as well."""
        waits = any(view.state.is_queued for view in views)
        if waits or self._queue != Queue():
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Read the queue; during a read, read it again afterwards."""
        self._again = self._looking
        if not self._looking:
            self._looking = True
            self._runner.run(_LANE, self._read, self._take, self._miss)

    def _see(self, update: RunUpdate) -> None:
        """Read the queue when a job has ended: others may have waited for it."""
        if update.view.state.is_over and self._queue.jobs:
            self.refresh()

    def _read(self) -> Queue:
        """Runs on a worker."""
        self._service.ensure_keeper()
        return self._service.read()

    def _take(self, queue: Queue) -> None:
        self._looking = False
        self._show(queue)
        if self._again:
            self.refresh()

    def _miss(self, _error: BackendError) -> None:
        """Ignore the error: the next read retries; the list of jobs reports a lost data root."""
        self._looking = False

    def _show(self, queue: Queue, *, at_once: bool = False) -> None:
        self._queue = queue
        self._page.show_queue(queue, at_once=at_once)
        self.shown.emit(queue)

    # User actions.

    def _enqueue(self, job_id: str) -> None:
        self._page.detail.show_busy(job_id, "Queueing…")
        self._act(job_id, lambda: self._service.enqueue(job_id))

    def _leave(self, job_id: str) -> None:
        self._act(job_id, lambda: self._service.dequeue(job_id))

    def _to_top(self, job_id: str) -> None:
        self._act(job_id, lambda: self._service.to_top(job_id))

    def _change(self, job_id: str, priority: int, when: datetime | None) -> None:
        change = partial(self._service.change, job_id, priority, when, start_now=when is None)
        self._act(job_id, change)

    def _move(self, job_id: str, before: str, after: str) -> None:
        self._act(job_id, partial(self._service.reorder, job_id, before_id=before, after_id=after))

    def _pause(self, paused: bool) -> None:
        self._runner.run(
            _LANE,
            self._service.pause if paused else self._service.resume,
            partial(self._show, at_once=True),
            lambda error: self._runner.notify(error.with_remedy),
        )

    def _act(self, job_id: str, work: Callable[[], object]) -> None:
        def act() -> Queue:
            work()
            return self._service.read()

        self._runner.run(_LANE, act, partial(self._acted, job_id), partial(self._refused, job_id))

    def _acted(self, job_id: str, queue: Queue) -> None:
        self._page.detail.show_busy(job_id, "")
        self._show(queue, at_once=True)
        self._poller.poll_list()

    def _refused(self, job_id: str, error: BackendError) -> None:
        self._page.detail.show_busy(job_id, "")
        if self._page.open_id == job_id:
            self._page.detail.show_error(job_id, str(error), error.remedy)
        else:
            self._runner.notify(error.with_remedy)
        self._poller.poll_list()
