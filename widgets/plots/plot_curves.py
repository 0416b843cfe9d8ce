"""All curves of one plot: which there are, how they are drawn, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from widgets.common import formats
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.curve_item import DrawnCurve, View
from widgets.plots.growable_array import Floats
from widgets.plots.plot_range import Range
from widgets.plots.plot_widget import curve_item

_EARLY_POINTS = 10


class PlotCurves(Mapping[str, DrawnCurve]):
    """Curves by their keys, in the order in which they came.

    Args:
        box: pyqtgraph's. It gets the lines of the curves.
        ratio: Dots to a pixel of the screen that the plot is on now.

    Attributes:
        smoothing: Of those that are to be smoothed, from 0 (not) to below 1.
    """

    def __init__(self, box: Any, ratio: Callable[[], float]) -> None:
        self._box = box
        self._ratio = ratio
        self._curves: dict[str, DrawnCurve] = {}
        # To make lines takes as long as to fill and to draw them.
        self._spare: list[tuple[Any, Any]] = []
        self.smoothing = 0.0
        self._asked = ""

    def __getitem__(self, key: str) -> DrawnCurve:
        return self._curves[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def __len__(self) -> int:
        return len(self._curves)

    # Which there are

    def put(
        self,
        key: str,
        name: str,
        data: CurveData,
        colour: int | str,
        *,
        smooth: bool,
        with_raw: bool,
        named: bool,
        width: float,
        fill: bool,
    ) -> None:
        """Add a curve, or change the one with this key."""
        old = self._curves.get(key)
        if old is None:
            raw, line = self._spare.pop() if self._spare else self._new_lines()
            line.show()
        else:
            raw, line = old.raw, old.line
        curve = DrawnCurve(name, data, colour, smooth, with_raw, named, width, fill, line, raw)
        self._curves[key] = curve
        if smooth:
            data.set_smoothing(self.smoothing)
        if old is None and key == self.lifted:
            self.pen()
        else:
            self._pen(key, curve)

    def remove(self, key: str) -> bool:
        """Take a curve out; whether there was one."""
        curve = self._curves.pop(key, None)
        if curve is None:
            return False
        for item in (curve.raw, curve.line):
            item.clear()
            item.hide()
        self._spare.append((curve.raw, curve.line))
        if key == self._asked:
            self.pen()
        return True

    def _new_lines(self) -> tuple[Any, Any]:
        raw, line = curve_item(1), curve_item(10)
        for item in (raw, line):
            self._box.addItem(item, ignoreBounds=True)
        return raw, line

    # How they are drawn

    @property
    def lifted(self) -> str:
        """Key of the curve that is drawn as usual while the others are faint, "" for none."""
        return self._asked if self._asked in self._curves else ""

    def lift(self, key: str, view: View) -> bool:
        """Draw one as usual and the others faint, "" for all as usual; whether that is new.

        One that is not there yet is lifted when it comes.
        """
        before, self._asked = self.lifted, key
        if self.lifted == before:
            return False
        for each, curve in self._curves.items():
            self._pen(each, curve)
            curve.draw(view, faint=self.is_faint(each))
        return True

    def is_faint(self, key: str) -> bool:
        return self.lifted not in ("", key)

    def smooth(self, weight: float) -> None:
        """Smooth all that are to be smoothed."""
        self.smoothing = weight
        for key, curve in self._curves.items():
            if curve.smooth:
                curve.data.set_smoothing(weight)
                self._pen(key, curve)

    def pen(self) -> None:
        """All in the colours of the theme now, for the screen now."""
        for key, curve in self._curves.items():
            self._pen(key, curve)

    def cut(self, view: View) -> bool:
        """Take from the points what is in view; False when that is as it was."""
        are_other = [curve.cut(view) for curve in self._curves.values()]
        return any(are_other)

    def draw(self, view: View) -> None:
        """Draw what was cut."""
        for key, curve in self._curves.items():
            curve.draw(view, faint=self.is_faint(key))

    def _pen(self, key: str, curve: DrawnCurve) -> None:
        curve.pen(faint=self.is_faint(key), lifted=key == self.lifted, ratio=self._ratio())

    # What they say together

    def named(self) -> list[DrawnCurve]:
        """Those with a name at their end and a line in the read-out."""
        return [curve for curve in self._curves.values() if curve.named]

    def has_points(self) -> bool:
        return any(len(curve.data) for curve in self._curves.values())

    def x_ranges(self, axis: XAxis, *, log: bool = False) -> list[Range]:
        """Where each begins and ends that has points on this axis; logarithms if told."""
        told = [curve.data.x_range(axis, log=log) for curve in self._curves.values()]
        return [each for each in told if each is not None]

    def begin(self, axis: XAxis, *, log: bool = False) -> float:
        """Where the first begins; minus infinity without one."""
        return min((each[0] for each in self.x_ranges(axis, log=log)), default=-math.inf)

    def end(self, axis: XAxis, *, log: bool = False) -> float:
        """Where the last ends; infinity without one."""
        return max((each[1] for each in self.x_ranges(axis, log=log)), default=math.inf)

    def left_out(self, view: View) -> str:
        """What a logarithmic axis cannot show of them, in a sentence; "" where it shows all."""
        below = view.log_y and any(bool((c.raw_y <= 0).any()) for c in self._curves.values())
        points = sum(c.data.without_place(view.axis) for c in self._curves.values() if view.log_x)
        told = ["Values at or below 0 are gaps."] if below else []
        if points:
            verb = "is" if points == 1 else "are"
            told.append(f"{formats.plural(points, 'point')} at 0 {verb} not shown.")
        return " ".join(told)

    def early(self, view: View) -> list[tuple[Floats, int]]:
        """For `y_range.robust_range`: what was cut, and how much of it is a run's beginning."""
        early = []
        for curve in self._curves.values():
            begins = curve.data.x_range(view.axis, log=view.log_x)
            in_view = begins is not None and begins[0] >= view.x0
            early.append((curve.raw_y, _EARLY_POINTS if in_view else 0))
        return early
