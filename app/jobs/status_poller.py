"""Poll the jobs and report what changed to the window.

No process pushes messages to the window. Rank 0 of a run replaces ``status.json`` and appends to
``history.toml``; this module reads on from where it stopped. So a laptop that slept for a night
loses nothing, and two windows can watch one run.

The open job is polled each time, other live jobs each second time. All others come with the list,
which is read every few polls because another desktop may have started one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.runtime.background import Runner
from app.runtime.stale_data import stale_reason
from backend.base.errors import BackendError
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.status import UnrecordedEnd
from backend.records.jobs.summary import JobListing
from backend.records.jobs.view import JobView, RunUpdate

_ROUNDS_PER_BACKGROUND_POLL = 2
"""Live jobs that are not open are polled once in this many polls."""
_ROUNDS_PER_LIST = 8
"""The list is read once in this many polls."""
_MAX_POLLS = 2
"""The number of polls at once: each computing thread delays the GUI thread at Python's lock."""
_STUCK_AFTER_S = 1.0
"""A poll that takes longer is waiting for a share, and no longer counts against the limit."""
_MAX_STUCK_POLLS = 8
"""The limit of polls that wait for a share: each one holds a thread that others need."""
_REAP_RETRY_S = 60.0


class StatusPoller(QObject):
    """Keep the window up to date about all jobs, and about the curves of the open one.

    Signals:
        updated: A `RunUpdate`: a job's view changed, or its history has new points.
        jobs_listed: The `JobView` of live jobs and of jobs that ended lately, as a tuple.
        all_listed: The `JobListing` that they come from.
        job_failed: Job id, message. Sent with every failing poll, and while a poll does not return.
            Show it as stale data, never as a dialog. The job stays watched.
        list_failed: A message: the list could not be read, or has not been for a long time.
    """

    updated = Signal(RunUpdate)
    jobs_listed = Signal(object)
    all_listed = Signal(JobListing)
    job_failed = Signal(str, str)
    list_failed = Signal(str)

    def __init__(
        self,
        poll_run: Callable[[str, object], RunUpdate],
        list_jobs: Callable[[], JobListing],
        reap: Callable[[str], UnrecordedEnd | None],
        runner: Runner,
        interval_ms: int,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._poll_run = poll_run
        self._list_jobs = list_jobs
        self._reap = reap
        self._runner = runner
        self._live_views: dict[str, JobView] = {}
        self._cursors: dict[str, object] = {}
        self._poll_starts_s: dict[str, float] = {}
        """Polls that have not ended, and when they began."""
        self._pending_ids: dict[str, None] = {}
        self._local_changes: dict[str, tuple[JobView, float]] = {}
        """Jobs that were changed here, and when: what was read before that is out of date."""
        self._reaping_ids: set[str] = set()
        self._reap_retries_s: dict[str, float] = {}
        """Jobs whose run could not be reaped, and until when they are shown as they were read."""
        self._list_started_s: float | None = None
        self._has_list = False
        self._rounds = 0
        self._open_id = ""
        self._open_is_unread = False
        self._timer = QTimer(self, interval=interval_ms)
        self._timer.timeout.connect(self.poll)

    def start(self) -> None:
        """Poll now, and periodically from now on."""
        self.poll_list()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def open_job(self, job_id: str) -> None:
        """From now on, also report the history of this job from its beginning."""
        previous_id, self._open_id, self._open_is_unread = self._open_id, job_id, False
        self._forget_cursor(previous_id)
        self._cursors.pop(job_id, None)
        self._poll_job(job_id)

    def take_change(self, view: JobView) -> None:
        """Take a job that was created or changed here; poll it at once if it is live or open."""
        self._local_changes[view.id] = (view, time.monotonic())
        self._take_view(view)
        if view.id in self._live_views or view.id == self._open_id:
            self._poll_job(view.id)

    def live_views(self) -> tuple[JobView, ...]:
        """Return the live jobs."""
        return tuple(self._live_views.values())

    @Slot()
    def poll(self) -> None:
        """Poll the live jobs that are due, and the list when it is due."""
        is_turn_of_all = self._rounds % _ROUNDS_PER_BACKGROUND_POLL == 0
        self._rounds += 1
        for job_id in list(self._live_views):
            if is_turn_of_all or job_id == self._open_id:
                self._poll_job(job_id)
        self._start_polls()
        self._report_stuck_polls()
        if self._rounds % _ROUNDS_PER_LIST == 0:
            self.poll_list()
            if self._open_is_unread:
                self._poll_job(self._open_id)

    @Slot()
    def poll_list(self) -> None:
        if self._list_started_s is not None:
            return
        self._list_started_s = time.monotonic()
        self._runner.run("list", self._list_jobs, self._take_list, self._handle_list_error)

    def _poll_job(self, job_id: str) -> None:
        if job_id not in self._poll_starts_s:
            self._pending_ids[job_id] = None
            self._start_polls()

    def _start_polls(self) -> None:
        """Start the polls that have waited longest."""
        recent_s = time.monotonic() - _STUCK_AFTER_S
        free_polls = _MAX_POLLS - sum(
            started_s > recent_s for started_s in self._poll_starts_s.values()
        )
        free_polls = min(free_polls, _MAX_STUCK_POLLS - len(self._poll_starts_s))
        for job_id in list(self._pending_ids)[: max(0, free_polls)]:
            del self._pending_ids[job_id]
            self._start_poll(job_id)

    def _start_poll(self, job_id: str) -> None:
        self._poll_starts_s[job_id] = time.monotonic()
        cursor = self._cursors.get(job_id)
        self._runner.run(
            f"look {job_id}",
            partial(self._poll_run, job_id, cursor),
            partial(self._take_update, cursor),
            partial(self._handle_poll_error, job_id),
        )

    def _report_stuck_polls(self) -> None:
        """Report a job once whose poll does not return."""
        for job_id, started_s in list(self._poll_starts_s.items()):
            view = self._live_views.get(job_id)
            reason = stale_reason(started_s)
            if view is not None and reason and not view.contact_warning:
                view = self._live_views[job_id] = replace(view, contact_warning=reason)
                self.updated.emit(RunUpdate(view, HistoryUpdate(), self._cursors.get(job_id)))
        # The first list of 100,000 jobs takes long, and the page itself reports that.
        if self._has_list and self._list_started_s is not None:
            reason = stale_reason(self._list_started_s)
            if reason:
                self.list_failed.emit(f"The data root does not respond: {reason}.")

    def _take_update(self, cursor: object, update: RunUpdate) -> None:
        job_id = update.view.id
        is_old = self._is_old(job_id, self._poll_starts_s.pop(job_id, None))
        self._start_polls()
        if is_old or cursor is not self._cursors.get(job_id):
            # The job was changed or opened again in the meantime.
            self._poll_job(job_id)
            return
        if update.view.unrecorded_end is not None and not self._awaits_reap_retry(job_id):
            # How it ended is known after reaping: its ranks may all have finished.
            self._start_reaping(job_id)
            return
        self._open_is_unread &= job_id != self._open_id
        self._cursors[job_id] = update.cursor
        self._take_view(update.view)
        self.updated.emit(update)

    def _start_reaping(self, job_id: str) -> None:
        """End the remaining processes of a run that recorded no end, then read the job again."""
        if job_id in self._reaping_ids:
            return
        self._reaping_ids.add(job_id)
        self._runner.run(
            f"reap {job_id}",
            partial(self._reap, job_id),
            partial(self._end_reaping, job_id),
            partial(self._fail_reaping, job_id),
        )

    def _end_reaping(self, job_id: str, reason: UnrecordedEnd | None) -> None:
        self._reaping_ids.discard(job_id)
        if reason is None:
            self._reap_retries_s[job_id] = time.monotonic() + _REAP_RETRY_S
        else:
            self._reap_retries_s.pop(job_id, None)
        self._poll_job(job_id)

    def _fail_reaping(self, job_id: str, error: BackendError) -> None:
        self._end_reaping(job_id, None)
        self.job_failed.emit(job_id, error.with_remedy)

    def _take_view(self, view: JobView) -> None:
        if view.state.is_live:
            self._live_views[view.id] = view
        else:
            self._live_views.pop(view.id, None)
            self._forget_cursor(view.id)

    def _forget_cursor(self, job_id: str) -> None:
        """Drop the read positions of jobs that are neither live nor open, maybe thousands."""
        if job_id != self._open_id and job_id not in self._live_views:
            self._cursors.pop(job_id, None)

    def _is_old(self, job_id: str, started_s: float | None) -> bool:
        """Return whether the job was changed here after a read of it began."""
        _, changed_s = self._local_changes.get(job_id, (None, -inf))
        return started_s is not None and changed_s > started_s

    def _take_list(self, listing: JobListing) -> None:
        started_s, self._list_started_s, self._has_list = self._list_started_s, None, True
        stale_ids = {job_id for job_id in self._local_changes if self._is_old(job_id, started_s)}
        listing = replace(
            listing,
            views=tuple(
                self._local_changes[view.id][0] if view.id in stale_ids else view
                for view in listing.views
            ),
            summaries=tuple(line for line in listing.summaries if line.id not in stale_ids),
            removed_ids=tuple(job_id for job_id in listing.removed_ids if job_id not in stale_ids),
        )
        for job_id in self._local_changes.keys() - stale_ids - self._poll_starts_s.keys():
            del self._local_changes[job_id]
        for view in listing.views:
            if view.state.is_live and view.id not in self._live_views:
                self._live_views[view.id] = view
        # The list and the polls run side by side. For a watched job only the poll counts; otherwise
        # its end would appear, disappear and appear again.
        views = tuple(
            self._live_views.get(view.id, view)
            for view in listing.views
            if view.unrecorded_end is None
            or view.id in self._reap_retries_s
            or view.id in self._live_views
        )
        self.all_listed.emit(replace(listing, views=views))
        self.jobs_listed.emit(views)
        for job_id in listing.reapable_ids:
            if not self._awaits_reap_retry(job_id):
                self._start_reaping(job_id)

    def _awaits_reap_retry(self, job_id: str) -> bool:
        """Return whether a run that could not be reaped is left alone for now."""
        return time.monotonic() < self._reap_retries_s.get(job_id, 0.0)

    def _handle_poll_error(self, job_id: str, error: BackendError) -> None:
        self._poll_starts_s.pop(job_id, None)
        self._start_polls()
        self._open_is_unread |= job_id == self._open_id
        self.job_failed.emit(job_id, error.with_remedy)

    def _handle_list_error(self, error: BackendError) -> None:
        self._list_started_s = None
        self.list_failed.emit(str(error))
