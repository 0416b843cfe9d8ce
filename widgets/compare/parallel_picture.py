"""Geometry and painting of parallel coordinates of one size."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from PySide6.QtCore import QLineF, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPixmap, QPolygonF

from backend.records.sweeps.parallel_coordinates import ParallelCoordinates, ParallelLine
from widgets.common import theme
from widgets.common.painting import fill_round, paint_text, round_pen, text_width
from widgets.common.theme import FOCUS_W, S1, S2, S3

_TOP, _BOTTOM, _SIDE = 44, 16, 48
_TEXT_H, _CELL_W = 18, 96
_BRUSH_W, _REACH = 16, 22
_NEAR = 6.0
_MOST_SMOOTH, _MOST_SOLID = 120, 40
"""Above these numbers of lines: no antialiasing; thin lines, shaded by their result."""
_SHADES = 8

Brushes = Mapping[int, tuple[float, float]]


class ParallelPicture:
    """Created again when the size or the jobs change: it draws hundreds of lines in a frame."""

    def __init__(self, shown: ParallelCoordinates, size: QSize) -> None:
        self._shown = shown
        self._size = size
        self._best_w = self._texts_of_last_w()
        xs = [self.axis_x(number) for number in range(len(shown.axes))]
        self._points = {
            line.job_id: [
                QPointF(x, self.y_of(place))
                for x, place in zip(xs, line.positions, strict=True)
                if place is not None
            ]
            for line in shown.lines
        }

    def axis_x(self, number: int) -> float:
        count = len(self._shown.axes)
        left, right = float(_SIDE), self._size.width() - float(_SIDE + self._best_w)
        return left if count < 2 else left + (right - left) * number / (count - 1)

    def y_of(self, place: float) -> float:
        return self._bottom - place * (self._bottom - _TOP)

    def share_at(self, y: float) -> float:
        """Return the position on an axis, as a share from below."""
        return min(max((self._bottom - y) / max(self._bottom - _TOP, 1.0), 0.0), 1.0)

    def points_of(self, line: ParallelLine) -> list[QPointF]:
        """Return the points of a line, without axes on which it has no value."""
        return self._points[line.job_id]

    def axis_at(self, x: float) -> int | None:
        """Return the number of the axis nearest to `x`, None if none is near."""
        for number in range(len(self._shown.axes)):
            if abs(x - self.axis_x(number)) <= _REACH / 2:
                return number
        return None

    def line_at(self, point: QPointF, among: Collection[str]) -> str:
        """Return the id of the job whose line is nearest, "" if none of these is near."""
        nearest, distance = "", _NEAR
        for line in self._shown.lines:
            if line.job_id not in among:
                continue
            points = self.points_of(line)
            for a, b in itertools.pairwise(points):
                if not a.x() <= point.x() <= b.x() or a.x() == b.x():
                    continue
                y = a.y() + (b.y() - a.y()) * (point.x() - a.x()) / (b.x() - a.x())
                # Along the normal: otherwise steep lines could hardly be hit.
                away = abs(y - point.y()) * (b.x() - a.x()) / QLineF(a, b).length()
                if away < distance:
                    nearest, distance = line.job_id, away
        return nearest

    # -- painting

    def render_background(self, ratio: float, chosen: Collection[str], brushes: Brushes) -> QPixmap:
        """Render all that the pointer does not change; unselected lines are grey."""
        background = QPixmap(self._size * ratio)
        background.setDevicePixelRatio(ratio)
        background.fill(Qt.GlobalColor.transparent)
        painter = QPainter(background)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.paint_background(painter, chosen, brushes)
        painter.end()
        return background

    def paint_background(
        self, painter: QPainter, chosen: Collection[str], brushes: Brushes
    ) -> None:
        """Paint the background on any device."""
        t = theme.current()
        lines = self._shown.lines
        grey = [line for line in lines if line.job_id not in chosen]
        clear = [line for line in lines if line.job_id in chosen and not line.is_best]
        self._paint_lines(painter, grey, QPen(t.q("line"), 1.0), smooth=False)
        self._paint_clear(painter, clear, crowded=len(lines) > _MOST_SOLID)
        best = [line for line in self._shown.best if line.job_id in chosen]
        self._paint_lines(painter, best, round_pen(t.q("good"), 3.0), smooth=True)
        # Above the lines, or the current line would cross the numbers.
        self._paint_axes(painter, brushes)
        self._name_best(painter, best)

    def paint_current(self, painter: QPainter, line: ParallelLine) -> None:
        t = theme.current()
        points = self.points_of(line)
        plates = [
            (number, text, self._plate_of_current(number, place, text))
            for number, (place, text) in enumerate(zip(line.positions, line.texts, strict=True))
            if place is not None
        ]
        named = [where for one in self._shown.best if (where := self._name_rect(one))]
        for number, _, box in plates:
            # A number that is half covered cannot be read.
            texts = self._mark_texts(number, number == len(line.positions) - 1)
            for where in (*named, *(where for where, _ in texts)):
                if where.intersects(box):
                    fill_round(painter, where.adjusted(-2, 0, 2, 0), t.q("surface"), 3)
        painter.setPen(round_pen(t.q("good" if line.is_best else "ink"), 3.0))
        painter.drawPolyline(QPolygonF(points))
        for number, text, box in plates:
            point = QPointF(self.axis_x(number), box.center().y())
            fill_round(painter, QRectF(point.x() - 4, point.y() - 4, 8, 8), t.q("ink"), 4)
            fill_round(painter, box, t.q("ink"), 4)
            inner = box.adjusted(S2, 0, -S1, 0)
            paint_text(painter, inner, text, "small_strong", "on_ink", elide_middle=True)

    def paint_axis_of_keys(self, painter: QPainter, number: int) -> None:
        """Highlight the axis that the keys brush, as strongly as a focus ring."""
        if self._shown.axes:
            x = self.axis_x(number)
            painter.setPen(QPen(theme.current().q("focus"), FOCUS_W))
            painter.drawLine(QPointF(x, _TOP - S1), QPointF(x, self._bottom + S1))

    # -- parts

    @property
    def _bottom(self) -> float:
        return float(self._size.height() - _BOTTOM)

    def _texts_of_last_w(self) -> int:
        """Return the width of the last axis's texts, which are on its right."""
        axes = self._shown.axes
        texts = [mark.text for mark in axes[-1].marks] if axes else []
        texts += [_best_text(line) for line in self._shown.best]
        return max((min(text_width(text, "tiny"), _CELL_W) for text in texts), default=0)

    def _paint_clear(
        self, painter: QPainter, lines: Sequence[ParallelLine], *, crowded: bool
    ) -> None:
        """Paint better jobs later, and stronger where there are many lines.

        All lines are opaque and one pixel thin then: 500 translucent ones take Qt five frames.
        """
        ink, background = theme.current().curve(0), theme.current().q("surface")
        smooth = len(lines) <= _MOST_SMOOTH
        if not crowded:
            self._paint_lines(
                painter, lines, QPen(_mixed(ink, background, 0.85), 1.6), smooth=smooth
            )
            return
        left = {line.job_id for line in lines}
        worst_first = [one for one in reversed(self._shown.ranked()) if one.job_id in left]
        size = max(-(-len(worst_first) // _SHADES), 1)
        for shade in range(_SHADES):
            pen = QPen(_mixed(ink, background, 0.2 + 0.7 * shade / (_SHADES - 1)), 1.0)
            some = worst_first[shade * size : (shade + 1) * size]
            self._paint_lines(painter, some, pen, smooth=smooth)

    def _paint_lines(
        self, painter: QPainter, lines: Sequence[ParallelLine], pen: QPen, *, smooth: bool
    ) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, smooth)
        painter.setPen(pen)
        for line in lines:
            painter.drawPolyline(self.points_of(line))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def _name_best(self, painter: QPainter, lines: Sequence[ParallelLine]) -> None:
        for line in lines:
            if where := self._name_rect(line):
                fill_round(painter, where, theme.current().q("surface"), 3)
                paint_text(painter, where, _best_text(line), "tiny", "good")

    def _name_rect(self, line: ParallelLine) -> QRectF | None:
        """Return where the value of a best job is painted, after the end of its line."""
        points = self.points_of(line)
        if not points:
            return None
        top = points[-1].y() - _TEXT_H / 2
        return QRectF(points[-1].x() + S2, top, self._best_w + 2, _TEXT_H)

    def _paint_axes(self, painter: QPainter, brushes: Brushes) -> None:
        t = theme.current()
        count = len(self._shown.axes)
        for number, axis in enumerate(self._shown.axes):
            x = self.axis_x(number)
            painter.setPen(QPen(t.q("line_strong"), 1.0))
            painter.drawLine(QPointF(x, _TOP), QPointF(x, self._bottom))
            is_last = number == count - 1
            room = (self._size.width() - 2 * _SIDE) / max(count - 1, 1) - S3
            wide = min(max(room, _CELL_W), text_width(axis.label, "small_strong") + S2)
            left = 0.0 if number == 0 else x - wide / 2
            left = min(max(left, 0.0), self._size.width() - wide)
            title = QRectF(left, 0, wide, 20)
            paint_text(painter, title, axis.label, "small_strong", "text", center=number > 0)
            if axis.is_log:
                note = QRectF(left, 17, wide, 14)
                paint_text(painter, note, "log", "tiny", "text3", center=number > 0)
            self._paint_marks(painter, number, is_last)
            ends = brushes.get(number)
            if ends is not None:
                top, bottom = self.y_of(ends[1]), self.y_of(ends[0])
                box = QRectF(x - _BRUSH_W / 2, top - 2, _BRUSH_W, bottom - top + 4)
                fill_round(painter, box, t.q("focus", 0.2), 4)
                painter.setPen(QPen(t.q("focus"), 1.5))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(box, 4, 4)

    def _paint_marks(self, painter: QPainter, number: int, is_last: bool) -> None:
        """Paint the texts of an axis, without those that would overlap."""
        x = self.axis_x(number)
        for mark in self._shown.axes[number].marks:
            y = self.y_of(mark.position)
            painter.setPen(QPen(theme.current().q("line_strong"), 1.0))
            painter.drawLine(QPointF(x - 3, y), QPointF(x + 3, y))
        for where, text in self._mark_texts(number, is_last):
            self._paint_plate(painter, where, text, "text2")

    def _mark_texts(self, number: int, is_last: bool) -> Iterator[tuple[QRectF, str]]:
        x, taken = self.axis_x(number), float("inf")
        for mark in self._shown.axes[number].marks:
            y = self.y_of(mark.position)
            if taken - y < _TEXT_H - 2:
                continue
            taken = y
            wide = min(text_width(mark.text, "tiny"), _CELL_W) + 2
            left = x + S2 if is_last else x - S2 - wide
            yield QRectF(max(left, 0.0), y - _TEXT_H / 2, wide, _TEXT_H), mark.text

    def _paint_plate(self, painter: QPainter, where: QRectF, text: str, tone: str) -> None:
        """Paint a text on a background that hides the lines behind it."""
        wide = min(float(text_width(text, "tiny")) + 2, where.width())
        plate = QRectF(where.left() - 2, where.top() + 1, wide + 4, where.height() - 2)
        fill_round(painter, plate, theme.current().q("surface", 0.85), 3)
        paint_text(
            painter, QRectF(where.left(), where.top(), wide, where.height()), text, "tiny", tone
        )

    def _plate_of_current(self, number: int, place: float, text: str) -> QRectF:
        """Return where the value of the current line is painted, next to an axis."""
        x = self.axis_x(number)
        wide = min(text_width(text, "small_strong"), 2 * _CELL_W) + 2 * S2
        is_last = number == len(self._shown.axes) - 1
        left = x + S2 if is_last else x - S2 - wide
        box = QRectF(max(left, 0.0), self.y_of(place) - 11, wide, 22)
        box.moveRight(min(box.right(), self._size.width() - 1.0))
        return box


def _mixed(ink: QColor, background: QColor, share: float) -> QColor:
    """Return ``share`` of the ink on the background, opaque."""
    rest = 1 - share
    return QColor.fromRgbF(
        ink.redF() * share + background.redF() * rest,
        ink.greenF() * share + background.greenF() * rest,
        ink.blueF() * share + background.blueF() * rest,
    )


def _best_text(line: ParallelLine) -> str:
    return f"{line.texts[-1]} best"
