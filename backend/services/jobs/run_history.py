"""The runs of a job: the current ones, and those that starting over put away."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.datastore.access.root_access import OpenJob
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus, last_status
from backend.records.jobs.view import JobRun, JobView

Read = Callable[[Path], HistoryUpdate]


def earlier_folders(folder: OpenJob) -> dict[int, OpenJob]:
    """Return the folders that starting over moved away, by the number of their last run."""
    return {number: folder.earlier(number) for number in _numbers(folder.runs)}


def run_folder(folder: OpenJob, run: int) -> OpenJob:
    """Return the folder with the curves and logs of a run.

    Raises:
        BackendError: There is no such run.
    """
    newest = folder.newest_run()
    if not 0 < run <= newest:
        there = f"Its runs are 1 to {newest}." if newest else "It has never run."
        raise BackendError(f"The job {folder.job_id} has no run {run}.", there)
    found = earlier_folders(folder)
    last = min((number for number in found if number >= run), default=0)
    return found[last] if last else folder


def list_runs(folder: OpenJob, now: JobView, read: Read) -> tuple[JobRun, ...]:
    """Return every run, the newest first.

    Raises:
        OSError: The data root cannot be read.
    """
    found: list[JobRun] = []
    for number, earlier in earlier_folders(folder).items():
        folder.files.refresh_job(earlier)
        found += _runs_in(earlier, number, read)
    for run in _runs_in(folder, 0, read):
        is_now = run.number == now.run
        found.append(replace(run, state=now.state, message=now.status.message) if is_now else run)
    return tuple(sorted(found, key=lambda run: run.number, reverse=True))


def status_or_lost(folder: JobFolder) -> RunStatus:
    """Return the status of the last run in a folder; without a record it was lost."""
    return last_status(folder) or RunStatus(JobState.LOST, run=folder.newest_run())


def _runs_in(folder: OpenJob, number: int, read: Read) -> list[JobRun]:
    numbers = _numbers(folder.attempts)
    folder.files.refresh_history(folder)
    history = read(folder.history)
    status = status_or_lost(folder)
    begins = {start.run: start.first_step for start in history.run_starts}
    last_of_all = int(history.steps[-1]) if len(history.steps) else 0
    found = []
    for run in numbers:
        folder.files.refresh_file(folder.attempt(run).exit)
        ended = _exit(folder, run)
        later = [first for other, first in begins.items() if other > run]
        last = min(later) - 1 if later else last_of_all
        started = status.started_at if status.run == run else ended.started_at if ended else ""
        started = started or _when(history, begins.get(run))
        found.append(
            JobRun(
                number=run,
                put_away=number,
                state=ended.state if ended is not None else JobState.LOST,
                message=ended.message if ended is not None else "",
                started_at=started,
                ended_at=ended.ended_at if ended is not None else "",
                first_step=begins.get(run, 0),
                last_step=last if run in begins else 0,
            )
        )
    return found


def _exit(folder: JobFolder, run: int) -> RunExit | None:
    try:
        return RunExit.from_dict(read_json(folder.attempt(run).exit))
    except (OSError, ValueError) as error:
        swallowed(error)
        return None


def _when(history: HistoryUpdate, first_step: int | None) -> str:
    """Return the time at which the first step of a run was written, "" if it made none."""
    if first_step is None or not history.started_s:
        return ""
    at = bisect_left(history.steps, first_step)
    if at >= len(history.seconds):
        return ""
    when = datetime.fromtimestamp(history.started_s + float(history.seconds[at]), UTC)
    return timestamps.stamp(when)


def _numbers(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())
