"""The visible range of both axes of a plot, and their ticks.

No Qt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from widgets.plots import ticks
from widgets.plots.curve_data import XAxis
from widgets.plots.growable_array import Floats

_MAX_VALUE = 1e300  # beyond it the distance of two values may overflow
_MIN_HEIGHT_SHARE = 5e-5
"""Share of the values. In a narrower range all labels of six digits would be equal."""
_EMPTY: Floats = np.empty(0)
_MIN_POINTS, _MANY_POINTS = 5, 20
_SPIKE_REACH = 5
"""Spreads of the middle nine tenths, or of the middle half of a curve of few points."""
_MIN_SPREAD = 0.2
"""Share of the value: a value at most twice as large is no spike, however even the curve is."""
_MIN_DECADES = 2
_MIN_LEVEL_POINTS = 3

_Y_MARGIN = 8
"""Pixels: half a label of the axis at either end, and the dot of a last point."""
_MAX_NAME_SHARE = 0.4
"""Share of the plot's width; a longer name is left of its curve's end point."""

_NEAR_ZERO_SHARE = 0.1
"""Share of the range's end: a range that starts below this share starts at 0.

A run's first step is 1, its first validation is after an epoch, and both axes begin at 0, which has
a label.
"""

Range = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """The part of a linear y axis that is always in view: from `low` to `high`.

    With `shows_all_values` all values are in view: a measurement does not run away as a loss
    does. With a `step` the range extends to a multiple of `step` that is at least one `step` below
    the lowest value.
    """

    low: float
    high: float
    shows_all_values: bool = False
    step: float = 0.0


FROM_ZERO = Scale(0.0, 0.0)


def full_range(
    ranges: Sequence[Range], name_widths: Iterable[Range], *, log: bool = False
) -> Range | None:
    """The full x range, with space for names beyond its end.

    Args:
        ranges: The range of each curve.
        name_widths: For each name at the end of a curve its x, and its share of the plot's width.
        log: All coordinates are logarithms.
    """
    if not ranges:
        return None
    low, high = widen_empty_range(
        min(x_range[0] for x_range in ranges), max(x_range[1] for x_range in ranges)
    )
    if 0 < low < _NEAR_ZERO_SHARE * high and not log:
        low = 0.0
    return widen_for_names((low, high), name_widths)


def widen_for_names(x_range: Range, name_widths: Iterable[Range]) -> Range:
    """Widen a range for the names beyond its end; see `full_range`."""
    low, high = x_range
    for end, share in name_widths:
        if share < _MAX_NAME_SHARE and math.isfinite(end):
            high = max(high, (end - low * share) / (1 - share))
    return low, high


def widen_empty_range(low: float, high: float) -> Range:
    """Widen an empty range."""
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def value_range(
    curves: Sequence[tuple[Floats, bool]],
    thresholds: Iterable[float],
    height_px: float,
    *,
    log: bool,
    scale: Scale | None,
) -> Range:
    """The range of values to show, with a margin at either end; logarithms if `log`.

    Args:
        curves: As in `robust_range`.
        thresholds: Included if they are near.
        scale: Without one, the values determine the range.
    """
    low, high = robust_range(curves, log=log) or (0.0, 1.0)
    if scale is not None and not log:
        low, high = min(low, scale.low), max(high, scale.high)
        if scale.shows_all_values:
            finite_values = np.concatenate(
                [part[np.isfinite(part)] for part, _ in curves] or [np.empty(0)]
            )
            min_value = float(finite_values.min(initial=low + scale.step))
            low = min(low, min_value)
            if scale.step:
                low = min(low, math.floor(min_value / scale.step - 1) * scale.step)
            high = float(finite_values.max(initial=high))
    for y in thresholds:
        if math.isfinite(y) and abs(y - high) < 3 * (high - low):
            low, high = min(low, y), max(high, y)
    if scale is None and not log and 0 <= low < 0.35 * high:
        low = 0.0
    margin = (high - low) * _Y_MARGIN / max(height_px - 2 * _Y_MARGIN, _Y_MARGIN)
    return low - margin, high + margin


def robust_range(
    curves: Sequence[tuple[Floats, bool]], *, log: bool = False
) -> tuple[float, float] | None:
    """Return the y range that shows curves well, for any values.

    All values stay in view except the spikes of each curve, which would flatten the rest to a
    line, and values a million times the spread of all curves away (a run that diverges at once).

    Args:
        curves: For each curve the result of `CurveData.columns`, and whether it starts in view.
        log: Ignore values at or below zero.
    """
    parts: list[Floats] = []
    for series, starts_in_view in curves:
        finite_values = series[np.abs(series) <= _MAX_VALUE]  # excludes NaN as well
        plotted_values = np.log10(finite_values[finite_values > 0]) if log else finite_values
        parts.append(
            plotted_values[~_find_spikes(plotted_values, starts_in_view=starts_in_view, log=log)]
        )
    values = np.concatenate(parts) if parts else _EMPTY
    if not len(values):
        return None
    low, median, high = (float(quantile) for quantile in np.quantile(values, (0.05, 0.5, 0.95)))
    spread = high - low
    if spread <= 0:
        spread = max(abs(median) * 1e-3, 1e-12)
    near_values = values[np.abs(values - median) <= 1e6 * spread]
    bottom, top = float(near_values.min()), float(near_values.max())
    if top <= bottom:
        margin = max(abs(median) * 0.1, 1e-9)
        return bottom - margin, top + margin
    missing_half_height = (
        0.0 if log else (_MIN_HEIGHT_SHARE * max(abs(bottom), abs(top)) - (top - bottom)) / 2
    )
    return (
        (bottom - missing_half_height, top + missing_half_height)
        if missing_half_height > 0
        else (bottom, top)
    )


def _find_spikes(values: Floats, *, starts_in_view: bool, log: bool) -> npt.NDArray[np.bool_]:
    """Return True for each value at a large distance from the middle of its curve.

    Values at a visible start are no spikes if none is more than twice as distant as the first, nor
    are several values at the end on another level, as after a change of the learning rate.
    """
    spikes = np.zeros(len(values), bool)
    tail = 0.05 if len(values) >= _MANY_POINTS else 0.25
    # Fewer points have no level from which one of them could differ.
    while len(normal_values := values[~spikes]) >= _MIN_POINTS:
        low = np.quantile(normal_values, tail, method="higher")
        high = np.quantile(normal_values, 1 - tail, method="lower")
        distance = np.maximum(low - values, values - high)
        min_spread = _MIN_DECADES if log else _MIN_SPREAD * abs(low)
        outliers = distance > _SPIKE_REACH * (max(high - low, min_spread) or 1.0)
        start_count, end_count = _leading_count(outliers), _leading_count(outliers[::-1])
        if starts_in_view and start_count and distance[:start_count].max() <= 2 * distance[0]:
            outliers[:start_count] = False
        if end_count >= _MIN_LEVEL_POINTS:
            outliers[len(outliers) - end_count :] = False
        if not (outliers & ~spikes).any() or np.count_nonzero(outliers | spikes) > len(values) / 4:
            break
        spikes |= outliers
    return spikes


def _leading_count(flags: npt.NDArray[np.bool_]) -> int:
    return len(flags) if flags.all() else int(np.argmin(flags))


def y_ticks(
    y_range: Range, height_px: float, format_value: Callable[[float], str], *, log: bool
) -> list[tuple[float, str]]:
    """3 to 6 values and their labels."""
    max_count = min(max(int(height_px / 30), 2), 6)
    if log:
        return ticks.logarithmic(*y_range, max_count)
    return [(y, format_value(y)) for y, _ in ticks.linear(*y_range, max_count)]


def x_ticks(
    x_range: Range, width_px: int, axis: XAxis, *, log: bool = False
) -> list[tuple[float, str]]:
    max_count = min(max(width_px // 70, 2), 8)
    if log:
        make_ticks = ticks.elapsed_log if axis is XAxis.TIME else ticks.logarithmic
    else:
        make_ticks = {
            XAxis.STEP: ticks.linear,
            XAxis.EPOCH: ticks.linear,
            XAxis.TIME: ticks.elapsed,
            XAxis.CLOCK: ticks.clock,
        }[axis]
    axis_ticks = make_ticks(*x_range, max_count)
    if axis is not XAxis.STEP:
        return axis_ticks
    return [(x, text) for x, text in axis_ticks if _is_whole(10**x if log else x)]


def _is_whole(step: float) -> bool:
    # The error of a power of ten, and no more: a tenth of a step at ten million is not whole.
    return math.isclose(step, round(step), rel_tol=1e-13, abs_tol=1e-6)
