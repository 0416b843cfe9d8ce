"""The stop request in ``job.lock``, which rank 0, the guards and the supervisor read.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.base.log import swallowed
from backend.records.base.schema import KEY
from backend.records.base.validation import sanitize

STOP_GRACE_S = 30.0
"""A rank that shows no progress for so long after the request is ended."""
_NAME_CHARS = 64
_PAUSE_CHARS = 200


@dataclass(frozen=True)
class StopRequest:
    """The content of ``job.lock``; with ``is_immediate`` the run ends without a checkpoint.

    ``pause`` is the sentence of a run that gives way, ``reason`` why a trial of a search is given
    up: the program made the request, not a user.
    """

    run: int
    user: str = ""
    host: str = ""
    time: str = ""
    is_immediate: bool = field(default=False, metadata={KEY: "at_once"})
    pause: str = ""
    reason: str = ""


def stop_requested_by(lock: Path) -> str:
    """Return the user who requested the stop in one line, "" where the file names none."""
    user = _content(lock).get("user")
    return sanitize(user, _NAME_CHARS) if isinstance(user, str) else ""


def pause_requested(lock: Path, run: int) -> str:
    """Return why run ``run`` gives way; "" if it does not, or if a user stops it meanwhile."""
    request = _content(lock)
    pause = request.get("pause") if request.get("run") == run else ""
    return sanitize(pause, _PAUSE_CHARS) if isinstance(pause, str) else ""


def stop_reason(lock: Path) -> str:
    """Return why the program stops a run, "" where a user does."""
    reason = _content(lock).get("reason")
    return sanitize(reason, _PAUSE_CHARS) if isinstance(reason, str) else ""


def kill_requested(lock: Path, run: int) -> bool:
    """Return whether run ``run`` is to end at once, without a checkpoint."""
    request = _content(lock)
    return request.get("run") == run and request.get("at_once") is True


def _content(lock: Path) -> dict[str, Any]:
    try:
        with lock.open("rb") as file:
            content = json.loads(file.read(10_000))
    except (OSError, ValueError, RecursionError) as error:
        swallowed(error)
        return {}
    return content if isinstance(content, dict) else {}


def stop_requested(lock: Path, run: int) -> bool:
    """Return whether run ``run`` is to stop.

    A file left from another run does not count. One without readable content does: it may have been
    made with ``touch``.

    Raises:
        OSError: The share does not answer; try again.
    """
    # NFS caches for half a minute that a file is missing; opening the folder makes it ask again.
    os.close(os.open(lock.parent, os.O_RDONLY))
    try:
        with lock.open("rb") as file:
            content = file.read(10_000)
    except FileNotFoundError:
        return False
    try:
        requested_run = json.loads(content)["run"]
    except (ValueError, KeyError, TypeError, RecursionError):  # As `touch` makes it.
        return True
    return not isinstance(requested_run, int) or requested_run == run
