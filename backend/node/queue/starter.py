"""Start of a queued job without a user: its launch was created when it was queued.

An agent that ended between claim and start finds its own name in ``claimed.json`` when it is back,
and continues: every step of `run_start` can be repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.node.queue import entries as queue_entries
from backend.node.run import finalize, run_start
from backend.node.system import process_identity
from backend.node.system.start_supervisor import start_supervisor
from backend.records.base.atomic_files import read_json, replace_json, stored_record
from backend.records.base.layout import AttemptFolder, DataRoot, JobFolder
from backend.records.base.local_files import Files
from backend.records.jobs.launch import Launch
from backend.records.jobs.status import last_status
from backend.records.queue.entry import QueueEntry

_MANIFEST_LINE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
_CODE = ("model", "loader", "validation_loader")
_LOCAL = Files()
_REQUEUE_HINT = "Remove the job from the queue and queue it again."


def start(root: DataRoot, folder: JobFolder, run: int) -> bool:
    """Start a job whose turn has come; return False if another program was first, or is not done.

    Raises:
        BackendError: It cannot be started as it was queued; nothing was claimed.
        OSError: The job's folder cannot be written.
    """
    launch = _launch(folder, run)
    if folder.newest_run() >= run or _is_ending(folder.attempt(run - 1)):
        return False
    _check_requirements(root, folder, launch)
    if not run_start.claim(folder, run, _LOCAL):
        return False
    replace_json(folder.attempt(run).claimer, process_identity.own_process().to_dict())
    start_claimed(root, folder, launch)
    return True


def _is_ending(attempt: AttemptFolder) -> bool:
    """Return whether a run has no end yet: a supervisor queues the next run just before that."""
    with suppress(OSError):
        # NFS caches for half a minute that a file is missing; opening the folder refreshes that.
        os.close(os.open(attempt.path, os.O_RDONLY))
    return attempt.supervisor.exists() and not attempt.exit.exists()


def start_claimed(root: DataRoot, folder: JobFolder, launch: Launch) -> None:
    """Do everything from the claim to the supervisor; write an end if it cannot be started.

    Raises:
        OSError: The job's folder cannot be written.
    """
    run, entry = launch.run, stored_record(QueueEntry, folder.queued)
    if entry is not None:
        launch = replace(launch, reserved_from=entry.not_before, reserved_s=entry.length_s)
    run_start.write(folder, launch, _LOCAL, _waited_s(root, folder.attempt(run)))
    try:
        start_supervisor(folder, launch)
    except BackendError as error:
        finalize.close_run(folder, run, str(error), last_status(folder))
    queue_entries.remove_entry(root, folder)


def _waited_s(root: DataRoot, attempt: AttemptFolder) -> float | None:
    """Return the time from queueing to the claim, both by the clock of the disk."""
    with suppress(OSError):
        queued_s = (root.queue / attempt.path.parents[1].name).stat().st_mtime
        return max(0.0, attempt.path.stat().st_mtime - queued_s)
    return None


def continue_start(root: DataRoot, folder: JobFolder, run: int) -> None:
    """Continue after a claim of this computer that was not followed by a start.

    Raises:
        BackendError: The launch can no longer be read.
        OSError: The job's folder cannot be written.
    """
    launch = _launch(folder, run)
    replace_json(folder.attempt(run).claimer, process_identity.own_process().to_dict())
    start_claimed(root, folder, launch)


def other_version(error: ValueError) -> BackendError:
    """Return the refusal of a record that this program does not know."""
    return BackendError(
        f"Another version of Ringmaster queued the job than its first node has: {error}.",
        "Set that node up again, then queue the job again.",
    )


def _launch(folder: JobFolder, run: int) -> Launch:
    try:
        launch = Launch.from_dict(read_json(folder.queued_launch))
    except (OSError, json.JSONDecodeError) as error:
        raise BackendError(f"The launch record cannot be read: {error}.", _REQUEUE_HINT) from error
    except ValueError as error:
        raise other_version(error) from error
    if launch.run != run or launch.job_id != folder.job_id:
        raise BackendError("The launch record belongs to another run.", _REQUEUE_HINT)
    return launch


def _check_requirements(root: DataRoot, folder: JobFolder, launch: Launch) -> None:
    """Raise if the run would differ from the one that was queued."""
    if not is_trusted(root, folder.queued_launch):
        raise BackendError(
            f"All users may write to {root.jobs}, and the launch record belongs to a user "
            "unknown to this node.",
            "Remove the write permission of other users from the data root: chmod o-w.",
        )
    code_roots = launch.code_root.split(os.pathsep)
    for path in (launch.python, launch.script_python, *code_roots):
        # A name is looked for in PATH.
        if os.path.isabs(path) and not os.path.exists(path):
            raise BackendError(f"{path} was removed after the job was queued.", _REQUEUE_HINT)
    for checkpoint in (launch.resume_from, launch.start_from):
        if checkpoint and not os.path.exists(checkpoint):
            raise BackendError(
                f"The checkpoint {checkpoint} was removed after the job was queued.", _REQUEUE_HINT
            )
    sources = {
        "model": launch.model_source,
        "dataset": launch.dataset_files,
        "loader": launch.loader_source,
        "validation_dataset": launch.validation_dataset_files,
        "validation_loader": launch.validation_loader_source,
        "script": launch.script_source,
    }
    for key, digest in launch.hashes.items():
        change = _find_change(Path(sources[key]), digest, is_code=key in _CODE)
        if change:
            raise BackendError(
                f"The {key.replace('_', ' ')} has changed since the job was queued: {change}.",
                f"Restore it, or import it as a new version. {_REQUEUE_HINT}",
            )


def is_trusted(root: DataRoot, path: Path) -> bool:
    """Return whether the file's owner may write to the data root, or owns it if all users may."""
    jobs = os.stat(root.jobs)
    if not jobs.st_mode & stat.S_IWOTH:
        return True
    return os.stat(path).st_uid in (0, jobs.st_uid, os.geteuid())


def _find_change(content: Path, digest: str, *, is_code: bool) -> str:
    """Return the difference to the pinned version, or "". Data is not hashed: it takes long."""
    manifest = content.parent / "files.sha256"
    try:
        listing = manifest.read_bytes()
        if hashlib.sha256(listing).hexdigest() != digest:
            return f"{manifest} lists other files"
        for line in listing.splitlines() if is_code else ():
            match = _MANIFEST_LINE.fullmatch(line)
            if match is None:
                return f"{manifest} cannot be read"
            mark, expected_digest, name = match.groups()
            path = content / os.fsdecode(name.replace(b"\\\\", b"\\") if mark else name)
            if hashlib.sha256(path.read_bytes()).hexdigest() != expected_digest.decode():
                return f"{path} was changed"
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    return ""
