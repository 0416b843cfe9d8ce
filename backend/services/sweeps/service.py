"""Sweeps: make many jobs from one job file after checking them all, and queue them."""

from __future__ import annotations

import itertools
import json
import secrets
import shutil
import string
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backend.base.errors import BackendError, Cancelled, as_backend_error
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.node.system.process_identity import machine
from backend.node.system.start_supervisor import last_line, own_environment
from backend.records.base.atomic_files import stored_record
from backend.records.base.program_name import COMMAND
from backend.records.base.validation import ConfigError
from backend.records.jobs.metric_names import matching_metric
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCheck, JobView
from backend.records.queue.entry import node_key
from backend.records.sweeps.search import (
    IMPORTANCE,
    PRIORITY,
    TABLE,
    Proposal,
    Search,
    SearchResult,
    StoredSearch,
    unknown_goal,
)
from backend.records.sweeps.spec import (
    TAG,
    CancelledSweep,
    Expansion,
    QueuedSweep,
    Sweep,
    corner_jobs,
    expand,
    job_errors,
    read_sweep,
    sweep_name,
    sweep_of,
    sweep_title,
)
from backend.services.jobs.job_file import read_job_file
from backend.services.jobs.service import JobService
from backend.services.queue.service import QueueService

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_MAX_SLUG_LENGTH = 40
_MAX_ERRORS = 3


class IncompleteSweep(BackendError):
    """Only some jobs of a sweep were created.

    Attributes:
        jobs: The created jobs; ``SweepService.cancel(tag)`` removes them.
    """

    def __init__(self, message: str, tag: str, jobs: tuple[JobView, ...]) -> None:
        super().__init__(message, f"To cancel them: {COMMAND} job sweep --cancel {tag}")
        self.tag = tag
        self.jobs = jobs


class SweepService:
    """Make sweeps. Every call blocks and may run on any thread."""

    def __init__(self, root: OpenRoot, jobs: JobService, queue: QueueService) -> None:
        self._root = root
        self._jobs = jobs
        self._queue = queue

    def read(self, path: Path) -> Sweep:
        """Read a sweep file.

        Raises:
            BackendError: The file is invalid; the message has every error.
        """
        sweep, errors = read_sweep(read_job_file(path))
        if sweep is None:
            raise BackendError(
                _error_message(errors), "Change the sweep file; nothing was created."
            )
        return sweep

    def base_job_file(self, job_id: str) -> dict[str, Any]:
        """Return the job file that repeats a job under its own name, as the base of a sweep."""
        raw = self._jobs.clone(job_id)
        raw["name"] = self._jobs.queries.show(job_id).name
        return raw

    def expand(self, sweep: Sweep) -> Expansion:
        """Return the jobs of the sweep, each checked against the library and the nodes."""
        expansion = expand(sweep)
        if expansion.errors:
            return expansion
        checked_jobs = expansion.jobs if sweep.search is None else corner_jobs(sweep).jobs
        errors = job_errors(
            checked_jobs, (self._jobs.config_errors(job.raw) for job in checked_jobs)
        )
        return Expansion(expansion.jobs, errors or self._goal_errors(sweep, checked_jobs[0].raw))

    def _goal_errors(self, sweep: Sweep, raw: Mapping[str, Any]) -> tuple[ConfigError, ...]:
        """Return that earlier jobs with the same sources do not report the goal of a search."""
        names = self._jobs.reported_metrics(raw) if sweep.search is not None else frozenset()
        if sweep.search is None or not names or matching_metric(sweep.search.metric, names):
            return ()
        message = unknown_goal(sweep.search.metric, names)
        return (ConfigError(f"{TABLE}.goal", f"{TABLE}.goal: {message}"),)

    def check(self, sweep: Sweep) -> JobCheck:
        """Return the result for the form: figures of the first job, and the errors of all jobs."""
        expansion = self.expand(sweep)
        first_job: Mapping[str, Any] = expansion.jobs[0].raw if expansion.jobs else sweep.base
        check = self._jobs.check(first_job)
        return replace(check, errors=expansion.errors, jobs=len(expansion.jobs))

    def queue(
        self,
        sweep: Sweep,
        progress: Progress | None = None,
        on_created: Callable[[QueuedSweep], None] = lambda sweep: None,
    ) -> QueuedSweep:
        """Create and queue every job, in the order of the sweep.

        All jobs are created before the first job is queued, so that a failure leaves only drafts.
        ``on_created`` is called between the two.

        Raises:
            BackendError: A job is invalid; no job was created.
            IncompleteSweep: The user cancelled, or the data root failed, after the first job.
        """
        progress = progress or Progress()
        sweep = self._with_free_name(sweep)
        random_letters = "".join(secrets.choice(_LETTERS) for _ in range(4))
        tag = f"{TAG}{_slug(str(sweep.base.get('name', '')))}-{random_letters}"
        expansion = self.expand(sweep)
        if expansion.errors:
            raise BackendError(
                _error_message(expansion.errors), "Change the sweep; nothing was created."
            )
        tagged_jobs = expand(sweep, tag).jobs
        job_count = len(tagged_jobs)
        jobs: list[JobView] = []
        queued_count = 0
        try:
            for job in tagged_jobs:
                progress.step(
                    len(jobs), 2 * job_count, f"Making job {len(jobs) + 1} of {job_count}"
                )
                jobs.append(self._jobs.create(job.raw))
            on_created(QueuedSweep(tag, tuple(jobs)))
            if sweep.search is not None:
                self._store_search(sweep, sweep.search, tag, jobs)
            for number, view in enumerate(jobs):
                progress.step(
                    job_count + number, 2 * job_count, f"Queueing job {number + 1} of {job_count}"
                )
                priority = None if sweep.search is None else PRIORITY
                self._enqueue(view, progress=progress, priority=priority)
                queued_count += 1
        except BackendError as error:
            if not jobs:
                raise
            name = tagged_jobs[len(jobs) if len(jobs) < job_count else queued_count].name
            reason = str(error).rstrip(".")
            reason = "Cancelled" if isinstance(error, Cancelled) else f"{name}: {reason}"
            message = f"{reason}: {len(jobs)} of {job_count} jobs were made, "
            message += f"{queued_count} of them are queued."
            raise IncompleteSweep(message, tag, tuple(jobs)) from error
        progress.report(2 * job_count, 2 * job_count, f"Queued {job_count} jobs")
        return QueuedSweep(tag, tuple(self._jobs.queries.show(view.id) for view in jobs))

    def _store_search(
        self, sweep: Sweep, search: Search, tag: str, jobs: Sequence[JobView]
    ) -> None:
        """Write what the first node of the trials needs to propose their values."""
        head = node_key(jobs[0].config.placement[0].node, machine())
        job_ids = tuple(view.id for view in jobs)
        record = StoredSearch(tag, head, sweep.seed, search, sweep.axes, job_ids)
        folder = self._root.search(sweep_name(tag))
        with as_backend_error("The search could not be stored"):
            for path in (self._root.searches, folder.path):
                self._root.files.make_folder(path, exist_ok=True)
            self._root.files.replace_json(folder.definition, record.to_dict())

    def result(self, tag: str) -> SearchResult | None:
        """Return the trials of a search with the importance of its settings; None for a sweep."""
        result = self.trials(tag)
        if result is None or result.missing_trials:
            return result
        try:
            return replace(result, importance=self.importance(tag))
        except BackendError as error:
            # The trials are known without the journal.
            return replace(result, error=error.with_remedy)

    def trials(self, tag: str) -> SearchResult | None:
        """Return the trials of a search that have values; None if the sweep is none."""
        folder = self._root.search(sweep_name(tag))
        with as_backend_error("The search could not be read"):
            self._root.files.refresh_file(folder.definition)
        record = stored_record(StoredSearch, folder.definition) if sweep_name(tag) else None
        if record is None:
            return None
        proposals = (stored_record(Proposal, self._root.job(i).proposal) for i in record.jobs)
        trials = sorted((p for p in proposals if p is not None), key=lambda p: p.number)
        return SearchResult(record.search, record.axes, tuple(trials))

    def importance(self, tag: str) -> Mapping[str, float]:
        """Return the importance of each setting of a search, by its path.

        Raises:
            BackendError: The journal cannot be read.
        """
        folder = self._root.search(sweep_name(tag))
        with as_backend_error("The journal of the search could not be read"):
            self._root.files.refresh_file(folder.journal)
            if not folder.journal.exists():
                return {}
            with TemporaryDirectory() as copy:
                # In place of the journal, which has one writer.
                for path in (folder.definition, folder.journal):
                    shutil.copy(path, copy)
                module = (sys.executable, "-m", "backend.node.queue.search_turn", IMPORTANCE, copy)
                completed_process = subprocess.run(
                    module, capture_output=True, text=True, env=own_environment(), check=False
                )
        if completed_process.returncode:
            raise BackendError(last_line(completed_process.stderr.encode()))
        return dict(json.loads(completed_process.stdout))

    def _enqueue(
        self,
        view: JobView,
        *,
        start_over: bool = False,
        progress: Progress | None = None,
        priority: int | None = None,
    ) -> None:
        """Put a job into the queue of its nodes: the program's own, or that of a scheduler."""
        if view.config.allocation is None:
            self._queue.enqueue(view.id, priority, start_over=start_over, progress=progress)
        elif view.run and not start_over:
            self._jobs.lifecycle.resume(view.id, progress=progress)
        else:
            self._jobs.lifecycle.start(view.id, start_over, progress=progress)

    def _with_free_name(self, sweep: Sweep) -> Sweep:
        """Number a name that another sweep has: ``shapes (2)``."""
        names: dict[str, list[str]] = {}
        for summary in self._jobs.queries.summaries():
            if tag := sweep_of(summary.tags):
                names.setdefault(tag, []).append(summary.name)
        taken_names = {sweep_title(tag, job_names) for tag, job_names in names.items()}
        name = " ".join(str(sweep.base.get("name", "")).split())
        if name not in taken_names:
            return sweep
        number = next(n for n in itertools.count(2) if f"{name} ({n})" not in taken_names)
        return replace(sweep, base={**sweep.base, "name": f"{name} ({number})"})

    def cancel(self, tag: str, progress: Progress | None = None) -> CancelledSweep:
        """Move the jobs of a sweep that never ran to the trash; jobs that ran stay.

        Raises:
            BackendError: The sweep has no jobs.
        """
        tag, jobs = self.find_jobs(tag)
        removed_views: list[JobView] = []
        remaining_views: list[JobView] = []
        for number, view in enumerate(jobs):
            if progress is not None:
                progress.step(number, len(jobs), "Removing the jobs")
            if view.state.is_queued:
                view = self._queue.dequeue(view.id)
            if view.state is JobState.CREATED and not view.run:
                removed_views.append(self._jobs.remove(view.id))
            else:
                remaining_views.append(view)
        return CancelledSweep(tag, tuple(removed_views), tuple(remaining_views))

    def stop(self, tag: str) -> tuple[JobView, ...]:
        """Remove the waiting jobs of a sweep from the queue, and stop the running jobs.

        Raises:
            BackendError: The sweep has no jobs, or the message names jobs that cannot be stopped.
        """

        def stop(view: JobView) -> JobView:
            if view.state.is_queued:
                view = self._queue.dequeue(view.id)
            return self._jobs.lifecycle.stop(view.id) if view.state.is_live else view

        # In reverse order: the end of a job must not start the next job.
        return self._apply_to_jobs(tag, stop, "stopped", last_first=True)

    def resume(self, tag: str) -> tuple[JobView, ...]:
        """Queue the unfinished jobs of a sweep, which continue from their checkpoints.

        A job that was stopped before its first step has no checkpoint, and starts over.

        Raises:
            BackendError: The sweep has no jobs, or the message names jobs that cannot be queued.
        """

        def resume(view: JobView) -> JobView:
            state = view.state
            if state.is_live or state.is_queued or state is JobState.FINISHED:
                return view
            is_stopped = view.state is JobState.INTERRUPTED
            starts_over = is_stopped and not self._jobs.queries.checkpoints(view.id)
            self._enqueue(view, start_over=starts_over)
            return self._jobs.queries.show(view.id)

        return self._apply_to_jobs(tag, resume, "queued")

    def _apply_to_jobs(
        self,
        tag: str,
        action: Callable[[JobView], JobView],
        past_verb: str,
        *,
        last_first: bool = False,
    ) -> tuple[JobView, ...]:
        tag, jobs = self.find_jobs(tag)
        views: list[JobView] = []
        failures: list[str] = []
        for view in reversed(jobs) if last_first else jobs:
            try:
                views.append(action(view))
            except BackendError as error:
                failures.append(f"{view.name}: {error.message}")
        if failures:
            count = f"{len(failures)} of {len(jobs)} jobs were not {past_verb}."
            raise BackendError(" ".join((count, *failures[:_MAX_ERRORS])))
        return tuple(reversed(views)) if last_first else tuple(views)

    def find_jobs(self, tag: str) -> tuple[str, list[JobView]]:
        """Return the whole tag and the jobs of a sweep, in order.

        Raises:
            BackendError: The sweep has no jobs.
        """
        tag = tag if tag.startswith(TAG) else f"{TAG}{tag}"
        jobs = [view for view in self._jobs.queries.list() if sweep_of(view.tags) == tag]
        if not jobs:
            raise BackendError(f"There is no job of the sweep “{sweep_name(tag)}”.")
        return tag, jobs[::-1]


def _error_message(errors: tuple[ConfigError, ...]) -> str:
    message = " ".join(error.message for error in errors[:_MAX_ERRORS])
    remaining_count = len(errors) - _MAX_ERRORS
    return f"{message} {remaining_count} more of this kind." if remaining_count > 0 else message


def _slug(name: str) -> str:
    """Join the words of a name for a tag: users type commas and spaces between tags."""
    allowed_chars = string.ascii_letters + string.digits + "._-"
    tokens = "".join(c if c in allowed_chars else " " for c in name).split()
    return "-".join(tokens)[:_MAX_SLUG_LENGTH].strip("-._") or "job"
