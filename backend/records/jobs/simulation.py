"""Result of a simulated asynchronous training: `job simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.records.base.schema import Record


@dataclass(frozen=True)
class SimulatedEpoch:
    """``loss`` is the mean of the epoch's training losses, ``values`` those of the validation."""

    epoch: int
    steps: int
    loss: float | None
    staleness_mean: float
    staleness_max: int
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class Simulation(Record, label="simulation"):
    epochs: tuple[SimulatedEpoch, ...]
