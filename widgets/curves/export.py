"""Curves as a table of text, to be read by a spreadsheet or another program.

No Qt.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable

import numpy as np

from widgets.curves.curve_data import CurveData, XAxis

HEADER = ("plot", "curve", "step", "epoch", "time", "value", "smoothed")


def curves_csv(
    curves: Iterable[tuple[str, str, CurveData]],
    axis: XAxis = XAxis.STEP,
    x0: float = -math.inf,
    x1: float = math.inf,
) -> bytes:
    """All points between `x0` and `x1` as CSV, one per line; a gap is an empty field.

    Args:
        curves: For each curve the plot it is in, its name and its points, so that all plots of a
            page fit into one file.  Times are seconds since 1970.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for plot, name, data in curves:
        if not len(data):
            continue
        x = data.x(axis)
        # A point that has no place on this axis is not between two places on it either.
        chosen = np.flatnonzero((x >= x0) & (x <= x1)) if len(x) else np.empty(0, int)
        columns = (data.steps, data.epochs, data.times_s, data.raw, data.smoothed)
        rows = zip(*(column[chosen].tolist() for column in columns), strict=True)
        writer.writerows((plot, name, *(_field(value) for value in row)) for row in rows)
    return text.getvalue().encode()


def _field(value: float) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
