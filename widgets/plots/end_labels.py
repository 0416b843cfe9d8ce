"""Place the names at the ends of a plot's curves so that none covers another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from widgets.common import theme
from widgets.common.painting import text_width
from widgets.plots.annotations import ABOVE, NAME_GAP, NAME_H, PlotGeometry, paint_dot


@dataclass(frozen=True)
class CurveEnd:
    """The end of a curve: its last point, and the name and value next to it.

    ``shift`` is the preferred distance of the name below the point, ``past`` the x of a post that
    it must be right of.
    """

    point: QPointF
    text: str
    colour: QColor
    shift: float = 0.0
    past: float = -math.inf


def paint_endings(
    painter: QPainter, frame: PlotGeometry, endings: Sequence[CurveEnd], named: bool
) -> None:
    """Paint a dot at each last point and, if there is room for all, its name and value."""
    for ending in endings:
        paint_dot(painter, ending.point, ending.colour)
    if not named or not endings:
        return
    for ending, room in zip(endings, name_rects(frame, endings), strict=True):
        painter.fillRect(room.adjusted(-2, 1, 2, -1), theme.current().q("surface", 0.8))
        painter.setFont(theme.font("small_strong"))
        painter.setPen(ending.colour)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(room.adjusted(0, 0, 2, 0), flags, ending.text)


def name_width(text: str) -> int:
    """The width of a curve's name right of its last point."""
    return NAME_GAP + text_width(text, "small_strong") + 2


def name_span(frame: PlotGeometry, ending: CurveEnd) -> tuple[float, float]:
    """The left and right end of the name: right of its point, or left if there is no room."""
    rect = frame.rect
    width = text_width(ending.text, "small_strong") + 1
    left = max(ending.point.x(), ending.past) + NAME_GAP
    if left + width > rect.right() + 1:
        # After a zoom, or as time advances: on a background of its own.
        left = max(min(rect.right() - width, ending.point.x() - width - NAME_GAP), rect.left())
    return left, left + min(width, rect.width())


def name_rects(frame: PlotGeometry, endings: Sequence[CurveEnd]) -> list[QRectF]:
    """The places of the names: right of their points, moved up or down if they would touch."""
    rect = frame.rect
    spans = [name_span(frame, ending) for ending in endings]
    middles = [0.0] * len(endings)
    # Only names that share a part of the x axis can touch.
    for group in _overlapping(spans):
        wanted = [endings[i].point.y() + endings[i].shift for i in group]
        places = spread_labels(wanted, NAME_H, rect.top() - ABOVE, rect.bottom())
        for i, place in zip(group, places, strict=True):
            middles[i] = place
    return [
        QRectF(left, middle - NAME_H / 2, right - left, NAME_H)
        for (left, right), middle in zip(spans, middles, strict=True)
    ]


def _overlapping(spans: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Indices of spans in groups: no two groups overlap."""
    groups: list[list[int]] = []
    end = float("-inf")
    for i in sorted(range(len(spans)), key=lambda i: spans[i][0]):
        if spans[i][0] < end:
            groups[-1].append(i)
        else:
            groups.append([i])
        end = max(end, spans[i][1])
    return groups


def spread_labels(wanted: Sequence[float], height: float, low: float, high: float) -> list[float]:
    """Return centres for labels of one height, without overlap, all within low…high.

    Each is as near to its preferred place as the others allow: labels that would touch form a
    group, which is centred at the mean of its preferred places. They keep their order. If there are
    too many, they begin at `low` and overflow at the other end.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[tuple[float, list[int]]] = []  # the centre of the group, its members

    def held(members: list[int]) -> tuple[float, list[int]]:
        half = height * len(members) / 2
        mean = sum(wanted[j] for j in members) / len(members)
        return max(min(mean, high - half), low + half), members

    for i in order:
        groups.append(held([i]))
        while len(groups) > 1:
            (above, upper), (below, lower) = groups[-2:]
            if below - above >= height * (len(upper) + len(lower)) / 2:
                break
            groups[-2:] = [held(upper + lower)]
    places = [0.0] * len(wanted)
    for middle, members in groups:
        for rank, i in enumerate(members):
            places[i] = middle + height * (rank - (len(members) - 1) / 2)
    return places
