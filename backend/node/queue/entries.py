"""Queued jobs of a data root, read from its files."""

from __future__ import annotations

import os

from backend.base.log import suppress, swallowed
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, stored_record
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.validation import sanitize
from backend.records.jobs.status import ProcessIdentity
from backend.records.queue.entry import QueueEntry, is_a_desk


def queued_ids(root: DataRoot) -> tuple[str, ...]:
    """Return the jobs that may be queued; the job's own folder decides. Cheap.

    Raises:
        OSError: The data root cannot be read.
    """
    try:
        names = os.listdir(root.queue)
    except FileNotFoundError:
        # A share that is not mounted is not an empty queue.
        os.stat(root.jobs)
        return ()
    return tuple(sorted(n for n in names if not n.startswith(".") and n != root.pause_file.name))


def entry_of(folder: JobFolder) -> QueueEntry | None:
    """Return the job's queue entry, None if it is not queued or its file cannot be read.

    An entry whose run is claimed is used up: the claim removes a job from the queue, in one step.
    """
    entry = stored_record(QueueEntry, folder.queued)
    if entry is None or entry.job_id != folder.job_id or entry.run <= folder.newest_run():
        return None
    return entry


def entries(root: DataRoot) -> tuple[QueueEntry, ...]:
    """Return every queued job, unordered.

    Raises:
        OSError: The data root cannot be read.
    """
    candidates = (entry_of(root.job(job_id)) for job_id in queued_ids(root))
    return tuple(entry for entry in candidates if entry is not None)


def is_headed_by(root: DataRoot, entry: QueueEntry, node_key: str) -> bool:
    """Return whether the node, or computer, with this key is to start it, as this user.

    Several users may share a computer that has no agent; each user's jobs run as that user.
    """
    if entry.head != node_key:
        return False
    if not is_a_desk(node_key):
        return True
    try:
        return os.stat(root.job(entry.job_id).queued_launch).st_uid == os.geteuid()
    except OSError as error:
        swallowed(error)
        return False


def paused_by(root: DataRoot) -> str | None:
    """Return None if the queue is not paused, otherwise the end of a sentence (" by ben")."""
    try:
        raw = read_json(root.pause_file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        swallowed(error)
        return ""
    user = sanitize(str(raw.get("user", "")))
    return f" by {user}" if user else ""


def remove_entry(root: DataRoot, folder: JobFolder) -> None:
    """Remove the job from the queue; also remove the files that a claim left."""
    with suppress(OSError):
        folder.queued.unlink(missing_ok=True)
        folder.queued_launch.unlink(missing_ok=True)
        (root.queue / folder.job_id).unlink(missing_ok=True)


def abandoned_claimer(folder: JobFolder, run: int) -> ProcessIdentity | None:
    """Return the process that claimed this run for the queue and ended before its start, or None.

    Only the computer that claimed it can know.
    """
    attempt = folder.attempt(run)
    if attempt.supervisor.exists() or attempt.exit.exists():
        return None
    claimer = stored_record(ProcessIdentity, attempt.claimer)
    return (
        claimer
        if claimer is not None
        and process_identity.is_here(claimer)
        and not process_identity.is_alive(claimer)
        else None
    )
