"""Sweeps: make many jobs from one job file after checking them all, and queue them."""

from __future__ import annotations

import itertools
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import ConfigError
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCheck, JobView
from backend.records.sweeps.spec import (
    TAG,
    Expansion,
    Sweep,
    QueuedSweep,
    CancelledSweep,
    expand,
    read_sweep,
    sweep_name,
    sweep_of,
    sweep_title,
)
from backend.services.jobs.job_file import read_job_file
from backend.services.jobs.service import JobService
from backend.services.queue.service import QueueService

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_SLUG = 40
_FAULTS_SHOWN = 3


class IncompleteSweep(BackendError):
    """Only some jobs of a sweep were made.

    ``made``: those jobs; ``SweepService.take_back(tag)`` removes them.
    """

    def __init__(self, sentence: str, tag: str, made: tuple[JobView, ...]) -> None:
        super().__init__(sentence, f"To remove them: {COMMAND} job sweep --take-back {tag}")
        self.tag = tag
        self.jobs = made


class SweepService:
    """Make sweeps. Every call blocks and may run on any thread."""

    def __init__(self, jobs: JobService, queue: QueueService) -> None:
        self._jobs = jobs
        self._queue = queue

    def read(self, path: Path) -> Sweep:
        """Read a sweep file.

        Raises:
            BackendError: It is invalid; it has every fault, one sentence after the other.
        """
        sweep, faults = read_sweep(read_job_file(path))
        if sweep is None:
            raise BackendError(_in_words(faults), "Change the sweep file; nothing was created.")
        return sweep

    def base_of(self, job_id: str) -> dict[str, Any]:
        """Return the job file that repeats a job under its own name, as the base of a sweep."""
        raw = self._jobs.clone(job_id)
        raw["name"] = self._jobs.queries.show(job_id).name
        return raw

    def expand(self, sweep: Sweep) -> Expansion:
        """Return the jobs of the sweep, each checked against the library and the nodes."""
        found = expand(sweep)
        if found.errors:
            return found
        shown: dict[ConfigError, None] = {}
        for job in found.jobs:
            shown.update(dict.fromkeys(self._jobs.config_errors(job.raw)))
        return Expansion(found.jobs, tuple(shown))

    def check(self, sweep: Sweep) -> JobCheck:
        """Return the result for the form: figures of the first job, and the faults of all jobs."""
        found = self.expand(sweep)
        first: Mapping[str, Any] = found.jobs[0].raw if found.jobs else sweep.base
        check = self._jobs.check(first)
        return replace(check, errors=found.errors, jobs=len(found.jobs))

    def queue(
        self,
        sweep: Sweep,
        progress: Progress | None = None,
        on_created: Callable[[QueuedSweep], None] = lambda made: None,
    ) -> QueuedSweep:
        """Make every job and queue it, in the order of the sweep.

        All are made before the first may start, so that a failure leaves only drafts. ``on_made``
        is called between the two.

        Raises:
            BackendError: A job is invalid; nothing was made.
            HalfMade: It was cancelled, or the data root failed, after some were made.
        """
        progress = progress or Progress()
        sweep = self._with_free_name(sweep)
        tag = f"{TAG}{_slug(str(sweep.base.get('name', '')))}-{_letters(4)}"
        found = self.expand(sweep)
        if found.errors:
            raise BackendError(_in_words(found.errors), "Change the sweep; nothing was created.")
        tagged = expand(sweep, tag).jobs
        total = len(tagged)
        made: list[JobView] = []
        queued = 0
        try:
            for job in tagged:
                progress.step(len(made), 2 * total, f"Making job {len(made) + 1} of {total}")
                made.append(self._jobs.create(job.raw))
            on_created(QueuedSweep(tag, tuple(made)))
            for number, view in enumerate(made):
                progress.step(total + number, 2 * total, f"Queueing job {number + 1} of {total}")
                self._queue.enqueue(view.id, progress=progress)
                queued += 1
        except BackendError as error:
            if not made:
                raise
            why = "Cancelled" if isinstance(error, Cancelled) else str(error).rstrip(".")
            sentence = f"{why}: {len(made)} of {total} jobs were made, {queued} of them are queued."
            raise IncompleteSweep(sentence, tag, tuple(made)) from error
        progress.report(2 * total, 2 * total, f"Queued {total} jobs")
        return QueuedSweep(tag, tuple(self._jobs.queries.show(view.id) for view in made))

    def _with_free_name(self, sweep: Sweep) -> Sweep:
        """Number the name if a sweep has it: ``shapes (2)``."""
        names: dict[str, list[str]] = {}
        for line in self._jobs.queries.summaries():
            if tag := sweep_of(line.tags):
                names.setdefault(tag, []).append(line.name)
        taken = {sweep_title(tag, found) for tag, found in names.items()}
        name = " ".join(str(sweep.base.get("name", "")).split())
        if name not in taken:
            return sweep
        number = next(n for n in itertools.count(2) if f"{name} ({n})" not in taken)
        return replace(sweep, base={**sweep.base, "name": f"{name} ({number})"})

    def take_back(self, tag: str, progress: Progress | None = None) -> CancelledSweep:
        """Move the jobs of a sweep that never ran to the trash; jobs that ran stay.

        Raises:
            BackendError: The sweep has no jobs.
        """
        tag, jobs = self._jobs_of(tag)
        taken: list[JobView] = []
        left: list[JobView] = []
        for number, view in enumerate(jobs):
            if progress is not None:
                progress.step(number, len(jobs), "Removing the jobs")
            if view.state.is_queued:
                view = self._queue.dequeue(view.id)
            if view.state is JobState.CREATED and not view.run:
                taken.append(self._jobs.remove(view.id))
            else:
                left.append(view)
        return CancelledSweep(tag, tuple(taken), tuple(left))

    def stop(self, tag: str) -> tuple[JobView, ...]:
        """Take the waiting jobs of a sweep from the queue, and stop those that run.

        Raises:
            BackendError: The sweep has no jobs, or one cannot be stopped; it names those.
        """

        def stop(view: JobView) -> JobView:
            if view.state.is_queued:
                view = self._queue.dequeue(view.id)
            return self._jobs.lifecycle.stop(view.id) if view.state.is_live else view

        # The last ones first: a job that ends must not let the next one start.
        return self._each(tag, stop, "stopped", last_first=True)

    def resume(self, tag: str) -> tuple[JobView, ...]:
        """Queue the jobs of a sweep that are not finished; each continues where it stopped.

        One that was stopped before its first step has no checkpoint, and starts over.

        Raises:
            BackendError: The sweep has no jobs, or one cannot be queued; it names those.
        """

        def resume(view: JobView) -> JobView:
            state = view.state
            if state.is_live or state.is_queued or state is JobState.FINISHED:
                return view
            is_stopped = view.state is JobState.INTERRUPTED
            starts_over = is_stopped and not self._jobs.queries.checkpoints(view.id)
            self._queue.enqueue(view.id, start_over=starts_over)
            return self._jobs.queries.show(view.id)

        return self._each(tag, resume, "queued")

    def _each(
        self, tag: str, act: Callable[[JobView], JobView], did: str, *, last_first: bool = False
    ) -> tuple[JobView, ...]:
        tag, jobs = self._jobs_of(tag)
        done: list[JobView] = []
        refused: list[str] = []
        for view in reversed(jobs) if last_first else jobs:
            try:
                done.append(act(view))
            except BackendError as error:
                refused.append(f"{view.name}: {error.message}")
        if refused:
            count = f"{len(refused)} of {len(jobs)} jobs were not {did}."
            raise BackendError(" ".join((count, *refused[:_FAULTS_SHOWN])))
        return tuple(reversed(done)) if last_first else tuple(done)

    def _jobs_of(self, tag: str) -> tuple[str, list[JobView]]:
        """Return the whole tag and the jobs of a sweep, the first one first."""
        tag = tag if tag.startswith(TAG) else f"{TAG}{tag}"
        jobs = [view for view in self._jobs.queries.list() if sweep_of(view.tags) == tag]
        if not jobs:
            raise BackendError(f"There is no job of the sweep “{sweep_name(tag)}”.")
        return tag, jobs[::-1]


def _in_words(faults: tuple[ConfigError, ...]) -> str:
    shown = " ".join(fault.message for fault in faults[:_FAULTS_SHOWN])
    more = len(faults) - _FAULTS_SHOWN
    return f"{shown} {more} more of this kind." if more > 0 else shown


def _slug(name: str) -> str:
    """Make one word of a name for a tag: tags are typed with commas and spaces between them."""
    kept = string.ascii_letters + string.digits + "._-"
    words = "".join(c if c in kept else " " for c in name).split()
    return "-".join(words)[:_SLUG].strip("-._") or "job"


def _letters(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))
