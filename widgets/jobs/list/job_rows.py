"""Rows that were found for a list: numbers into one list of all jobs, not the jobs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from backend.records.jobs.summary import JobSummary


def _no_slot(_job_id: str) -> int | None:
    return None


@dataclass(frozen=True)
class JobRows:
    """What a query found.

    Attributes:
        lines: All jobs there are, by slot, and all sweeps. Who fills it may replace an entry at
            any time.
        order: The slots of what was found, in order. Under that of a sweep stand those of its
            jobs, where it is not folded.
        slot_of: The slot of a job by its id, of a sweep by its tag.
        total: How many jobs there are; ``live`` and ``waiting`` of them.
        hits: How many jobs were found, folded or not.
        head_of: By slot of a job that of its sweep, -1 for none; empty where nothing folds.
    """

    lines: Sequence[JobSummary] = ()
    order: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    slot_of: Callable[[str], int | None] = _no_slot
    total: int = 0
    live: int = 0
    waiting: int = 0
    hits: int = 0
    head_of: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def head(self, slot: int) -> int:
        """The slot of the sweep of a job, -1 for none, and for a sweep itself."""
        return int(self.head_of[slot]) if slot < len(self.head_of) else -1

    def places(self) -> npt.NDArray[np.int32]:
        """By slot, in which row it stands; -1 where it was not found."""
        rows = np.full(int(max(self.order.max(initial=-1) + 1, len(self.lines))), -1, np.int32)
        rows[self.order] = np.arange(len(self.order), dtype=np.int32)
        return rows
