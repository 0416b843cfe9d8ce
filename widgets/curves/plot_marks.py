"""All marks of one plot: what they are now, and painted in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from PySide6.QtGui import QPainter

from widgets.curves.axis_marks import AxisMarks
from widgets.curves.curve_data import XAxis
from widgets.curves.drawn_curve import FAINT_ALPHA, DrawnCurve
from widgets.curves.marks import (
    Boundary,
    Ending,
    Frame,
    Post,
    Span,
    Threshold,
    curve_colour,
    paint_boundaries,
    paint_endings,
    paint_outliers,
    paint_posts,
    paint_span_texts,
    paint_thresholds,
)


@dataclass(frozen=True)
class PlotMarks:
    """What stands on a plot beside its curves."""

    posts: tuple[Post, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    spans: tuple[Span, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    on_axis: AxisMarks = field(default_factory=AxisMarks)

    def paint(self, painter: QPainter, frame: Frame, on_axis: Callable[[float], float]) -> None:
        paint_span_texts(painter, frame, self.spans)
        paint_boundaries(painter, frame, self.boundaries)
        drawn = [replace(each, y=on_axis(each.y)) for each in self.thresholds]
        paint_thresholds(painter, frame, drawn)
        paint_posts(painter, frame, self.posts)
        self.on_axis.paint(painter, frame)


@dataclass(frozen=True)
class EndsOf:
    """The ends of a plot's curves: whether they have names, and which curve is lifted."""

    axis: XAxis
    log_y: bool
    named: bool
    lifted: str
    text: Callable[[DrawnCurve], str]

    def paint(
        self,
        painter: QPainter,
        frame: Frame,
        curves: Iterable[tuple[str, DrawnCurve]],
        on_axis: Callable[[float], float],
    ) -> None:
        """Dots and names at the ends, and an arrow for each value out of the picture."""
        endings: list[Ending] = []
        for key, curve in curves:
            faint = bool(self.lifted) and key != self.lifted
            colour = curve_colour(curve.colour, FAINT_ALPHA if faint else 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                y = np.log10(curve.raw_y) if self.log_y else curve.raw_y
            # On a logarithmic axis zero is no value, not one that lies far below.
            seen = np.where(np.isinf(y), np.nan, y)
            paint_outliers(painter, frame, curve.raw_x, seen, colour)
            if not curve.named or curve.last is None:
                continue
            x, y_end = curve.end(self.axis), on_axis(curve.last.smoothed)
            if frame.has(x) and frame.y0 <= y_end <= frame.y1:
                endings.append(Ending(frame.at(x, y_end), self.text(curve), colour))
        paint_endings(painter, frame, _lifted_last(endings), self.named)


def _lifted_last(endings: Sequence[Ending]) -> list[Ending]:
    """What is faint is painted first, so that no faint name covers the one that is meant."""
    return sorted(endings, key=lambda ending: ending.colour.alphaF())
