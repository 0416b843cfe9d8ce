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
_BRUSH_W, _AXIS_REACH = 16, 22
_LINE_REACH = 6.0
_MAX_SMOOTH_LINES, _MAX_SOLID_LINES = 120, 40
"""Above these numbers of lines: no antialiasing; thin lines, shaded by their result."""
_SHADES = 8

Brushes = Mapping[int, tuple[float, float]]


class ParallelPicture:
    """The picture of some jobs in one size, which draws hundreds of lines in a frame."""

    def __init__(self, coordinates: ParallelCoordinates, size: QSize) -> None:
        self._coordinates = coordinates
        self._size = size
        self._best_w = self._last_axis_text_w()
        xs = [self.axis_x(number) for number in range(len(coordinates.axes))]
        self._points = {
            line.job_id: [
                QPointF(x, self.y_of(position))
                for x, position in zip(xs, line.positions, strict=True)
                if position is not None
            ]
            for line in coordinates.lines
        }

    def axis_x(self, number: int) -> float:
        count = len(self._coordinates.axes)
        left_x, right_x = float(_SIDE), self._size.width() - float(_SIDE + self._best_w)
        return left_x if count < 2 else left_x + (right_x - left_x) * number / (count - 1)

    def y_of(self, position: float) -> float:
        return self._bottom - position * (self._bottom - _TOP)

    def share_at(self, y: float) -> float:
        """Return the position on an axis, as a share from below."""
        return min(max((self._bottom - y) / max(self._bottom - _TOP, 1.0), 0.0), 1.0)

    def points_of(self, line: ParallelLine) -> list[QPointF]:
        """Return the points of a line, without axes on which it has no value."""
        return self._points[line.job_id]

    def axis_at(self, x: float) -> int | None:
        """Return the number of the axis near `x`, None without an axis near it."""
        for number in range(len(self._coordinates.axes)):
            if abs(x - self.axis_x(number)) <= _AXIS_REACH / 2:
                return number
        return None

    def line_at(self, point: QPointF, job_ids: Collection[str]) -> str:
        """Return the id of the job in `job_ids` with the nearest line, "" if none is near."""
        nearest_job, distance = "", _LINE_REACH
        for line in self._coordinates.lines:
            if line.job_id not in job_ids:
                continue
            points = self.points_of(line)
            for a, b in itertools.pairwise(points):
                if not a.x() <= point.x() <= b.x() or a.x() == b.x():
                    continue
                y = a.y() + (b.y() - a.y()) * (point.x() - a.x()) / (b.x() - a.x())
                # Along the normal: otherwise steep lines could hardly be hit.
                line_distance = abs(y - point.y()) * (b.x() - a.x()) / QLineF(a, b).length()
                if line_distance < distance:
                    nearest_job, distance = line.job_id, line_distance
        return nearest_job

    # -- painting

    def render_background(
        self, ratio: float, selected_jobs: Collection[str], brushes: Brushes
    ) -> QPixmap:
        """Render everything that the pointer does not change; unselected lines are grey."""
        background = QPixmap(self._size * ratio)
        background.setDevicePixelRatio(ratio)
        background.fill(Qt.GlobalColor.transparent)
        painter = QPainter(background)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.paint_background(painter, selected_jobs, brushes)
        painter.end()
        return background

    def paint_background(
        self, painter: QPainter, selected_jobs: Collection[str], brushes: Brushes
    ) -> None:
        """Paint the background on any device."""
        t = theme.current()
        lines = self._coordinates.lines
        unselected_lines = [line for line in lines if line.job_id not in selected_jobs]
        selected_lines = [
            line for line in lines if line.job_id in selected_jobs and not line.is_best
        ]
        self._paint_lines(painter, unselected_lines, QPen(t.q("line"), 1.0), smooth=False)
        self._paint_selected(painter, selected_lines, is_crowded=len(lines) > _MAX_SOLID_LINES)
        best_lines = [line for line in self._coordinates.best if line.job_id in selected_jobs]
        self._paint_lines(painter, best_lines, round_pen(t.q("good"), 3.0), smooth=True)
        # Above the lines, or the current line would cross the numbers.
        self._paint_axes(painter, brushes)
        self._paint_best_names(painter, best_lines)

    def paint_current(self, painter: QPainter, line: ParallelLine) -> None:
        t = theme.current()
        points = self.points_of(line)
        plates = [
            (number, text, self._current_plate_rect(number, position, text))
            for number, (position, text) in enumerate(zip(line.positions, line.texts, strict=True))
            if position is not None
        ]
        name_rects = [
            text_rect
            for best_line in self._coordinates.best
            if (text_rect := self._name_rect(best_line))
        ]
        for number, _, plate_rect in plates:
            # A number that is half covered cannot be read.
            mark_texts = self._mark_texts(number, number == len(line.positions) - 1)
            for text_rect in (*name_rects, *(text_rect for text_rect, _ in mark_texts)):
                if text_rect.intersects(plate_rect):
                    fill_round(painter, text_rect.adjusted(-2, 0, 2, 0), t.q("surface"), 3)
        painter.setPen(round_pen(t.q("good" if line.is_best else "ink"), 3.0))
        painter.drawPolyline(QPolygonF(points))
        for number, text, plate_rect in plates:
            point = QPointF(self.axis_x(number), plate_rect.center().y())
            fill_round(painter, QRectF(point.x() - 4, point.y() - 4, 8, 8), t.q("ink"), 4)
            fill_round(painter, plate_rect, t.q("ink"), 4)
            label_rect = plate_rect.adjusted(S2, 0, -S1, 0)
            paint_text(painter, label_rect, text, "small_strong", "on_ink", elide_middle=True)

    def paint_key_axis(self, painter: QPainter, number: int) -> None:
        """Highlight the axis that the keys brush, as strongly as a focus ring."""
        if self._coordinates.axes:
            x = self.axis_x(number)
            painter.setPen(QPen(theme.current().q("focus"), FOCUS_W))
            painter.drawLine(QPointF(x, _TOP - S1), QPointF(x, self._bottom + S1))

    # -- parts

    @property
    def _bottom(self) -> float:
        return float(self._size.height() - _BOTTOM)

    def _last_axis_text_w(self) -> int:
        """Return the width of the last axis's texts, which are on its right."""
        axes = self._coordinates.axes
        texts = [mark.text for mark in axes[-1].marks] if axes else []
        texts += [_best_text(line) for line in self._coordinates.best]
        return max((min(text_width(text, "tiny"), _CELL_W) for text in texts), default=0)

    def _paint_selected(
        self, painter: QPainter, lines: Sequence[ParallelLine], *, is_crowded: bool
    ) -> None:
        """Paint better jobs later, and stronger where there are many lines.

        All lines are opaque and one pixel thin then: 500 translucent lines take Qt five frames.
        """
        ink, background = theme.current().curve(0), theme.current().q("surface")
        smooth = len(lines) <= _MAX_SMOOTH_LINES
        if not is_crowded:
            self._paint_lines(
                painter, lines, QPen(_mix_colors(ink, background, 0.85), 1.6), smooth=smooth
            )
            return
        job_ids = {line.job_id for line in lines}
        worst_first = [
            line for line in reversed(self._coordinates.ranked()) if line.job_id in job_ids
        ]
        size = max(-(-len(worst_first) // _SHADES), 1)
        for shade in range(_SHADES):
            pen = QPen(_mix_colors(ink, background, 0.2 + 0.7 * shade / (_SHADES - 1)), 1.0)
            shade_lines = worst_first[shade * size : (shade + 1) * size]
            self._paint_lines(painter, shade_lines, pen, smooth=smooth)

    def _paint_lines(
        self, painter: QPainter, lines: Sequence[ParallelLine], pen: QPen, *, smooth: bool
    ) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, smooth)
        painter.setPen(pen)
        for line in lines:
            painter.drawPolyline(self.points_of(line))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def _paint_best_names(self, painter: QPainter, lines: Sequence[ParallelLine]) -> None:
        for line in lines:
            if name_rect := self._name_rect(line):
                fill_round(painter, name_rect, theme.current().q("surface"), 3)
                paint_text(painter, name_rect, _best_text(line), "tiny", "good")

    def _name_rect(self, line: ParallelLine) -> QRectF | None:
        """Return the rectangle of the value of a best job, after the end of its line."""
        points = self.points_of(line)
        if not points:
            return None
        top = points[-1].y() - _TEXT_H / 2
        return QRectF(points[-1].x() + S2, top, self._best_w + 2, _TEXT_H)

    def _paint_axes(self, painter: QPainter, brushes: Brushes) -> None:
        t = theme.current()
        count = len(self._coordinates.axes)
        for number, axis in enumerate(self._coordinates.axes):
            x = self.axis_x(number)
            painter.setPen(QPen(t.q("line_strong"), 1.0))
            painter.drawLine(QPointF(x, _TOP), QPointF(x, self._bottom))
            is_last = number == count - 1
            max_title_w = (self._size.width() - 2 * _SIDE) / max(count - 1, 1) - S3
            title_w = min(max(max_title_w, _CELL_W), text_width(axis.label, "small_strong") + S2)
            title_x = 0.0 if number == 0 else x - title_w / 2
            title_x = min(max(title_x, 0.0), self._size.width() - title_w)
            title_rect = QRectF(title_x, 0, title_w, 20)
            paint_text(painter, title_rect, axis.label, "small_strong", "text", center=number > 0)
            if axis.is_log:
                note_rect = QRectF(title_x, 17, title_w, 14)
                paint_text(painter, note_rect, "log", "tiny", "text3", center=number > 0)
            self._paint_marks(painter, number, is_last)
            brush = brushes.get(number)
            if brush is not None:
                top, bottom = self.y_of(brush[1]), self.y_of(brush[0])
                brush_rect = QRectF(x - _BRUSH_W / 2, top - 2, _BRUSH_W, bottom - top + 4)
                fill_round(painter, brush_rect, t.q("focus", 0.2), 4)
                painter.setPen(QPen(t.q("focus"), 1.5))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(brush_rect, 4, 4)

    def _paint_marks(self, painter: QPainter, number: int, is_last: bool) -> None:
        """Paint the texts of an axis, without overlapping texts."""
        x = self.axis_x(number)
        for mark in self._coordinates.axes[number].marks:
            y = self.y_of(mark.position)
            painter.setPen(QPen(theme.current().q("line_strong"), 1.0))
            painter.drawLine(QPointF(x - 3, y), QPointF(x + 3, y))
        for text_rect, text in self._mark_texts(number, is_last):
            self._paint_plate(painter, text_rect, text, "text2")

    def _mark_texts(self, number: int, is_last: bool) -> Iterator[tuple[QRectF, str]]:
        x, previous_y = self.axis_x(number), float("inf")
        for mark in self._coordinates.axes[number].marks:
            y = self.y_of(mark.position)
            if previous_y - y < _TEXT_H - 2:
                continue
            previous_y = y
            text_w = min(text_width(mark.text, "tiny"), _CELL_W) + 2
            text_x = x + S2 if is_last else x - S2 - text_w
            yield QRectF(max(text_x, 0.0), y - _TEXT_H / 2, text_w, _TEXT_H), mark.text

    def _paint_plate(
        self, painter: QPainter, text_rect: QRectF, text: str, color_role: str
    ) -> None:
        """Paint a text on a background that hides the lines behind it."""
        text_w = min(float(text_width(text, "tiny")) + 2, text_rect.width())
        plate_rect = QRectF(
            text_rect.left() - 2, text_rect.top() + 1, text_w + 4, text_rect.height() - 2
        )
        fill_round(painter, plate_rect, theme.current().q("surface", 0.85), 3)
        paint_text(
            painter,
            QRectF(text_rect.left(), text_rect.top(), text_w, text_rect.height()),
            text,
            "tiny",
            color_role,
        )

    def _current_plate_rect(self, number: int, position: float, text: str) -> QRectF:
        """Return the rectangle of the value of the current line, next to an axis."""
        x = self.axis_x(number)
        plate_w = min(text_width(text, "small_strong"), 2 * _CELL_W) + 2 * S2
        is_last = number == len(self._coordinates.axes) - 1
        plate_x = x + S2 if is_last else x - S2 - plate_w
        plate_rect = QRectF(max(plate_x, 0.0), self.y_of(position) - 11, plate_w, 22)
        plate_rect.moveRight(min(plate_rect.right(), self._size.width() - 1.0))
        return plate_rect


def _mix_colors(ink: QColor, background: QColor, share: float) -> QColor:
    """Return ``share`` of the ink on the background, opaque."""
    background_share = 1 - share
    return QColor.fromRgbF(
        ink.redF() * share + background.redF() * background_share,
        ink.greenF() * share + background.greenF() * background_share,
        ink.blueF() * share + background.blueF() * background_share,
    )


def _best_text(line: ParallelLine) -> str:
    return f"{line.texts[-1]} best"
