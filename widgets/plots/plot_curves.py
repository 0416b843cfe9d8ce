"""All curves of one plot: their set, their drawing, and their common ranges."""

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
    """Curves by their keys, in the order of insertion.

    Args:
        box: The view box of pyqtgraph. It gets the lines of the curves.
        ratio: Returns the device pixels per pixel of the plot's screen.

    Attributes:
        smoothing: For the curves that allow it, from 0 (none) to below 1.
    """

    def __init__(self, box: Any, ratio: Callable[[], float]) -> None:
        self._box = box
        self._ratio = ratio
        self._curves: dict[str, DrawnCurve] = {}
        # Creating lines takes as long as filling and drawing them.
        self._spare: list[tuple[Any, Any]] = []
        self.smoothing = 0.0
        self._asked = ""

    def __getitem__(self, key: str) -> DrawnCurve:
        return self._curves[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def __len__(self) -> int:
        return len(self._curves)

    # -- Set of curves

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
        """Remove a curve; return True if it existed."""
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

    # -- Drawing

    @property
    def lifted(self) -> str:
        """Key of the highlighted curve, while the others are faint, "" for none."""
        return self._asked if self._asked in self._curves else ""

    def lift(self, key: str, view: View) -> bool:
        """Highlight one and draw the others faint, "" for none; return True if that is new.

        A curve that does not exist yet is highlighted when it is added.
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
        """Set the smoothing of all curves that allow it."""
        self.smoothing = weight
        for key, curve in self._curves.items():
            if curve.smooth:
                curve.data.set_smoothing(weight)
                self._pen(key, curve)

    def pen(self) -> None:
        """Use the colours of the current theme and the resolution of the current screen."""
        for key, curve in self._curves.items():
            self._pen(key, curve)

    def cut(self, view: View) -> bool:
        """Cut the points to the view; return False if nothing changed."""
        are_other = [curve.cut(view) for curve in self._curves.values()]
        return any(are_other)

    def draw(self, view: View) -> None:
        """Draw what was cut."""
        for key, curve in self._curves.items():
            curve.draw(view, faint=self.is_faint(key))

    def _pen(self, key: str, curve: DrawnCurve) -> None:
        curve.pen(faint=self.is_faint(key), lifted=key == self.lifted, ratio=self._ratio())

    # -- Common properties

    def named(self) -> list[DrawnCurve]:
        """Those with a name at their end and a line in the read-out."""
        return [curve for curve in self._curves.values() if curve.named]

    def has_points(self) -> bool:
        return any(len(curve.data) for curve in self._curves.values())

    def x_ranges(self, axis: XAxis, *, log: bool = False) -> list[Range]:
        """The range of each curve with points on this axis; logarithms if set."""
        told = [curve.data.x_range(axis, log=log) for curve in self._curves.values()]
        return [each for each in told if each is not None]

    def begin(self, axis: XAxis, *, log: bool = False) -> float:
        """The smallest first place; minus infinity without points."""
        return min((each[0] for each in self.x_ranges(axis, log=log)), default=-math.inf)

    def end(self, axis: XAxis, *, log: bool = False) -> float:
        """The largest last place; infinity without points."""
        return max((each[1] for each in self.x_ranges(axis, log=log)), default=math.inf)

    def left_out(self, view: View) -> str:
        """A sentence about the points that a logarithmic axis cannot show; "" if it shows all."""
        below = view.log_y and any(bool((c.raw_y <= 0).any()) for c in self._curves.values())
        points = sum(c.data.without_place(view.axis) for c in self._curves.values() if view.log_x)
        told = ["Values at or below 0 are gaps."] if below else []
        if points:
            verb = "is" if points == 1 else "are"
            told.append(f"{formats.plural(points, 'point')} at 0 {verb} not shown.")
        return " ".join(told)

    def early(self, view: View) -> list[tuple[Floats, int]]:
        """Input of `y_range.robust_range`: the cut points, and how many are the first of a run."""
        early = []
        for curve in self._curves.values():
            begins = curve.data.x_range(view.axis, log=view.log_x)
            in_view = begins is not None and begins[0] >= view.x0
            early.append((curve.raw_y, _EARLY_POINTS if in_view else 0))
        return early
