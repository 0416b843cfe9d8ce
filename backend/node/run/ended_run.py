"""Observations of a supervisor when mpirun is gone, and the message of a stopped run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from backend.node.diagnosis.log_text import LogPart
from backend.records.base.layout import checkpoint_text, epoch_and_step, position_text
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.status import RankError, RankExit, RunStatus


@dataclass(frozen=True)
class EndedRun:
    """The facts that a supervisor has when mpirun is gone; ``exits`` in the order of arrival.

    ``ended_early``: the supervisor ended the run before the first step, as requested.
    ``stopped_by``: the user who requested it, or ""; ``stop_reason``: why the program
    did, or ""; ``pause``: why the run gave way, or "".
    ``end_signal``: name of the signal that ended the supervisor, or "".
    ``outside_error``: why a scheduler ended the job, None without one.
    ``give_up_reason``: message about why the supervisor ended mpirun by itself, or "".
    ``unreached_nodes`` did not answer over SSH when the run had ended; ``nodes_without_root``
    answered and did not see ``data_root``. ``silent_nodes`` gave no sign of life within the limit,
    why the supervisor ended the run.
    """

    run: int
    ranks: Sequence[RankPlan]
    exits: Sequence[RankExit]
    launcher: str = "mpirun"
    launcher_code: int | None = None
    launcher_error: str = ""
    is_of_machine: bool = False
    """Whether ``launcher_error`` is about the machine: it restarted, or lost the supervisor."""
    launcher_log: str = ""
    stop_was_requested: bool = False
    stopped_by: str = ""
    stop_reason: str = ""
    pause: str = ""
    ended_early: bool = False
    end_signal: str = ""
    outside_error: RankError | None = None
    give_up_reason: str = ""
    unreached_nodes: Sequence[str] = ()
    nodes_without_root: Sequence[str] = ()
    silent_nodes: Sequence[str] = ()
    data_root: str = ""
    newest_checkpoint: str = ""
    checkpoint_of_run: bool = False
    """Whether this run made ``newest_checkpoint``."""
    runs_script: bool = False
    can_resume: bool = True
    """Whether there is a checkpoint, and a script has arguments with which it resumes."""
    other_cpu: float | None = None
    logs: Mapping[int, Sequence[LogPart]] = field(default_factory=dict)
    """What ranks wrote in this run, that of the first failing one at least."""
    mpirun_log: Sequence[LogPart] = ()
    expendable_ranks: Set[int] = frozenset()
    """The ranks without which the job continues."""
    last_status: RunStatus | None = None
    wrote_nothing: bool = False
    """Of a script: it left no figure, no checkpoint and no file."""
    has_no_curve: bool = False
    """Of a script: none of its numbers was found."""
    log_end: str = ""
    """Of a script: the end of the log of its first process."""

    @property
    def printed_numbers(self) -> bool:
        """True if the log of a script ends with numbers, of which the user can draw some."""
        lines = [line for line in self.log_end.splitlines() if not line.startswith("── ")]
        return any(map(str.isdigit, "".join(lines)))

    @property
    def is_hung(self) -> bool:
        """True if the run, or a rank, made no progress until it was ended."""
        return bool(self.give_up_reason) or any(
            record.outcome == "stalled" and not record.is_secondary for record in self.exits
        )

    @property
    def _stop_cause(self) -> str:
        """Name the user: the other one of two desktops learns it here."""
        if self.pause:
            return self.pause.rstrip(".")
        if self.stop_reason:
            return f"Stopped: {self.stop_reason}"
        return f"Stopped by {self.stopped_by}" if self.stopped_by else "Stopped"

    def stop_message(self) -> str:
        """Return who stopped the run, and the checkpoint from which it can be resumed."""
        if self.runs_script:
            checkpoint_message = (
                f"The newest checkpoint is {checkpoint_text(self.newest_checkpoint)}."
            )
            if not self.newest_checkpoint:
                checkpoint_message = "There is no checkpoint: the script wrote none."
            elif not self.checkpoint_of_run:
                checkpoint_message = (
                    "The script wrote no checkpoint in this run; "
                    f"{checkpoint_message[:1].lower()}{checkpoint_message[1:]}"
                )
            return f"{self._stop_cause}. {checkpoint_message}"
        if self.checkpoint_of_run:
            return f"{self._stop_cause}. {_saved_message(self.newest_checkpoint)}"
        return f"{self._stop_cause} before the first step."

    def early_stop_message(self) -> str:
        """Return the message of a stop before the first step."""
        if self.newest_checkpoint:
            return (
                f"{self._stop_cause} before the first step of this run; "
                f"the newest checkpoint is still {checkpoint_text(self.newest_checkpoint)}."
            )
        return f"{self._stop_cause} before the first step; there is no checkpoint yet."

    def forced_stop_message(self, error_message: str) -> str:
        """Return the message of a stop that no rank followed by itself."""
        if self.checkpoint_of_run and any(
            (record.rank, record.outcome) == (0, "interrupted") for record in self.exits
        ):
            # Rank 0 writes the checkpoint of the stop before it leaves.
            return f"{self.stop_message()} {error_message}"
        checkpoint_message = (
            f"the newest one is {checkpoint_text(self.newest_checkpoint)}"
            if self.newest_checkpoint
            else "there is none from before"
        )
        requester = f" by {self.stopped_by}," if self.stopped_by else ""
        return (
            f"Stopped{requester} by force, so no checkpoint could be made; {checkpoint_message}. "
            f"{error_message}"
        )


def _saved_message(checkpoint: str) -> str:
    position = epoch_and_step(checkpoint)
    if position is None:
        return f"Saved as {checkpoint}."
    return f"Saved at {position_text(*position)}."
