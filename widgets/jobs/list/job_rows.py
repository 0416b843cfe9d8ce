"""The rows of a query: numbers into the list of all jobs, not the jobs themselves."""

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
    """The result of a query.

    Attributes:
        summaries: All jobs and all sweeps, by slot. The owner may replace an entry at any time.
        order: The slots of the result, in order. The jobs of an unfolded sweep follow its slot.
        slot_of: The slot of a job by its id, of a sweep by its tag.
        total_count: The number of all jobs.
        live_count, queued_count: The numbers of live and of queued jobs, of all jobs.
        hit_count: The number of jobs in the result, folded or not.
        sweep_slots: The slot of the sweep by the slot of its job, -1 for none; empty without folds.
        empty_columns: Keys of columns in which no job has a figure.
    """

    summaries: Sequence[JobSummary] = ()
    order: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    slot_of: Callable[[str], int | None] = _no_slot
    total_count: int = 0
    live_count: int = 0
    queued_count: int = 0
    hit_count: int = 0
    sweep_slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    empty_columns: frozenset[str] = frozenset()

    def sweep_slot(self, slot: int) -> int:
        """Return the slot of a job's sweep, -1 for a job without a sweep and for a sweep."""
        return int(self.sweep_slots[slot]) if slot < len(self.sweep_slots) else -1

    def slot_rows(self) -> npt.NDArray[np.int32]:
        """Return the row of each slot, -1 for slots that are not in the result."""
        rows = np.full(int(max(self.order.max(initial=-1) + 1, len(self.summaries))), -1, np.int32)
        rows[self.order] = np.arange(len(self.order), dtype=np.int32)
        return rows
