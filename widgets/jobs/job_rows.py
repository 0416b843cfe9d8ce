"""Rows that were found for a list: numbers into one list of all jobs, not the jobs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from backend.records.job_line import JobLine


def _no_slot(_job_id: str) -> int | None:
    return None


@dataclass(frozen=True)
class JobRows:
    """What a query found.

    Attributes:
        lines: All jobs there are, by slot. Who fills it may replace an entry at any time.
        order: The slots of what was found, in order.
        slot_of: The slot of a job by its id.
        total: How many jobs there are; ``live`` and ``waiting`` of them.
    """

    lines: Sequence[JobLine] = ()
    order: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    slot_of: Callable[[str], int | None] = _no_slot
    total: int = 0
    live: int = 0
    waiting: int = 0

    def places(self) -> npt.NDArray[np.int32]:
        """By slot, in which row it stands; -1 where it was not found."""
        rows = np.full(int(max(self.order.max(initial=-1) + 1, len(self.lines))), -1, np.int32)
        rows[self.order] = np.arange(len(self.order), dtype=np.int32)
        return rows
