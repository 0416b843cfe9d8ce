"""Result of a search for the learning rate: `job find-rate`."""

from __future__ import annotations

from dataclasses import dataclass

from backend.records.base.schema import Record


@dataclass(frozen=True)
class RateStep:
    """A step with its learning rate. ``smooth_loss`` is a moving average without its start bias."""

    rate: float
    loss: float | None
    smooth_loss: float | None


@dataclass(frozen=True)
class RateSearch(Record, label="search for the learning rate"):
    """Losses of steps whose learning rate grows from each to the next.

    ``proposal`` is None if the loss never fell.
    """

    steps: tuple[RateStep, ...]
    proposal: float | None = None

    @property
    def message(self) -> str:
        """The proposal as a sentence, or why there is none."""
        if self.proposal is None:
            return "The loss did not fall at any rate; check the data with a trial of one batch."
        return f"Proposal: {self.proposal:g}, a tenth of the rate with the lowest loss."
