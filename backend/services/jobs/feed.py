"""Changes to all jobs since the last read, for a window, however many there are.

Of 100,000 jobs nearly all have ended. Their summaries are read from the catalogue once. After that
they are only checked for changes by other programs, the newest first and the older jobs in turn,
within the time limit of a read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from backend.base import worker_yield
from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobListing, JobSummary, summary_of
from backend.records.jobs.view import JobView
from backend.services.jobs.queries import JobQueries

SCAN_S = 0.3
_NEWEST_JOBS = 500
_RECENT_JOBS = 200
_RECENT_S = 2 * 86400
_CHECK_BATCH = 64


class JobFeed:
    """Yields the changes since its last result. One call at a time.

    Args:
        scan_s: Time limit of one read for checking ended jobs for changes.
    """

    def __init__(self, jobs: JobQueries, scan_s: float = SCAN_S) -> None:
        self._jobs = jobs
        self._scan_s = scan_s
        self._summaries: dict[str, JobSummary] | None = None
        self._views: dict[str, JobView] = {}
        self._scan_offset = 0
        self._to_reap: frozenset[str] = frozenset()

    def poll(self) -> JobListing:
        """Return the changes since the last call; every job at the first call.

        Raises:
            BackendError: The data root or the catalogue cannot be read.
        """
        ids = self._jobs.ids()
        queued = self._jobs.queued_ids()
        new_summaries: list[JobSummary] = []
        summaries = self._summaries
        if summaries is None:
            existing_ids = set(ids)
            summaries = {
                summary.id: summary
                for summary in self._jobs.summaries()
                if summary.id in existing_ids
            }
            new_summaries = list(summaries.values())
        removed_ids = _removed_ids(summaries, ids)
        for job_id in removed_ids:
            del summaries[job_id]
            self._views.pop(job_id, None)
        polled_views = {}
        for job_id in self._ids_to_read(ids, queued | self._to_reap, summaries):
            # One damaged folder must not hide the other jobs.
            with suppress(BackendError):
                view = self._jobs.show(job_id)
                polled_views[job_id] = self._views[job_id] = view
                summaries[job_id] = summary_of(view)
            worker_yield.pause()
        self._to_reap = frozenset(
            job_id for job_id, view in polled_views.items() if view.unrecorded_end is not None
        )
        self._summaries = summaries
        self._forget_old(ids)
        return JobListing(
            views=tuple({**self._views, **polled_views}.values()),
            summaries=tuple(summary for summary in new_summaries if summary.id not in polled_views),
            removed_ids=removed_ids,
            total=len(summaries),
            reapable_ids=tuple(self._to_reap),
        )

    def _ids_to_read(
        self, ids: Sequence[str], queued: frozenset[str], summaries: dict[str, JobSummary]
    ) -> Iterator[str]:
        """Yield the ids of jobs that are active, new, recent or changed by other programs."""
        resting_summaries = []
        recent_since_s = time.time() - _RECENT_S
        recent_count = 0
        for job_id in ids:
            summary = summaries.get(job_id)
            if summary is None or job_id in queued or not _is_resting(summary):
                yield job_id
                continue
            resting_summaries.append(summary)
            if _last_change_s(summary) > recent_since_s and recent_count < _RECENT_JOBS:
                recent_count += 1
                if job_id not in self._views:
                    yield job_id
        yield from self._changed_ids(resting_summaries)

    def _changed_ids(self, resting_summaries: Sequence[JobSummary]) -> Iterator[str]:
        started_s = time.monotonic()
        new_jobs, old_jobs = resting_summaries[:_NEWEST_JOBS], resting_summaries[_NEWEST_JOBS:]
        offset = self._scan_offset % len(old_jobs) if old_jobs else 0
        checked_count = 0
        for summary in chain(new_jobs, islice(old_jobs, offset, None), islice(old_jobs, offset)):
            # However slow the data root is, each read makes some progress.
            is_batch_end = checked_count % _CHECK_BATCH == 0
            may_end = is_batch_end and checked_count >= _NEWEST_JOBS + _CHECK_BATCH
            if may_end and time.monotonic() - started_s > self._scan_s:
                break
            checked_count += 1
            if self._jobs.has_changed(summary):
                yield summary.id
            worker_yield.pause()
        self._scan_offset = offset + max(0, checked_count - len(new_jobs))

    def _forget_old(self, ids: Sequence[str]) -> None:
        """Keep whole views only of active jobs, and of those created or ended recently."""
        recent_since_s = time.time() - _RECENT_S
        ended_count = 0
        for job_id in ids:
            summary = (self._summaries or {}).get(job_id)
            if summary is None or job_id not in self._views or not _is_resting(summary):
                continue
            ended_count += 1
            if ended_count > _RECENT_JOBS or _last_change_s(summary) <= recent_since_s:
                del self._views[job_id]


def _last_change_s(summary: JobSummary) -> float:
    return max(summary.created_s, summary.ended_s)


def _removed_ids(summaries: dict[str, JobSummary], ids: Sequence[str]) -> tuple[str, ...]:
    if sum(job_id in summaries for job_id in ids) == len(summaries):
        return ()
    existing_ids = set(ids)
    return tuple(job_id for job_id in summaries if job_id not in existing_ids)


def _is_resting(summary: JobSummary) -> bool:
    """Return whether nothing happens to the job until a user acts."""
    return summary.state.is_over or summary.state is JobState.CREATED
