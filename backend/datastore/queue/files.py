"""The queue of a data root as desktops change it; see `records.base.layout` for its files.

Every file is replaced whole, so two desktops that change the queue at once cannot damage it: of two
changes to one job the later one counts.
"""

from __future__ import annotations

import os

from backend.base.log import suppress
from backend.datastore.access.root_access import MOUNTED, DataRootAccess
from backend.node.queue import entries as queue_entries
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.launch import Launch
from backend.records.queue.entry import QueueEntry


def queued_ids(root: DataRoot, access: DataRootAccess = MOUNTED) -> frozenset[str]:
    """Return the jobs that may be waiting.

    Raises:
        OSError: The data root cannot be read.
    """
    try:
        names = access.names(root.queue)
    except FileNotFoundError:
        return frozenset()
    return frozenset(n for n in names if not n.startswith(".") and n != root.paused.name)


def entries(root: DataRoot, access: DataRootAccess = MOUNTED) -> tuple[QueueEntry, ...]:
    """Return every waiting job, in no order.

    Raises:
        OSError: The data root cannot be read.
    """
    found = []
    for job_id in queued_ids(root, access):
        folder = root.job(job_id)
        with suppress(FileNotFoundError):
            access.refresh_job(folder)
        entry = queue_entries.entry_of(folder)
        if entry is not None:
            found.append(entry)
    return tuple(found)


def put(
    root: DataRoot,
    entry: QueueEntry,
    access: DataRootAccess = MOUNTED,
    launch: Launch | None = None,
) -> None:
    """Queue a job with its ``launch``, or change a place in the queue.

    Raises:
        OSError: The data root cannot be written.
    """
    folder = root.job(entry.job_id)
    if launch is not None:
        access.replace_json(folder.queued_launch, launch.to_dict())
    access.make_folder(root.queue, exist_ok=True)
    access.replace_bytes(root.queue / entry.job_id, b"")
    access.replace_json(folder.queued, entry.to_dict())


def leave(root: DataRoot, folder: JobFolder, access: DataRootAccess = MOUNTED) -> None:
    """Remove a job from the queue; a job that is not queued is not an error."""
    for path in (folder.queued, folder.queued_launch, root.queue / folder.job_id):
        with suppress(FileNotFoundError):
            access.remove(path)


def pause(root: DataRoot, access: DataRootAccess = MOUNTED) -> None:
    access.make_folder(root.queue, exist_ok=True)
    access.replace_json(root.paused, {"user": user_name(), "time": timestamps.now()})


def resume(root: DataRoot, access: DataRootAccess = MOUNTED) -> None:
    access.remove(root.paused)


def who_paused(root: DataRoot, access: DataRootAccess = MOUNTED) -> str | None:
    """Return who paused the queue; see `waiting.who_paused`."""
    if not os.path.isdir(root.queue) and access.is_mounted:
        return None
    access.refresh_file(root.paused)
    return queue_entries.who_paused(root)
