"""A run that a person started by pasting its command: in a folder of its own below the job's.

The guards of its ranks make that folder, each as far as another has not. It begins as the job's
newest run did and leaves the job as it is: nobody watches over it, and no list shows it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import Launch

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def prepare(folder: JobFolder, run: int, name: str, rank: int) -> tuple[JobFolder, Launch]:
    """The folder of the run called ``name``, and what it is to do.

    Raises:
        BackendError: It was run before, or the job is at another run than ``run`` now.
        OSError: The job's folder cannot be read or written.
        ValueError: Its launch record cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise BackendError(f"“{name}” is no name for a folder.", "Use letters and digits.")
    launch = Launch.from_dict(read_json(folder.launch))
    if launch.run != run:
        raise BackendError(
            f"The job has had run {launch.run} since this command was copied.", "Copy it anew."
        )
    own = folder.by_hand(name)
    launch = replace(launch, job_id=launch.by_hand_id(name), run=1)
    for path in (own.logs, own.output, own.checkpoints, own.attempt(1).path):
        path.mkdir(parents=True, exist_ok=True)
    try:
        (own.attempt(1).path / f"begun-{rank}").touch(exist_ok=False)
    except FileExistsError as error:
        raise BackendError(
            f"{own.path} holds what this command made before, and is left as it is.",
            f"Give it another name at its end, instead of {name}.",
        ) from error
    replace_json(own.launch, launch.to_dict())
    if rank == 0:
        _tell(f"Training in {own.path}; Ctrl+C ends it.")
    return own, launch


def refuse(error: Exception) -> int:
    """Say on the terminal why nothing was started."""
    remedy = error.remedy if isinstance(error, BackendError) else ""
    _tell(" ".join(filter(None, (str(error), remedy))))
    return 1


def _tell(words: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
