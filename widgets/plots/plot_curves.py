"""All curves of one plot: their set, and their common ranges."""

from __future__ import annotations

from collections.abc import Callable

from widgets.common import formats
from widgets.plots.annotations import PlotGeometry
from widgets.plots.axis_mapping import AxisMapping
from widgets.plots.curve_item import DrawnCurve
from widgets.plots.growable_array import Floats
from widgets.plots.plot_range import Range


class PlotCurves(dict[str, DrawnCurve]):
    """Curves by their keys, in the order of insertion.

    Attributes:
        smoothing: For the curves that allow it, from 0 (none) to below 1.
        requested_key: Key of the curve to highlight, which may not exist yet; "" for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.smoothing = 0.0
        self.requested_key = ""

    @property
    def highlighted_key(self) -> str:
        """Key of the highlighted curve, while the others are faint, "" for none."""
        return self.requested_key if self.requested_key in self else ""

    def is_faint(self, key: str) -> bool:
        return self.highlighted_key not in ("", key)

    def labelled_curves(self) -> list[DrawnCurve]:
        """The curves with a name at their end and a line in the read-out."""
        return [curve for curve in self.values() if curve.with_label]

    def has_points(self) -> bool:
        return any(len(curve.data) for curve in self.values())

    def x_ranges(self, mapping: AxisMapping) -> list[Range]:
        """The range of each curve with points on this axis, in coordinates."""
        ranges = [curve.data.x_range(mapping.axis, log=mapping.log_x) for curve in self.values()]
        return [x_range for x_range in ranges if x_range is not None]

    def hidden_values_message(
        self, mapping: AxisMapping, frame: PlotGeometry, value_text: Callable[[float], str]
    ) -> str:
        """The message about points that the axes do not show; "" if they show all."""
        has_nonpositive = mapping.log_y and any(bool((c.raw_y <= 0).any()) for c in self.values())
        hidden_count = sum(
            c.data.nonpositive_count(mapping.axis) for c in self.values() if mapping.log_x
        )
        messages = ["Values at or below 0 are gaps."] if has_nonpositive else []
        if hidden_count:
            verb = "is" if hidden_count == 1 else "are"
            messages.append(f"{formats.plural(hidden_count, 'point')} at 0 {verb} not shown.")
        outside_values = [
            y for curve in self.values() for y in curve.values_outside(mapping, frame)
        ]
        if outside_values:
            extreme = max(outside_values, key=abs)
            direction = "up" if extreme > 0 else "down"
            hint = "; log y shows them" if min(outside_values) > 0 and not mapping.log_y else ""
            messages.append(f"Values {direction} to {value_text(extreme)} are at the arrows{hint}.")
        return " ".join(messages)

    def values_and_starts(self, mapping: AxisMapping, x0: float) -> list[tuple[Floats, bool]]:
        """The input of `plot_range.robust_range`: raw values, and whether the first is in view."""
        ranges = [curve.data.x_range(mapping.axis, log=mapping.log_x) for curve in self.values()]
        return [
            (curve.raw_y, x_range is not None and x_range[0] >= x0)
            for curve, x_range in zip(self.values(), ranges, strict=True)
        ]
