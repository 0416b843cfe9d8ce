"""Where the training of a rank is, what it works with, and how it may end."""

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
    """Where the job is; all of it goes into each checkpoint.

    ``epoch`` is the one under way, from 1; ``position`` the samples of it that were taken by all
    ranks together. ``held`` is the last step of an epoch, kept back until the validation is over
    so that its values stand at that step.
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
    """What was being worked on, for the sentence when it goes wrong."""

    data: Any = None
    target: Any = None
    where: str = "setup"


@dataclass
class Rank0Services:
    """What rank 0 has and the others have not."""

    reporter: Reporter
    checkpointer: Checkpointer
    watcher: StopWatcher
