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


def queued_ids(root: DataRoot, share: DataRootAccess = MOUNTED) -> frozenset[str]:
    """Return the jobs that may be waiting.

    Raises:
        OSError: The data root cannot be read.
    """
    try:
        names = share.names(root.queue)
    except FileNotFoundError:
        return frozenset()
    return frozenset(n for n in names if not n.startswith(".") and n != root.paused.name)


def entries(root: DataRoot, share: DataRootAccess = MOUNTED) -> tuple[QueueEntry, ...]:
    """Return every waiting job, in no order.

    Raises:
        OSError: The data root cannot be read.
    """
    found = []
    for job_id in queued_ids(root, share):
        folder = root.job(job_id)
        with suppress(FileNotFoundError):
            share.refresh_job(folder)
        entry = queue_entries.entry_of(folder)
        if entry is not None:
            found.append(entry)
    return tuple(found)


def put(
    root: DataRoot, entry: QueueEntry, share: DataRootAccess = MOUNTED, launch: Launch | None = None
) -> None:
    """Queue a job with its ``launch``, or change a place in the queue.

    Raises:
        OSError: The data root cannot be written.
    """
    folder = root.job(entry.job_id)
    if launch is not None:
        share.replace_json(folder.queued_launch, launch.to_dict())
    share.make_folder(root.queue, exist_ok=True)
    share.replace_bytes(root.queue / entry.job_id, b"")
    share.replace_json(folder.queued, entry.to_dict())


def leave(root: DataRoot, folder: JobFolder, share: DataRootAccess = MOUNTED) -> None:
    """Remove a job from the queue; a job that is not queued is not an error."""
    for path in (folder.queued, folder.queued_launch, root.queue / folder.job_id):
        with suppress(FileNotFoundError):
            share.remove(path)


def pause(root: DataRoot, share: DataRootAccess = MOUNTED) -> None:
    share.make_folder(root.queue, exist_ok=True)
    share.replace_json(root.paused, {"user": user_name(), "time": timestamps.now()})


def resume(root: DataRoot, share: DataRootAccess = MOUNTED) -> None:
    share.remove(root.paused)


def who_paused(root: DataRoot, share: DataRootAccess = MOUNTED) -> str | None:
    """Return who paused the queue; see `waiting.who_paused`."""
    if not os.path.isdir(root.queue) and share.is_mounted:
        return None
    share.refresh_file(root.paused)
    return queue_entries.who_paused(root)
