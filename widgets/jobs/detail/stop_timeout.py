"""The time that a job may take to stop before it may be killed."""

from __future__ import annotations

import time

from backend.records.jobs.state import JobState
from backend.records.jobs.stop_request import STOP_GRACE_S
from backend.records.jobs.view import JobView


class Patience:
    """The timeout of the open job, by this computer's clock: those of nodes may differ."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        """When the job was first seen stopping; None while it is not stopping."""

    def clear(self) -> None:
        self.since_s = None

    def is_over(self, view: JobView) -> bool:
        """Return whether the job should have stopped by now. Call it at each update."""
        if view.state is not JobState.STOPPING:
            self.since_s = None
            return False
        now = time.monotonic()
        if self.since_s is None:
            self.since_s = now
        return now - self.since_s > STOP_GRACE_S
