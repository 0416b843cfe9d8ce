"""The runs of a job: the current runs, and those before a start over."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import JobFolder
from backend.records.jobs.flat_settings import setting_changes
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus, last_status
from backend.records.jobs.view import JobRun, JobView

ReadHistory = Callable[[Path], HistoryUpdate]


def earlier_folders(folder: OpenJob) -> dict[int, OpenJob]:
    """Return the folders of runs before a start over, by the number of their last run."""
    return {number: folder.earlier(number) for number in _numbers(folder.started_over_runs)}


def run_folder(folder: OpenJob, run: int) -> OpenJob:
    """Return the folder with the curves and logs of a run.

    Raises:
        BackendError: There is no such run.
    """
    newest_run = folder.newest_run()
    if not 0 < run <= newest_run:
        remedy = f"Its runs are 1 to {newest_run}." if newest_run else "It has never run."
        raise BackendError(f"The job {folder.job_id} has no run {run}.", remedy)
    folders = earlier_folders(folder)
    last_run = min((number for number in folders if number >= run), default=0)
    return folders[last_run] if last_run else folder


def list_runs(folder: OpenJob, view: JobView, read: ReadHistory) -> tuple[JobRun, ...]:
    """Return every run, the newest first.

    Raises:
        OSError: The data root cannot be read.
    """
    runs: list[JobRun] = []
    for number, earlier_folder in earlier_folders(folder).items():
        folder.files.refresh_job(earlier_folder)
        runs += _runs_in(earlier_folder, number, read)
    for run in _runs_in(folder, 0, read):
        is_current = run.number == view.run
        runs.append(
            replace(run, state=view.state, message=view.status.message) if is_current else run
        )
    return tuple(sorted(runs, key=lambda run: run.number, reverse=True))


def status_or_lost(folder: JobFolder) -> RunStatus:
    """Return the status of the last run in a folder; a run without a record was lost."""
    return last_status(folder) or RunStatus(JobState.LOST, run=folder.newest_run())


def settings_of(folder: JobFolder, run: int) -> dict[str, Any]:
    """Return the settings of a run as a job file, {} if they were not stored."""
    with suppress(OSError, ValueError):
        return dict(read_json(folder.attempt(run).settings))
    return {}


def _runs_in(folder: OpenJob, number: int, read: ReadHistory) -> list[JobRun]:
    numbers = _numbers(folder.attempts)
    folder.files.refresh_history(folder)
    history = read(folder.history)
    status = status_or_lost(folder)
    first_steps = {start.run: start.first_step for start in history.run_starts}
    final_step = int(history.steps[-1]) if len(history.steps) else 0
    runs = []
    settings: dict[str, Any] = {}
    for run in numbers:
        folder.files.refresh_file(folder.attempt(run).exit)
        folder.files.refresh_file(folder.attempt(run).settings)
        previous_settings, settings = settings, settings_of(folder, run) or settings
        changes = setting_changes(previous_settings or settings, settings)
        exit_record = stored_record(RunExit, folder.attempt(run).exit)
        later_steps = [step for r, step in first_steps.items() if r > run]
        last_step = min(later_steps) - 1 if later_steps else final_step
        started_at = exit_record.started_at if exit_record else ""
        if status.run == run:
            started_at = status.started_at
        started_at = started_at or _start_stamp(history, first_steps.get(run))
        runs.append(
            JobRun(
                number=run,
                put_away=number,
                state=exit_record.state if exit_record is not None else JobState.LOST,
                message=exit_record.message if exit_record is not None else "",
                started_at=started_at,
                ended_at=exit_record.ended_at if exit_record is not None else "",
                first_step=first_steps.get(run, 0),
                last_step=last_step if run in first_steps else 0,
                changes="; ".join(f"{change.label}: {change.new_text}" for change in changes),
            )
        )
    return runs


def _start_stamp(history: HistoryUpdate, first_step: int | None) -> str:
    """Return the time of the first step of a run, "" for a run without a step."""
    if first_step is None or not history.started_s:
        return ""
    index = bisect_left(history.steps, first_step)
    if index >= len(history.seconds):
        return ""
    first_step_s = history.started_s + float(history.seconds[index])
    return timestamps.stamp(datetime.fromtimestamp(first_step_s, UTC))


def _numbers(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())
