"""Sweeps among all jobs: their members, a row for each, and folded lists.

A sweep has a slot like the jobs, so that a list of rows stays a list of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from backend.records.jobs.summary import JobSummary
from backend.records.sweeps.spec import sweep_of
from backend.records.sweeps.summary import FEWEST, OPEN_UP_TO, FoldState, sweep_summary

Slots = npt.NDArray[np.int32]
NO_SLOTS: Slots = np.zeros(0, np.int32)


class JobSweeps:
    """Is updated with every job, then with `update` after several; then it can fold.

    Args:
        lines: All jobs by slot. The rows of sweeps are appended to them.
    """

    def __init__(self, lines: list[JobSummary]) -> None:
        self._lines = lines
        self._slots: dict[str, int] = {}
        self._tag_of: dict[int, str] = {}
        self._members: dict[str, set[int]] = {}
        self._touched: set[str] = set()
        self._has_moved = False
        self._sizes = NO_SLOTS
        self.sweep_slots: Slots = NO_SLOTS
        """Slot of a job's sweep by the job's slot, -1 for none. It is replaced, never changed."""

    def slot(self, tag: str) -> int | None:
        """Return the slot of a sweep. May be called from any thread."""
        return self._slots.get(tag)

    def put(self, slot: int, line: JobSummary) -> None:
        """Add a job, or update it."""
        tag, before = sweep_of(line.tags), self._tag_of.get(slot, "")
        if tag != before:
            self.drop(slot)
            if tag:
                self._tag_of[slot] = tag
                self._members.setdefault(tag, set()).add(slot)
                self._has_moved = True
        if tag:
            self._touched.add(tag)

    def drop(self, slot: int) -> None:
        """Remove a job."""
        tag = self._tag_of.pop(slot, "")
        if tag:
            self._members[tag].discard(slot)
            self._touched.add(tag)
            self._has_moved = True

    def summaries(self) -> Iterator[JobSummary]:
        """Yield the row of each sweep that still has enough jobs."""
        for slot in self._slots.values():
            line = self._lines[slot]
            if line.sweep is not None and len(line.sweep.ids) >= FEWEST:
                yield line

    def update(self) -> tuple[tuple[int, ...], bool]:
        """Return the slots of sweeps whose row changed, and whether jobs joined or left one."""
        changed = []
        for tag in self._touched:
            members = self._members[tag]
            if not members:
                del self._members[tag]
                self._slots.pop(tag, None)
                continue
            line = sweep_summary(tag, [self._lines[slot] for slot in members])
            slot = self._slots.get(tag)
            if slot is None:
                self._slots[tag] = len(self._lines)
                self._lines.append(line)
            elif self._lines[slot] != line:
                self._lines[slot] = line
                changed.append(slot)
        self._touched.clear()
        moved, self._has_moved = self._has_moved, False
        if moved:
            self._number()
        elif len(self.sweep_slots) < len(self._lines):
            more = np.full(len(self._lines) - len(self.sweep_slots), -1, np.int32)
            self.sweep_slots = np.concatenate((self.sweep_slots, more))
            self._sizes = np.concatenate((self._sizes, np.zeros_like(more)))
        return tuple(changed), moved

    def _number(self) -> None:
        heads = np.full(len(self._lines), -1, np.int32)
        sizes = np.zeros(len(self._lines), np.int32)
        for tag, members in self._members.items():
            slot = self._slots[tag]
            heads[list(members)] = slot
            sizes[slot] = len(members)
        self.sweep_slots, self._sizes = heads, sizes

    def fold(self, order: Slots, folds: FoldState, *, is_search: bool) -> Slots:
        """Return the same rows, with those of a sweep below a row of its own, or only that row.

        A sweep is placed where the first of its jobs would be, so any order orders sweeps too.

        Args:
            order: Slots of jobs, in the order that they have without sweeps.
            folds: The sweeps that the user folded and unfolded.
            is_search: The list shows search results: if only some jobs of a sweep match, these are
                shown, folded or not.
        """
        if not self._slots or not len(order):
            return order
        heads = self.sweep_slots[order]
        heads = np.where((heads >= 0) & (self._sizes[heads] >= FEWEST), heads, -1)
        inside = np.flatnonzero(heads >= 0)
        if not len(inside):
            return order
        swept = heads[inside]
        first = np.zeros(len(self._lines), np.intp)
        # If a position has several values, numpy keeps the last: here that of the first row.
        first[swept[::-1]] = inside[::-1]
        stands = np.arange(len(order))
        stands[inside] = first[swept]
        by = np.argsort(stands, kind="stable")
        order, heads = order[by], heads[by]
        begins = np.flatnonzero((heads >= 0) & (heads != np.concatenate(([-1], heads[:-1]))))
        shows = np.ones(len(order), bool)
        members = heads >= 0
        shows[members] = self._open(swept, folds, is_search=is_search)[heads[members]]
        rows: Slots = np.insert(order, begins, heads[begins])
        shown: Slots = rows[np.insert(shows, begins, True)]
        return shown

    def _open(self, swept: Slots, folds: FoldState, *, is_search: bool) -> npt.NDArray[np.bool_]:
        """Return by slot of a sweep whether it is open; ``swept`` has it once for each match."""
        is_open = self._sizes <= OPEN_UP_TO
        self._apply(folds.stored_folds, is_open)
        if is_search:
            is_open |= np.bincount(swept, minlength=len(is_open)) < self._sizes
        self._apply(folds.search_folds, is_open)
        return is_open

    def _apply(self, folds: Mapping[str, bool], is_open: npt.NDArray[np.bool_]) -> None:
        for tag, folded in folds.items():
            slot = self._slots.get(tag)
            if slot is not None:
                is_open[slot] = not folded
