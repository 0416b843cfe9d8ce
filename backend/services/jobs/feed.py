"""Changes to all jobs since the last read, for a window, however many there are.

Of 100,000 jobs nearly all have ended. Their summaries are read from the catalogue once. After that
they are only checked for changes by other programs, the newest first and the rest in turn, within
the time limit of a read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from backend.base import worker_yield
from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobListing, JobSummary, line_of
from backend.records.jobs.view import JobView
from backend.services.jobs.queries import JobQueries

SCAN_S = 0.3
_NEWEST = 500
_RECENT = 200
_RECENT_S = 2 * 86400
_CHECKED_AT_ONCE = 64


class JobFeed:
    """Remembers what it returned. One call at a time.

    Args:
        scan_s: Time limit of one read for checking ended jobs for changes.
    """

    def __init__(self, jobs: JobQueries, scan_s: float = SCAN_S) -> None:
        self._jobs = jobs
        self._scan_s = scan_s
        self._lines: dict[str, JobSummary] | None = None
        self._views: dict[str, JobView] = {}
        self._turn = 0
        self._to_reap: frozenset[str] = frozenset()

    def poll(self) -> JobListing:
        """Return the changes since the last call; everything at the first one.

        Raises:
            BackendError: The data root or the catalogue cannot be read.
        """
        ids = self._jobs.ids()
        queued = self._jobs.queued_ids()
        fresh: list[JobSummary] = []
        known = self._lines
        if known is None:
            there = set(ids)
            known = {line.id: line for line in self._jobs.summaries() if line.id in there}
            fresh = list(known.values())
        gone = _gone(known, ids)
        for job_id in gone:
            del known[job_id]
            self._views.pop(job_id, None)
        polled = {}
        for job_id in self._to_read(ids, queued | self._to_reap, known):
            # One damaged folder must not hide the other jobs.
            with suppress(BackendError):
                view = self._jobs.show(job_id)
                polled[job_id] = self._views[job_id] = view
                known[job_id] = line_of(view)
            worker_yield.pause()
        self._to_reap = frozenset(
            job_id for job_id, view in polled.items() if view.unrecorded_end is not None
        )
        self._lines = known
        self._forget_old(ids)
        return JobListing(
            views=tuple({**self._views, **polled}.values()),
            lines=tuple(line for line in fresh if line.id not in polled),
            gone=gone,
            total=len(known),
            to_reap=tuple(self._to_reap),
        )

    def _to_read(
        self, ids: Sequence[str], queued: frozenset[str], known: dict[str, JobSummary]
    ) -> Iterator[str]:
        """Yield the ids of jobs that are active, new, recent or changed by other programs."""
        resting = []
        since = time.time() - _RECENT_S
        recent = 0
        for job_id in ids:
            line = known.get(job_id)
            if line is None or job_id in queued or not _rests(line):
                yield job_id
                continue
            resting.append(line)
            if _last_moved(line) > since and recent < _RECENT:
                recent += 1
                if job_id not in self._views:
                    yield job_id
        yield from self._changed(resting)

    def _changed(self, resting: Sequence[JobSummary]) -> Iterator[str]:
        begin = time.monotonic()
        newest, rest = resting[:_NEWEST], resting[_NEWEST:]
        start = self._turn % len(rest) if rest else 0
        checked = 0
        for line in chain(newest, islice(rest, start, None), islice(rest, start)):
            # However slow the data root is, each read makes some progress.
            may_end = checked >= _NEWEST + _CHECKED_AT_ONCE and checked % _CHECKED_AT_ONCE == 0
            if may_end and time.monotonic() - begin > self._scan_s:
                break
            checked += 1
            if self._jobs.has_changed(line):
                yield line.id
            worker_yield.pause()
        self._turn = start + max(0, checked - len(newest))

    def _forget_old(self, ids: Sequence[str]) -> None:
        """Keep whole views only of active jobs, and of those created or ended recently."""
        since = time.time() - _RECENT_S
        ended = 0
        for job_id in ids:
            line = (self._lines or {}).get(job_id)
            if line is None or job_id not in self._views or not _rests(line):
                continue
            ended += 1
            if ended > _RECENT or _last_moved(line) <= since:
                del self._views[job_id]


def _last_moved(line: JobSummary) -> float:
    return max(line.created, line.ended)


def _gone(known: dict[str, JobSummary], ids: Sequence[str]) -> tuple[str, ...]:
    if sum(job_id in known for job_id in ids) == len(known):
        return ()
    there = set(ids)
    return tuple(job_id for job_id in known if job_id not in there)


def _rests(line: JobSummary) -> bool:
    """Return whether nothing happens to the job until a user acts."""
    return line.state.is_over or line.state is JobState.CREATED
