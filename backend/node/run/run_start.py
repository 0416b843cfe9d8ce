"""The files of a run from its claim to its supervisor, for desktop, agent and queue keeper alike.

Making ``attempts/<n>`` is the claim, so that of two programs one starts. Each step after it can be
repeated: a program that ended in between may continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from backend.base.log import suppress, swallowed
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import STARTED_OVER, JobFolder, epoch_and_step
from backend.records.base.local_files import Files
from backend.records.jobs.launch import Launch, gpu_count
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus, last_status


def claim(folder: JobFolder, run: int, files: Files) -> bool:
    """Make ``attempts/<run>``. Return False if another program was first."""
    files.make_folder(folder.attempts, exist_ok=True)
    try:
        files.make_folder(folder.attempt(run).path)
    except FileExistsError:
        return False
    return True


def give_back(folder: JobFolder, launch: Launch, files: Files) -> None:
    """Undo a claim, and what `write` did, of a run that could not be written: it was refused."""
    with suppress(OSError):
        if _starts_over(launch):
            _move_back(folder, launch.run, files)
        files.remove_tree(folder.attempt(launch.run).path)


def _starts_over(launch: Launch) -> bool:
    return launch.run > 1 and not launch.resume_from


def write(folder: JobFolder, launch: Launch, files: Files, waited_s: float | None = None) -> None:
    """Write what the supervisor of a claimed run begins with.

    A run that does not resume begins with empty folders: the files of earlier runs are moved.
    ``waited_s`` is the time in the queue.
    """
    previous_status = last_status(folder)
    if previous_status is not None and previous_status.run == launch.run:
        # This start was interrupted.
        waited_s = previous_status.waited_s
    if _starts_over(launch):
        move_earlier_runs(folder, launch.run, files)
    clear_old_stop_request(folder, launch.run, files)
    files.replace_json(folder.attempt(launch.run).settings, launch.config.to_dict())
    files.replace_json(folder.launch, launch.to_dict())
    status = _first_status(launch, previous_status, timestamps.utc_now())
    files.replace_json(folder.status, replace(status, waited_s=waited_s).to_dict())


def move_earlier_runs(folder: JobFolder, run: int, files: Files) -> None:
    """Move the files of earlier runs to ``runs/<n>``; files that were moved already stay there."""
    target = folder.started_over_runs / str(run - 1)
    for path in (folder.started_over_runs, target, target / "attempts"):
        files.make_folder(path, exist_ok=True)
    _move(STARTED_OVER, folder.path, target, files)
    earlier_names = (
        name for name in files.names(folder.attempts) if name.isdecimal() and int(name) < run
    )
    _move(earlier_names, folder.attempts, target / "attempts", files)
    for empty_folder in (folder.logs, folder.output, folder.checkpoints):
        files.make_folder(empty_folder, exist_ok=True)


def _move_back(folder: JobFolder, run: int, files: Files) -> None:
    """Undo `move_earlier_runs`; it needs no space. New files go to the folder of the claim."""
    target = folder.started_over_runs / str(run - 1)
    attempts = target / "attempts"
    # It is made last: without it, nothing was moved.
    if files.exists(attempts):
        moved_names = [name for name in files.names(target) if name in STARTED_OVER]
        _move(moved_names, folder.path, folder.attempt(run).path, files)
        _move(moved_names, target, folder.path, files)
        _move(files.names(attempts), attempts, folder.attempts, files)
        if files.names(attempts) or files.names(target) != [attempts.name]:
            return
    files.remove_tree(target)


def _move(names: Iterable[str], source: Path, target: Path, files: Files) -> None:
    source_names, target_names = files.names(source), files.names(target)
    for name in names:
        if name in source_names and name not in target_names:
            files.rename(source / name, target / name)


def clear_old_stop_request(folder: JobFolder, run: int, files: Files) -> None:
    """Remove a request to stop an earlier run before ``run`` starts; keep one for this run."""
    files.refresh_file(folder.stop_request)
    with suppress(FileNotFoundError):
        try:
            requested_run = int(read_json(folder.stop_request)["run"])
        except (PermissionError, ValueError, KeyError, TypeError) as error:
            swallowed(error)
            requested_run = 0
        if requested_run < run:
            files.remove(folder.stop_request)


def _first_status(launch: Launch, previous_status: RunStatus | None, now: str) -> RunStatus:
    """Return STARTING; a resumed run shows the job's progress from its first moment."""
    starting_status = RunStatus(
        state=JobState.STARTING,
        run=launch.run,
        epochs=launch.config.epochs,
        world_size=launch.config.world_size,
        gpus=sum(map(gpu_count, launch.ranks)),
        earlier_gpu_s=0.0,
        earlier_energy_j=0.0,
        continuation=launch.continuation,
        started_at=now,
        updated_at=now,
    )
    if previous_status is None:
        return starting_status
    starting_status = replace(starting_status, heartbeat=previous_status.heartbeat + 1)
    if not launch.resume_from:
        return starting_status
    # A start that was interrupted continues with the status that it wrote itself.
    is_own = previous_status.run == launch.run
    duration_s = timestamps.seconds(previous_status.updated_at) - timestamps.seconds(
        previous_status.started_at or previous_status.updated_at
    )
    duration_s = 0.0 if is_own else max(0.0, duration_s)
    gpu_s = previous_status.earlier_gpu_s
    # A run that failed may have made steps after its newest checkpoint, which are made again.
    saved_position = epoch_and_step(PurePosixPath(launch.resume_from).stem)
    epoch, step = saved_position or (previous_status.epoch, previous_status.step)
    return replace(
        starting_status,
        earlier_s=previous_status.earlier_s + duration_s,
        earlier_gpu_s=None if gpu_s is None else gpu_s + previous_status.gpus * duration_s,
        earlier_energy_j=previous_status.earlier_energy_j
        if is_own
        else previous_status.total_energy_j,
        epoch=epoch or previous_status.epoch,
        step=step,
        total_steps=previous_status.total_steps,
        steps_per_epoch=previous_status.steps_per_epoch,
        metrics=previous_status.metrics,
    )
