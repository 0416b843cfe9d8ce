"""The wish to stop, as ``job.lock`` carries it: rank 0, the guards and the supervisor all read it.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import json
import os
from pathlib import Path


def wish_to_stop(lock: Path, run: int) -> bool:
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
