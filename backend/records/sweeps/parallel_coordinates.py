"""Jobs as lines over parallel axes: one axis for each setting that differs, then the metric.

Positions are shares of an axis, from 0 at the bottom to 1 at the top, so that drawing only scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from backend.records.jobs import flat_settings
from backend.records.jobs.comparison import best_mode, mark_best, rated_metrics
from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.settings import label, value_label
from backend.records.jobs.view import JobView

METRIC = "metric"
MOST_LINES = 500
_LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""
_MOST_MARKS = 12
_MIDDLES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class AxisMark:
    """A labelled value of an axis."""

    position: float
    text: str


@dataclass(frozen=True)
class ParallelAxis:
    """An axis. ``marks``: its values, or some round ones if there are many."""

    key: str
    label: str
    marks: tuple[AxisMark, ...] = ()
    is_log: bool = False


@dataclass(frozen=True)
class ParallelLine:
    """A job: its position and value on each axis, None and "" if it has none."""

    job_id: str
    name: str
    positions: tuple[float | None, ...]
    texts: tuple[str, ...]
    value: float | None = None
    is_best: bool = False


@dataclass(frozen=True)
class ParallelCoordinates:
    """All axes and lines. ``metric``: how the jobs are rated, "" if they do not agree on one."""

    axes: tuple[ParallelAxis, ...] = ()
    lines: tuple[ParallelLine, ...] = ()
    metric: str = ""
    best_mode: str = ""

    @property
    def best(self) -> tuple[ParallelLine, ...]:
        return tuple(line for line in self.lines if line.is_best)

    def ranked(self) -> tuple[ParallelLine, ...]:
        """Return the best first; jobs without a value last, in their own order."""
        sign = -1.0 if self.best_mode == "max" else 1.0
        return tuple(
            sorted(
                self.lines,
                key=lambda line: (line.value is None, sign * (line.value or 0.0)),
            )
        )


def parallel_plot(
    views: Sequence[JobView], format_value: Callable[[float], str] = "{:.4g}".format
) -> ParallelCoordinates:
    """Return the lines of these jobs, the first `MOST_LINES` of them, in their order.

    ``format_value`` formats a value of the metric.
    """
    views = views[:MOST_LINES]
    rows = [flat_settings.effective_settings(view) for view in views]
    keys = dict.fromkeys(key for settings in rows for key in settings)
    # A setting that only some jobs have adds nothing to the setting that it depends on.
    differing_keys = [
        key for key in keys if len({settings[key] for settings in rows if key in settings}) > 1
    ]
    metrics = rated_metrics(views)
    metric = metrics[0] if len(metrics) == 1 else ""
    mode = best_mode(metric, views) if metric else ""
    values = [_value(view, metric) for view in views]
    axes: list[ParallelAxis] = []
    columns: list[Sequence[tuple[float | None, str]]] = []
    for key in differing_keys:
        axis, column = setting_axis(key, [settings.get(key) for settings in rows])
        axes.append(axis)
        columns.append(column)
    if metric:
        title = f"Best {metric_label(metric)}"
        texts = ["" if value is None else format_value(value) for value in values]
        axis, column = _number_axis(METRIC, title, values, texts, format_value)
        axes.append(axis)
        columns.append(column)
    is_best = mark_best(values, mode)
    lines = tuple(
        ParallelLine(
            view.id,
            view.name,
            tuple(column[number][0] for column in columns),
            tuple(column[number][1] for column in columns),
            values[number],
            is_best[number],
        )
        for number, view in enumerate(views)
    )
    return ParallelCoordinates(tuple(axes), lines, metric, mode)


def jobs_in_brushes(
    lines: Sequence[ParallelLine], brushes: Mapping[int, tuple[float, float]]
) -> set[str]:
    """Return the jobs whose lines pass through every brush, an interval of its axis."""
    return {
        line.job_id
        for line in lines
        if all(_is_within(line.positions[axis], *limits) for axis, limits in brushes.items())
    }


def _is_within(position: float | None, low: float, high: float) -> bool:
    return position is not None and low <= position <= high


def _value(view: JobView, metric: str) -> float | None:
    if view.best_metric is None or view.best_metric[0] != metric:
        return None
    return view.best_metric[1] if math.isfinite(view.best_metric[1]) else None


def setting_axis(
    key: str, texts: Sequence[str | None]
) -> tuple[ParallelAxis, Sequence[tuple[float | None, str]]]:
    """Return the axis of a setting, and position and text of each job's value on it."""
    title = label(key)
    texts = [None if text is None else value_label(key, text) for text in texts]
    numbers = [_number(text) for text in texts]
    present_texts = [text for text in texts if text is not None]
    if all(_number(text) is not None for text in present_texts):
        shown_texts = ["" if text is None else text for text in texts]
        return _number_axis(key, title, numbers, shown_texts)
    choices = sorted(dict.fromkeys(present_texts))
    positions = {text: _share(n, len(choices)) for n, text in enumerate(choices)}
    marks = (
        tuple(AxisMark(positions[text], text) for text in choices)
        if len(choices) <= _MOST_MARKS
        else ()
    )
    column = [(None, "") if text is None else (positions[text], text) for text in texts]
    return ParallelAxis(key, title, marks), column


def _number_axis(
    key: str,
    title: str,
    values: Sequence[float | None],
    texts: Sequence[str],
    format_value: Callable[[float], str] | None = None,
) -> tuple[ParallelAxis, Sequence[tuple[float | None, str]]]:
    """Make an axis of numbers.

    With ``format_value`` they were measured, and the axis has round marks.
    """
    is_setting = format_value is None
    format_mark: Callable[[float], str] = "{:.3g}".format if format_value is None else format_value
    numbers = sorted({value for value in values if value is not None})
    if not numbers:
        return ParallelAxis(key, title), [(None, "")] * len(values)
    low, high = numbers[0], numbers[-1]
    is_log = is_setting and low > 0 and high / low >= _LOG_FROM

    def position_of(value: float) -> float:
        if high == low:
            return 0.5
        if is_log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def value_at(share: float) -> float:
        return low * (high / low) ** share if is_log else low + (high - low) * share

    if is_setting and len(numbers) <= _MOST_MARKS:
        text_by_value = dict(zip(values, texts))
        marks = tuple(AxisMark(position_of(value), text_by_value[value]) for value in numbers)
    else:
        shares = (0.0, *_MIDDLES, 1.0) if high > low else (0.5,)
        marks = tuple(AxisMark(share, format_mark(value_at(share))) for share in shares)
    column = [
        (None, "") if value is None else (position_of(value), text)
        for value, text in zip(values, texts)
    ]
    return ParallelAxis(key, title, marks, is_log), column


def _share(number: int, count: int) -> float:
    return number / (count - 1) if count > 1 else 0.5


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:  # Text: the axis has choices.
        return None
    return value if math.isfinite(value) else None
