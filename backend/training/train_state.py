"""State of a rank's training: its position, its batch, and its services."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from backend.base.errors import BackendError
from backend.records.jobs.config import EarlyStop, JobConfig
from backend.training.checkpoint import Checkpointer
from backend.training.reporter import Reporter
from backend.training.stop_watcher import StopWatcher

Span = tuple[int, int]
"""Positions in the order of an epoch: the start, and the end after the last position."""
_STORED_KEYS = {
    "best_value": "best",
    "held_metrics": "held",
    "last_metrics": "last",
    "done_spans": "done",
}
"""The key in a checkpoint of each field of `TrainState` that has another name there."""


class Outcome(Enum):
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass
class TrainState:
    """Position of the job, which each checkpoint holds.

    ``epoch`` is the current epoch, from 1; ``position`` the samples of it that all ranks together
    have taken. ``held_metrics`` are those of the last step of an epoch, kept back until the
    validation has ended so that its values are recorded at that step; ``last_metrics`` those of the
    last recorded step, for a validation before which a run makes no step. ``done_spans`` are the
    positions in the order of the epoch that asynchronous workers have trained on: not always the
    first ones. ``has_converged``: no step of the optimizer lowers the loss. ``plateaus`` counts the
    drops of the rate by the schedule "plateau", ``plateau_epochs`` the epochs since the last gain
    or drop.
    """

    epoch: int = 1
    epoch_step: int = 0
    position: int = 0
    step: int = 0
    best_value: float | None = None
    epochs_without_gain: int = 0
    plateau_best: float | None = None
    plateau_epochs: int = 0
    plateaus: int = 0
    ended_early: bool = False
    has_converged: bool = False
    held_metrics: dict[str, float] | None = None
    last_metrics: dict[str, float] | None = None
    done_spans: list[Span] = field(default_factory=list)

    @classmethod
    def from_saved(cls, saved_state: Mapping[str, Any]) -> TrainState:
        """Read the state of a checkpoint; in older checkpoints ``done`` are numbers of batches."""
        done_spans: list[Any] = saved_state.get("done", [])
        if done_spans and isinstance(done_spans[0], int):
            size = saved_state["position"] // len(done_spans)
            done_spans = [(number * size, (number + 1) * size) for number in done_spans]
        names = {key: name for name, key in _STORED_KEYS.items()}
        fields = {names.get(key, key): value for key, value in saved_state.items()}
        return cls(**{**fields, "done_spans": done_spans})

    def next_epoch(self) -> None:
        self.epoch += 1
        self.epoch_step = self.position = 0
        self.done_spans = []

    def check_early_stop(
        self, rule: EarlyStop, value: float | None, metrics: Mapping[str, float]
    ) -> None:
        """Apply the early stop to the value of its metric at the end of an epoch.

        Raises:
            BackendError: The job does not measure the rule's metric.
        """
        if value is None:
            raise BackendError(
                f"The early stop watches “{rule.metric}”, which this job does not measure.",
                f"It measures {', '.join(sorted(metrics))}.",
            )
        if _is_gain(value, self.best_value, rule.mode, rule.min_delta):
            self.best_value = value
            self.epochs_without_gain = 0
        else:
            self.epochs_without_gain += 1
        self.ended_early = self.epochs_without_gain >= rule.patience_epochs

    def check_plateau(self, config: JobConfig, value: float | None) -> None:
        """Apply the schedule "plateau" to the value of the followed metric in an epoch.

        Raises:
            BackendError: The job does not measure the metric.
        """
        schedule, policy = config.schedule, config.checkpoint
        if value is None:
            raise BackendError(
                f"The schedule “plateau” follows “{policy.best_metric}”, which this job does not "
                "measure.",
                "Choose another metric as “Best by”, or another schedule.",
            )
        min_delta = float(schedule.setting("min_delta"))
        if _is_gain(value, self.plateau_best, policy.best_mode, min_delta):
            self.plateau_best = value
            self.plateau_epochs = 0
        else:
            self.plateau_epochs += 1
        if self.plateau_epochs >= int(schedule.setting("patience")):
            self.plateaus += 1
            self.plateau_epochs = 0

    def to_dict(self) -> dict[str, Any]:
        return {_STORED_KEYS.get(name, name): value for name, value in vars(self).items()}


def _is_gain(value: float, best_value: float | None, mode: str, min_delta: float) -> bool:
    if not math.isfinite(value):
        return False
    return (
        best_value is None
        or (value - best_value if mode == "max" else best_value - value) > min_delta
    )


@dataclass
class Batch:
    """The current batch, for the message about an error."""

    data: Any = None
    target: Any = None
    stage: str = "setup"


@dataclass
class Rank0Services:
    """Services that only rank 0 has."""

    reporter: Reporter
    checkpointer: Checkpointer
    watcher: StopWatcher
