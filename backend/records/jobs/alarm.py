"""Warnings of a run in progress: a loss that is not a number or rises, a run that stalls, a
checkpoint that could not be saved.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.records.base.schema import KEY, Record

NOT_A_NUMBER = "not-a-number"
BAD_VALIDATION = "bad-validation"
BAD_CURVE = "bad-curve"
BAD_CHECKPOINT = "bad-checkpoint"
DIVERGED = "diverged"
STANDSTILL = "standstill"
METRICS_LEFT_OUT = "metrics-left-out"
NOT_SAVED = "not-saved"
NOT_TRAINED = "not-trained"

_LABELS = {
    NOT_A_NUMBER: "not a number",
    BAD_VALIDATION: "validation NaN",
    BAD_CURVE: "NaN written",
    BAD_CHECKPOINT: "checkpoint NaN",
    DIVERGED: "diverges",
    STANDSTILL: "stalled",
    METRICS_LEFT_OUT: "metrics left out",
    NOT_SAVED: "not saved",
    NOT_TRAINED: "not trained",
}
_TITLES = {
    NOT_A_NUMBER: "Not a number",
    BAD_VALIDATION: "Validation NaN",
    BAD_CURVE: "NaN written",
    BAD_CHECKPOINT: "Checkpoint NaN",
    DIVERGED: "Diverges",
    STANDSTILL: "Stalled",
    METRICS_LEFT_OUT: "Metrics left out",
    NOT_SAVED: "Not saved",
    NOT_TRAINED: "Not trained",
}


@dataclass(frozen=True)
class Alarm(Record, label="warning"):
    """A warning. ``step`` is the optimizer step at which it was raised, counted from 1."""

    kind: str
    step: int
    message: str = field(metadata={KEY: "sentence"})

    @property
    def label(self) -> str:
        """The label of its mark on the curve."""
        return _LABELS.get(self.kind, self.kind)

    @property
    def title(self) -> str:
        """The first word of a notification about it."""
        return _TITLES.get(self.kind, self.kind)
