"""Parallel coordinates: a line per job through all it was given, up to what it reached.

Dragging on an axis brushes it: only lines that go through every brush keep their colour.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.parallel import Parallel, ParallelLine, chosen
from widgets.common import theme
from widgets.common.paint import fill_round, paint_focus, paint_text, round_pen, text_width
from widgets.common.theme import FOCUS_W, R_CARD, S1, S2, S3
from widgets.compare.parallel_keys import axis_step, brushed

_HEIGHT, _LEAST_H = 320, 220
_TOP, _BOTTOM, _SIDE = 44, 16, 48
_TEXT_H, _CELL_W = 18, 96
_BRUSH_W, _REACH = 16, 22
_NEAR = 6.0
_CLICK = 3.0
_MOST_SMOOTH, _MOST_SOLID = 120, 40
"""Above these numbers edges are not smoothed, and lines are thin and shaded by their result."""
_SHADES = 8


class ParallelPlot(QWidget):
    """Draws frozen records. By keys: Up and Down walk the lines, Left and Right the axes; what
    brushes is in `parallel_keys`. Enter opens, Escape takes all brushes away.

    Signals:
        pointed: The id of the job under the pointer or the keys, "" for none.
        opened: The id of a job.
        brushed: Other jobs go through the brushes than before.
    """

    pointed = Signal(str)
    opened = Signal(str)
    brushed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = Parallel()
        self._brushes: dict[int, tuple[float, float]] = {}
        self._chosen: set[str] = set()
        self._current = ""
        self._axis = 0
        """On which the keys brush."""
        self._drag: tuple[int, float] | None = None
        self._is_pressed = False
        self._press = QPointF()
        self._ground: QPixmap | None = None
        # Of every line, made anew when the size or the jobs change: hundreds are drawn in a frame.
        self._points: dict[str, list[QPointF]] = {}
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._say()

    # -- what is shown

    def show_parallel(self, shown: Parallel) -> None:
        """Other jobs, or news of them. Brushes stay on axes that are still there."""
        if shown == self._shown:
            return
        before = [axis.key for axis in self._shown.axes]
        keys = [axis.key for axis in shown.axes]
        self._brushes = {
            keys.index(before[n]): ends for n, ends in self._brushes.items() if before[n] in keys
        }
        self._shown = shown
        self._points = {}
        if self._current not in {line.job_id for line in shown.lines}:
            self._current = ""
        self._axis = min(self._axis, max(len(shown.axes) - 1, 0))
        self._settle()

    def point(self, job_id: str) -> None:
        """Lift a line, "" for none."""
        if job_id != self._current:
            self._current = job_id
            self._say()
            self.update()

    @property
    def current(self) -> str:
        return self._current

    @property
    def brushes(self) -> dict[int, tuple[float, float]]:
        """The stretch that is brushed on each axis, as shares from below."""
        return dict(self._brushes)

    @property
    def through(self) -> frozenset[str]:
        """The ids of the jobs that every brush lets through."""
        return frozenset(self._chosen)

    def brush(self, axis: int, low: float, high: float) -> None:
        self._brushes[axis] = (max(min(low, high), 0.0), min(max(low, high), 1.0))
        self._settle()

    def clear_brushes(self) -> None:
        if self._brushes:
            self._brushes.clear()
            self._settle()

    def sizeHint(self) -> QSize:
        return QSize(600, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _LEAST_H)

    # -- where things are

    def axis_x(self, number: int) -> float:
        count = len(self._shown.axes)
        left, right = float(_SIDE), self.width() - float(_SIDE + self._last_w())
        return left if count < 2 else left + (right - left) * number / (count - 1)

    def y_of(self, place: float) -> float:
        return self._bottom() - place * (self._bottom() - _TOP)

    def points_of(self, line: ParallelLine) -> list[QPointF]:
        """Where a line goes; an axis on which it has no value is left out."""
        if not self._points:
            xs = [self.axis_x(number) for number in range(len(self._shown.axes))]
            bottom, height = self._bottom(), self._bottom() - _TOP
            self._points = {
                one.job_id: [
                    QPointF(x, bottom - place * height)
                    for x, place in zip(xs, one.places, strict=True)
                    if place is not None
                ]
                for one in self._shown.lines
            }
        return self._points[line.job_id]

    def _bottom(self) -> float:
        return float(self.height() - _BOTTOM)

    def _last_w(self) -> int:
        """The texts of the last axis stand on its right."""
        axes = self._shown.axes
        texts = [mark.text for mark in axes[-1].marks] if axes else []
        texts += [_best_text(line) for line in self._shown.best]
        return max((min(text_width(text, "tiny"), _CELL_W) for text in texts), default=0)

    def _axis_at(self, x: float) -> int | None:
        for number in range(len(self._shown.axes)):
            if abs(x - self.axis_x(number)) <= _REACH / 2:
                return number
        return None

    def _line_at(self, point: QPointF) -> str:
        """The nearest line that is not greyed."""
        nearest, distance = "", _NEAR
        for line in self._shown.lines:
            if line.job_id not in self._chosen:
                continue
            points = self.points_of(line)
            for a, b in itertools.pairwise(points):
                if not a.x() <= point.x() <= b.x() or a.x() == b.x():
                    continue
                y = a.y() + (b.y() - a.y()) * (point.x() - a.x()) / (b.x() - a.x())
                # Along the normal, or steep lines could hardly be hit.
                away = abs(y - point.y()) * (b.x() - a.x()) / QLineF(a, b).length()
                if away < distance:
                    nearest, distance = line.job_id, away
        return nearest

    # -- what a person does

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._is_pressed, self._press = True, event.position()
        axis = self._axis_at(event.position().x())
        if axis is not None:
            self._drag = (axis, self._share_at(event.position().y()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        where = event.position()
        if self._drag is not None:
            axis, begin = self._drag
            if abs(where.y() - self._press.y()) > _CLICK:
                self.brush(axis, begin, self._share_at(where.y()))
            return
        on_axis = self._axis_at(where.x()) is not None
        shape = Qt.CursorShape.SizeVerCursor if on_axis else Qt.CursorShape.ArrowCursor
        self.setCursor(shape)
        self._take(self._line_at(where))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() != Qt.MouseButton.LeftButton or not self._is_pressed:
            return
        self._is_pressed = False
        drag, self._drag = self._drag, None
        if (event.position() - self._press).manhattanLength() > _CLICK:
            return
        if drag is not None:
            # A click on an axis takes its brush away.
            if self._brushes.pop(drag[0], None) is not None:
                self._settle()
        elif self._line_at(event.position()):
            self.opened.emit(self._line_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._take("")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
        key = Qt.Key(event.key())
        is_brush, ends = brushed(event, self._brushes.get(self._axis))
        if axis_step(event) and self._shown.axes:
            self._axis = (self._axis + axis_step(event)) % len(self._shown.axes)
            self._say()
            self.update()
        elif is_brush and ends is not None and self._shown.axes:
            self.brush(self._axis, *ends)
        elif is_brush:
            if self._brushes.pop(self._axis, None) is not None:
                self._settle()
        elif key in steps:
            self._walk(steps[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._current:
            self.opened.emit(self._current)
        elif key == Qt.Key.Key_Escape and self._brushes:
            self.clear_brushes()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._say()
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._say()
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._points = {}
        self._ground = None

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._ground = None

    def _share_at(self, y: float) -> float:
        return min(max((self._bottom() - y) / max(self._bottom() - _TOP, 1.0), 0.0), 1.0)

    def _walk(self, by: int) -> None:
        """From the best to the worst of the lines that are not greyed."""
        ids = [line.job_id for line in self._shown.ranked() if line.job_id in self._chosen]
        if not ids:
            return
        if self._current in ids:
            self._take(ids[min(max(ids.index(self._current) + by, 0), len(ids) - 1)])
        else:
            self._take(ids[0])

    def _take(self, job_id: str) -> None:
        if job_id != self._current:
            self.point(job_id)
            self.pointed.emit(job_id)

    def _settle(self) -> None:
        self._chosen = chosen(self._shown.lines, self._brushes)
        self._ground = None
        self._say()
        self.update()
        self.brushed.emit()

    def _say(self) -> None:
        """The same in words, for those who hear it."""
        lines = self._shown.lines
        self.setAccessibleName(f"Parallel coordinates of {len(lines)} jobs")
        current = next((line for line in lines if line.job_id == self._current), None)
        told = [f"{len(self._chosen)} of {len(lines)} jobs go through the brushes."]
        if current is not None:
            told.insert(0, f"{self._words(current)}.")
        if self.hasFocus() and self._shown.axes:
            told.append(f"Keys brush {self._shown.axes[self._axis].label}.")
        self.setAccessibleDescription(" ".join(told))

    def _words(self, line: ParallelLine) -> str:
        values = [
            f"{axis.label} {text}"
            for axis, text in zip(self._shown.axes, line.texts, strict=True)
            if text
        ]
        return ", ".join([f"{line.name}{', best' if line.is_best else ''}", *values])

    # -- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        ratio = self.devicePixelRatioF()
        if self._ground is None or self._ground.devicePixelRatio() != ratio:
            self._ground = self._paint_ground(ratio)
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._ground)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        current = next((one for one in self._shown.lines if one.job_id == self._current), None)
        if current is not None:
            self._paint_current(painter, current)
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()), R_CARD)
            self._paint_axis_of_keys(painter)

    def _paint_ground(self, ratio: float) -> QPixmap:
        """All that the pointer does not change."""
        ground = QPixmap(self.size() * ratio)
        ground.setDevicePixelRatio(ratio)
        ground.fill(Qt.GlobalColor.transparent)
        painter = QPainter(ground)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        t = theme.current()
        lines = self._shown.lines
        grey = [line for line in lines if line.job_id not in self._chosen]
        clear = [line for line in lines if line.job_id in self._chosen and not line.is_best]
        self._paint_lines(painter, grey, QPen(t.q("line"), 1.0), smooth=False)
        self._paint_clear(painter, clear, crowded=len(lines) > _MOST_SOLID)
        best = [line for line in self._shown.best if line.job_id in self._chosen]
        self._paint_lines(painter, best, round_pen(t.q("good"), 3.0), smooth=True)
        # Above the lines, or the one that says most would cross the figures.
        self._paint_axes(painter)
        self._name_best(painter, best)
        painter.end()
        return ground

    def _paint_clear(
        self, painter: QPainter, lines: Sequence[ParallelLine], *, crowded: bool
    ) -> None:
        """The better a job, the stronger its line where there are many, and the later painted.

        All are opaque and then one pixel thin: 500 translucent ones take Qt five frames.
        """
        ink, ground = theme.current().curve(0), theme.current().q("surface")
        smooth = len(lines) <= _MOST_SMOOTH
        if not crowded:
            self._paint_lines(painter, lines, QPen(_mixed(ink, ground, 0.85), 1.6), smooth=smooth)
            return
        left = {line.job_id for line in lines}
        worst_first = [one for one in reversed(self._shown.ranked()) if one.job_id in left]
        size = max(-(-len(worst_first) // _SHADES), 1)
        for shade in range(_SHADES):
            pen = QPen(_mixed(ink, ground, 0.2 + 0.7 * shade / (_SHADES - 1)), 1.0)
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
        """Where the value of a best job stands, behind its end."""
        points = self.points_of(line)
        if not points:
            return None
        top = points[-1].y() - _TEXT_H / 2
        return QRectF(points[-1].x() + S2, top, self._last_w() + 2, _TEXT_H)

    def _paint_axes(self, painter: QPainter) -> None:
        t = theme.current()
        count = len(self._shown.axes)
        for number, axis in enumerate(self._shown.axes):
            x = self.axis_x(number)
            painter.setPen(QPen(t.q("line_strong"), 1.0))
            painter.drawLine(QPointF(x, _TOP), QPointF(x, self._bottom()))
            is_last = number == count - 1
            room = (self.width() - 2 * _SIDE) / max(count - 1, 1) - S3
            wide = min(max(room, _CELL_W), text_width(axis.label, "small_strong") + S2)
            left = 0.0 if number == 0 else x - wide / 2
            left = min(max(left, 0.0), self.width() - wide)
            title = QRectF(left, 0, wide, 20)
            paint_text(painter, title, axis.label, "small_strong", "text", center=number > 0)
            if axis.is_log:
                note = QRectF(left, 17, wide, 14)
                paint_text(painter, note, "log", "tiny", "text3", center=number > 0)
            self._paint_marks(painter, number, is_last)
            ends = self._brushes.get(number)
            if ends is not None:
                top, bottom = self.y_of(ends[1]), self.y_of(ends[0])
                box = QRectF(x - _BRUSH_W / 2, top - 2, _BRUSH_W, bottom - top + 4)
                fill_round(painter, box, t.q("focus", 0.2), 4)
                painter.setPen(QPen(t.q("focus"), 1.5))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(box, 4, 4)

    def _paint_axis_of_keys(self, painter: QPainter) -> None:
        """The axis on which the keys brush is as strong as the ring."""
        if self._shown.axes:
            x = self.axis_x(self._axis)
            painter.setPen(QPen(theme.current().q("focus"), FOCUS_W))
            painter.drawLine(QPointF(x, _TOP - S1), QPointF(x, self._bottom() + S1))

    def _paint_marks(self, painter: QPainter, number: int, is_last: bool) -> None:
        """Texts that would lie on each other are left out."""
        x = self.axis_x(number)
        for mark in self._shown.axes[number].marks:
            y = self.y_of(mark.place)
            painter.setPen(QPen(theme.current().q("line_strong"), 1.0))
            painter.drawLine(QPointF(x - 3, y), QPointF(x + 3, y))
        for where, text in self._mark_texts(number, is_last):
            self._paint_plate(painter, where, text, "text2")

    def _mark_texts(self, number: int, is_last: bool) -> Iterator[tuple[QRectF, str]]:
        x, taken = self.axis_x(number), float("inf")
        for mark in self._shown.axes[number].marks:
            y = self.y_of(mark.place)
            if taken - y < _TEXT_H - 2:
                continue
            taken = y
            wide = min(text_width(mark.text, "tiny"), _CELL_W) + 2
            left = x + S2 if is_last else x - S2 - wide
            yield QRectF(max(left, 0.0), y - _TEXT_H / 2, wide, _TEXT_H), mark.text

    def _paint_plate(self, painter: QPainter, where: QRectF, text: str, tone: str) -> None:
        """A text on a ground of its own, that lines behind it do not cross."""
        wide = min(float(text_width(text, "tiny")) + 2, where.width())
        plate = QRectF(where.left() - 2, where.top() + 1, wide + 4, where.height() - 2)
        fill_round(painter, plate, theme.current().q("surface", 0.85), 3)
        paint_text(
            painter, QRectF(where.left(), where.top(), wide, where.height()), text, "tiny", tone
        )

    def _paint_current(self, painter: QPainter, line: ParallelLine) -> None:
        t = theme.current()
        points = self.points_of(line)
        plates = [
            (number, text, self._plate_of_current(number, place, text))
            for number, (place, text) in enumerate(zip(line.places, line.texts, strict=True))
            if place is not None
        ]
        named = [where for one in self._shown.best if (where := self._name_rect(one))]
        for number, _, box in plates:
            # Of a figure that is half covered nobody can read the other half.
            texts = self._mark_texts(number, number == len(line.places) - 1)
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
            paint_text(painter, inner, text, "small_strong", "on_ink", middle=True)

    def _plate_of_current(self, number: int, place: float, text: str) -> QRectF:
        """Where the value of the lifted line stands beside an axis."""
        x = self.axis_x(number)
        wide = min(text_width(text, "small_strong"), 2 * _CELL_W) + 2 * S2
        is_last = number == len(self._shown.axes) - 1
        left = x + S2 if is_last else x - S2 - wide
        box = QRectF(max(left, 0.0), self.y_of(place) - 11, wide, 22)
        box.moveRight(min(box.right(), self.width() - 1.0))
        return box


def _mixed(ink: QColor, ground: QColor, share: float) -> QColor:
    """``share`` of the ink on the ground, opaque."""
    rest = 1 - share
    return QColor.fromRgbF(
        ink.redF() * share + ground.redF() * rest,
        ink.greenF() * share + ground.greenF() * rest,
        ink.blueF() * share + ground.blueF() * rest,
    )


def _best_text(line: ParallelLine) -> str:
    return f"{line.texts[-1]} best"
