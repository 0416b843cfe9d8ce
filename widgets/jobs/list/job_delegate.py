"""A job in two lines: icon; name and best metric; state, place, time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPointF, QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.queue.entry import QueuedJob
from widgets.common import formats, theme
from widgets.common.icons import paint_icon
from widgets.common.painting import (
    fill_round,
    paint_background,
    paint_focus,
    paint_text,
    text_width,
)
from widgets.common.state_badge import current_turn, live_word_width, paint_state, state_color_role
from widgets.common.theme import ROW_H, S1, S2, S3, S6, ColorRole
from widgets.jobs.list.job_columns import best_metric_labels, resources_label
from widgets.jobs.list.job_list_model import JobListModel
from widgets.jobs.list.sweep_text import count_texts

AnyIndex = QModelIndex | QPersistentModelIndex

_GLYPH = 24
_INDENT, _CARET = S6, 12
_TICK, _TICK_EDGE = 14, 2
_CAPTION_MOST = 0.3
"""The share of the first line that the text before its figure may take."""
_NEAR_S = 18 * 3600
_SHOWS_PERCENT = frozenset(
    {
        JobState.TRAINING,
        JobState.EVALUATING,
        JobState.SAVING,
        JobState.STOPPING,
        JobState.INTERRUPTED,
    }
)


# As numbers: operations on Qt flags take Python a microsecond each.
SELECTED = QStyle.StateFlag.State_Selected.value
HOVERED = QStyle.StateFlag.State_MouseOver.value
KEY_FOCUS = QStyle.StateFlag.State_HasFocus.value | QStyle.StateFlag.State_KeyboardFocusChange.value


class JobDelegate(QStyledItemDelegate):
    """Paints a row of the list."""

    def __init__(self, model: JobListModel, parent: QObject) -> None:
        super().__init__(parent)
        self._model = model

    def sizeHint(self, _option: QStyleOptionViewItem, _index: AnyIndex) -> QSize:
        return QSize(0, ROW_H)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        # Roles are not used: each takes ten times as long on its way through Qt.
        model, number = self._model, index.row()
        line = model.summary_at(number)
        state = option.state.value
        box = QRectF(option.rect).adjusted(S2, 1, -S2, -1)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_ticked = line.id in model.ticks
        chosen = is_ticked or bool(state & SELECTED)
        paint_background(painter, box, is_selected=chosen, is_hovered=bool(state & HOVERED))
        if state & KEY_FOCUS == KEY_FOCUS:
            paint_focus(painter, box)
        left = box.left() + S3 + (_INDENT if model.is_member(number) else 0)
        if line.sweep is not None:
            # In the margin, so that all icons but those of a sweep's jobs are aligned.
            caret = QRectF(box.left(), box.center().y() - _CARET / 2, _CARET, _CARET)
            is_open = model.is_open(number)
            paint_icon(painter, caret, "caret-down" if is_open else "caret-right", "text2")
        glyph = QRectF(left, box.center().y() - _GLYPH / 2, _GLYPH, _GLYPH)
        paint_state(painter, glyph, line.state, line.progress or 0.0, current_turn())
        if is_ticked:
            _paint_tick(painter, glyph)
        inner = QRectF(box)
        inner.setLeft(glyph.right() + S3)
        inner.adjust(0, S1, -S3, -S1)
        half = inner.height() / 2
        place = model.queued_job(line.id)
        first = QRectF(inner.left(), inner.top(), inner.width(), half)
        self._first_line(painter, first, line, place, model.name_at(number))
        second = QRectF(inner.left(), inner.top() + half, inner.width(), half)
        self._second_line(painter, second, line, place)

    def _first_line(
        self,
        painter: QPainter,
        line: QRectF,
        view: JobSummary,
        place: QueuedJob | None,
        called: str,
    ) -> None:
        name, value = best_metric_labels(view) if place is None else ("place", f"{place.number}")
        value_w, most = text_width(value, "strong"), int(line.width() * _CAPTION_MOST)
        if view.sweep is not None and name:
            best = f"{view.sweep.best_job} · {name}"
            best_w = text_width(best, "small") + S1
            # The best job only next to the whole name of the sweep.
            if text_width(called, "strong") + S2 + best_w + S1 + value_w <= line.width():
                name, most = best, best_w
        name_w = min(text_width(name, "small") + S1 if name else 0, most)
        if text_width(called, "strong") + S2 + name_w + S1 + value_w > line.width():
            name, name_w = "", 0  # rather than both names cut
        right = QRectF(line.right() - value_w, line.top(), value_w, line.height())
        paint_text(painter, right, value, "strong", right=True)
        caption = QRectF(right.left() - name_w - S1, line.top(), name_w, line.height())
        paint_text(painter, caption, name, "small", "text3", right=True)
        title = QRectF(line.left(), line.top(), caption.left() - line.left() - S2, line.height())
        paint_text(painter, title, called, "strong", elide_middle=True)

    def _second_line(
        self, painter: QPainter, line: QRectF, view: JobSummary, place: QueuedJob | None
    ) -> None:
        when, tone = _when(view) if place is None else (start_forecast(place), "text2")
        when_w = text_width(when, "body")
        corner = QRectF(line.right() - when_w, line.top(), when_w, line.height())
        paint_text(painter, corner, when, "body", tone, right=True)
        if view.sweep is not None:
            line.setRight(corner.left() - S2)
            paint_colored_texts(painter, line, count_texts(view.sweep))
            return
        word = view.state.label
        if view.state in _SHOWS_PERCENT and view.progress is not None:
            word = f"{word} {formats.progress(view.progress)}"
        word_tone = "warn" if view.contact_warning else state_color_role(view.state)
        used = paint_text(painter, line, word, "small_strong", word_tone)
        if view.state in _SHOWS_PERCENT and view.state.is_live:
            used = max(used, live_word_width("small_strong", f" {formats.progress(0.99)}"))
        reason = QRectF(line)
        reason.setLeft(line.left() + used + S2)
        reason.setRight(corner.left() - S2)
        why = _reason(view) if place is None or view.contact_warning else place.full_message
        why = why.removeprefix(f"{word}: ")
        paint_text(painter, reason, why, "body", "text2")


def _paint_tick(painter: QPainter, glyph: QRectF) -> None:
    """Paint the tick at the corner of the icon, which stays visible."""
    palette = theme.current()
    edge = QRectF(0, 0, _TICK + 2 * _TICK_EDGE, _TICK + 2 * _TICK_EDGE)
    edge.moveCenter(glyph.bottomRight() - QPointF(_TICK_EDGE, _TICK_EDGE))
    fill_round(painter, edge, palette.q("selected"), edge.width() / 2)
    inner = edge.adjusted(_TICK_EDGE, _TICK_EDGE, -_TICK_EDGE, -_TICK_EDGE)
    fill_round(painter, inner, palette.q("ink"), inner.width() / 2)
    paint_icon(painter, inner.adjusted(2, 2, -2, -2), "check-bold", "on_ink")


def paint_colored_texts(
    painter: QPainter, line: QRectF, colored_texts: Sequence[tuple[str, ColorRole]]
) -> None:
    """Paint texts one after the other, each in its tone, as long as there is room."""
    line = QRectF(line)
    for text, color_role in colored_texts:
        if line.width() <= S2:
            return
        line.setLeft(line.left() + paint_text(painter, line, text, "body", color_role))


def _reason(view: JobSummary) -> str:
    if view.reason:
        return view.reason
    if view.state is JobState.CREATED:
        return "Never started"
    return resources_label(view)


def start_forecast(queued_job: QueuedJob) -> str:
    """Return ``≈ 15:56``, "" if there is no forecast."""
    if queued_job.wait_reason is None or queued_job.starts_in_s is None:
        return ""
    now = datetime.now().astimezone()
    when = now + timedelta(seconds=queued_job.starts_in_s)
    # Within the next hours the day is clear without its name.
    near = queued_job.starts_in_s < _NEAR_S
    return f"≈{formats.GAP}{formats.clock(when)}" if near else formats.estimated_time(when, now)


def _when(view: JobSummary) -> tuple[str, str]:
    now = datetime.now().astimezone()
    if view.state.is_live:
        return formats.short_time_left(view.eta_s), "live"
    return formats.time_or_day(view.ended_s or view.created_s or None, now), "text2"
