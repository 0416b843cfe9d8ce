"""Append what a run used to the ledger of the data root, when its end is recorded."""

from __future__ import annotations

import json
import os
import re
import socket

from backend.base.log import suppress
from backend.records.base import access_modes
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.base.timestamps import seconds
from backend.records.jobs.launch import Launch
from backend.records.jobs.status import RunExit
from backend.records.jobs.usage import RunUsage


def run_usage(
    job_id: str, record: RunExit, started_at: str, name: str, user: str, tags: tuple[str, ...]
) -> RunUsage:
    """Return the line of a run; ``started_at`` counts if its supervisor did not see the end."""
    took_s = record.took_s
    if took_s is None:
        ended_s = seconds(record.ended_at)
        took_s = max(0.0, ended_s - (seconds(started_at) or ended_s))
    return RunUsage(
        *(job_id, record.run, name, user, tags, record.ended_at),
        *(took_s, record.waited_s, record.nodes),
    )


def line(usage: RunUsage) -> bytes:
    # A line that a process did not finish must not damage the next one.
    return b"\n" + json.dumps(usage.to_dict(), allow_nan=False).encode() + b"\n"


def append_run(folder: JobFolder, launch: Launch | None, record: RunExit, started_at: str) -> None:
    """Append a run that has ended. A failure is logged: it must not prevent the end."""
    if launch is None or launch.is_trial:
        return
    user, name, tags = "", launch.config.name, launch.config.tags
    with suppress(OSError, ValueError):
        user = str(read_json(folder.meta).get("user", ""))
        notes = read_json(folder.notes)
        name = str(notes.get("name", name))
        tags = tuple(map(str, notes.get("tags", tags)))
    usage = run_usage(folder.job_id, record, started_at, name, user, tags)
    root = DataRoot(folder.path.parent.parent)
    # One file for each user on each host: appends of two hosts to one file of a share are mixed,
    # and in a folder with the sticky bit no user may write to the file of another user.
    writer = re.sub(r"[^\w.-]", "_", f"{socket.gethostname()}-{user_name()}")
    with suppress(OSError):
        access_modes.make_folder(root.usage, exist_ok=True)
        descriptor = access_modes.open_for_writing(root.usage / f"runs-{writer}.jsonl")
        try:
            os.write(descriptor, line(usage))
        finally:
            os.close(descriptor)
