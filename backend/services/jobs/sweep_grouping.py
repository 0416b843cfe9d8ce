"""Sweeps among all jobs: their members, a row for each, and folded lists.

A sweep has a slot like the jobs, so that a list of rows stays a list of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from backend.records.jobs.summary import JobSummary
from backend.records.sweeps.spec import sweep_of
from backend.records.sweeps.summary import MAX_UNFOLDED_JOBS, MIN_JOBS, FoldState, sweep_summary

Slots = npt.NDArray[np.int32]
NO_SLOTS: Slots = np.zeros(0, np.int32)


class JobSweeps:
    """The sweeps of all jobs: call `put` for each job, then `update`, then `fold`.

    Args:
        summaries: All jobs by slot. The rows of sweeps are appended.
    """

    def __init__(self, summaries: list[JobSummary]) -> None:
        self._summaries = summaries
        self._slot_of_tag: dict[str, int] = {}
        self._tag_of: dict[int, str] = {}
        self._members: dict[str, set[int]] = {}
        self._changed_tags: set[str] = set()
        self._is_regrouped = False
        self._sizes = NO_SLOTS
        self.sweep_slots: Slots = NO_SLOTS
        """Slot of a job's sweep by the job's slot, -1 for none; replaced, not changed in place."""

    def slot(self, tag: str) -> int | None:
        """Return the slot of a sweep. May be called from any thread."""
        return self._slot_of_tag.get(tag)

    def put(self, slot: int, summary: JobSummary) -> None:
        """Add or update a job."""
        tag, previous_tag = sweep_of(summary.tags), self._tag_of.get(slot, "")
        if tag != previous_tag:
            self.drop(slot)
            if tag:
                self._tag_of[slot] = tag
                self._members.setdefault(tag, set()).add(slot)
                self._is_regrouped = True
        if tag:
            self._changed_tags.add(tag)

    def drop(self, slot: int) -> None:
        """Remove a job."""
        tag = self._tag_of.pop(slot, "")
        if tag:
            self._members[tag].discard(slot)
            self._changed_tags.add(tag)
            self._is_regrouped = True

    def sweep_rows(self) -> Iterator[JobSummary]:
        """Yield the row of each sweep that still has enough jobs."""
        for slot in self._slot_of_tag.values():
            summary = self._summaries[slot]
            if summary.sweep is not None and len(summary.sweep.ids) >= MIN_JOBS:
                yield summary

    def update(self) -> tuple[tuple[int, ...], bool]:
        """Compute the rows of changed sweeps; append the rows of new sweeps.

        Return the slots of sweeps whose row changed, and whether jobs joined or left sweeps.
        """
        changed_slots = []
        for tag in self._changed_tags:
            members = self._members[tag]
            if not members:
                del self._members[tag]
                self._slot_of_tag.pop(tag, None)
                continue
            summary = sweep_summary(tag, [self._summaries[job_slot] for job_slot in members])
            sweep_slot = self._slot_of_tag.get(tag)
            if sweep_slot is None:
                self._slot_of_tag[tag] = len(self._summaries)
                self._summaries.append(summary)
            elif self._summaries[sweep_slot] != summary:
                self._summaries[sweep_slot] = summary
                changed_slots.append(sweep_slot)
        self._changed_tags.clear()
        is_regrouped, self._is_regrouped = self._is_regrouped, False
        if is_regrouped:
            self._renumber()
        elif len(self.sweep_slots) < len(self._summaries):
            padding = np.full(len(self._summaries) - len(self.sweep_slots), -1, np.int32)
            self.sweep_slots = np.concatenate((self.sweep_slots, padding))
            self._sizes = np.concatenate((self._sizes, np.zeros_like(padding)))
        return tuple(changed_slots), is_regrouped

    def _renumber(self) -> None:
        sweep_slots = np.full(len(self._summaries), -1, np.int32)
        sizes = np.zeros(len(self._summaries), np.int32)
        for tag, members in self._members.items():
            slot = self._slot_of_tag[tag]
            sweep_slots[list(members)] = slot
            sizes[slot] = len(members)
        self.sweep_slots, self._sizes = sweep_slots, sizes

    def fold(self, order: Slots, folds: FoldState, *, is_search: bool) -> Slots:
        """Return the rows, with the jobs of a sweep below the row of the sweep or folded into it.

        A sweep has the position of the first of its jobs, so any order orders sweeps too.

        Args:
            order: Slots of jobs, in the order that they have without sweeps.
            folds: The sweeps that the user folded and unfolded.
            is_search: The list shows search results: if only some jobs of a sweep match, the
                matching jobs are shown, folded or not.
        """
        if not self._slot_of_tag or not len(order):
            return order
        sweep_slots = self.sweep_slots[order]
        sweep_slots = np.where(
            (sweep_slots >= 0) & (self._sizes[sweep_slots] >= MIN_JOBS), sweep_slots, -1
        )
        member_rows = np.flatnonzero(sweep_slots >= 0)
        if not len(member_rows):
            return order
        member_sweeps = sweep_slots[member_rows]
        first_rows = np.zeros(len(self._summaries), np.intp)
        # If a position has several values, numpy keeps the last: here that of the first row.
        first_rows[member_sweeps[::-1]] = member_rows[::-1]
        positions = np.arange(len(order))
        positions[member_rows] = first_rows[member_sweeps]
        permutation = np.argsort(positions, kind="stable")
        order, sweep_slots = order[permutation], sweep_slots[permutation]
        sweep_starts = np.flatnonzero(
            (sweep_slots >= 0) & (sweep_slots != np.concatenate(([-1], sweep_slots[:-1])))
        )
        is_visible = np.ones(len(order), bool)
        is_member = sweep_slots >= 0
        is_visible[is_member] = self._open_mask(member_sweeps, folds, is_search=is_search)[
            sweep_slots[is_member]
        ]
        row_slots: Slots = np.insert(order, sweep_starts, sweep_slots[sweep_starts])
        visible_slots: Slots = row_slots[np.insert(is_visible, sweep_starts, True)]
        return visible_slots

    def _open_mask(
        self, member_sweeps: Slots, folds: FoldState, *, is_search: bool
    ) -> npt.NDArray[np.bool_]:
        """Return by slot whether a sweep is open.

        Args:
            member_sweeps: The slot of its sweep for each job in the list.
        """
        is_open = self._sizes <= MAX_UNFOLDED_JOBS
        self._apply(folds.stored_folds, is_open)
        if is_search:
            is_open |= np.bincount(member_sweeps, minlength=len(is_open)) < self._sizes
        self._apply(folds.search_folds, is_open)
        return is_open

    def _apply(self, folds: Mapping[str, bool], is_open: npt.NDArray[np.bool_]) -> None:
        for tag, fold in folds.items():
            slot = self._slot_of_tag.get(tag)
            if slot is not None:
                is_open[slot] = not fold
