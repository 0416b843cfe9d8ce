"""The states of a job, the one table of allowed transitions, and the words people read.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from enum import Enum


class JobState(str, Enum):
    """Where a job is. The value is what files and ``--json`` hold; never rename one."""

    CREATED = "CREATED"
    QUEUED = "QUEUED"
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
        """A run is under way: processes exist, or are about to."""
        return self in _LIVE

    @property
    def is_over(self) -> bool:
        """A run has ended; nothing will happen until a person acts."""
        return self in _OVER

    @property
    def has_failed(self) -> bool:
        """A run ended otherwise than anybody wished, or nobody knows how."""
        return self in _FAILED

    @property
    def can_start(self) -> bool:
        return not self.is_live

    @property
    def word(self) -> str:
        """The word people see ("Training", "Stopped")."""
        return _WORDS[self][0]

    @property
    def family(self) -> str:
        """The colour family of the state: idle, live, warn, rest, good or bad."""
        return _WORDS[self][1]

    @property
    def explanation(self) -> str:
        """A short sentence for the tool tip."""
        return _WORDS[self][2]

    def may_become(self, other: JobState) -> bool:
        return other in TRANSITIONS[self]


_LIVE = frozenset(
    {
        JobState.STARTING,
        JobState.SETUP,
        JobState.TRAINING,
        JobState.EVALUATING,
        JobState.SAVING,
        JobState.STOPPING,
    }
)
_FAILED = frozenset({JobState.ERROR, JobState.LOST})
_OVER = frozenset({JobState.INTERRUPTED, JobState.FINISHED, JobState.ERROR, JobState.LOST})

_WORDS = {
    JobState.CREATED: ("Draft", "idle", "Not started yet"),
    JobState.QUEUED: ("Queued", "idle", "Waits for its turn"),
    JobState.STARTING: ("Starting", "live", "mpirun is coming up on the nodes"),
    JobState.SETUP: ("Setting up", "live", "Loads model and data"),
    JobState.TRAINING: ("Training", "live", "Steps are being made"),
    JobState.EVALUATING: ("Evaluating", "live", "Runs the validation set"),
    JobState.SAVING: ("Saving", "live", "Writes a checkpoint"),
    JobState.STOPPING: ("Stopping", "warn", "Finishes the step, saves, then leaves"),
    JobState.INTERRUPTED: ("Stopped", "rest", "Saved; can be resumed"),
    JobState.FINISHED: ("Finished", "good", "All epochs done"),
    JobState.ERROR: ("Failed", "bad", "Ended by an error"),
    JobState.LOST: ("Lost", "bad", "No news, and nobody can say how it ended"),
}

_WORKING = frozenset({JobState.TRAINING, JobState.EVALUATING, JobState.SAVING})
_ENDINGS = frozenset({JobState.INTERRUPTED, JobState.ERROR, JobState.LOST})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.CREATED: frozenset({JobState.QUEUED, JobState.STARTING}),
    # One that ran before, taken out of the queue, is again what its last run made it.
    JobState.QUEUED: frozenset({JobState.CREATED, JobState.STARTING}) | _OVER,
    JobState.STARTING: frozenset({JobState.SETUP, JobState.STOPPING}) | _ENDINGS,
    JobState.SETUP: _WORKING | {JobState.STOPPING, JobState.FINISHED} | _ENDINGS,
    JobState.TRAINING: _WORKING | {JobState.STOPPING, JobState.FINISHED} | _ENDINGS,
    JobState.EVALUATING: _WORKING | {JobState.STOPPING, JobState.FINISHED} | _ENDINGS,
    JobState.SAVING: _WORKING | {JobState.STOPPING, JobState.FINISHED} | _ENDINGS,
    # A stop that comes with the last step finds the job finished.
    JobState.STOPPING: frozenset({JobState.FINISHED}) | _ENDINGS,
    JobState.INTERRUPTED: frozenset({JobState.QUEUED, JobState.STARTING}),
    JobState.FINISHED: frozenset({JobState.QUEUED, JobState.STARTING}),
    JobState.ERROR: frozenset({JobState.QUEUED, JobState.STARTING}),
    # A run given up as lost may be heard of again.
    JobState.LOST: frozenset(
        {
            JobState.QUEUED,
            JobState.STARTING,
            JobState.FINISHED,
            JobState.ERROR,
            JobState.INTERRUPTED,
        }
    )
    | _WORKING,
}
"""From each state, the states that may come next."""
