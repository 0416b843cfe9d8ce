"""Parallel coordinates: one line a job, through its settings to its result.

Dragging on an axis brushes a range: only lines that pass every brush keep their colour.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.sweeps.parallel_coordinates import (
    ParallelCoordinates,
    ParallelLine,
    jobs_in_brushes,
)
from widgets.common.painting import paint_focus
from widgets.common.theme import R_CARD
from widgets.compare.parallel_picture import ParallelPicture
from widgets.plots.image_export import Picture

_STEP = 0.05
_WHOLE = (0.0, 1.0)
_BY = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
_ASIDE = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
_REMOVES = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)

_HEIGHT, _LEAST_H = 320, 220
_CLICK = 3.0

_Ends = tuple[float, float]


class ParallelPlot(QWidget):
    """Draws frozen records. Keys: Up and Down select a line, Left and Right an axis; Enter opens
    the job, Escape removes all brushes. `_brush_after` has the keys that brush.

    Signals:
        pointed: The id of the job under the pointer or the keyboard cursor, "" for none.
        opened: The id of a job.
        brushed: The set of jobs that pass the brushes has changed.
    """

    pointed = Signal(str)
    opened = Signal(str)
    brushed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ParallelCoordinates()
        self._brushes: dict[int, tuple[float, float]] = {}
        self._chosen: set[str] = set()
        self._current = ""
        self._axis = 0
        """The axis that the keys brush."""
        self._drag: tuple[int, float] | None = None
        self._is_pressed = False
        self._press = QPointF()
        self._picture: ParallelPicture | None = None
        self._background: QPixmap | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._say()

    # -- input

    def show_parallel(self, shown: ParallelCoordinates) -> None:
        """Show other jobs, or an update. Brushes stay on axes that still exist."""
        if shown == self._shown:
            return
        before = [axis.key for axis in self._shown.axes]
        keys = [axis.key for axis in shown.axes]
        self._brushes = {
            keys.index(before[n]): ends for n, ends in self._brushes.items() if before[n] in keys
        }
        self._shown = shown
        self._picture = None
        if self._current not in {line.job_id for line in shown.lines}:
            self._current = ""
        self._axis = min(self._axis, max(len(shown.axes) - 1, 0))
        self._settle()

    def point(self, job_id: str) -> None:
        """Highlight the line of a job, "" for none."""
        if job_id != self._current:
            self._current = job_id
            self._say()
            self.update()

    @property
    def current(self) -> str:
        return self._current

    @property
    def brushes(self) -> dict[int, tuple[float, float]]:
        """Return the brush of each axis, as shares from below."""
        return dict(self._brushes)

    @property
    def through(self) -> frozenset[str]:
        """Return the ids of the jobs that pass every brush."""
        return frozenset(self._chosen)

    @property
    def picture(self) -> ParallelPicture:
        """Return the current geometry."""
        if self._picture is None:
            self._picture = ParallelPicture(self._shown, self.size())
        return self._picture

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

    # -- events

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._is_pressed, self._press = True, event.position()
        axis = self.picture.axis_at(event.position().x())
        if axis is not None:
            self._drag = (axis, self.picture.share_at(event.position().y()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        where = event.position()
        if self._drag is not None:
            axis, begin = self._drag
            if abs(where.y() - self._press.y()) > _CLICK:
                self.brush(axis, begin, self.picture.share_at(where.y()))
            return
        on_axis = self.picture.axis_at(where.x()) is not None
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
            # A click on an axis removes its brush.
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
        is_brush, ends = _brush_after(event, self._brushes.get(self._axis))
        if _axis_step(event) and self._shown.axes:
            self._axis = (self._axis + _axis_step(event)) % len(self._shown.axes)
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
        self._picture = self._background = None

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._background = None

    def _line_at(self, point: QPointF) -> str:
        """Return the job of the nearest line that is not grey."""
        return self.picture.line_at(point, self._chosen)

    def _walk(self, by: int) -> None:
        """Move through the lines that are not grey, from best to worst."""
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
        self._chosen = jobs_in_brushes(self._shown.lines, self._brushes)
        self._background = None
        self._say()
        self.update()
        self.brushed.emit()

    def _say(self) -> None:
        """Update the description for screen readers."""
        lines = self._shown.lines
        self.setAccessibleName(f"Parallel coordinates of {len(lines)} jobs")
        current = next((line for line in lines if line.job_id == self._current), None)
        sentences = [f"{len(self._chosen)} of {len(lines)} jobs are in the selected ranges."]
        if current is not None:
            sentences.insert(0, f"{self._words(current)}.")
        if self.hasFocus() and self._shown.axes:
            sentences.append(f"Keys select a range of {self._shown.axes[self._axis].label}.")
        self.setAccessibleDescription(" ".join(sentences))

    def _words(self, line: ParallelLine) -> str:
        values = [
            f"{axis.label} {text}"
            for axis, text in zip(self._shown.axes, line.texts, strict=True)
            if text
        ]
        return ", ".join([f"{line.name}{', best' if line.is_best else ''}", *values])

    def paintEvent(self, event: QPaintEvent) -> None:
        ratio = self.devicePixelRatioF()
        if self._background is None or self._background.devicePixelRatio() != ratio:
            self._background = self.picture.render_background(ratio, self._chosen, self._brushes)
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._background)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_current(painter)
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()), R_CARD)
            self.picture.paint_axis_of_keys(painter, self._axis)

    def _paint_current(self, painter: QPainter) -> None:
        current = next((one for one in self._shown.lines if one.job_id == self._current), None)
        if current is not None:
            self.picture.paint_current(painter, current)

    # -- export

    def as_picture(self) -> Picture:
        """Return the plot as it is seen, with brushes and the highlighted line."""

        def paint(painter: QPainter) -> None:
            self.picture.paint_background(painter, self._chosen, self._brushes)
            self._paint_current(painter)

        return Picture("Parallel coordinates", self.size(), paint)


def _axis_step(event: QKeyEvent) -> int:
    """Return the number of axes to move for Left and Right, 0 for other keys."""
    plain = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return 0 if plain else _ASIDE.get(Qt.Key(event.key()), 0)


def _brush_after(event: QKeyEvent, ends: _Ends | None) -> tuple[bool, _Ends | None]:
    """Return the brush of an axis after a key press.

    Shift with Up and Down moves the upper end, Ctrl the lower one; Delete removes the brush.

    Args:
        ends: The current brush, as shares from below; None without a brush.

    Returns:
        Whether the key changes brushes; and the new brush, None for no brush.
    """
    if Qt.Key(event.key()) in _REMOVES:
        return True, None
    by = _BY.get(Qt.Key(event.key()), 0)
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    low, high = ends or _WHOLE
    if by and modifiers == Qt.KeyboardModifier.ShiftModifier:
        high = min(max(high + by * _STEP, low), 1.0)
    elif by and modifiers == Qt.KeyboardModifier.ControlModifier:
        low = max(min(low + by * _STEP, high), 0.0)
    else:
        return False, ends
    # Steps are summed, and a float cannot hold one twentieth exactly.
    found = (round(low, 6), round(high, 6))
    return True, None if found == _WHOLE else found
