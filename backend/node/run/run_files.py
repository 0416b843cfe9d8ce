"""Files of a run for its supervisor and guards.

A file that cannot be read gives no information; a record must be written although the share is
unavailable or full at the moment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.base.log import suppress, swallowed
from backend.records.base.account import user_name
from backend.records.base.atomic_files import PreallocatedFile, read_json
from backend.records.base.layout import AttemptFolder, JobFolder
from backend.records.base.program_name import COMMAND
from backend.records.jobs.launch import Launch
from backend.records.jobs.schedulers import scheduler_of_run
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus, last_status

_END_BYTES = 16_384
_RECORD_LIMIT_S = 60.0
"""Long enough to hash 10 GB; a larger checkpoint that was just written is found by the next run."""


def has_begun(status: RunStatus | None) -> bool:
    """Return whether the ranks make steps, and so follow a stop request by themselves.

    Rank 0 writes STOPPING at once, in its setup too; only then its ranks have no plan yet.
    """
    if status is None or status.state in (JobState.STARTING, JobState.SETUP):
        return False
    return status.state is not JobState.STOPPING or status.is_planned


def waited_s(folder: JobFolder, attempt: AttemptFolder) -> float | None:
    """Return the time in the queue before a run that begins now.

    In the queue of a scheduler it is by the clock of the disk.
    """
    scheduler = scheduler_of_run(attempt)
    with suppress(OSError):
        if scheduler is not None:
            submitted_s = attempt.submission(scheduler.key).stat().st_mtime
            return max(0.0, attempt.supervisor.stat().st_mtime - submitted_s)
    status = last_status(folder)
    return status.waited_s if status is not None else None


def signs_of_work(folder: JobFolder, launch: Launch) -> object:
    """Return a value that changes while ranks work: checkpoint sizes, files of their guards."""
    file_states: list[tuple[str, int, int]] = []
    with suppress(OSError), os.scandir(folder.checkpoints) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat()
                file_states.append((entry.name, status.st_size, status.st_mtime_ns))
    for plan in launch.ranks:
        with suppress(OSError):
            file_states.append((str(plan.rank), 0, folder.rank_log(plan.rank).stat().st_mtime_ns))
    return sorted(file_states)


def newest_checkpoint(folder: JobFolder) -> tuple[str, int]:
    """Return name and run of the newest verified checkpoint, ("", 0) without one."""
    try:
        name = str(read_json(folder.latest).get("name", ""))
    except (OSError, ValueError) as error:
        swallowed(error)
        return "", 0
    try:
        return name, int(read_json(folder.checkpoints / f"{name}.json").get("run", 0))
    except (OSError, ValueError, TypeError) as error:
        swallowed(error)
        return name, 0


def record_checkpoints(folder: JobFolder) -> None:
    """Have the checkpoints recorded that a script completed, if its first process was killed."""
    argv = [sys.executable, "-m", "backend.training.script_checkpoints", "--job", str(folder.path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, timeout=_RECORD_LIMIT_S)


def wrote_nothing(folder: JobFolder, status: RunStatus | None) -> bool:
    """Return whether a script left neither a figure nor a file in its output folder."""
    if status is not None and status.metrics:
        return False
    with suppress(OSError):
        own_folders = (folder.history, folder.tensorboard)
        return all(path in own_folders for path in folder.output.iterdir())
    return False


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        swallowed(error)
        return 0


def end_of(log: Path) -> str:
    """Return the last lines of a rank's log, "" if it cannot be read."""
    return text_from(log, max(0, size(log) - _END_BYTES))


def text_from(path: Path, offset: int, limit_bytes: int = 200_000) -> str:
    """Return mpirun's output of this run; its help texts may contain bytes that are not text."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit_bytes).decode("utf-8", "replace")
    except OSError as error:
        swallowed(error)
        return ""


def refusal(error: PermissionError) -> str:
    """Return the sentence about a file that this user may not use, which ends with what to do."""
    return (
        f"{user_name()}, who runs the job, may not write {error.filename}: {error.strerror}. "
        f"Let its owner give the group the right to, or find all such files: {COMMAND} verify."
    )


def write_until_done(path: Path, value: Mapping[str, Any], limit_s: float) -> None:
    """Replace ``path``, with retries until it works or the time is over.

    The space that `PreallocatedFile.reserve` reserved for it is released.

    Raises:
        OSError: It did not work in the given time.
    """
    deadline = time.monotonic() + limit_s
    preallocated_file = PreallocatedFile(path)
    try:
        while time.monotonic() < deadline:
            with suppress(OSError):
                return preallocated_file.replace_json(dict(value))
            time.sleep(1.0)
        return preallocated_file.replace_json(dict(value))
    finally:
        preallocated_file.drop_reserve()
