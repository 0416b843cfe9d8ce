"""Marks on a plot besides its curves, and their painting.

All functions paint in pixels of the plot's view, over the curves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from widgets.common import theme
from widgets.common.painting import paint_text, text_width
from widgets.common.theme import CURVE_DASH, SOLID_CURVES, Role
from widgets.plots.growable_array import Floats

LINE_W = 2.2
NAME_GAP, NAME_H = 9, 16
DOT = 3.5
HIT_RADIUS_PX = 5
"""The distance within which the pointer selects a mark."""
TOP_MARGIN = 6
"""Pixels of the view above its frame, for names at the top of a plot."""
_TITLE_H, _UNTITLED_TOP, _ROW_H, _SIDE = 24, 4, 18, 10
_MAX_OUTLIERS = 200
_MARKER_TEXT_TOP = 0.14
"""The highest position of a marker's text, as a share of the plot's height."""
_TEXT_OVERLAP_COST = 100_000
_BACKGROUND_ALPHA = 0.85
_SHADE_ALPHA = 0.14

_Coordinates = TypeVar("_Coordinates", float, Floats)


@dataclass(frozen=True)
class VerticalMarker:
    """A vertical line at a coordinate of the x axis: a run failed, or NaN appeared."""

    x: float
    text: str = ""
    color_role: str = "bad"
    is_dashed: bool = False


@dataclass(frozen=True)
class Boundary:
    """The start of a run of the job: a thin line with the run's number."""

    x: float
    number: int


@dataclass(frozen=True)
class AxisSpan:
    """A tinted span of the x axis: a GPU was slowed by heat."""

    x0: float
    x1: float
    color_role: str = "warn"
    text: str = ""


@dataclass(frozen=True)
class ThresholdLine:
    """A value with a name: "slows down at 85 °C"."""

    y: float
    text: str = ""
    color_role: str = "text3"


@dataclass(frozen=True)
class PlotGeometry:
    """The rectangle of a plot in pixels, and its ranges of x and y."""

    rect: QRectF
    x0: float
    x1: float
    y0: float
    y1: float

    def point(self, x: float, y: float) -> QPointF:
        return QPointF(self.px(x), self.py(y))

    def px(self, x: _Coordinates) -> _Coordinates:
        return self.rect.left() + (x - self.x0) / (self.x1 - self.x0) * self.rect.width()

    def py(self, y: _Coordinates) -> _Coordinates:
        return self.rect.bottom() - (y - self.y0) / (self.y1 - self.y0) * self.rect.height()

    def x_at(self, px: float) -> float:
        return self.x0 + (px - self.rect.left()) / self.rect.width() * (self.x1 - self.x0)

    def contains_x(self, x: float) -> bool:
        return self.x0 <= x <= self.x1

    @property
    def per_px(self) -> float:
        """The length of the x axis per pixel."""
        return (self.x1 - self.x0) / max(self.rect.width(), 1.0)


@dataclass(frozen=True)
class ReadOutRow:
    """A line of the read-out. `point` is marked on the curve if it is in the picture."""

    colour: QColor
    name: str
    value: str
    point: QPointF | None = None


def curve_colour(colour: int | str, alpha: float = 1.0) -> QColor:
    """The colour of a curve by its number, or a token of the theme."""
    t = theme.current()
    return t.curve(colour, alpha) if isinstance(colour, int) else t.q(colour, alpha)


def is_dashed(colour: int | str) -> bool:
    """Return True if a curve of this colour is dashed."""
    return isinstance(colour, int) and SOLID_CURVES <= colour < len(theme.current().curves)


def curve_pen(colour: int | str, width: float, alpha: float = 1.0) -> QPen:
    """The pen of a curve, the same in the plot and in the legend."""
    pen = QPen(curve_colour(colour, alpha), width)
    # At 2 px a round join looks no better and takes twice the time to draw.
    pen.setJoinStyle(Qt.PenJoinStyle.BevelJoin)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    if is_dashed(colour):
        pen.setDashPattern([length / width for length in CURVE_DASH])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen


def paint_boundaries(
    painter: QPainter, frame: PlotGeometry, boundaries: Sequence[Boundary]
) -> None:
    """Paint thin lines with the number of the run that begins there."""
    t = theme.current()
    for boundary in boundaries:
        if not frame.contains_x(boundary.x):
            continue
        x = round(frame.px(boundary.x)) + 0.5
        painter.setPen(QPen(t.q("line_strong"), 1))
        painter.drawLine(QPointF(x, frame.rect.top()), QPointF(x, frame.rect.bottom()))
        text = f"run {boundary.number}"
        label_rect = _line_label_rect(frame, x, frame.rect.top(), text, "tiny")
        _paint_on_background(painter, label_rect, text, "tiny", "text3")


def paint_vertical_markers(
    painter: QPainter,
    frame: PlotGeometry,
    markers: Sequence[VerticalMarker],
    count_points_under: Callable[[QRectF], int],
) -> None:
    """Paint events. Solid 2 px; dashed 1 px for minor ones.

    Args:
        count_points_under: Returns how much of the curves is in a rectangle: texts avoid curves.
    """
    text_rects: list[QRectF] = []
    for marker in sorted(markers, key=lambda marker: marker.x):
        if not frame.contains_x(marker.x):
            continue
        x = frame.px(marker.x)
        pen = QPen(theme.current().fill(marker.color_role), 1.0 if marker.is_dashed else 2.0)
        if marker.is_dashed:
            pen.setDashPattern([3, 3])
        painter.setPen(pen)
        painter.drawLine(QPointF(x, frame.rect.top()), QPointF(x, frame.rect.bottom()))
        if marker.text:
            text_rects.append(
                _marker_text_rect(frame, x, marker.text, text_rects, count_points_under)
            )
            _paint_on_background(
                painter, text_rects[-1], marker.text, "small_strong", marker.color_role
            )


def _marker_text_rect(
    frame: PlotGeometry,
    x: float,
    text: str,
    text_rects: Sequence[QRectF],
    count_points_under: Callable[[QRectF], int],
) -> QRectF:
    """The rectangle of a marker's text, as high as fits: over no text and few curves."""
    top, height = frame.rect.top(), frame.rect.height() - NAME_H
    rects = [
        _line_label_rect(
            frame,
            x,
            top + min(height * _MARKER_TEXT_TOP + line * NAME_H, height),
            text,
            "small_strong",
        )
        for line in range(max(int(height * (1 - _MARKER_TEXT_TOP) / NAME_H), 1))
    ]

    def overlap_cost(rect: QRectF) -> int:
        padded_rect = rect.adjusted(-NAME_GAP, 1, NAME_GAP, -1)
        return count_points_under(rect) + _TEXT_OVERLAP_COST * sum(
            padded_rect.intersects(text_rect) for text_rect in text_rects
        )

    return min(rects, key=overlap_cost)


def paint_thresholds(
    painter: QPainter, frame: PlotGeometry, thresholds: Sequence[ThresholdLine]
) -> None:
    """Paint dashed horizontal lines with their names at the left."""
    for threshold in thresholds:
        if not frame.y0 <= threshold.y <= frame.y1:
            continue
        y = round(frame.py(threshold.y)) + 0.5
        pen = QPen(theme.current().fill(threshold.color_role), 1)
        pen.setDashPattern([4, 3])
        painter.setPen(pen)
        painter.drawLine(QPointF(frame.rect.left(), y), QPointF(frame.rect.right(), y))
        if threshold.text:
            text_rect = QRectF(frame.rect.left() + 10, y - 18, frame.rect.width() - 20, 16)
            _paint_on_background(painter, text_rect, threshold.text, "tiny", threshold.color_role)


def paint_shades(painter: QPainter, frame: PlotGeometry, spans: Sequence[AxisSpan]) -> None:
    """Paint the tints of spans, behind the curves."""
    for span in spans:
        colour = theme.current().fill(span.color_role)
        colour.setAlphaF(_SHADE_ALPHA)
        rect = QRectF(frame.point(span.x0, frame.y1), frame.point(span.x1, frame.y0))
        painter.fillRect(rect & frame.rect, colour)


def paint_span_texts(painter: QPainter, frame: PlotGeometry, spans: Sequence[AxisSpan]) -> None:
    """Paint the texts of shaded spans at the bottom: their causes are usually at the top."""
    for span in spans:
        x0 = max(frame.px(span.x0), frame.rect.left())
        x1 = min(frame.px(span.x1), frame.rect.right())
        if span.text and text_width(span.text, "tiny") <= x1 - x0 - 8:
            rect = QRectF(x0 + 4, frame.rect.bottom() - 18, x1 - x0 - 8, 16)
            _paint_on_background(painter, rect, span.text, "tiny", span.color_role)


def paint_hidden_values_message(painter: QPainter, frame: PlotGeometry, message: str) -> None:
    """Paint the message about hidden values at the lower left, above the marks on the axis."""
    if message:
        rect = QRectF(frame.rect.left() + 10, frame.rect.bottom() - 36, frame.rect.width() - 20, 16)
        _paint_on_background(painter, rect, message, "tiny", "text3")


def paint_outliers(
    painter: QPainter, frame: PlotGeometry, x: Floats, y: Floats, colour: QColor
) -> None:
    """Paint a small arrow at the edge for each value outside the picture."""
    if not len(x):
        return
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    in_range = (x >= frame.x0) & (x <= frame.x1)
    for is_outlier, edge, direction in (
        (in_range & (y > frame.y1), frame.rect.top(), 1),
        (in_range & (y < frame.y0), frame.rect.bottom(), -1),
    ):
        columns = {round(frame.px(float(outlier_x))) for outlier_x in x[is_outlier]}
        for px in sorted(columns)[:_MAX_OUTLIERS]:
            tip = QPointF(px, edge)
            base = [QPointF(px - 3, edge + 5 * direction), QPointF(px + 3, edge + 5 * direction)]
            painter.drawPolygon(QPolygonF([tip, *base]))


def paint_dot(painter: QPainter, point: QPointF, colour: QColor) -> None:
    """Paint a point on a curve, with a ring that separates it from the line."""
    painter.setPen(QPen(theme.current().q("surface"), 2))
    painter.setBrush(colour)
    painter.drawEllipse(point, DOT + 0.5, DOT + 0.5)


def paint_pointer(
    painter: QPainter, frame: PlotGeometry, x: float, rows: Sequence[ReadOutRow]
) -> None:
    """Paint the dashed line under the pointer, and a dot on each curve."""
    pen = QPen(theme.current().q("text3"), 1)
    pen.setDashPattern([3, 3])
    painter.setPen(pen)
    px = round(frame.px(x)) + 0.5
    painter.drawLine(QPointF(px, frame.rect.top()), QPointF(px, frame.rect.bottom()))
    for row in rows:
        if row.point is not None:
            paint_dot(painter, row.point, row.colour)


def paint_read_out(
    painter: QPainter, frame: PlotGeometry, x: float, title: str, rows: Sequence[ReadOutRow]
) -> None:
    """Paint the box at the pointer: the position as `title`, and the value of each curve."""
    t = theme.current()
    # In a plot of one curve its title already has the name.
    is_single = not title and len(rows) == 1
    names_w = 0 if is_single else max((text_width(row.name, "small") for row in rows), default=0)
    values_w = max((text_width(row.value, "small_strong") for row in rows), default=0)
    width = max(
        names_w + values_w + (18 if is_single else 26) + 2 * _SIDE,
        text_width(title, "tiny") + 2 * _SIDE,
    )
    width = min(width, int(frame.rect.width()) - 8)
    header_h = _TITLE_H if title else _UNTITLED_TOP
    height = header_h + _ROW_H * len(rows) + 6
    px = frame.px(x)
    box_x = px + 12
    if box_x + width > frame.rect.right():
        box_x = max(px - 12 - width, frame.rect.left())
    box = QRectF(box_x, frame.rect.top() + 4, width, height)
    dots = [row.point for row in rows if row.point is not None]
    if any(box.adjusted(-DOT, 0, DOT, DOT).contains(dot) for dot in dots):
        lower_box = box.translated(
            0, frame.rect.height() - height - 2 * (box.top() - frame.rect.top())
        )
        if not any(lower_box.adjusted(-DOT, -DOT, DOT, 0).contains(dot) for dot in dots):
            box = lower_box
    painter.setPen(QPen(t.q("line_strong", 0.6), 1))
    painter.setBrush(t.q("popup"))
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
    content_rect = box.adjusted(_SIDE, 0, -_SIDE, 0)
    title_rect = QRectF(content_rect.left(), box.top() + 5, content_rect.width(), 16)
    if title:
        paint_text(painter, title_rect, title, "tiny", "text3")
    for i, row in enumerate(rows):
        line = QRectF(
            content_rect.left(), box.top() + header_h + _ROW_H * i, content_rect.width(), _ROW_H
        )
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(row.colour)
        painter.drawRoundedRect(QRectF(line.left(), line.top() + 7, 10, 3), 1.5, 1.5)
        if not is_single:
            name_rect = line.adjusted(16, 0, -values_w - 8, 0)
            paint_text(painter, name_rect, row.name, "small", "text2")
        paint_text(painter, line, row.value, "small_strong", "text", right=True)


def _line_label_rect(frame: PlotGeometry, x: float, y: float, text: str, role: Role) -> QRectF:
    """The rectangle right of a line, or left of it at the edge of the picture."""
    width = text_width(text, role) + 2
    label_x = x + 5 if x + 5 + width <= frame.rect.right() + 8 else x - 5 - width
    return QRectF(label_x, y, width, NAME_H)


def _paint_on_background(
    painter: QPainter, rect: QRectF, text: str, role: Role, color_role: str
) -> None:
    width = min(text_width(text, role), rect.width())
    background = QRectF(rect.left() - 2, rect.top() + 1, width + 4, rect.height() - 2)
    painter.fillRect(background, theme.current().q("surface", _BACKGROUND_ALPHA))
    paint_text(painter, rect, text, role, color_role)
