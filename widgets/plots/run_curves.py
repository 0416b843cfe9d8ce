"""The curves of one job, filled by a reader of its history.

No Qt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.metric_names import OF_NO_DATA, STALENESS, VALIDATION
from widgets.plots.curve_data import CurveData, GapReason, XAxis
from widgets.plots.growable_array import Floats

LOSS = "loss"
"""The metric that every step of every job has."""
_TITLES = {
    "loss": "Loss",
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm",
    "samples_per_second": "Samples/s",
    "staleness": "Staleness",
    "pushes per second": "Pushes/s",
    "server queue": "Waiting pushes",
}
_RATE_STEP_FACTOR = 0.85
"""A schedule's step lowers the rate by a tenth or more; a cosine by less than a hundredth."""


def metric_title(name: str) -> str:
    """A metric as a heading; names with capitals of their own ("mAP") stay unchanged."""
    if name.startswith(VALIDATION):
        return f"Validation {name.removeprefix(VALIDATION)}"
    return _TITLES.get(name, name[:1].upper() + name[1:] if name.islower() else name)


def plot_and_line(name: str) -> tuple[str, str]:
    """The plot of a metric, and the name of its line there."""
    if name in STALENESS:
        plot, _, line = name.partition(" ")
        return plot, line
    base_name = name.removeprefix(VALIDATION)
    return base_name, "train" if base_name == name else "validation"


def is_sparse(name: str) -> bool:
    """Return True if a line connects the values across steps without a value."""
    return name.startswith(VALIDATION) or name in OF_NO_DATA


def split_history(history: HistoryUpdate, max_points: int) -> Iterator[HistoryUpdate]:
    """Yield the update in parts of limited size."""
    for start in range(0, max(1, len(history.steps)), max_points):
        part = slice(start, start + max_points)
        yield replace(
            history,
            steps=history.steps[part],
            epochs=history.epochs[part],
            epochs_done=history.epochs_done[part],
            seconds=history.seconds[part],
            metrics={name: values[part] for name, values in history.metrics.items()},
            drop_from=history.drop_from if not start else None,
        )


class RunCurves:
    """The `CurveData` of each metric, all with the same values on every axis.

    A plot smooths the metric that it shows; hidden metrics are not smoothed, to save time.
    """

    def __init__(self) -> None:
        self._data: dict[str, CurveData] = {}
        self._run_starts: dict[int, RunStart] = {}
        self.started_s = 0.0
        """Unix time of the first point, 0 if there is none."""

    def names(self) -> tuple[str, ...]:
        return tuple(self._data)

    def get(self, name: str) -> CurveData | None:
        return self._data.get(name)

    def clear(self) -> None:
        self._data.clear()
        self._run_starts.clear()
        self.started_s = 0.0

    def append(self, history: HistoryUpdate) -> tuple[str, ...]:
        """Add points; points that a resumed run wrote again replace the earlier points.

        A metric that has no points any more is removed: a script's curve has another name since.

        Returns:
            The new metrics.
        """
        if history.drop_from is not None:
            self._remove_from(history.drop_from)
        for start in history.run_starts:
            self._run_starts[start.run] = start
        if len(history.steps):
            self.started_s = history.started_s
        steps = np.asarray(history.steps, np.float64)
        epoch_progress = history.epochs_done if len(history.epochs_done) else history.epochs
        epochs = np.asarray(epoch_progress, np.float64)
        times = np.asarray(history.seconds, np.float64) + history.started_s
        new_metrics = []
        for name, values in history.metrics.items():
            if name not in self._data:
                gaps = GapReason.NON_FINITE if name == LOSS else GapReason.NOT_MEASURED
                self._data[name] = CurveData(gap_reason=gaps)
                new_metrics.append(name)
            data = self._data[name]
            data.set_time_origin(history.started_s)
            column = np.asarray(values, np.float64)
            if is_sparse(name):
                is_measured = ~np.isnan(column)
                data.extend(
                    steps[is_measured], column[is_measured], epochs[is_measured], times[is_measured]
                )
            else:
                data.extend(steps, column, epochs, times)
        self._data = {
            name: data for name, data in self._data.items() if len(data) or name in history.metrics
        }
        return tuple(new_metrics)

    def run_starts(self) -> tuple[RunStart, ...]:
        """The starts of the runs of the job, including the first."""
        return tuple(self._run_starts.values())

    def evaluations(self) -> Floats:
        """The steps after which the job was evaluated, rising."""
        steps = [data.steps for name, data in self._data.items() if name.startswith(VALIDATION)]
        return np.unique(np.concatenate(steps)) if steps else np.empty(0)

    def rate_steps(self) -> Floats:
        """The first steps after the schedule lowered the learning rate in one step."""
        data = self._data.get("learning_rate")
        if data is None or len(data) < 2:
            return np.empty(0)
        rates = data.raw
        with np.errstate(invalid="ignore"):
            is_lowered = rates[1:] < _RATE_STEP_FACTOR * rates[:-1]
            # The end of a cosine falls by such shares too, but with each step.
            was_constant = np.concatenate(([True], rates[1:-1] >= 0.999 * rates[:-2]))
        steps: Floats = data.steps[1:][is_lowered & was_constant]
        return steps

    def x_at_steps(self, steps: Floats, axis: XAxis) -> Floats:
        """The values of steps on an axis: of the step itself, or of the last step before it."""
        if axis is XAxis.STEP:
            return steps
        data = max(self._data.values(), key=len, default=None)
        if data is None or not len(data):
            return np.full(len(steps), math.nan)
        return data.x_at_steps(steps, axis)

    def x_at_step(self, step: float, axis: XAxis) -> float | None:
        """The value of one step on an axis; None if it has none."""
        x = float(self.x_at_steps(np.array([step], np.float64), axis)[0])
        return x if math.isfinite(x) else None

    def period_on_axis(self, from_s: float, to_s: float, axis: XAxis) -> tuple[float, float] | None:
        """The range of a period of Unix time on an axis; None if fewer than two steps are in it."""
        data = max(self._data.values(), key=len, default=None)
        if data is None or not len(data) or not self.started_s:
            return None
        times = data.times_s
        start_s, end_s = max(from_s, float(times[0])), min(to_s, float(times[-1]))
        if start_s >= end_s:
            return None
        xs = data.x(axis)
        x0, x1 = (float(np.interp(time_s, times, xs)) for time_s in (start_s, end_s))
        return (x0, x1) if x1 > x0 else None

    def _remove_from(self, step: int) -> None:
        for data in self._data.values():
            data.truncate(step)
        self._run_starts = {
            run: start for run, start in self._run_starts.items() if start.first_step < step
        }
        if not any(map(len, self._data.values())):
            self.started_s = 0.0
