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

_BRUSH_STEP = 0.05
_FULL_RANGE = (0.0, 1.0)
_BRUSH_KEY_STEPS = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
_AXIS_KEY_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
_REMOVE_KEYS = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)

_HEIGHT, _MIN_H = 320, 220
_CLICK_PX = 3.0

_BrushRange = tuple[float, float]


class ParallelPlot(QWidget):
    """The plot. Keys: Up and Down select a line, Left and Right an axis; Enter opens
    the job, Escape removes all brushes. `_changed_brush` has the keys that brush.

    Signals:
        job_hovered: The id of the job under the pointer or the keyboard cursor, "" for none.
        job_opened: The id of a job.
        brushes_changed: The set of jobs that pass the brushes has changed.
    """

    job_hovered = Signal(str)
    job_opened = Signal(str)
    brushes_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._coordinates = ParallelCoordinates()
        self._brushes: dict[int, tuple[float, float]] = {}
        self._selected_jobs: set[str] = set()
        self.current_job = ""
        self._axis = 0
        """The axis that the keys brush."""
        self._drag: tuple[int, float] | None = None
        self._is_pressed = False
        self._press_position = QPointF()
        self._picture: ParallelPicture | None = None
        self._background: QPixmap | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._update_description()

    # -- input

    def show_coordinates(self, coordinates: ParallelCoordinates) -> None:
        """Show other jobs, or an update. Brushes stay on axes that still exist."""
        if coordinates == self._coordinates:
            return
        previous_keys = [axis.key for axis in self._coordinates.axes]
        keys = [axis.key for axis in coordinates.axes]
        self._brushes = {
            keys.index(previous_keys[n]): brush
            for n, brush in self._brushes.items()
            if previous_keys[n] in keys
        }
        self._coordinates = coordinates
        self._picture = None
        if self.current_job not in {line.job_id for line in coordinates.lines}:
            self.current_job = ""
        self._axis = min(self._axis, max(len(coordinates.axes) - 1, 0))
        self._apply_brushes()

    def highlight_job(self, job_id: str) -> None:
        """Highlight the line of a job, "" for none."""
        if job_id != self.current_job:
            self.current_job = job_id
            self._update_description()
            self.update()

    @property
    def brushes(self) -> dict[int, tuple[float, float]]:
        """Return the brush of each axis, as shares from below."""
        return dict(self._brushes)

    @property
    def selected_jobs(self) -> frozenset[str]:
        """Return the ids of the jobs that pass every brush."""
        return frozenset(self._selected_jobs)

    @property
    def picture(self) -> ParallelPicture:
        """Return the current geometry."""
        if self._picture is None:
            self._picture = ParallelPicture(self._coordinates, self.size())
        return self._picture

    def set_brush(self, axis: int, low: float, high: float) -> None:
        self._brushes[axis] = (max(min(low, high), 0.0), min(max(low, high), 1.0))
        self._apply_brushes()

    def clear_brushes(self) -> None:
        if self._brushes:
            self._brushes.clear()
            self._apply_brushes()

    def sizeHint(self) -> QSize:
        return QSize(600, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _MIN_H)

    # -- events

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._is_pressed, self._press_position = True, event.position()
        axis = self.picture.axis_at(event.position().x())
        if axis is not None:
            self._drag = (axis, self.picture.share_at(event.position().y()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        position = event.position()
        if self._drag is not None:
            axis, start = self._drag
            if abs(position.y() - self._press_position.y()) > _CLICK_PX:
                self.set_brush(axis, start, self.picture.share_at(position.y()))
            return
        is_on_axis = self.picture.axis_at(position.x()) is not None
        cursor = Qt.CursorShape.SizeVerCursor if is_on_axis else Qt.CursorShape.ArrowCursor
        self.setCursor(cursor)
        self._hover_job(self._line_at(position))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() != Qt.MouseButton.LeftButton or not self._is_pressed:
            return
        self._is_pressed = False
        drag, self._drag = self._drag, None
        if (event.position() - self._press_position).manhattanLength() > _CLICK_PX:
            return
        if drag is not None:
            # A click on an axis removes its brush.
            if self._brushes.pop(drag[0], None) is not None:
                self._apply_brushes()
        elif self._line_at(event.position()):
            self.job_opened.emit(self._line_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover_job("")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
        key = Qt.Key(event.key())
        is_brush, brush = _changed_brush(event, self._brushes.get(self._axis))
        if _axis_step(event) and self._coordinates.axes:
            self._axis = (self._axis + _axis_step(event)) % len(self._coordinates.axes)
            self._update_description()
            self.update()
        elif is_brush and brush is not None and self._coordinates.axes:
            self.set_brush(self._axis, *brush)
        elif is_brush:
            if self._brushes.pop(self._axis, None) is not None:
                self._apply_brushes()
        elif key in steps:
            self._move_selection(steps[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.current_job:
            self.job_opened.emit(self.current_job)
        elif key == Qt.Key.Key_Escape and self._brushes:
            self.clear_brushes()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._update_description()
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._update_description()
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
        return self.picture.line_at(point, self._selected_jobs)

    def _move_selection(self, step: int) -> None:
        """Move through the lines that are not grey, from best to worst."""
        ids = [
            line.job_id for line in self._coordinates.ranked() if line.job_id in self._selected_jobs
        ]
        if not ids:
            return
        if self.current_job in ids:
            self._hover_job(ids[min(max(ids.index(self.current_job) + step, 0), len(ids) - 1)])
        else:
            self._hover_job(ids[0])

    def _hover_job(self, job_id: str) -> None:
        if job_id != self.current_job:
            self.highlight_job(job_id)
            self.job_hovered.emit(job_id)

    def _apply_brushes(self) -> None:
        self._selected_jobs = jobs_in_brushes(self._coordinates.lines, self._brushes)
        self._background = None
        self._update_description()
        self.update()
        self.brushes_changed.emit()

    def _update_description(self) -> None:
        """Update the description for screen readers."""
        lines = self._coordinates.lines
        self.setAccessibleName(f"Parallel coordinates of {len(lines)} jobs")
        current = next((line for line in lines if line.job_id == self.current_job), None)
        messages = [f"{len(self._selected_jobs)} of {len(lines)} jobs are in the selected ranges."]
        if current is not None:
            messages.insert(0, f"{self._line_text(current)}.")
        if self.hasFocus() and self._coordinates.axes:
            messages.append(f"Keys select a range of {self._coordinates.axes[self._axis].label}.")
        self.setAccessibleDescription(" ".join(messages))

    def _line_text(self, line: ParallelLine) -> str:
        values = [
            f"{axis.label} {text}"
            for axis, text in zip(self._coordinates.axes, line.texts, strict=True)
            if text
        ]
        return ", ".join([f"{line.name}{', best' if line.is_best else ''}", *values])

    def paintEvent(self, event: QPaintEvent) -> None:
        ratio = self.devicePixelRatioF()
        if self._background is None or self._background.devicePixelRatio() != ratio:
            self._background = self.picture.render_background(
                ratio, self._selected_jobs, self._brushes
            )
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._background)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_current(painter)
        if self.hasFocus():
            paint_focus(painter, QRectF(self.rect()), R_CARD)
            self.picture.paint_key_axis(painter, self._axis)

    def _paint_current(self, painter: QPainter) -> None:
        current = next(
            (line for line in self._coordinates.lines if line.job_id == self.current_job), None
        )
        if current is not None:
            self.picture.paint_current(painter, current)

    # -- export

    def as_picture(self) -> Picture:
        """Return the plot as it is displayed, with brushes and the highlighted line."""

        def paint(painter: QPainter) -> None:
            self.picture.paint_background(painter, self._selected_jobs, self._brushes)
            self._paint_current(painter)

        return Picture("Parallel coordinates", self.size(), paint)


def _axis_step(event: QKeyEvent) -> int:
    """Return the number of axes to move for Left and Right, 0 for other keys."""
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return 0 if modifiers else _AXIS_KEY_STEPS.get(Qt.Key(event.key()), 0)


def _changed_brush(event: QKeyEvent, brush: _BrushRange | None) -> tuple[bool, _BrushRange | None]:
    """Return the brush of an axis after a key press.

    Shift with Up and Down moves the upper end, Ctrl the lower end; Delete removes the brush.

    Args:
        brush: The current brush, as shares from below; None without a brush.

    Returns:
        True if the key changes brushes; and the new brush, None for no brush.
    """
    if Qt.Key(event.key()) in _REMOVE_KEYS:
        return True, None
    step = _BRUSH_KEY_STEPS.get(Qt.Key(event.key()), 0)
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    low, high = brush or _FULL_RANGE
    if step and modifiers == Qt.KeyboardModifier.ShiftModifier:
        high = min(max(high + step * _BRUSH_STEP, low), 1.0)
    elif step and modifiers == Qt.KeyboardModifier.ControlModifier:
        low = max(min(low + step * _BRUSH_STEP, high), 0.0)
    else:
        return False, brush
    # Steps are summed, and a float cannot hold one twentieth exactly.
    new_brush = (round(low, 6), round(high, 6))
    return True, None if new_brush == _FULL_RANGE else new_brush
