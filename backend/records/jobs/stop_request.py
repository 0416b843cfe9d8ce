"""The stop request in ``job.lock``, read by rank 0, the guards and the supervisor.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from backend.records.base.validation import sanitize

STOP_GRACE_S = 30.0
"""Time without progress after a stop request before a rank is ended."""
_NAME_CHARS = 64


def who_wished(lock: Path) -> str:
    """Return the user who requested the stop, "" if the lock does not say; always one line."""
    user = _content(lock).get("user")
    return sanitize(user, _NAME_CHARS) if isinstance(user, str) else ""


def kill_requested(lock: Path, run: int) -> bool:
    """Return whether the lock asks run ``run`` to end at once, without a checkpoint."""
    wish = _content(lock)
    return wish.get("run") == run and wish.get("at_once") is True


def _content(lock: Path) -> dict[str, Any]:
    try:
        with lock.open("rb") as file:
            found = json.loads(file.read(10_000))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def write_stop_request(lock: Path, run: int) -> bool:
    """Return whether the lock asks run ``run`` to stop.

    A lock left from another run does not. One without readable content does: the user may have
    made it with ``touch``.

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
        wished = json.loads(content)["run"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return True
    return not isinstance(wished, int) or wished == run
