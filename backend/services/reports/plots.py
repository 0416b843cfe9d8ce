"""Plots of a report: thinned curves, round ticks, and the values that a reader sees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.records.jobs.history import HistoryUpdate
from backend.records.reports.report import DOTS, LINE, RINGS, SCALE, Curve, Plot, Reading
from backend.records.studies.table import StudyTable

_MAX_POINTS = 400
_MAX_READINGS, _FEW_READINGS, _FEW_CURVES = 48, 24, 4
_LOG_RATIO, _LOW_SHARE = 100.0, 10
"""From this ratio on, of the highest value to that which so many percent of the values are below, a
plot is logarithmic."""
_MAX_TICKS = 6
_HIGHEST = 1e150
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class CurvePoints:
    """The finite values of a curve. ``spread`` is half the height of each error bar."""

    name: str
    colour: int
    x: Floats
    y: Floats
    spread: Floats
    style: str = LINE


def has_epochs(history: HistoryUpdate) -> bool:
    """Return whether each step has its epoch; those of a script without epochs are NaN."""
    epochs_done = np.asarray(history.epochs_done, np.float64)
    return len(epochs_done) == len(history.steps) and bool(np.isfinite(epochs_done).all())


def curve_points(
    history: HistoryUpdate, metric: str, name: str, colour: int, *, by_epoch: bool
) -> CurvePoints | None:
    """Return the curve of a metric over epochs or steps; None without a finite value."""
    x_values = history.epochs_done if by_epoch else history.steps
    x = np.asarray(x_values, np.float64)
    y = np.asarray(history.metrics.get(metric, np.full(len(x), np.nan)), np.float64)
    is_finite = np.isfinite(y)
    x, y = x[is_finite], y[is_finite].clip(-_HIGHEST, _HIGHEST)
    if len(y) > _MAX_POINTS:
        # The lowest and the highest value of each part: a spike of a single step stays visible.
        parts = np.array_split(np.arange(len(y)), _MAX_POINTS // 2)
        extremes = [part[[y[part].argmin(), y[part].argmax()]] for part in parts]
        indexes = np.unique(np.concatenate([[0, len(y) - 1], *extremes]))
        x, y = x[indexes], y[indexes]
    return CurvePoints(name, colour, x, y, np.zeros(len(x))) if len(y) else None


def draw(
    title: str,
    x_title: str,
    curves: Sequence[CurvePoints],
    x_labels: Mapping[float, str] | None = None,
    *,
    may_be_log: bool = False,
) -> Plot:
    """Return the plot of curves, of which there is at least one.

    Args:
        x_labels: Replace the numbers of the x axis.
        may_be_log: The plot is logarithmic if most of its values are near its lower end.
    """
    low = min(float((curve.y - curve.spread).min()) for curve in curves)
    high = max(float((curve.y + curve.spread).max()) for curve in curves)
    usual_low = min(float(np.percentile(curve.y, _LOW_SHARE)) for curve in curves)
    is_log = may_be_log and low > 0 and high / usual_low >= _LOG_RATIO
    y_axis = _Axis(low, high, 0.04, is_upward=True, is_log=is_log)
    x_values = np.unique(np.concatenate([curve.x for curve in curves]))
    is_line = curves[0].style == LINE
    x_axis = _Axis(0.0 if is_line else x_values[0], x_values[-1], 0.0 if is_line else 0.08)
    limit = _MAX_READINGS if len(curves) <= _FEW_CURVES else _FEW_READINGS
    if len(x_values) > limit:
        x_values = x_values[np.linspace(0, len(x_values) - 1, limit).round().astype(int)]
    labels = x_labels or {float(x): f"{x_title} {round(x, 2):.9g}" for x in x_values}
    return Plot(
        title + (", logarithmic" if y_axis.is_log else ""),
        x_title,
        tuple(_curve(curve, x_axis, y_axis) for curve in curves),
        tuple((x_axis.at(x), labels[x]) for x in x_labels) if x_labels else x_axis.ticks(),
        y_axis.ticks(),
        tuple(_reading(float(x), labels[float(x)], curves, x_axis, y_axis) for x in x_values),
    )


def study_plot(table: StudyTable) -> Plot | None:
    """Return the means of a study with their standard deviations, and the published values."""
    if not any(row.value.n for row in table.rows):
        return None
    x_values = {
        row.name: row.plot_x if table.x else float(number) for number, row in enumerate(table.rows)
    }
    curves = []
    for colour, series in enumerate(dict.fromkeys(row.series for row in table.rows)):
        rows = [row for row in table.rows if row.series == series]
        means = [(x_values[row.name], row.value.mean, row.value.sd or 0.0) for row in rows]
        references = [(x_values[row.name], row.published, 0.0) for row in rows]
        for points, style, suffix in ((means, DOTS, ""), (references, RINGS, ", published")):
            array = np.array([point for point in points if point[1] is not None], np.float64)
            if len(array):
                name = (series or table.value.label) + suffix
                x, y, spread = array.T
                curves.append(CurvePoints(name, colour, x, y, spread, style))
    title = ", ".join(filter(None, (table.value.label, table.value.unit)))
    x_labels = {x_values[r.name]: f"{r.plot_x:g}" if table.x else r.name for r in table.rows}
    return draw(title, table.x, curves, x_labels)


def _curve(curve: CurvePoints, x_axis: _Axis, y_axis: _Axis) -> Curve:
    points, bars = [], []
    for x, y, spread in zip(curve.x, curve.y, curve.spread, strict=True):
        points.append((x_axis.at(x), y_axis.at(y)))
        if spread:
            bars.append((x_axis.at(x), y_axis.at(y + spread), y_axis.at(y - spread)))
    return Curve(curve.name, curve.colour, tuple(points), curve.style, tuple(bars))


def _reading(
    x: float, label: str, curves: Sequence[CurvePoints], x_axis: _Axis, y_axis: _Axis
) -> Reading:
    """Return the value of each curve at ``x``; of a line the last one before."""
    values = []
    for curve in curves:
        index = int(np.searchsorted(curve.x, x, "right")) - 1
        is_known = index >= 0 and x <= (curve.x[-1] if curve.style == LINE else curve.x[index])
        text = f"{curve.y[index]:.4g}" if is_known else ""
        if is_known and curve.spread[index]:
            text += f" ± {curve.spread[index]:.2g}"
        values.append((text, y_axis.at(curve.y[index]) if is_known else 0.0))
    return Reading(x_axis.at(x), label, tuple(values))


class _Axis:
    """The values between ``low`` and ``high``, and a margin, on the scale of a plot."""

    def __init__(
        self,
        low: float,
        high: float,
        margin: float,
        *,
        is_upward: bool = False,
        is_log: bool = False,
    ) -> None:
        self.is_log, self._is_upward = is_log, is_upward
        low, high = (math.log10(low), math.log10(high)) if is_log else (low, high)
        space = margin * (high - low) or (0.0 if high > low else abs(low) or 1.0)
        self._low, self._high = low - space, high + space

    def at(self, value: float) -> float:
        number = math.log10(value) if self.is_log else value
        share = (number - self._low) / (self._high - self._low)
        return round(float(SCALE * (1 - share if self._is_upward else share)), 1)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return positions and labels: multiples of 1, 2 or 5, or powers of ten."""
        rough_step = (self._high - self._low) / _MAX_TICKS
        power = 10.0 ** math.floor(math.log10(rough_step))
        step = next(
            factor * power for factor in (1, 2, 5, 10) if factor * power > 0.99 * rough_step
        )
        step = math.ceil(step) if self.is_log else step
        multiples = range(math.ceil(self._low / step), math.floor(self._high / step) + 1)
        values = [10.0 ** (n * step) if self.is_log else n * step for n in multiples]
        return tuple((self.at(value), f"{value:.6g}") for value in values)
