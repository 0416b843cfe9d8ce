"""Final checkpoint of a run, even on a disk that is full or unavailable at the moment."""

from __future__ import annotations

import time

from backend.base.errors import BackendError
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.training.checkpoint import Checkpointer

_WAIT_S = 60.0
_PAUSE_S = 1.0


class NotSaved(BackendError):
    """The last checkpoint could not be written. Every rank raises it; it is about rank 0."""

    rank = 0

    def __init__(self, trouble: str) -> None:
        remedy = (
            "Free space, then resume from the newest checkpoint."
            if "No space left" in trouble or "quota" in trouble
            else "Make sure that the nodes can write there, then resume from the newest checkpoint."
        )
        super().__init__(trouble, remedy)


def write_out(checkpointer: Checkpointer, beat: RankHeartbeat, stall_limit_s: float) -> str:
    """Wait until the last checkpoint is on the disk; return why it is not, or "".

    A share that is away for a minute, or a full disk where a user frees space, costs no work. The
    wait ends well before the stall limit of the other ranks' guards.
    """
    checkpointer.wait()
    deadline = time.monotonic() + min(_WAIT_S, stall_limit_s / 2)
    while checkpointer.trouble and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        beat.beat(Phase.SAVING)
        checkpointer.try_again()
    return checkpointer.trouble
