"""Marks on the curves of a job: checkpoints, runs, warnings, and where it ended.

Has no widgets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from backend.records.jobs.alarm import Alarm
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history_update import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.plots.annotations import AxisSpan, Boundary, VerticalMarker
from widgets.plots.axis_marks import AxisMark, MarkKind
from widgets.plots.curve_data import XAxis
from widgets.plots.run_curves import RunCurves

_ENDS = {
    JobState.INTERRUPTED: MarkKind.STOP,
    JobState.ERROR: MarkKind.FAILURE,
    JobState.LOST: MarkKind.FAILURE,
}


class CurveMarks:
    """All marks of the open job, placed on an x axis on request.

    Args:
        curves: All points of the job.
    """

    def __init__(self, curves: RunCurves) -> None:
        self._curves = curves
        self.clear()

    def clear(self) -> None:
        """Remove all marks for another job."""
        self._checkpoints: tuple[Checkpoint, ...] = ()
        self._ever_kept: dict[int, str] = {}
        self._end: tuple[int, JobState] | None = None
        self._stopped_at: int | None = None
        self._alarms: tuple[Alarm, ...] = ()
        self._problems: tuple[AxisSpan, ...] = ()
        self._fewer: tuple[int, str] = (0, "")

    # Input; True if the marks have changed.

    def drop_repeated_steps(self, history: HistoryUpdate) -> None:
        """Remove the checkpoints of steps that a resumed run repeats."""
        if history.drop_from is not None:
            self._ever_kept = {
                step: name for step, name in self._ever_kept.items() if step < history.drop_from
            }
        if history.run_starts:
            self._stopped_at = None

    def show_view(self, view: JobView) -> bool:
        end = (view.step, view.state) if view.state in _ENDS else None
        continued = view.status.continuation
        fewer = (view.run, continued.nodes) if continued is not None else (0, "")
        if (end, view.status.alarms, fewer) == (self._end, self._alarms, self._fewer):
            return False
        self._end, self._alarms, self._fewer = end, view.status.alarms, fewer
        if view.state is JobState.INTERRUPTED:
            self._stopped_at = view.step
        return True

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Set the existing checkpoints; deleted ones keep their mark."""
        self._checkpoints = checkpoints
        self._ever_kept |= {each.step: each.name for each in checkpoints}

    def show_problems(self, spans: Sequence[AxisSpan]) -> bool:
        """Set when GPUs of the job had problems, in Unix time."""
        before, self._problems = self._problems, tuple(spans)
        return before != self._problems

    # Placement.

    def boundaries(self, axis: XAxis) -> list[Boundary]:
        starts = {start.first_step: start.run for start in self._curves.run_starts() if start.run > 1}
        return [Boundary(x, starts[step]) for step, x in self._placed(starts, axis)]

    def spans(self, axis: XAxis) -> list[AxisSpan]:
        """Return when GPUs had problems, limited to the steps made meanwhile."""
        found = []
        for span in self._problems:
            stretch = self._curves.period_on_axis(span.x0, span.x1, axis)
            if stretch is not None:
                found.append(replace(span, x0=stretch[0], x1=stretch[1]))
        return found

    def vertical_markers(self, axis: XAxis) -> list[VerticalMarker]:
        """Return the failure, the warnings, and where the job continued with fewer nodes.

        Those of one step share a post.
        """
        failed = self._end[0] if self._end and self._end[1] is not JobState.INTERRUPTED else None
        words: dict[int, list[str]] = {} if failed is None else {failed: ["failed here"]}
        for alarm in self._alarms:
            words.setdefault(alarm.step, []).append(alarm.label)
        run, nodes = self._fewer
        for start in self._curves.run_starts():
            if nodes and start.run == run:
                words.setdefault(start.first_step, []).append(nodes)
        posts = []
        for step, x in self._placed(words, axis):
            text = ", ".join(words[step])
            posts.append(VerticalMarker(x, text) if step == failed else VerticalMarker(x, text, "warn", dashed=True))
        return posts

    def axis_marks(self, axis: XAxis) -> list[AxisMark]:
        on_axis = self._ends_of_runs(axis)
        kept = {each.step for each in self._checkpoints}
        for step, x in self._placed(self._ever_kept, axis):
            is_there = step in kept
            kind = MarkKind.CHECKPOINT if is_there else MarkKind.CHECKPOINT_REMOVED
            words = f"checkpoint of {formats.checkpoint(self._ever_kept[step]).lower()}"
            words += "" if is_there else " (deleted)"
            on_axis.append(AxisMark(x, kind, words))
        for kind, steps in (
            (MarkKind.EVALUATION, self._curves.evaluations()),
            (MarkKind.RATE_STEP, self._curves.rate_steps()),
        ):
            on_axis += [AxisMark(x, kind) for _, x in self._placed(steps.tolist(), axis)]
        return on_axis

    def _ends_of_runs(self, axis: XAxis) -> list[AxisMark]:
        """Return where runs stopped or failed; the last one only until the next begins."""
        ends: dict[int, tuple[MarkKind, str]] = {}
        for start in self._curves.run_starts():
            kind = None if start.previous_state is None else _ENDS.get(start.previous_state)
            if kind is not None and start.first_step > 1:
                # A run that resumed from an older checkpoint removed the later steps.
                ends[start.first_step - 1] = kind, f"run {start.run - 1} {kind.value}"
        if self._stopped_at is not None:
            ends[self._stopped_at] = MarkKind.STOP, f"stopped after step {self._stopped_at}"
        return [AxisMark(x, *ends[step]) for step, x in self._placed(ends, axis)]

    def _placed(self, steps: Iterable[float], axis: XAxis) -> list[tuple[int, float]]:
        """Return the steps and their places on an axis, without those that have no place on it."""
        wanted = np.asarray(sorted(steps), np.float64)
        places = self._curves.x_at_steps(wanted, axis)
        return [
            (round(step), x)
            for step, x in zip(wanted.tolist(), places.tolist(), strict=True)
            if math.isfinite(x)
        ]
