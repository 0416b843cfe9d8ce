"""How long a job that stops is waited for before it may be killed."""

from __future__ import annotations

import time

from backend.records.jobs.state import JobState
from backend.records.jobs.stop_request import STOP_GRACE_S
from backend.records.jobs.view import JobView


class Patience:
    """With the open job. Counts by a clock of this process: those of nodes may differ."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        """When it was first seen to stop, None while it does not."""

    def clear(self) -> None:
        self.since_s = None

    def is_over(self, view: JobView) -> bool:
        """Whether the job should have stopped by now. To be asked at each look."""
        if view.state is not JobState.STOPPING:
            self.since_s = None
            return False
        now = time.monotonic()
        if self.since_s is None:
            self.since_s = now
        return now - self.since_s > STOP_GRACE_S
