"""All marks of one plot: what they are now, and painted in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from PySide6.QtGui import QColor, QPainter

from widgets.curves.axis_marks import AxisMarks
from widgets.curves.curve_data import XAxis
from widgets.curves.drawn_curve import FAINT_ALPHA, DrawnCurve
from widgets.curves.end_names import Ending, name_span, name_width, paint_endings
from widgets.curves.marks import (
    ABOVE,
    NAME_H,
    Boundary,
    Frame,
    Post,
    Span,
    Threshold,
    curve_colour,
    paint_boundaries,
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
        told = list(curves)
        for key, curve in told:
            with np.errstate(divide="ignore", invalid="ignore"):
                y = np.log10(curve.raw_y) if self.log_y else curve.raw_y
            # On a logarithmic axis zero is no value, not one that lies far below.
            seen = np.where(np.isinf(y), np.nan, y)
            paint_outliers(painter, frame, curve.raw_x, seen, self._colour(key, curve))
        paint_endings(painter, frame, _lifted_last(self.endings(frame, told, on_axis)), self.named)

    def endings(
        self,
        frame: Frame,
        curves: Iterable[tuple[str, DrawnCurve]],
        on_axis: Callable[[float], float],
    ) -> list[Ending]:
        """Of the curves whose ends are in the picture, where the names would rather stand."""
        endings: list[Ending] = []
        lines: list[tuple[Floats, Floats]] = []
        for key, curve in curves:
            if not curve.named or curve.last is None:
                continue
            x, y_end = curve.end(self.axis), on_axis(curve.last.smoothed)
            if frame.has(x) and frame.y0 <= y_end <= frame.y1:
                words = self.text(curve)
                reach = name_width(words) / frame.rect.width() * (frame.x1 - frame.x0)
                past = frame.px(self.marks.past_posts(x, reach))
                colour = self._colour(key, curve)
                endings.append(Ending(frame.at(x, y_end), words, colour, past=past))
                if self.named:
                    lines.append(self._line(frame, curve))
        if not self.named:
            return endings
        lines += self._thresholds(frame, on_axis)
        return [
            replace(each, shift=_shift(frame, each, name_span(frame, each), lines))
            for each in endings
        ]

    def _colour(self, key: str, curve: DrawnCurve) -> QColor:
        is_faint = bool(self.lifted) and key != self.lifted
        return curve_colour(curve.colour, FAINT_ALPHA if is_faint else 1.0)

    def _line(self, frame: Frame, curve: DrawnCurve) -> tuple[Floats, Floats]:
        """Where a curve is, in pixels."""
        scale = frame.rect.width() / (frame.x1 - frame.x0)
        px = frame.rect.left() + (curve.x - frame.x0) * scale
        up = frame.rect.height() / (frame.y1 - frame.y0)
        # What diverged is at infinity, too.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            y = np.log10(curve.y) if self.log_y else curve.y
            return px, frame.rect.bottom() - (y - frame.y0) * up

    def _thresholds(
        self, frame: Frame, on_axis: Callable[[float], float]
    ) -> list[tuple[Floats, Floats]]:
        """Where the lines across are, in pixels."""
        across = np.arange(frame.rect.left(), frame.rect.right())
        return [
            (across, np.full(len(across), frame.py(on_axis(one.y))))
            for one in self.marks.thresholds
        ]


def _shift(
    frame: Frame,
    ending: Ending,
    span: tuple[float, float],
    lines: Sequence[tuple[Floats, Floats]],
) -> float:
    """How far the name goes aside, so that it stands on as few lines as it can.

    Right of its point only those are that cross the whole plot.
    """
    left, right = span
    beside = [y[(x > left) & (x < right)] for x, y in lines]
    below = np.concatenate(beside) - ending.point.y() if beside else np.empty(0)

    highest = frame.rect.top() - ABOVE + NAME_H / 2 - ending.point.y()
    lowest = frame.rect.bottom() - NAME_H / 2 - ending.point.y()

    def covered(shift: float) -> int:
        there = max(min(shift, lowest), highest)
        return int((np.abs(below - there) < NAME_H / 2).sum())

    return min((0.0, _ASIDE, -_ASIDE, 2 * _ASIDE, -2 * _ASIDE), key=covered)


def _lifted_last(endings: Sequence[Ending]) -> list[Ending]:
    """What is faint is painted first, so that no faint name covers the one that is meant."""
    return sorted(endings, key=lambda ending: ending.colour.alphaF())
