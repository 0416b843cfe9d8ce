"""Small marks on the x axis of a plot: what the run did there, beside what it measured."""

from __future__ import annotations

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


def marks_at(frame: Frame, marks: Sequence[AxisMark], x: float) -> tuple[AxisMark, ...]:
    """The marks under the pointer, one of each kind: the nearest."""
    at = frame.px(x)
    near: dict[MarkKind, AxisMark] = {}
    for mark in sorted(marks, key=lambda mark: abs(mark.x - x)):
        if abs(frame.px(mark.x) - at) <= _NEAR_PX:
            near.setdefault(mark.kind, mark)
    return tuple(near.values())


def paint_axis_marks(painter: QPainter, frame: Frame, marks: Sequence[AxisMark]) -> None:
    """A row of glyphs on the axis, each kind with a shape of its own; of many a few are painted."""
    for kind in MarkKind:
        last = float("-inf")
        for mark in sorted((each for each in marks if each.kind is kind), key=lambda one: one.x):
            px = frame.px(mark.x)
            # Ten thousand evaluations would be a bar across.
            if frame.has(mark.x) and px - last >= _APART_PX:
                _paint(painter, QPointF(px, frame.rect.bottom()), kind)
                last = px


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
        # A stair down.
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(ink, 1.5))
        stair = [(-_HALF, _H + 2.0), (0.0, _H + 2.0), (0.0, 2.0), (_HALF, 2.0)]
        painter.drawPolyline(QPolygonF([QPointF(x + dx, y - dy) for dx, dy in stair]))
    elif kind is MarkKind.STOP:
        painter.drawRect(QRectF(x - 3, y - _H, 6, 6))
    else:
        # Evaluations are many: no more than a short line, below the axis.
        painter.setPen(QPen(ink, 1))
        painter.drawLine(QPointF(x, y), QPointF(x, y + 4))
