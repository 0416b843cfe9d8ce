"""Small marks on the x axis of a plot: what the run did there, beside what it measured."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from widgets.common import theme
from widgets.curves.marks import Frame

_H = 7
_HALF = 4.0
_APART_PX = 7
_NEAR_PX = 5


class MarkKind(Enum):
    """What happened; the value is what the read-out says of it."""

    EVALUATION = "evaluated"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_GONE = "checkpoint, removed since"
    RATE_STEP = "learning rate lowered"
    STOP = "stopped"


@dataclass(frozen=True)
class AxisMark:
    """Something at a place of the x axis; `text` says it more exactly than its kind does."""

    x: float
    kind: MarkKind
    text: str = ""

    @property
    def words(self) -> str:
        return self.text or self.kind.value


class AxisMarks:
    """The marks of a plot in the order of the axis: of a million, a look costs what is seen."""

    def __init__(self, marks: Sequence[AxisMark] = ()) -> None:
        self._kinds = {
            kind: sorted((one for one in marks if one.kind is kind), key=_place)
            for kind in MarkKind
        }

    def at(self, frame: Frame, x: float) -> tuple[AxisMark, ...]:
        """The marks under the pointer, one of each kind: the nearest."""
        reach = _NEAR_PX * _per_px(frame)
        near: list[AxisMark] = []
        for marks in self._kinds.values():
            begin = bisect_left(marks, x - reach, key=_place)
            end = bisect_right(marks, x + reach, key=_place)
            near += sorted(marks[begin:end], key=lambda mark: abs(mark.x - x))[:1]
        return tuple(near)

    def paint(self, painter: QPainter, frame: Frame) -> None:
        """A row of glyphs on the axis, each kind with its shape; of many a few are painted."""
        apart = _APART_PX * _per_px(frame)
        for kind, marks in self._kinds.items():
            x = frame.x0
            while True:
                # Ten thousand evaluations would be a bar across.
                index = bisect_left(marks, x, key=_place)
                if index == len(marks) or marks[index].x > frame.x1:
                    break
                _paint(painter, QPointF(frame.px(marks[index].x), frame.rect.bottom()), kind)
                x = marks[index].x + apart


def _place(mark: AxisMark) -> float:
    return mark.x


def _per_px(frame: Frame) -> float:
    """How much of the x axis one pixel is."""
    return (frame.x1 - frame.x0) / max(frame.rect.width(), 1.0)


def _paint(painter: QPainter, foot: QPointF, kind: MarkKind) -> None:
    t = theme.current()
    ink = t.q("rest") if kind is MarkKind.STOP else t.q("text3")
    x, y = foot.x(), foot.y()
    painter.setPen(QPen(t.q("surface"), 1))
    painter.setBrush(ink)
    if kind in (MarkKind.CHECKPOINT, MarkKind.CHECKPOINT_GONE):
        if kind is MarkKind.CHECKPOINT_GONE:
            painter.setPen(QPen(ink, 1))
            painter.setBrush(t.q("surface"))
        corners = [QPointF(x - _HALF, y), QPointF(x + _HALF, y), QPointF(x, y - _H)]
        painter.drawPolygon(QPolygonF(corners))
    elif kind is MarkKind.RATE_STEP:
        # A stair down, above the checkpoint that is often made at the same step.
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(ink, 1.5))
        stair = [(-_HALF, 2.0 * _H + 2), (0.0, 2.0 * _H + 2), (0.0, _H + 2.0), (_HALF, _H + 2.0)]
        painter.drawPolyline(QPolygonF([QPointF(x + dx, y - dy) for dx, dy in stair]))
    elif kind is MarkKind.STOP:
        painter.drawRect(QRectF(x - 3, y - _H, 6, 6))
    else:
        # Evaluations are many: no more than a short line, below the axis.
        painter.setPen(QPen(ink, 1))
        painter.drawLine(QPointF(x, y), QPointF(x, y + 4))
