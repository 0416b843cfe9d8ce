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
    NAME_H,
    Boundary,
    Ending,
    Frame,
    Post,
    Span,
    Threshold,
    curve_colour,
    name_span,
    name_width,
    paint_boundaries,
    paint_endings,
    paint_outliers,
    paint_posts,
    paint_span_texts,
    paint_thresholds,
)
from widgets.curves.pyramid import Floats

_ASIDE = 15.0


@dataclass(frozen=True)
class PlotMarks:
    """What stands on a plot beside its curves."""

    posts: tuple[Post, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    spans: tuple[Span, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    on_axis: AxisMarks = field(default_factory=AxisMarks)

    def past_posts(self, x: float, reach: float) -> float:
        """Where the name of a curve that ends at `x` begins: right of a post that it would meet."""
        return max([x, *(post.x for post in self.posts if x <= post.x <= x + reach)])

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
    marks: PlotMarks

    def paint(
        self,
        painter: QPainter,
        frame: Frame,
        curves: Iterable[tuple[str, DrawnCurve]],
        on_axis: Callable[[float], float],
    ) -> None:
        """Dots and names at the ends, and an arrow for each value out of the picture."""
        endings: list[Ending] = []
        ended: list[DrawnCurve] = []
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
                words = self.text(curve)
                reach = name_width(words) / frame.rect.width() * (frame.x1 - frame.x0)
                past = frame.px(self.marks.past_posts(x, reach))
                endings.append(Ending(frame.at(x, y_end), words, colour, past=past))
                ended.append(curve)
        if self.named:
            lines = [self._line(frame, curve) for curve in ended]
            endings = [
                replace(each, shift=_shift(each, name_span(frame, each), lines)) for each in endings
            ]
        paint_endings(painter, frame, _lifted_last(endings), self.named)

    def _line(self, frame: Frame, curve: DrawnCurve) -> tuple[Floats, Floats]:
        """Where a curve is, in pixels."""
        with np.errstate(divide="ignore", invalid="ignore"):
            y = np.log10(curve.y) if self.log_y else curve.y
        scale = frame.rect.width() / (frame.x1 - frame.x0)
        px = frame.rect.left() + (curve.x - frame.x0) * scale
        up = frame.rect.height() / (frame.y1 - frame.y0)
        return px, frame.rect.bottom() - (y - frame.y0) * up


def _shift(
    ending: Ending, span: tuple[float, float], lines: Sequence[tuple[Floats, Floats]]
) -> float:
    """How far the name goes aside, so that it stands on as little of the curves as it can.

    Of its own it stands on nothing, unless it had to go left of its point.
    """
    left, right = span
    beside = [y[(x > left) & (x < right)] for x, y in lines]
    below = np.concatenate(beside) - ending.point.y() if beside else np.empty(0)

    def covered(shift: float) -> int:
        return int((np.abs(below - shift) < NAME_H / 2).sum())

    return min((0.0, _ASIDE, -_ASIDE), key=covered)


def _lifted_last(endings: Sequence[Ending]) -> list[Ending]:
    """What is faint is painted first, so that no faint name covers the one that is meant."""
    return sorted(endings, key=lambda ending: ending.colour.alphaF())
