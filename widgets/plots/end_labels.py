"""The names of a plot's curves: at their ends, so that none covers another, or in a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from widgets.common import theme
from widgets.common.painting import paint_text, text_width
from widgets.plots.annotations import (
    LINE_W,
    NAME_GAP,
    NAME_H,
    TOP_MARGIN,
    PlotGeometry,
    curve_pen,
    paint_dot,
)


@dataclass(frozen=True)
class CurveEnd:
    """The end of a curve: its last point, and the name and value next to it.

    ``shift`` is the preferred distance of the name below the point, ``min_x`` the x of a marker
    left of the name.
    """

    point: QPointF
    text: str
    colour: QColor
    shift: float = 0.0
    min_x: float = -math.inf


def paint_curve_ends(
    painter: QPainter, frame: PlotGeometry, curve_ends: Sequence[CurveEnd], with_labels: bool
) -> None:
    """Paint a dot at each last point and, if all labels fit, its name and value."""
    for curve_end in curve_ends:
        paint_dot(painter, curve_end.point, curve_end.colour)
    if not with_labels or not curve_ends:
        return
    for curve_end, rect in zip(curve_ends, name_rects(frame, curve_ends), strict=True):
        painter.fillRect(rect.adjusted(-2, 1, 2, -1), theme.current().q("surface", 0.8))
        painter.setFont(theme.font("small_strong"))
        painter.setPen(curve_end.colour)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(rect.adjusted(0, 0, 2, 0), flags, curve_end.text)


def name_width(text: str) -> int:
    """The width of a curve's name right of its last point."""
    return NAME_GAP + text_width(text, "small_strong") + 2


def name_span(frame: PlotGeometry, curve_end: CurveEnd) -> tuple[float, float]:
    """The left and right end of the name: right of its point, or left if it does not fit."""
    rect = frame.rect
    width = text_width(curve_end.text, "small_strong") + 1
    name_x = max(curve_end.point.x(), curve_end.min_x) + NAME_GAP
    if name_x + width > rect.right() + 1:
        # After a zoom, or as time advances: on a background of its own.
        name_x = max(min(rect.right() - width, curve_end.point.x() - width - NAME_GAP), rect.left())
    return name_x, name_x + min(width, rect.width())


def name_rects(frame: PlotGeometry, curve_ends: Sequence[CurveEnd]) -> list[QRectF]:
    """The rectangles of the names: right of their points, moved up or down if they would touch."""
    rect = frame.rect
    spans = [name_span(frame, end) for end in curve_ends]
    centres = [0.0] * len(curve_ends)
    # Only names that share a part of the x axis can touch.
    for group in _overlapping_groups(spans):
        preferred_centres = [curve_ends[i].point.y() + curve_ends[i].shift for i in group]
        group_centres = spread_labels(
            preferred_centres, NAME_H, rect.top() - TOP_MARGIN, rect.bottom()
        )
        for i, centre in zip(group, group_centres, strict=True):
            centres[i] = centre
    return [
        QRectF(x0, centre - NAME_H / 2, x1 - x0, NAME_H)
        for (x0, x1), centre in zip(spans, centres, strict=True)
    ]


def _overlapping_groups(spans: Sequence[tuple[float, float]]) -> list[list[int]]:
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


def spread_labels(
    preferred_centres: Sequence[float], height: float, low: float, high: float
) -> list[float]:
    """Return centres for labels of one height, without overlap, all within low…high.

    Each is as near to its preferred centre as the others allow: labels that would touch form a
    group, centred at the mean of the preferred centres. Labels keep their order. If there are
    too many, they begin at `low` and overflow at the other end.
    """
    order = sorted(range(len(preferred_centres)), key=lambda i: preferred_centres[i])
    groups: list[tuple[float, list[int]]] = []  # the centre of the group, its members

    def make_group(members: list[int]) -> tuple[float, list[int]]:
        half_height = height * len(members) / 2
        mean = sum(preferred_centres[j] for j in members) / len(members)
        return max(min(mean, high - half_height), low + half_height), members

    for i in order:
        groups.append(make_group([i]))
        while len(groups) > 1:
            (upper_centre, upper_members), (lower_centre, lower_members) = groups[-2:]
            if (
                lower_centre - upper_centre
                >= height * (len(upper_members) + len(lower_members)) / 2
            ):
                break
            groups[-2:] = [make_group(upper_members + lower_members)]
    centres = [0.0] * len(preferred_centres)
    for centre, members in groups:
        for rank, i in enumerate(members):
            centres[i] = centre + height * (rank - (len(members) - 1) / 2)
    return centres


LEGEND_H = 20


class Legend(QWidget):
    """Names with a sample of their line, above a plot with more than four curves."""

    _LINE, _GAP, _ITEM_GAP = 18, 6, 16

    def __init__(self, left_px: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._left_px = left_px
        self._curves: list[tuple[str, int | str]] = []
        self.setFixedHeight(LEGEND_H)

    def show_curves(self, curves: list[tuple[str, int | str]]) -> None:
        self._curves = curves
        self.setAccessibleName(", ".join(name for name, _ in curves))
        self._update_height()
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._update_height()

    def paintEvent(self, event: QPaintEvent) -> None:
        self.paint(QPainter(self))

    def paint(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for (name, colour), rect in zip(self._curves, self._item_rects(), strict=True):
            centre_y, x = rect.center().y(), rect.left()
            painter.setPen(curve_pen(colour, LINE_W))
            painter.drawLine(QPointF(x, centre_y), QPointF(x + self._LINE, centre_y))
            text_rect = rect.adjusted(self._LINE + self._GAP, 0, 0, 0)
            paint_text(painter, text_rect, name, "small", "text2")

    def _update_height(self) -> None:
        rects = self._item_rects()
        self.setFixedHeight(round(rects[-1].bottom()) if rects else LEGEND_H)

    def _item_rects(self) -> list[QRectF]:
        rects: list[QRectF] = []
        x, y = float(self._left_px), 0.0
        max_width = max(self.width() - self._left_px, 1)
        for name, _ in self._curves:
            width = min(self._LINE + self._GAP + text_width(name, "small") + 1, max_width)
            if rects and x + width > self.width():
                x, y = float(self._left_px), y + LEGEND_H
            rects.append(QRectF(x, y, width, LEGEND_H))
            x += width + self._ITEM_GAP
        return rects
