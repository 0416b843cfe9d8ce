"""The pointer of a page's plots, and their read-out: each curve's value, and the position."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from PySide6.QtCore import QObject, Signal

from widgets.common import formats
from widgets.plots.annotations import HIT_RADIUS_PX, PlotGeometry, ReadOutRow, curve_colour
from widgets.plots.curve_data import AxisMapping, CurvePoint, XAxis
from widgets.plots.curve_item import DrawnCurve

_MAX_CURVES_WITH_RAW = 3
NON_FINITE_TEXT = "NaN or infinite"


def read_rows(
    curves: Iterable[DrawnCurve],
    x: float,
    frame: PlotGeometry,
    mapping: AxisMapping,
    value_text: Callable[[float], str],
    *,
    is_single_run: bool = True,
) -> tuple[list[ReadOutRow], CurvePoint | None]:
    """Return a line for each labelled curve, and the nearest point of the first of them.

    Args:
        x: In the unit of the x axis.
        is_single_run: All curves are of one run: raw values follow the smoothed values.
    """
    all_curves = list(curves)
    rows: list[ReadOutRow] = []
    nearest_point: CurvePoint | None = None
    for curve in all_curves:
        curve_point = curve.data.nearest_point(mapping.axis, x) if curve.with_label else None
        if curve_point is None:
            continue
        if nearest_point is None:
            nearest_point = curve_point
        colour = curve_colour(curve.colour)
        y = mapping.y(curve_point.smoothed)
        in_picture = math.isfinite(y) and frame.y0 <= y <= frame.y1
        coordinate = mapping.x(curve.point_x(curve_point, mapping.axis))
        point = frame.point(coordinate, y) if in_picture and math.isfinite(coordinate) else None
        name = curve.line_name if is_single_run else curve.name
        rows.append(ReadOutRow(colour, name, value_text(curve_point.smoothed), point))
        if is_single_run and curve.has_raw and len(all_curves) <= _MAX_CURVES_WITH_RAW:
            rows.append(ReadOutRow(colour, f"{curve.name}, raw", value_text(curve_point.raw)))
        for outlier in _outliers_near(curve, mapping.x(x), frame, mapping):
            if value_text(outlier) not in (rows[-1].value, value_text(curve_point.smoothed)):
                rows.append(ReadOutRow(colour, f"{curve.name}, out of view", value_text(outlier)))
    return rows, nearest_point


def nan_start_labels(
    curves: Iterable[DrawnCurve], coordinate: float, frame: PlotGeometry, mapping: AxisMapping
) -> Iterator[str]:
    """Yield the curves that are NaN from the pointer on, as text."""
    reach = HIT_RADIUS_PX * frame.per_px
    for curve in curves:
        nan_starts = mapping.xs(curve.data.nan_starts(mapping.axis))
        index = int(np.searchsorted(nan_starts, coordinate - reach, "left"))
        if curve.with_label and index < len(nan_starts) and nan_starts[index] <= coordinate + reach:
            yield f"{curve.name}: {NON_FINITE_TEXT}"


def _outliers_near(
    curve: DrawnCurve, coordinate: float, frame: PlotGeometry, mapping: AxisMapping
) -> Iterator[float]:
    """The extreme values outside the picture that an arrow near the pointer stands for."""
    reach = HIT_RADIUS_PX * frame.per_px
    near_values = curve.raw_y[
        (curve.raw_x >= coordinate - reach) & (curve.raw_x <= coordinate + reach)
    ]
    finite_values = near_values[np.isfinite(near_values)]
    if not len(finite_values):
        return
    low, high = float(finite_values.min()), float(finite_values.max())
    if mapping.y(high) > frame.y1:
        yield high
    if mapping.y(low) < frame.y0:
        yield low


def position_text(
    axis: XAxis, x: float, point: CurvePoint | None, *, is_single_run: bool = True
) -> str:
    """Return "step 7 800 · epoch 20 · 14:48": the axis first, then the other coordinates.

    Args:
        is_single_run: All curves are of one run. One step of several runs is at several times.
    """
    now_s = time.time()
    if axis is XAxis.CLOCK and (point is None or not is_single_run):
        return formats.time_with_day_s(x, now_s)
    if point is None:
        return ""
    step = f"step {formats.count(round(point.step))}"
    epoch = f"epoch {point.epoch:.4g}" if math.isfinite(point.epoch) else ""
    time_text = formats.time_with_day(point.time_s, now_s) if math.isfinite(point.time_s) else ""
    if axis is XAxis.EPOCH:
        parts = [epoch, step, time_text]
    elif axis is XAxis.TIME:
        parts = [f"after {formats.duration(x)}", step, epoch]
    elif axis is XAxis.CLOCK:
        # A node has no steps: its points are numbered by their times.
        parts = [
            formats.time_with_day_s(x, now_s),
            "" if point.step == point.time_s else step,
            epoch,
        ]
    else:
        parts = [step, epoch, time_text]
    return " · ".join(part for part in (parts if is_single_run else parts[:1]) if part)


class HoverLink(QObject):
    """Join the plots of a page. Make one link per page and pass it to each `CurvePanel`.

    Signals:
        pointer_moved: x under the pointer, in the unit of the x axis.
        pointer_left: The pointer left the plots.
    """

    pointer_moved = Signal(float)
    pointer_left = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._x: float | None = None

    @property
    def x(self) -> float | None:
        """The pointer's x, None if it is on no plot."""
        return self._x

    def point(self, x: float) -> None:
        """Set the pointer to `x`."""
        if x != self._x:
            self._x = x
            self.pointer_moved.emit(x)

    def leave(self) -> None:
        """Report that the pointer is on no plot."""
        if self._x is not None:
            self._x = None
            self.pointer_left.emit()
