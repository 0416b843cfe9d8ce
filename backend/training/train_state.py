"""State of a rank's training: its position, its batch, and its services."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from backend.training.checkpoint import Checkpointer
from backend.training.reporter import Reporter
from backend.training.stop_watcher import StopWatcher


class Outcome(Enum):
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass
class TrainState:
    """Position of the job; all of it is in each checkpoint.

    ``epoch`` is the current one, from 1; ``position`` the samples of it that all ranks together
    have taken. ``held`` is the last step of an epoch, kept back until the validation is over so
    that its values are recorded at that step.
    """

    epoch: int = 1
    epoch_step: int = 0
    position: int = 0
    step: int = 0
    best: float | None = None
    epochs_without_gain: int = 0
    ended_early: bool = False
    held: dict[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Batch:
    """The current batch, for the sentence about an error."""

    data: Any = None
    target: Any = None
    where: str = "setup"


@dataclass
class Rank0Services:
    """Services that only rank 0 has."""

    reporter: Reporter
    checkpointer: Checkpointer
    watcher: StopWatcher
