"""Turn user actions on the queue into calls of its service, and show the results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.jobs.status_poller import StatusPoller
from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.base.errors import BackendError
from backend.records.jobs.view import JobView, RunUpdate
from backend.records.queue.entry import Queue
from backend.services.queue.service import QueueService
from widgets.jobs.actions import job_actions
from widgets.jobs.page.jobs_page import JobsPage

_QUEUE = "queue"


class QueueController(Controller):
    """Serve the queue within the page Jobs.

    Signals:
        queue_shown: The whole `Queue`, after each read.
    """

    queue_shown = Signal(object)

    def __init__(
        self,
        service: QueueService,
        runner: Runner,
        poller: StatusPoller,
        page: JobsPage,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._service = service
        self._poller = poller
        self._page = page
        self._is_reading = self._must_read_again = False
        self._queue = Queue()
        poller.updated.connect(self._see_update)
        page.job_actions.add_handler(job_actions.QUEUE, self._enqueue)
        page.job_actions.add_handler(job_actions.LEAVE_QUEUE, partial(self._run, service.dequeue))
        page.job_actions.add_handler(job_actions.MOVE_TO_TOP, partial(self._run, service.to_top))
        page.job_actions.add_handler(job_actions.CHANGE_QUEUED, self._change)
        page.job_actions.add_handler(job_actions.MOVE_QUEUED, self._move)
        page.job_actions.add_handler(job_actions.PAUSE_QUEUE, self._pause)

    @Slot(object)
    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """Take the list of jobs; if one is queued, read the queue as well."""
        has_queued_jobs = any(view.state.is_queued for view in views)
        if has_queued_jobs or self._queue != Queue():
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Read the queue; during a read, read it again afterwards."""
        self._must_read_again = self._is_reading
        if self._is_reading:
            return

        def read() -> Queue:
            self._service.ensure_keeper()
            return self._service.read()

        def take_queue(queue: Queue) -> None:
            self._is_reading = False
            self._show(queue)
            if self._must_read_again:
                self.refresh()

        def ignore_error(_error: BackendError) -> None:
            # The next read retries; the list of jobs reports a lost data root.
            self._is_reading = False

        self._is_reading = True
        self._runner.run(_QUEUE, read, take_queue, ignore_error)

    def _see_update(self, update: RunUpdate) -> None:
        """Read the queue when a job has ended: others may have waited for it."""
        if update.view.state.is_over and self._queue.jobs:
            self.refresh()

    def _show(self, queue: Queue, *, is_immediate: bool = False) -> None:
        self._queue = queue
        self._page.show_queue(queue, is_immediate=is_immediate)
        self.queue_shown.emit(queue)

    # User actions.

    def _enqueue(self, job_id: str) -> None:
        self._page.detail.show_busy(job_id, "Queueing…")
        self._run(self._service.enqueue, job_id)

    def _change(
        self, job_id: str, priority: int, start_time: datetime | None, hours: float
    ) -> None:
        enqueue = partial(self._service.enqueue, length_s=hours * 3600)
        self._run(enqueue, job_id, priority, start_time, start_now=start_time is None)

    def _move(self, job_id: str, before_id: str, after_id: str) -> None:
        self._run(self._service.reorder, job_id, before_id=before_id, after_id=after_id)

    def _pause(self, is_paused: bool) -> None:
        work = self._service.pause if is_paused else self._service.resume
        self.serve(_QUEUE, work, partial(self._show, is_immediate=True))

    def _run(
        self, work: Callable[..., object], job_id: str, *args: object, **kwargs: object
    ) -> None:
        def run_and_read() -> Queue:
            work(job_id, *args, **kwargs)
            return self._service.read()

        self._runner.run(
            _QUEUE,
            run_and_read,
            partial(self._show_outcome, job_id),
            partial(self._show_error, job_id),
        )

    def _show_outcome(self, job_id: str, queue: Queue) -> None:
        self._page.detail.show_busy(job_id, "")
        self._show(queue, is_immediate=True)
        self._poller.poll_list()

    def _show_error(self, job_id: str, error: BackendError) -> None:
        self._page.detail.show_busy(job_id, "")
        if self._page.open_id == job_id:
            self._page.detail.show_error(job_id, str(error), error.remedy)
        else:
            self._runner.notify(error.with_remedy)
        self._poller.poll_list()
