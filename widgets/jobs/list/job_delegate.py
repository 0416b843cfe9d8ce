"""A job in two lines: icon; name and best metric; state, reason, time."""

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
_MAX_CAPTION_SHARE = 0.3
"""The largest share of the first line for the text before its figure."""
_CLOCK_LIMIT_S = 18 * 3600
_PERCENT_STATES = frozenset(
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
        model, row = self._model, index.row()
        summary = model.summary_at(row)
        state = option.state.value
        box = QRectF(option.rect).adjusted(S2, 1, -S2, -1)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_ticked = summary.id in model.ticks
        is_selected = is_ticked or bool(state & SELECTED)
        paint_background(painter, box, is_selected=is_selected, is_hovered=bool(state & HOVERED))
        if state & KEY_FOCUS == KEY_FOCUS:
            paint_focus(painter, box)
        content_x = box.left() + S3 + (_INDENT if model.is_member(row) else 0)
        if summary.sweep is not None:
            # In the margin, so that all icons but those of a sweep's jobs are aligned.
            caret = QRectF(box.left(), box.center().y() - _CARET / 2, _CARET, _CARET)
            is_open = model.is_open(row)
            paint_icon(painter, caret, "caret-down" if is_open else "caret-right", "text2")
        glyph = QRectF(content_x, box.center().y() - _GLYPH / 2, _GLYPH, _GLYPH)
        paint_state(painter, glyph, summary.state, summary.progress or 0.0, current_turn())
        if is_ticked:
            _paint_tick(painter, glyph)
        area = QRectF(box)
        area.setLeft(glyph.right() + S3)
        area.adjust(0, S1, -S3, -S1)
        line_h = area.height() / 2
        queued_job = model.queued_job(summary.id)
        first_box = QRectF(area.left(), area.top(), area.width(), line_h)
        self._paint_first_line(painter, first_box, summary, queued_job, model.name_at(row))
        second_box = QRectF(area.left(), area.top() + line_h, area.width(), line_h)
        self._paint_second_line(painter, second_box, summary, queued_job)

    def _paint_first_line(
        self,
        painter: QPainter,
        box: QRectF,
        summary: JobSummary,
        queued_job: QueuedJob | None,
        job_name: str,
    ) -> None:
        caption, value = (
            best_metric_labels(summary) if queued_job is None else ("place", f"{queued_job.number}")
        )
        value_w, max_caption_w = text_width(value, "strong"), int(box.width() * _MAX_CAPTION_SHARE)
        if summary.sweep is not None and caption:
            best_caption = f"{summary.sweep.best_job} · {caption}"
            best_caption_w = text_width(best_caption, "small") + S1
            # The best job only next to the whole name of the sweep.
            if text_width(job_name, "strong") + S2 + best_caption_w + S1 + value_w <= box.width():
                caption, max_caption_w = best_caption, best_caption_w
        caption_w = min(text_width(caption, "small") + S1 if caption else 0, max_caption_w)
        if text_width(job_name, "strong") + S2 + caption_w + S1 + value_w > box.width():
            caption, caption_w = "", 0  # rather than both names cut
        value_box = QRectF(box.right() - value_w, box.top(), value_w, box.height())
        paint_text(painter, value_box, value, "strong", right=True)
        caption_box = QRectF(value_box.left() - caption_w - S1, box.top(), caption_w, box.height())
        paint_text(painter, caption_box, caption, "small", "text3", right=True)
        title_box = QRectF(
            box.left(), box.top(), caption_box.left() - box.left() - S2, box.height()
        )
        paint_text(painter, title_box, job_name, "strong", elide_middle=True)

    def _paint_second_line(
        self, painter: QPainter, box: QRectF, summary: JobSummary, queued_job: QueuedJob | None
    ) -> None:
        time_text, color_role = (
            _time_text(summary) if queued_job is None else (start_forecast(queued_job), "text2")
        )
        time_w = text_width(time_text, "body")
        time_box = QRectF(box.right() - time_w, box.top(), time_w, box.height())
        paint_text(painter, time_box, time_text, "body", color_role, right=True)
        if summary.sweep is not None:
            box.setRight(time_box.left() - S2)
            paint_colored_texts(painter, box, count_texts(summary.sweep))
            return
        state_text = summary.state_label
        if summary.state in _PERCENT_STATES and summary.progress is not None:
            state_text = f"{state_text} {formats.progress(summary.progress)}"
        state_role = "warn" if summary.contact_warning else state_color_role(summary.state)
        state_w = paint_text(painter, box, state_text, "small_strong", state_role)
        if summary.state in _PERCENT_STATES and summary.state.is_live:
            state_w = max(state_w, live_word_width("small_strong", f" {formats.progress(0.99)}"))
        reason_box = QRectF(box)
        reason_box.setLeft(box.left() + state_w + S2)
        reason_box.setRight(time_box.left() - S2)
        reason = (
            _reason_text(summary)
            if queued_job is None or summary.contact_warning
            else queued_job.full_message
        )
        reason = reason.removeprefix(f"{state_text}: ")
        paint_text(painter, reason_box, reason, "body", "text2")


def _paint_tick(painter: QPainter, glyph: QRectF) -> None:
    """Paint the tick at the corner of the icon; the icon stays visible."""
    palette = theme.current()
    edge = QRectF(0, 0, _TICK + 2 * _TICK_EDGE, _TICK + 2 * _TICK_EDGE)
    edge.moveCenter(glyph.bottomRight() - QPointF(_TICK_EDGE, _TICK_EDGE))
    fill_round(painter, edge, palette.q("selected"), edge.width() / 2)
    tick_rect = edge.adjusted(_TICK_EDGE, _TICK_EDGE, -_TICK_EDGE, -_TICK_EDGE)
    fill_round(painter, tick_rect, palette.q("ink"), tick_rect.width() / 2)
    paint_icon(painter, tick_rect.adjusted(2, 2, -2, -2), "check-bold", "on_ink")


def paint_colored_texts(
    painter: QPainter, box: QRectF, colored_texts: Sequence[tuple[str, ColorRole]]
) -> None:
    """Paint texts next to each other, each in its colour, as long as there is space."""
    box = QRectF(box)
    for text, color_role in colored_texts:
        if box.width() <= S2:
            return
        box.setLeft(box.left() + paint_text(painter, box, text, "body", color_role))


def _reason_text(summary: JobSummary) -> str:
    if summary.reason:
        return summary.reason
    if summary.state is JobState.CREATED:
        return "Never started"
    return resources_label(summary)


def start_forecast(queued_job: QueuedJob) -> str:
    """Return ``≈ 15:56``, "" if there is no forecast."""
    if queued_job.wait_reason is None or queued_job.starts_in_s is None:
        return ""
    now = datetime.now().astimezone()
    start_time = now + timedelta(seconds=queued_job.starts_in_s)
    # Within the next hours the day is clear without its name.
    is_soon = queued_job.starts_in_s < _CLOCK_LIMIT_S
    return (
        f"≈{formats.GAP}{formats.clock(start_time)}"
        if is_soon
        else formats.estimated_time(start_time, now)
    )


def _time_text(summary: JobSummary) -> tuple[str, str]:
    now = datetime.now().astimezone()
    if summary.state.is_live:
        return formats.short_time_left(summary.eta_s), "live"
    return formats.time_or_day(summary.ended_s or summary.created_s or None, now), "text2"
