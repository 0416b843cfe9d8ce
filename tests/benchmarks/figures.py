"""A measured figure and its goal."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """``goal`` is the goal's number ("P1"); ``values`` one for each pair or repetition.

    It is met when the median lies on the right side of ``limit``.
    """

    goal: str
    what: str
    values: tuple[float, ...]
    limit: float
    unit: str = ""
    at_least: bool = False
    context: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def minimum(self) -> float:
        return min(self.values)

    @property
    def is_met(self) -> bool:
        return self.median >= self.limit if self.at_least else self.median <= self.limit

    @property
    def goal_text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"
