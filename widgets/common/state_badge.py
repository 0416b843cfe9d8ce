"""The ring: one drawing for every state, progress and rank, and the cell of a GPU.

An allreduce is a ring of ranks, so the emblem of the program is a ring that carries data: twelve
small outlines for the states of a job, which differ without colour, and the rank ring, whose inner
arc is the progress and whose outer segments are one rank each. The `paint_` functions are for
delegates too. The words and families of the states are those of `JobState`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from math import cos, radians, sin
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer, Slot
from PySide6.QtGui import (
    QColor,
    QHideEvent,
    QIcon,
    QPainter,
    QPainterPath,
    QPainterPathStroker,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QShowEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from backend.records.jobs.state import JobState
from widgets.common import theme
from widgets.common.formats import progress_figure
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import row
from widgets.common.painting import round_pen, text_width
from widgets.common.theme import ICON_NAV, TURN_MS, ColorRole, Role

Mark = Literal["", "warn", "bad", "idle"]
"""The condition of a rank: "" is healthy."""

GpuUse = Literal["free", "ours", "other", "chosen", "gone", "unknown"]
"""The owner of a GPU.

ours = a job of Ringmaster, other = another user, gone = its node is offline, unknown = its node is
not set up yet.
"""

MAX_SEGMENTS = 64
_FRAME_MS = 33
_TURNING_STATES = frozenset({JobState.STARTING, JobState.SETUP})
_PROGRESS_STATES = frozenset(
    {
        *(JobState.TRAINING, JobState.EVALUATING, JobState.SAVING),
        *(JobState.STOPPING, JobState.INTERRUPTED),
    }
)

STATE_COLOR_ROLES: dict[str, ColorRole] = {
    "idle": "idle",
    "live": "live",
    "warn": "warn",
    "rest": "rest",
    "good": "good",
    "bad": "bad",
}
"""The colour role of a family's word."""


def state_color_role(state: JobState) -> ColorRole:
    """The colour role of a state's word."""
    return STATE_COLOR_ROLES[state.color_role]


def is_animated(state: JobState) -> bool:
    """Return True if the glyph of `state` moves now, so that a view repaints its row."""
    return state in _TURNING_STATES and not theme.motion_reduced()


def current_turn() -> float:
    """The angle of a turning arc, as a share of a turn. One clock, so that all turn together."""
    if theme.motion_reduced():
        return 0.0
    return time.monotonic() * 1000 % TURN_MS / TURN_MS


def paint_state(
    painter: QPainter, square: QRectF, state: JobState, progress: float = 0.0, turn: float = 0.0
) -> None:
    """Paint the glyph of a state into a square of 16 to 40 px.

    Args:
        progress: From 0 to 1; drawn by the states that have one.
        turn: The angle of the arc of Starting and Setting up, `current_turn()`.
    """
    glyph = _Glyph(painter, square, state.color_role)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if state in _TURNING_STATES:
        starts = (turn,) if state is JobState.STARTING else (turn, turn + 0.5)
        glyph.draw_arcs(*((start, 0.22) for start in starts))
    elif state in _PROGRESS_STATES:
        glyph.draw_arcs((0.0, min(max(progress, 0.03), 1.0)))
        _paint_activity(glyph, state)
    elif state in (JobState.CREATED, JobState.QUEUED, JobState.PAUSED):
        _paint_waiting(glyph, state)
    else:
        _paint_end(glyph, state)
    painter.restore()


class _Glyph:
    """The square of a state's glyph, in units of a twentieth of its width."""

    def __init__(self, painter: QPainter, square: QRectF, color_role: str) -> None:
        self.painter, self.square, self._color_role = painter, square, color_role
        self.colour = theme.current().q(color_role)
        self.scale = square.width() / 20
        self.width = 2.2 * self.scale
        self.ring = square.adjusted(self.width, self.width, -self.width, -self.width)
        self.centre = square.center()

    def point(self, dx: float, dy: float) -> QPointF:
        return QPointF(self.centre.x() + dx * self.scale, self.centre.y() + dy * self.scale)

    def draw_lines(self, *lines: tuple[float, float, float, float]) -> None:
        for x0, y0, x1, y1 in lines:
            self.painter.drawLine(self.point(x0, y0), self.point(x1, y1))

    def draw_ring(self, colour: QColor, width: float) -> None:
        self.painter.setBrush(Qt.BrushStyle.NoBrush)
        self.painter.setPen(round_pen(colour, width))
        self.painter.drawEllipse(self.ring)

    def draw_arcs(self, *parts: tuple[float, float]) -> None:
        self.draw_ring(theme.current().q(self._color_role, 0.28), self.width)
        self.painter.setPen(round_pen(self.colour, self.width))
        for start, share in parts:
            self.painter.drawArc(self.ring, int((90 - start * 360) * 16), int(-share * 360 * 16))

    def use_solid_brush(self) -> None:
        self.painter.setPen(Qt.PenStyle.NoPen)
        self.painter.setBrush(self.colour)


def _paint_waiting(glyph: _Glyph, state: JobState) -> None:
    if state is JobState.CREATED:
        glyph.use_solid_brush()
        for i in range(8):
            a = radians(i * 45)
            glyph.painter.drawEllipse(
                glyph.point(7.4 * cos(a), 7.4 * sin(a)), 1.25 * glyph.scale, 1.25 * glyph.scale
            )
    elif state is JobState.QUEUED:
        glyph.draw_ring(glyph.colour, glyph.width * 0.85)
        glyph.painter.drawPolyline(
            QPolygonF([glyph.point(0, -4), glyph.point(0, 0.4), glyph.point(3, 2)])
        )
    else:
        glyph.draw_ring(glyph.colour, glyph.width * 0.85)
        glyph.draw_lines((-2.2, -2.2, -2.2, 2.2), (2.2, -2.2, 2.2, 2.2))


def _paint_activity(glyph: _Glyph, state: JobState) -> None:
    if state is JobState.EVALUATING:
        glyph.use_solid_brush()
        glyph.painter.drawEllipse(glyph.centre, 2.6 * glyph.scale, 2.6 * glyph.scale)
    elif state is JobState.SAVING:
        glyph.painter.setPen(round_pen(glyph.colour, 1.9 * glyph.scale))
        glyph.draw_lines((0, -3.6, 0, 3))
        glyph.painter.drawPolyline(
            QPolygonF([glyph.point(-2.8, 0.6), glyph.point(0, 3.4), glyph.point(2.8, 0.6)])
        )
    elif state is JobState.STOPPING:
        glyph.use_solid_brush()
        # Sharp and large: at 18 px a rounded square looks like the dot of Evaluating.
        square, radius = QRectF(glyph.point(-3.1, -3.1), glyph.point(3.1, 3.1)), 0.4 * glyph.scale
        glyph.painter.drawRoundedRect(square, radius, radius)
    elif state is JobState.INTERRUPTED:
        glyph.painter.setPen(round_pen(glyph.colour, 2.1 * glyph.scale))
        glyph.draw_lines((-1.9, -2.6, -1.9, 2.6), (1.9, -2.6, 1.9, 2.6))


def _paint_end(glyph: _Glyph, state: JobState) -> None:
    if state is JobState.FINISHED:
        disc = QPainterPath()
        disc.addEllipse(glyph.square.adjusted(glyph.scale, glyph.scale, -glyph.scale, -glyph.scale))
        tick = QPainterPath(glyph.point(-3.7, 0.2))
        tick.lineTo(glyph.point(-1.1, 2.9))
        tick.lineTo(glyph.point(3.9, -2.9))
        glyph.painter.fillPath(disc - _stroke(tick, glyph.width), glyph.colour)
    elif state is JobState.ERROR:  # solid like Finished, but with corners
        corners = [radians(22.5 + 45 * i) for i in range(8)]
        octagon = QPainterPath()
        octagon.addPolygon(QPolygonF([glyph.point(9.4 * cos(a), 9.4 * sin(a)) for a in corners]))
        octagon.closeSubpath()
        first_stroke = QPainterPath(glyph.point(-3, -3))
        first_stroke.lineTo(glyph.point(3, 3))
        second_stroke = QPainterPath(glyph.point(3, -3))
        second_stroke.lineTo(glyph.point(-3, 3))
        glyph.painter.fillPath(
            octagon - _stroke(first_stroke, glyph.width) - _stroke(second_stroke, glyph.width),
            glyph.colour,
        )
    else:
        pen = round_pen(glyph.colour, glyph.width)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        pen.setDashPattern([1.7, 1.35])
        glyph.painter.setPen(pen)
        glyph.painter.setBrush(Qt.BrushStyle.NoBrush)
        glyph.painter.drawEllipse(glyph.ring)
        hook = QPainterPath(glyph.point(-2.2, -2))
        hook.cubicTo(glyph.point(-2.2, -5.2), glyph.point(2.6, -5.2), glyph.point(2.4, -1.8))
        hook.cubicTo(glyph.point(2.2, 0), glyph.point(0, 0), glyph.point(0, 1.8))
        glyph.painter.setPen(round_pen(glyph.colour, 1.8 * glyph.scale))
        glyph.painter.drawPath(hook)
        glyph.use_solid_brush()
        glyph.painter.drawEllipse(glyph.point(0, 4.6), 1.15 * glyph.scale, 1.15 * glyph.scale)


def _stroke(path: QPainterPath, width: float) -> QPainterPath:
    stroker = QPainterPathStroker()
    stroker.setWidth(width)
    stroker.setCapStyle(Qt.PenCapStyle.RoundCap)
    stroker.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return stroker.createStroke(path)


def paint_rank_ring(
    painter: QPainter,
    square: QRectF,
    state: JobState,
    progress: float,
    ranks: Sequence[Mark] = (),
    width: float = 7.0,
) -> None:
    """Paint the progress as inner arc, and one outer segment per rank, thick on a problem.

    Above `MAX_SEGMENTS` ranks, pass one mark per node.
    """
    t = theme.current()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    inner_rect = square
    if ranks:
        count = len(ranks)
        gap = min(6.0, 100 / count) if count > 1 else 0.0
        span = 360 / count
        outer_rect = square.adjusted(2.5, 2.5, -2.5, -2.5)
        # Ranks with problems last, so that no neighbour covers their ends.
        for i, mark in sorted(enumerate(ranks), key=lambda item: bool(item[1])):
            colour = t.fill(mark) if mark else t.q("line_strong")
            pen = QPen(colour, 5.0 if mark else 3.0)
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            start = 90 - i * span - gap / 2
            painter.drawArc(outer_rect, int(start * 16), int(-(span - gap) * 16))
        inner_rect = square.adjusted(8, 8, -8, -8)
    inset = width / 2
    ring = inner_rect.adjusted(inset, inset, -inset, -inset)
    painter.setPen(QPen(t.q(state.color_role, 0.16), width))
    painter.drawEllipse(ring)
    if progress > 0:
        painter.setPen(round_pen(t.q(state.color_role), width))
        painter.drawArc(ring, 90 * 16, int(-min(progress, 1.0) * 360 * 16))
    painter.restore()


def paint_gpu_cell(
    painter: QPainter,
    rect: QRectF,
    use: GpuUse,
    *,
    is_unhealthy: bool = False,
    share: float = 1.0,
    radius: float = 3.0,
) -> None:
    """Paint a GPU as a cell that is readable in grey.

    Ours is solid (as high as `share`), another user's hatched, free outlined, selected black, with
    a problem solid with a hole, gone dotted in red, unknown dotted in grey.
    """
    t = theme.current()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    edge = rect.adjusted(0.5, 0.5, -0.5, -0.5)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if use in ("gone", "unknown"):
        pen = QPen(t.q("bad" if use == "gone" else "line_strong"), 1, Qt.PenStyle.DotLine)
        painter.setPen(pen)
        painter.drawRoundedRect(edge, radius, radius)
    elif is_unhealthy:
        path = QPainterPath()
        path.addRoundedRect(rect, radius, radius)
        hole = QPainterPath()
        hole_radius = min(rect.height(), rect.width()) * 0.27
        hole.addEllipse(rect.center(), hole_radius, hole_radius)
        painter.fillPath(path - hole, t.q("warn_fill"))
        painter.fillPath(hole, t.q("surface"))
    elif use == "free":
        painter.setPen(QPen(t.q("line_strong"), 1))
        painter.setBrush(t.q("surface"))
        painter.drawRoundedRect(edge, radius, radius)
    elif use == "other":
        path = QPainterPath()
        path.addRoundedRect(edge, radius, radius)
        painter.fillPath(path, t.q("idle_tint"))
        painter.save()
        painter.setClipPath(path)
        paint_hatch(painter, rect, 1.3, 4.5)
        painter.restore()
        painter.setPen(QPen(t.q("line_strong"), 1))
        painter.drawPath(path)
    else:
        path = QPainterPath()
        path.addRoundedRect(rect, radius, radius)
        painter.setClipPath(path)
        is_selected = use == "chosen"
        painter.fillRect(rect, t.q("ink" if is_selected else "live_tint"))
        level_h = 0.0 if is_selected else rect.height() * min(max(share, 0.0), 1.0)
        level = QRectF(rect.left(), rect.bottom() - level_h, rect.width(), level_h)
        painter.fillRect(level, t.q("live"))
        if not is_selected and not level_h:
            painter.setPen(QPen(t.q("live"), 1))
            painter.drawRoundedRect(edge, radius, radius)
    painter.restore()


def paint_hatch(painter: QPainter, rect: QRectF, width: float, step: float) -> None:
    """Paint the stripes of another user's GPU, clipped by the caller."""
    painter.setPen(QPen(theme.current().q("line_strong"), width))
    x = rect.left() - rect.height()
    while x < rect.right():
        painter.drawLine(QPointF(x, rect.bottom()), QPointF(x + rect.height(), rect.top()))
        x += step


class StateGlyph(QWidget):
    """The glyph of a state; animated while it is on the screen."""

    def __init__(
        self,
        state: JobState = JobState.CREATED,
        progress: float = 0.0,
        size: int = 20,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._state, self._progress = state, progress
        self.setFixedSize(size, size)
        self._frames = QTimer(self, interval=_FRAME_MS)
        self._frames.timeout.connect(self._next_frame)
        self.set_state(state, progress)

    def set_state(self, state: JobState, progress: float = 0.0) -> None:
        self._state, self._progress = state, progress
        self.setAccessibleName(state.label)
        self.setToolTip(state.explanation)
        self._update_timer()
        self.update()

    def is_turning(self) -> bool:
        return self._frames.isActive()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._update_timer()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._frames.stop()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint_state(painter, QRectF(self.rect()), self._state, self._progress, current_turn())

    def _update_timer(self) -> None:
        if self.isVisible() and is_animated(self._state):
            self._frames.start()
        else:
            self._frames.stop()

    @Slot()
    def _next_frame(self) -> None:
        self._update_timer()
        self.update()


@cache
def live_word_width(role: Role, suffix: str = "") -> int:
    """The width of the longest word of a live state, with ``suffix``."""
    return max(text_width(f"{state.label}{suffix}", role) for state in JobState if state.is_live)


class StateBadge(QWidget):
    """Glyph, word and details: "Training  on gpu06, gpu07 · started 14:02 by mai"."""

    def __init__(
        self,
        state: JobState = JobState.CREATED,
        progress: float = 0.0,
        details: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._glyph = StateGlyph(state, progress, ICON_NAV)
        self._word = Label(state.label, "strong", state_color_role(state))
        self._details = Label(details, "body", "text2", elide="right")
        self.setLayout(row(self._glyph, self._word, (self._details, 1), gap=6))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.set_state(state, progress, details)

    def set_state(
        self, state: JobState, progress: float = 0.0, details: str = "", label: str = ""
    ) -> None:
        self._glyph.set_state(state, progress)
        self._word.setText(label or state.label)
        # A run changes between training, evaluating and saving: the details keep their position.
        self._word.setMinimumWidth(live_word_width("strong") + 2 if state.is_live else 0)
        self._word.set_color_role(state_color_role(state))
        self._word.set_tip(state.explanation)
        self._details.setText(details)
        self.setAccessibleName(f"{label or state.label} {details}".strip())


class RankRing(QWidget):
    """The ring of a job with its percentage in the middle."""

    def __init__(
        self,
        size: int = 96,
        *,
        role: Role = "ring",
        width: float = 7.0,
        with_figure: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._state = JobState.CREATED
        self._progress: float | None = 0.0
        self._ranks: tuple[Mark, ...] = ()
        self._role: Role = role
        self._width = width
        self._with_figure = with_figure
        self.setFixedSize(size, size)
        self.set_progress(JobState.CREATED, 0.0)

    def set_progress(
        self, state: JobState, progress: float | None, ranks: Sequence[Mark] = ()
    ) -> None:
        """Set state, progress (0 to 1) and rank conditions; without ranks only the inner ring."""
        new_values = (state, progress, tuple(ranks))
        if new_values == (self._state, self._progress, self._ranks) and self.accessibleName():
            return
        self._state, self._progress, self._ranks = new_values
        unhealthy_count = sum(1 for mark in ranks if mark)
        percent_text = "" if progress is None else f", {progress_figure(progress)} percent"
        name = f"{state.label}{percent_text}"
        if unhealthy_count:
            name += f", {unhealthy_count} of {len(ranks)} ranks need attention"
        self.setAccessibleName(name)
        self.setToolTip(plain_tip(name))
        self.update()

    def set_figure(self, with_figure: bool) -> None:
        """Set whether the percentage is in the middle."""
        self._with_figure = with_figure
        self.update()

    def sizeHint(self) -> QSize:
        return self.size()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        rect = QRectF(self.rect())
        share = self._progress or 0.0
        paint_rank_ring(painter, rect, self._state, share, self._ranks, self._width)
        if not self._with_figure:
            return
        figure = progress_figure(self._progress)
        unit = "%" if self.width() >= 88 and self._progress is not None else ""
        role: Role = "title" if figure == "100" and self._role == "ring" else self._role
        figure_w = text_width(figure, role)
        unit_w = text_width(unit, "small_strong") + 2 if unit else 0
        x = (self.width() - figure_w - unit_w) / 2
        alignment = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.setFont(theme.font(role))
        painter.setPen(theme.current().q("text"))
        painter.drawText(QRectF(x, 0, figure_w + 2, self.height()), alignment, figure)
        if unit:
            painter.setFont(theme.font("small_strong"))
            painter.setPen(theme.current().q("text2"))
            unit_rect = QRectF(x + figure_w + 2, 4, unit_w + 4, self.height())
            painter.drawText(unit_rect, alignment, unit)


def paint_logo(painter: QPainter, square: QRectF) -> None:
    """Paint the logo: eight ranks in a ring, one of them passing data on."""
    t = theme.current()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    radius, centre = square.width() / 2, square.center()
    for i in range(8):
        a = radians(i * 45 - 90)
        is_active = i == 1
        painter.setBrush(t.q("live" if is_active else "text"))
        size = square.width() * (0.105 if is_active else 0.075)
        position = QPointF(centre.x() + radius * 0.78 * cos(a), centre.y() + radius * 0.78 * sin(a))
        painter.drawEllipse(position, size, size)
    painter.restore()


def logo_icon() -> QIcon:
    """The logo for the window's frame and the tray."""
    pixmap = QPixmap(128, 128)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    paint_logo(painter, QRectF(8, 8, 112, 112))
    painter.end()
    return QIcon(pixmap)


class Logo(QWidget):
    """The logo of the program."""

    def __init__(self, size: int = 26, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(size, size)

    def paintEvent(self, event: QPaintEvent) -> None:
        paint_logo(QPainter(self), QRectF(self.rect()))


class _Cell(QWidget):
    def __init__(self, use: GpuUse, is_unhealthy: bool, share: float) -> None:
        super().__init__()
        self._use, self._is_unhealthy, self._share = use, is_unhealthy, share
        self.setFixedSize(18, 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        rect = QRectF(self.rect())
        paint_gpu_cell(
            QPainter(self), rect, self._use, is_unhealthy=self._is_unhealthy, share=self._share
        )


def legend_key(
    use: GpuUse, word: str, *, is_unhealthy: bool = False, share: float = 1.0
) -> QWidget:
    """See `paint_gpu_cell` for the arguments."""
    holder = QWidget()
    holder.setLayout(row(_Cell(use, is_unhealthy, share), Label(word, "tiny", "text2"), gap=6))
    return holder
