"""The queue of a data root as desktops change it; see `records.base.layout` for its files.

Every file is replaced whole, so two desktops that change the queue at once cannot damage it: of two
changes to one job the later change counts.
"""

from __future__ import annotations

import os

from backend.base.log import suppress
from backend.datastore.access.root_access import OpenRoot
from backend.node.queue import entries as queue_entries
from backend.records.base import timestamps
from backend.records.base.account import user_name
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch
from backend.records.queue.entry import QueueEntry


def queued_ids(root: OpenRoot) -> frozenset[str]:
    """Return the jobs that may be waiting.

    Raises:
        OSError: The data root cannot be read.
    """
    try:
        names = root.files.names(root.queue)
    except FileNotFoundError:
        return frozenset()
    return frozenset(n for n in names if not n.startswith(".") and n != root.pause_file.name)


def entries(root: OpenRoot) -> tuple[QueueEntry, ...]:
    """Return every waiting job, in no order.

    Raises:
        OSError: The data root cannot be read.
    """
    waiting_entries = []
    for job_id in queued_ids(root):
        folder = root.job(job_id)
        with suppress(FileNotFoundError):
            root.files.refresh_job(folder)
        entry = queue_entries.entry_of(folder)
        if entry is not None:
            waiting_entries.append(entry)
    return tuple(waiting_entries)


def put(
    root: OpenRoot,
    entry: QueueEntry,
    launch: Launch | None = None,
) -> None:
    """Queue a job with its ``launch``, or change a place in the queue.

    Raises:
        OSError: The data root cannot be written.
    """
    folder = root.job(entry.job_id)
    if launch is not None:
        root.files.replace_json(folder.queued_launch, launch.to_dict())
    root.files.make_folder(root.queue, exist_ok=True)
    # Its time is that of queueing: another place does not change it.
    with suppress(FileExistsError):
        root.files.create(root.queue / entry.job_id, b"")
    root.files.replace_json(folder.queued, entry.to_dict())


def leave(root: OpenRoot, folder: JobFolder) -> None:
    """Remove a job from the queue; a job that is not queued is not an error."""
    for path in (folder.queued, folder.queued_launch, root.queue / folder.job_id):
        with suppress(FileNotFoundError):
            root.files.remove(path)


def pause(root: OpenRoot) -> None:
    root.files.make_folder(root.queue, exist_ok=True)
    root.files.replace_json(root.pause_file, {"user": user_name(), "time": timestamps.utc_now()})


def resume(root: OpenRoot) -> None:
    root.files.remove(root.pause_file)


def who_paused(root: OpenRoot) -> str | None:
    """Return who paused the queue; see `waiting.who_paused`."""
    if not os.path.isdir(root.queue) and root.files.is_mounted:
        return None
    root.files.refresh_file(root.pause_file)
    return queue_entries.paused_by(root)
