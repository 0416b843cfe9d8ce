"""Small marks on the x axis of a plot: events of the run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from widgets.common import theme
from widgets.plots.annotations import HIT_RADIUS_PX, PlotGeometry
from widgets.plots.curve_data import AxisMapping
from widgets.plots.growable_array import Floats

_MARK_H = 7
_HALF_W = 4.0
_MIN_DISTANCE_PX = 7


class MarkKind(Enum):
    """The kind of an event; the value is its text in the read-out."""

    EVALUATION = "evaluated"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_REMOVED = "checkpoint, removed since"
    RATE_STEP = "learning rate lowered"
    STOP = "stopped"
    FAILURE = "failed"
    NON_FINITE = "NaN or infinite"


_COLOR_ROLES = {MarkKind.STOP: "rest", MarkKind.FAILURE: "bad", MarkKind.NON_FINITE: "bad"}


@dataclass(frozen=True)
class AxisMark:
    """An event at a coordinate of the x axis; `text` is more exact than its kind."""

    x: float
    kind: MarkKind
    text: str = ""

    @property
    def label(self) -> str:
        return self.text or self.kind.value


class AxisMarks:
    """The marks of a plot in axis order: with a million, a query costs what is visible."""

    def __init__(self, marks: Sequence[AxisMark] = ()) -> None:
        self._marks_by_kind = {
            kind: sorted((mark for mark in marks if mark.kind is kind), key=_mark_x)
            for kind in MarkKind
        }
        self._x_by_kind = {
            kind: [mark.x for mark in kind_marks]
            for kind, kind_marks in self._marks_by_kind.items()
        }

    def marks_near(self, frame: PlotGeometry, x: float) -> tuple[AxisMark, ...]:
        """The marks under the pointer, the nearest of each kind."""
        reach = HIT_RADIUS_PX * frame.per_px
        nearest_marks: list[AxisMark] = []
        for kind, xs in self._x_by_kind.items():
            start, end = bisect_left(xs, x - reach), bisect_right(xs, x + reach)
            near_marks = self._marks_by_kind[kind][start:end]
            nearest_marks += sorted(near_marks, key=lambda mark: abs(mark.x - x))[:1]
        return tuple(nearest_marks)

    def to_coordinates(self, mapping: AxisMapping) -> AxisMarks:
        """The same marks in coordinates of an axis; marks without a coordinate are dropped."""
        if not mapping.log_x:
            return self
        return AxisMarks(
            [
                replace(mark, x=mapping.x(mark.x))
                for marks in self._marks_by_kind.values()
                for mark in marks
                if mark.x > 0
            ]
        )

    def paint(self, painter: QPainter, frame: PlotGeometry) -> None:
        """Paint a row of glyphs on the axis, each kind with its shape."""
        for kind, xs in self._x_by_kind.items():
            paint_row(painter, frame, xs, kind)


def paint_row(
    painter: QPainter, frame: PlotGeometry, xs: Sequence[float] | Floats, kind: MarkKind
) -> None:
    """Paint a glyph at each of these rising coordinates; of many only a few."""
    min_distance = _MIN_DISTANCE_PX * frame.per_px
    x = frame.x0
    while True:
        # Ten thousand evaluations would form a bar.
        index = bisect_left(xs, x)
        if index == len(xs) or xs[index] > frame.x1:
            return
        _paint(painter, QPointF(frame.px(float(xs[index])), frame.rect.bottom()), kind)
        x = float(xs[index]) + min_distance


def _mark_x(mark: AxisMark) -> float:
    return mark.x


def _paint(painter: QPainter, foot: QPointF, kind: MarkKind) -> None:
    t = theme.current()
    ink = t.q(_COLOR_ROLES.get(kind, "text3"))
    x, y = foot.x(), foot.y()
    painter.setPen(QPen(t.q("surface"), 1))
    painter.setBrush(ink)
    if kind in (MarkKind.CHECKPOINT, MarkKind.CHECKPOINT_REMOVED):
        if kind is MarkKind.CHECKPOINT_REMOVED:
            painter.setPen(QPen(ink, 1))
            painter.setBrush(t.q("surface"))
        corners = [QPointF(x - _HALF_W, y), QPointF(x + _HALF_W, y), QPointF(x, y - _MARK_H)]
        painter.drawPolygon(QPolygonF(corners))
    elif kind is MarkKind.RATE_STEP:
        # A step down, above the checkpoint that is often made at the same step.
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(ink, 1.5))
        stair = [
            (-_HALF_W, 2.0 * _MARK_H + 2),
            (0.0, 2.0 * _MARK_H + 2),
            (0.0, _MARK_H + 2.0),
            (_HALF_W, _MARK_H + 2.0),
        ]
        painter.drawPolyline(QPolygonF([QPointF(x + dx, y - dy) for dx, dy in stair]))
    elif kind in (MarkKind.STOP, MarkKind.FAILURE):
        painter.drawRect(QRectF(x - 3, y - _MARK_H, 6, 6))
    elif kind is MarkKind.NON_FINITE:
        cross_lines = [QLineF(x - 3, y - 7, x + 3, y - 1), QLineF(x - 3, y - 1, x + 3, y - 7)]
        for colour, width in ((t.q("surface"), 4.0), (ink, 1.8)):
            painter.setPen(QPen(colour, width))
            painter.drawLines(cross_lines)
    else:
        # Evaluations are many: only a short line, below the axis.
        painter.setPen(QPen(ink, 1))
        painter.drawLine(QPointF(x, y), QPointF(x, y + 4))
