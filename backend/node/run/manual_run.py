"""A run that a user started by pasting its command, in its own folder below the job's.

The guards of its ranks make that folder; each makes what is still missing. It begins as the job's
newest run did and does not change the job: it has no supervisor, and no list shows it.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base.access_modes import create, make_folders
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def prepare(folder: JobFolder, run: int, name: str, rank: int) -> tuple[JobFolder, Launch]:
    """Return the folder of the run called ``name``, and its launch.

    Raises:
        BackendError: The run exists already, or the job's current run is not ``run``.
        OSError: The job's folder cannot be read or written.
        ValueError: Its launch record cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise BackendError(f"“{name}” is not a valid folder name.", "Use letters and digits only.")
    launch = Launch.from_dict(read_json(folder.launch))
    if launch.run != run:
        raise BackendError(
            f"The job started run {launch.run} after this command was copied.",
            "Copy the command again.",
        )
    own_folder = folder.manual_run(name)
    launch = replace(launch, job_id=launch.manual_run_id(name), run=1)
    for path in (
        own_folder.logs,
        own_folder.output,
        own_folder.checkpoints,
        own_folder.attempt(1).path,
    ):
        make_folders(path)
    try:
        os.close(create(own_folder.attempt(1).path / f"begun-{rank}"))
    except FileExistsError as error:
        raise BackendError(
            f"{own_folder.path} holds the results of an earlier run of this command; it is kept.",
            f"Replace {name} at the end of the command by another name.",
        ) from error
    replace_json(own_folder.launch, launch.to_dict())
    if rank == 0:
        _print(f"Training in {own_folder.path}; press Ctrl+C to end it.")
    return own_folder, launch


def print_refusal(error: Exception) -> int:
    """Print on the terminal why nothing was started."""
    remedy = error.remedy if isinstance(error, BackendError) else ""
    _print(" ".join(filter(None, (str(error), remedy))))
    return 1


def _print(message: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
