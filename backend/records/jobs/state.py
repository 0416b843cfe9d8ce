"""The states of a job and their labels.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from enum import Enum


class JobState(str, Enum):
    """The state of a job. The value is what files and ``--json`` contain; never rename one."""

    CREATED = "CREATED"
    QUEUED = "QUEUED"
    PAUSED = "PAUSED"
    STARTING = "STARTING"
    SETUP = "SETUP"
    TRAINING = "TRAINING"
    EVALUATING = "EVALUATING"
    SAVING = "SAVING"
    STOPPING = "STOPPING"
    INTERRUPTED = "INTERRUPTED"
    FINISHED = "FINISHED"
    ERROR = "ERROR"
    LOST = "LOST"

    @property
    def is_live(self) -> bool:
        """True during a run: processes exist or are about to."""
        return self in _LIVE_STATES

    @property
    def is_over(self) -> bool:
        """True after a run has ended; nothing happens until the user acts."""
        return self in _ENDED_STATES

    @property
    def is_queued(self) -> bool:
        """True for a job in the queue, also for one that waits because it gave way."""
        return self in (JobState.QUEUED, JobState.PAUSED)

    @property
    def has_failed(self) -> bool:
        """True if a run failed, or how it ended is not known."""
        return self in _FAILED_STATES

    @property
    def label(self) -> str:
        """The label ("Training", "Stopped")."""
        return _TEXTS[self][0]

    def label_for(self, *, is_session: bool) -> str:
        """The label; a session does not train."""
        return "Running" if is_session and self is JobState.TRAINING else self.label

    @property
    def color_role(self) -> str:
        """The colour family of the state: idle, live, warn, rest, good or bad."""
        return _TEXTS[self][1]

    @property
    def explanation(self) -> str:
        """A short sentence for the tool tip."""
        return _TEXTS[self][2]


_LIVE_STATES = frozenset(
    {
        JobState.STARTING,
        JobState.SETUP,
        JobState.TRAINING,
        JobState.EVALUATING,
        JobState.SAVING,
        JobState.STOPPING,
    }
)
_FAILED_STATES = frozenset({JobState.ERROR, JobState.LOST})
_ENDED_STATES = frozenset({JobState.INTERRUPTED, JobState.FINISHED, JobState.ERROR, JobState.LOST})

_TEXTS = {
    JobState.CREATED: ("Draft", "idle", "Not started yet"),
    JobState.QUEUED: ("Queued", "idle", "Waiting in the queue"),
    JobState.PAUSED: ("Paused", "idle", "Gave way to another user; continues by itself"),
    JobState.STARTING: ("Starting", "live", "Starting mpirun on the nodes"),
    JobState.SETUP: ("Setting up", "live", "Loading model and data"),
    JobState.TRAINING: ("Training", "live", "Training steps are running"),
    JobState.EVALUATING: ("Evaluating", "live", "Running the validation"),
    JobState.SAVING: ("Saving", "live", "Writing a checkpoint"),
    JobState.STOPPING: ("Stopping", "warn", "Finishing this step and saving a checkpoint"),
    JobState.INTERRUPTED: ("Stopped", "rest", "Saved; can be resumed"),
    JobState.FINISHED: ("Finished", "good", "Nothing is left to train"),
    JobState.ERROR: ("Failed", "bad", "Ended by an error"),
    JobState.LOST: ("Lost", "bad", "Contact lost; how it ended is unknown"),
}
