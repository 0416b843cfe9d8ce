"""Map values to the axes of a plot, each linear or logarithmic.

No Qt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from widgets.plots.curve_data import XAxis
from widgets.plots.growable_array import Floats


@dataclass(frozen=True)
class AxisMapping:
    """Map values to *coordinates* of the plot's ranges: the value, or its logarithm.

    Zero and negative values have no coordinate on a logarithmic axis: NaN.
    """

    axis: XAxis
    log_x: bool = False
    log_y: bool = False

    def x(self, x: float) -> float:
        """The coordinate of `x`, which is in the unit of the axis."""
        return _logarithm(x) if self.log_x else x

    def x_at(self, coordinate: float) -> float:
        """The value at a coordinate, in the unit of the axis."""
        return 10.0 ** min(max(coordinate, -300.0), 300.0) if self.log_x else coordinate

    def y(self, value: float) -> float:
        return _logarithm(value) if self.log_y else value

    def xs(self, xs: Floats) -> Floats:
        """The coordinates of rising `xs`, without values that have none."""
        return np.log10(xs[xs > 0]) if self.log_x else xs

    def ys(self, values: Floats) -> Floats:
        if not self.log_y:
            return values
        return np.log10(np.where(values > 0, values, math.nan))


def _logarithm(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan
