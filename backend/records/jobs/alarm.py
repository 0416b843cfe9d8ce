"""Warnings of a run in progress: a loss that is not a number or rises, or a run that stalls.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.base.schema import Record

NOT_A_NUMBER = "not-a-number"
DIVERGED = "diverged"
STANDSTILL = "standstill"

_SHORT = {NOT_A_NUMBER: "not a number", DIVERGED: "diverges", STANDSTILL: "stalled"}
_WORDS = {NOT_A_NUMBER: "Not a number", DIVERGED: "Diverges", STANDSTILL: "Stalled"}


@dataclass(frozen=True)
class Alarm(Record, what="warning"):
    """One warning. ``step`` is the optimizer step at which it was raised, counted from 1."""

    kind: str
    step: int
    sentence: str

    @property
    def short(self) -> str:
        """The label of its mark on the curve."""
        return _SHORT.get(self.kind, self.kind)

    @property
    def word(self) -> str:
        """The first word of a notification about it."""
        return _WORDS.get(self.kind, self.kind)
