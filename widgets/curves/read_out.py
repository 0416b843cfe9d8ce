"""What the read-out of a plot says: the value of each curve at the pointer, and where that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from widgets.common import formats
from widgets.curves.curve_data import Sample, XAxis
from widgets.curves.drawn_curve import DrawnCurve
from widgets.curves.marks import Frame, ReadOutRow, curve_colour

_RAW_ROWS_UP_TO = 3


def read_rows(
    curves: Iterable[DrawnCurve],
    axis: XAxis,
    x: float,
    frame: Frame,
    on_axis: Callable[[float], float],
    value_text: Callable[[float], str],
    *,
    alone: bool = True,
) -> tuple[list[ReadOutRow], Sample | None]:
    """A line for each named curve, and the first one's nearest point.

    Args:
        on_axis: Where a value is on the y axis; NaN where it has no place.
        alone: All curves are of one run: what was measured stands below what is smoothed.
    """
    known = list(curves)
    rows: list[ReadOutRow] = []
    nearest: Sample | None = None
    for curve in known:
        sample = curve.data.at(axis, x) if curve.named else None
        if sample is None:
            continue
        if nearest is None:
            nearest = sample
        colour = curve_colour(curve.colour)
        y = on_axis(sample.smoothed)
        in_picture = math.isfinite(y) and frame.y0 <= y <= frame.y1
        point = frame.at(curve.x_of(sample, axis), y) if in_picture else None
        rows.append(ReadOutRow(colour, curve.name, value_text(sample.smoothed), point))
        if alone and curve.has_raw and len(known) <= _RAW_ROWS_UP_TO:
            rows.append(ReadOutRow(colour, f"{curve.name}, raw", value_text(sample.raw)))
    return rows, nearest


def place_text(axis: XAxis, x: float, sample: Sample | None, *, alone: bool = True) -> str:
    """ "step 7 800 · epoch 20 · 14:48": the axis first, then what else is known.

    Args:
        alone: All curves are of one run. At one step several runs are not at one time.
    """
    if axis is XAxis.CLOCK:
        return formats.clock_s(x)
    if sample is None:
        return ""
    step = f"step {formats.count(round(sample.step))}"
    epoch = f"epoch {sample.epoch:.4g}" if math.isfinite(sample.epoch) else ""
    time = formats.clock(sample.time_s) if math.isfinite(sample.time_s) else ""
    if axis is XAxis.EPOCH:
        parts = [epoch, step, time]
    elif axis is XAxis.TIME:
        parts = [f"after {formats.duration(x)}", step, epoch]
    else:
        parts = [step, epoch, time]
    return " · ".join(part for part in (parts if alone else parts[:1]) if part)
