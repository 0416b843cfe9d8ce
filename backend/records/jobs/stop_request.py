"""The wish to stop, as ``job.lock`` carries it: rank 0, the guards and the supervisor all read it.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from backend.records.base.validation import sanitize

STOP_GRACE_S = 30.0
"""Without a sign of work for so long after the wish, a rank is ended."""
_NAME_CHARS = 64


def who_wished(lock: Path) -> str:
    """The user whose wish the lock is, "" where it does not say; one line, of any content."""
    user = _content(lock).get("user")
    return sanitize(user, _NAME_CHARS) if isinstance(user, str) else ""


def kill_requested(lock: Path, run: int) -> bool:
    """Whether the lock asks run ``run`` to end at once, without a checkpoint."""
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
    """Whether the lock asks run ``run`` to stop.

    A lock left from another run does not. One without readable content does: a person may have
    made it with ``touch``.

    Raises:
        OSError: The share does not answer; ask again.
    """
    # NFS remembers for half a minute that a file is not there; opening the folder makes it ask.
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
