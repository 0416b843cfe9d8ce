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
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.status import UnrecordedEnd
from backend.records.jobs.summary import JobListing
from backend.records.jobs.view import JobView, RunUpdate

_ROUNDS_AT_REST = 2
"""Live jobs that are not open are polled once in this many polls."""
_ROUNDS_A_LIST = 8
"""The list is read once in this many polls."""
_MOST_AT_ONCE = 2
"""The number of polls at once: each computing thread delays the GUI thread at Python's lock."""
_LONG_S = 1.0
"""A poll that takes longer is waiting for a share, and no longer counts against the limit."""
_MOST_STUCK = 8
"""The limit of polls that wait for a share: each one holds a thread that others need."""
_REAP_AGAIN_S = 60.0


class StatusPoller(QObject):
    """Keep the window up to date about all jobs, and about the curves of the open one.

    Signals:
        updated: A `RunUpdate`: a job's view changed, or its history has new points.
        listed: The `JobView` of live jobs and of jobs that ended lately, as a tuple.
        all_listed: The `JobListing` that they come from.
        unreadable: Job id, sentence. Sent with every failing poll, and while one does not return.
        Show it as stale data, never as a dialog. The job stays watched.
        unlisted: A sentence: the list could not be read, or has not been for a long time.
    """

    updated = Signal(RunUpdate)
    listed = Signal(object)
    all_listed = Signal(JobListing)
    unreadable = Signal(str, str)
    unlisted = Signal(str)

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
        self._poll = poll_run
        self._list_jobs = list_jobs
        self._reap = reap
        self._runner = runner
        self._live: dict[str, JobView] = {}
        self._cursors: dict[str, object] = {}
        self._under_way: dict[str, float] = {}
        """Polls that have not ended, and when they began."""
        self._waiting: dict[str, None] = {}
        self._changed_here: dict[str, tuple[JobView, float]] = {}
        """Jobs that were changed here, and when: what was read before that is out of date."""
        self._reaping: set[str] = set()
        self._not_reaped: dict[str, float] = {}
        """Jobs whose run could not be reaped, and until when they are shown as they were read."""
        self._listing_since: float | None = None
        self._was_listed = False
        self._rounds = 0
        self._open_id = ""
        self._open_is_unread = False
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.poll)
        self._timer.setInterval(interval_ms)

    def start(self) -> None:
        """Poll now, and periodically from now on."""
        self.poll_list()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def open(self, job_id: str) -> None:
        """From now on, also report the history of this job from its beginning."""
        before, self._open_id, self._open_is_unread = self._open_id, job_id, False
        self._forget_resting(before)
        self._cursors.pop(job_id, None)
        self._poll_job(job_id)

    def know(self, view: JobView) -> None:
        """Take a job that was created or changed here; poll it at once if it is live or open."""
        self._changed_here[view.id] = (view, time.monotonic())
        self._take_view(view)
        if view.id in self._live or view.id == self._open_id:
            self._poll_job(view.id)

    def live(self) -> tuple[JobView, ...]:
        """The live jobs."""
        return tuple(self._live.values())

    @Slot()
    def poll(self) -> None:
        """Poll the live jobs that are due, and the list when it is due."""
        is_turn_of_all = self._rounds % _ROUNDS_AT_REST == 0
        self._rounds += 1
        for job_id in list(self._live):
            if is_turn_of_all or job_id == self._open_id:
                self._poll_job(job_id)
        self._begin_some()
        self._doubt_what_hangs()
        if self._rounds % _ROUNDS_A_LIST == 0:
            self.poll_list()
            if self._open_is_unread:
                self._poll_job(self._open_id)

    @Slot()
    def poll_list(self) -> None:
        if self._listing_since is not None:
            return
        self._listing_since = time.monotonic()
        self._runner.run("list", self._list_jobs, self._take_list, self._miss_list)

    def _poll_job(self, job_id: str) -> None:
        if job_id not in self._under_way:
            self._waiting[job_id] = None
            self._begin_some()

    def _begin_some(self) -> None:
        """Begin the polls that have waited longest."""
        since = time.monotonic() - _LONG_S
        room = _MOST_AT_ONCE - sum(began > since for began in self._under_way.values())
        room = min(room, _MOST_STUCK - len(self._under_way))
        for job_id in list(self._waiting)[: max(0, room)]:
            del self._waiting[job_id]
            self._begin(job_id)

    def _begin(self, job_id: str) -> None:
        self._under_way[job_id] = time.monotonic()
        cursor = self._cursors.get(job_id)
        self._runner.run(
            f"look {job_id}",
            partial(self._poll, job_id, cursor),
            partial(self._take, cursor),
            partial(self._miss, job_id),
        )

    def _doubt_what_hangs(self) -> None:
        """Report a job once whose poll does not return."""
        for job_id, began_s in list(self._under_way.items()):
            view = self._live.get(job_id)
            words = stale_reason(began_s)
            if view is not None and words and not view.doubt:
                view = self._live[job_id] = replace(view, doubt=words)
                self.updated.emit(RunUpdate(view, HistoryUpdate(), self._cursors.get(job_id)))
        # The first list of 100,000 jobs takes long, and the page itself reports that.
        if self._was_listed and self._listing_since is not None:
            words = stale_reason(self._listing_since)
            if words:
                self.unlisted.emit(f"The data root does not respond: {words}.")

    def _take(self, asked_with: object, update: RunUpdate) -> None:
        job_id = update.view.id
        is_old = self._is_old(job_id, self._under_way.pop(job_id, None))
        self._begin_some()
        if is_old or asked_with is not self._cursors.get(job_id):
            # The job was changed or opened again in the meantime.
            self._poll_job(job_id)
            return
        if update.view.unrecorded_end is not None and not self._rests(job_id):
            # How it ended is known after reaping: its ranks may all have finished.
            self._begin_reaping(job_id)
            return
        self._open_is_unread &= job_id != self._open_id
        self._cursors[job_id] = update.cursor
        self._take_view(update.view)
        self.updated.emit(update)

    def _begin_reaping(self, job_id: str) -> None:
        """End what is left of a run that recorded no end, then read the job again."""
        if job_id in self._reaping:
            return
        self._reaping.add(job_id)
        self._runner.run(
            f"reap {job_id}",
            partial(self._reap, job_id),
            partial(self._end_reaping, job_id),
            partial(self._fail_reaping, job_id),
        )

    def _end_reaping(self, job_id: str, reason: UnrecordedEnd | None) -> None:
        self._reaping.discard(job_id)
        if reason is None:
            self._not_reaped[job_id] = time.monotonic() + _REAP_AGAIN_S
        else:
            self._not_reaped.pop(job_id, None)
        self._poll_job(job_id)

    def _fail_reaping(self, job_id: str, error: BackendError) -> None:
        self._end_reaping(job_id, None)
        self.unreadable.emit(job_id, error.with_remedy)

    def _take_view(self, view: JobView) -> None:
        if view.state.is_live:
            self._live[view.id] = view
        else:
            self._live.pop(view.id, None)
            self._forget_resting(view.id)

    def _forget_resting(self, job_id: str) -> None:
        """Drop the read positions of jobs that are neither live nor open, maybe thousands."""
        if job_id != self._open_id and job_id not in self._live:
            self._cursors.pop(job_id, None)

    def _is_old(self, job_id: str, since: float | None) -> bool:
        """Return whether the job was changed here after a read of it began."""
        _, changed_at = self._changed_here.get(job_id, (None, -inf))
        return since is not None and changed_at > since

    def _take_list(self, listing: JobListing) -> None:
        since, self._listing_since, self._was_listed = self._listing_since, None, True
        old = {job_id for job_id in self._changed_here if self._is_old(job_id, since)}
        listing = replace(
            listing,
            views=tuple(
                self._changed_here[view.id][0] if view.id in old else view for view in listing.views
            ),
            lines=tuple(line for line in listing.lines if line.id not in old),
            gone=tuple(job_id for job_id in listing.gone if job_id not in old),
        )
        for job_id in self._changed_here.keys() - old - self._under_way.keys():
            del self._changed_here[job_id]
        for view in listing.views:
            if view.state.is_live and view.id not in self._live:
                self._live[view.id] = view
        # The list and the polls run side by side. For a watched job only the poll counts; otherwise
        # its end would appear, disappear and appear again.
        views = tuple(
            self._live.get(view.id, view)
            for view in listing.views
            if view.unrecorded_end is None or view.id in self._not_reaped or view.id in self._live
        )
        self.all_listed.emit(replace(listing, views=views))
        self.listed.emit(views)
        for job_id in listing.to_reap:
            if not self._rests(job_id):
                self._begin_reaping(job_id)

    def _rests(self, job_id: str) -> bool:
        """Return whether a run that could not be reaped is left alone for now."""
        return time.monotonic() < self._not_reaped.get(job_id, 0.0)

    def _miss(self, job_id: str, error: BackendError) -> None:
        self._under_way.pop(job_id, None)
        self._begin_some()
        self._open_is_unread |= job_id == self._open_id
        self.unreadable.emit(job_id, error.with_remedy)

    def _miss_list(self, error: BackendError) -> None:
        self._listing_since = None
        self.unlisted.emit(str(error))
