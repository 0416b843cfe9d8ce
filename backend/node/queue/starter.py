"""Start of a queued job without a user: its launch was created when it was queued.

It repeats what a desktop does at a start (`services.run_start`) with plain files, because this runs
on a node without a catalogue. Making ``attempts/<n>`` is the claim, so that of a desktop and an
agent one starts. After it every step can be repeated: an agent that ended in between finds its own
name in ``claimed.json`` when it is back, and continues.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.node.queue import entries as queue_entries
from backend.node.run import finalize
from backend.node.system import process_identity
from backend.node.system.start_supervisor import start_supervisor
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import STARTED_OVER, DataRoot, JobFolder
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus

_LINE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
_CODE = ("model", "loader", "validation_loader")
_AGAIN = "Remove the job from the queue and queue it again."


def start(root: DataRoot, folder: JobFolder, run: int) -> bool:
    """Start a job whose turn has come; return False if another program was first.

    Raises:
        BackendError: It cannot be started as it was queued; nothing was claimed.
        OSError: The job's folder cannot be written.
    """
    launch = _launch(folder, run)
    if folder.newest_run() >= run:
        return False
    _insist(root, folder, launch)
    if not _claim(folder, run):
        return False
    begin(root, folder, launch)
    return True


def begin(root: DataRoot, folder: JobFolder, launch: Launch) -> None:
    """Do everything from the claim to the supervisor; write an end if it cannot be started.

    Raises:
        OSError: The job's folder cannot be written.
    """
    run = launch.run
    before = _status(folder)
    if run > 1 and not launch.resume_from:
        _move_earlier_runs(folder, run)
    _clear_old_wish(folder, run)
    replace_json(folder.launch, launch.to_dict())
    replace_json(folder.status, first_status(launch, before, timestamps.now()).to_dict())
    try:
        start_supervisor(folder, run, launch.python, launch.environment.get("PYTHONPATH", ""))
    except BackendError as error:
        finalize.close_run(folder, run, str(error), _status(folder))
    queue_entries.leave(root, folder)


def go_on(root: DataRoot, folder: JobFolder, run: int) -> None:
    """Continue after a claim of this computer that was not followed by a start.

    Raises:
        BackendError: The launch can no longer be read.
        OSError: The job's folder cannot be written.
    """
    launch = _launch(folder, run)
    replace_json(folder.attempt(run).claimed, process_identity.own().to_dict())
    begin(root, folder, launch)


def first_status(launch: Launch, before: RunStatus | None, now: str) -> RunStatus:
    """Return STARTING; a resumed run shows the job's progress from its first moment."""
    starting = RunStatus(
        state=JobState.STARTING,
        run=launch.run,
        epochs=launch.config.epochs,
        world_size=launch.config.world_size,
        gpus=sum(bool(plan.gpu) for plan in launch.ranks),
        earlier_gpu_s=0.0,
        earlier_energy_j=0.0,
        started=now,
        updated=now,
    )
    if before is None:
        return starting
    starting = replace(starting, heartbeat=before.heartbeat + 1)
    if not launch.resume_from:
        return starting
    # A start that was interrupted continues with the status that it wrote itself.
    is_own = before.run == launch.run
    took_s = timestamps.seconds(before.updated) - timestamps.seconds(
        before.started or before.updated
    )
    took_s = 0.0 if is_own else max(0.0, took_s)
    gpu_s = before.earlier_gpu_s
    return replace(
        starting,
        earlier_s=before.earlier_s + took_s,
        earlier_gpu_s=None if gpu_s is None else gpu_s + before.gpus * took_s,
        earlier_energy_j=before.earlier_energy_j if is_own else before.total_energy_j,
        epoch=before.epoch,
        step=before.step,
        total_steps=before.total_steps,
        steps_per_epoch=before.steps_per_epoch,
        metrics=before.metrics,
    )


def _launch(folder: JobFolder, run: int) -> Launch:
    try:
        launch = Launch.from_dict(read_json(folder.queued_launch))
    except (OSError, ValueError) as error:
        raise BackendError(f"The launch record cannot be read: {error}.", _AGAIN) from error
    if launch.run != run or launch.job_id != folder.job_id:
        raise BackendError("The launch record belongs to another run.", _AGAIN)
    return launch


def _insist(root: DataRoot, folder: JobFolder, launch: Launch) -> None:
    """Raise if the run would differ from the one that was queued."""
    if not _is_trusted(root, folder.queued_launch):
        raise BackendError(
            f"All users may write to {root.jobs}, and the launch record belongs to a user "
            "unknown to this node.",
            "Remove the write permission of other users from the data root: chmod o-w.",
        )
    code_roots = launch.environment.get("PYTHONPATH", "").split(os.pathsep)
    for path in (launch.python, *code_roots):
        if path and not os.path.exists(path):
            raise BackendError(f"{path} was removed after the job was queued.", _AGAIN)
    for checkpoint in (launch.resume_from, launch.start_from):
        if checkpoint and not os.path.exists(checkpoint):
            raise BackendError(
                f"The checkpoint {checkpoint} was removed after the job was queued.", _AGAIN
            )
    sources = {
        "model": launch.model_source,
        "dataset": launch.dataset_files,
        "loader": launch.loader_source,
        "validation_dataset": launch.validation_dataset_files,
        "validation_loader": launch.validation_loader_source,
    }
    for key, digest in launch.hashes.items():
        changed = _changed(Path(sources[key]), digest, is_code=key in _CODE)
        if changed:
            raise BackendError(
                f"The {key.replace('_', ' ')} has changed since the job was queued: {changed}.",
                f"Restore it, or import it as a new version. {_AGAIN}",
            )


def _is_trusted(root: DataRoot, path: Path) -> bool:
    """Return whether the file's owner may write to the data root, or owns it if all users may."""
    jobs = os.stat(root.jobs)
    if not jobs.st_mode & stat.S_IWOTH:
        return True
    return os.stat(path).st_uid in (0, jobs.st_uid, os.geteuid())


def _changed(content: Path, digest: str, *, is_code: bool) -> str:
    """Return what differs from the pinned version, or "". Data is not hashed: it takes long."""
    manifest = content.parent / "files.sha256"
    try:
        listing = manifest.read_bytes()
        if hashlib.sha256(listing).hexdigest() != digest:
            return f"{manifest} lists other files"
        for line in listing.splitlines() if is_code else ():
            found = _LINE.fullmatch(line)
            if found is None:
                return f"{manifest} cannot be read"
            mark, wanted, name = found.groups()
            path = content / os.fsdecode(name.replace(b"\\\\", b"\\") if mark else name)
            if hashlib.sha256(path.read_bytes()).hexdigest() != wanted.decode():
                return f"{path} was changed"
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    return ""


def _claim(folder: JobFolder, run: int) -> bool:
    attempt = folder.attempt(run)
    try:
        attempt.path.mkdir()
    except FileExistsError:
        return False
    # The user of a desktop must be able to close the run.
    with suppress(PermissionError):
        attempt.path.chmod(stat.S_IMODE(folder.attempts.stat().st_mode))
    replace_json(attempt.claimed, process_identity.own().to_dict())
    return True


def _move_earlier_runs(folder: JobFolder, run: int) -> None:
    """Move the files of earlier runs to ``runs/<n>``; files that were moved already stay there."""
    target = folder.runs / str(run - 1)
    mode = stat.S_IMODE(folder.path.stat().st_mode)
    for path in (folder.runs, target, target / "attempts"):
        path.mkdir(exist_ok=True)
        with suppress(PermissionError):
            path.chmod(mode)
    for part in STARTED_OVER:
        with suppress(FileNotFoundError):
            if not (target / part).exists():
                (folder.path / part).rename(target / part)
    for name in os.listdir(folder.attempts):
        if name.isdecimal() and int(name) < run:
            (folder.attempts / name).rename(target / "attempts" / name)
    for empty in (folder.logs, folder.output, folder.checkpoints):
        empty.mkdir(exist_ok=True)
        with suppress(PermissionError):
            empty.chmod(mode)


def _clear_old_wish(folder: JobFolder, run: int) -> None:
    with suppress(FileNotFoundError):
        try:
            meant = int(read_json(folder.lock)["run"])
        except (ValueError, KeyError, TypeError):
            meant = 0
        if meant < run:
            folder.lock.unlink()


def _status(folder: JobFolder) -> RunStatus | None:
    with suppress(OSError, ValueError):
        return RunStatus.from_dict(read_json(folder.status))
    return None
