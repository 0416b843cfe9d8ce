"""Marks on the curves of a job: checkpoints, runs, warnings, and where it ended.

Has no widgets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Alarm
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.plots.annotations import AxisSpan, Boundary, VerticalMarker
from widgets.plots.axis_marks import AxisMark, MarkKind
from widgets.plots.curve_data import XAxis
from widgets.plots.run_curves import RunCurves

_END_KINDS = {
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
        self._checkpoint_names: dict[int, str] = {}
        self._end: tuple[int, JobState] | None = None
        self._stopped_step: int | None = None
        self._alarms: tuple[Alarm, ...] = ()
        self._problems: tuple[AxisSpan, ...] = ()
        self._node_loss: tuple[int, str] = (0, "")

    # Input; True if the marks have changed.

    def drop_repeated_steps(self, history: HistoryUpdate) -> None:
        """Remove the checkpoints of steps that a resumed run repeats."""
        if history.drop_from is not None:
            self._checkpoint_names = {
                step: name
                for step, name in self._checkpoint_names.items()
                if step < history.drop_from
            }
        if history.run_starts:
            self._stopped_step = None

    def show_view(self, view: JobView) -> bool:
        end = (view.step, view.state) if view.state in _END_KINDS else None
        continuation = view.status.continuation
        node_loss = (view.run, continuation.nodes) if continuation is not None else (0, "")
        if (end, view.status.alarms, node_loss) == (self._end, self._alarms, self._node_loss):
            return False
        self._end, self._alarms, self._node_loss = end, view.status.alarms, node_loss
        if view.state is JobState.INTERRUPTED:
            self._stopped_step = view.step
        return True

    def show_checkpoints(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Set the existing checkpoints; deleted checkpoints keep their mark."""
        self._checkpoints = checkpoints
        self._checkpoint_names |= {checkpoint.step: checkpoint.name for checkpoint in checkpoints}

    def show_problems(self, spans: Sequence[AxisSpan]) -> bool:
        """Set the problems of the job's GPUs, in Unix time; return whether they changed."""
        previous_spans, self._problems = self._problems, tuple(spans)
        return previous_spans != self._problems

    # Placement.

    def boundaries(self, axis: XAxis) -> list[Boundary]:
        starts = {
            start.first_step: start.run for start in self._curves.run_starts() if start.run > 1
        }
        return [Boundary(x, starts[step]) for step, x in self._positions(starts, axis)]

    def spans(self, axis: XAxis) -> list[AxisSpan]:
        """Return the problems of GPUs, limited to the steps made meanwhile."""
        spans_on_axis = []
        for span in self._problems:
            stretch = self._curves.period_on_axis(span.x0, span.x1, axis)
            if stretch is not None:
                spans_on_axis.append(replace(span, x0=stretch[0], x1=stretch[1]))
        return spans_on_axis

    def vertical_markers(self, axis: XAxis) -> list[VerticalMarker]:
        """Return the failure, the warnings, and where the job continued with fewer nodes.

        Events of the same step share a marker.
        """
        failed_step = (
            self._end[0] if self._end and self._end[1] is not JobState.INTERRUPTED else None
        )
        labels: dict[int, list[str]] = {} if failed_step is None else {failed_step: ["failed here"]}
        for alarm in self._alarms:
            labels.setdefault(alarm.step, []).append(alarm.label)
        run, nodes = self._node_loss
        for start in self._curves.run_starts():
            if nodes and start.run == run:
                labels.setdefault(start.first_step, []).append(nodes)
        markers = []
        for step, x in self._positions(labels, axis):
            text = ", ".join(labels[step])
            markers.append(
                VerticalMarker(x, text)
                if step == failed_step
                else VerticalMarker(x, text, "warn", is_dashed=True)
            )
        return markers

    def axis_marks(self, axis: XAxis) -> list[AxisMark]:
        marks = self._run_end_marks(axis)
        existing_steps = {checkpoint.step for checkpoint in self._checkpoints}
        for step, x in self._positions(self._checkpoint_names, axis):
            exists = step in existing_steps
            kind = MarkKind.CHECKPOINT if exists else MarkKind.CHECKPOINT_REMOVED
            label = f"checkpoint of {formats.checkpoint(self._checkpoint_names[step]).lower()}"
            label += "" if exists else " (deleted)"
            marks.append(AxisMark(x, kind, label))
        for kind, steps in (
            (MarkKind.EVALUATION, self._curves.evaluations()),
            (MarkKind.RATE_STEP, self._curves.rate_steps()),
        ):
            marks += [AxisMark(x, kind) for _, x in self._positions(steps.tolist(), axis)]
        return marks

    def _run_end_marks(self, axis: XAxis) -> list[AxisMark]:
        """Return where runs stopped or failed; the last end only until the next run begins."""
        run_ends: dict[int, tuple[MarkKind, str]] = {}
        for start in self._curves.run_starts():
            kind = None if start.previous_state is None else _END_KINDS.get(start.previous_state)
            if kind is not None and start.first_step > 1:
                # A run that resumed from an older checkpoint removed the later steps.
                run_ends[start.first_step - 1] = kind, f"run {start.run - 1} {kind.value}"
        if self._stopped_step is not None:
            run_ends[self._stopped_step] = MarkKind.STOP, f"stopped after step {self._stopped_step}"
        return [AxisMark(x, *run_ends[step]) for step, x in self._positions(run_ends, axis)]

    def _positions(self, steps: Iterable[float], axis: XAxis) -> list[tuple[int, float]]:
        """Return the steps that have a position on an axis, each with its x."""
        sorted_steps = np.asarray(sorted(steps), np.float64)
        positions = self._curves.x_at_steps(sorted_steps, axis)
        return [
            (round(step), x)
            for step, x in zip(sorted_steps.tolist(), positions.tolist(), strict=True)
            if math.isfinite(x)
        ]
