"""The cells of the wide table: state with icon, name, tags as chips, progress as a bar."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QTableView, QWidget

from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobSummary
from backend.records.queue.entry import QueuedJob
from backend.records.sweeps.spec import sweep_of
from widgets.common import formats, theme
from widgets.common.fields import LineEdit, TextBox
from widgets.common.icons import paint_icon
from widgets.common.painting import fill_round, paint_focus, paint_text, text_width
from widgets.common.state_badge import current_turn, paint_state, state_color_role
from widgets.common.theme import FOCUS_W, ICON, ICON_NAV, R_CELL, S1, S2
from widgets.common.view_style import RowPointer
from widgets.jobs.list.job_columns import JobColumn, best_metric_labels, cell_text
from widgets.jobs.list.job_delegate import KEY_FOCUS, SELECTED, paint_colored_texts
from widgets.jobs.list.job_list_model import JobListModel
from widgets.jobs.list.sweep_text import notable_counts

AnyIndex = QModelIndex | QPersistentModelIndex
LEFT_W, RIGHT_W = S2 + 3, S2
"""The horizontal padding of a cell, and of the header."""
_BAR_H, _PERCENT_W = 4, 38
_CARET_W = ICON + S1
"""The indent of a sweep's name by its caret, and of the names of its jobs."""
_CHIP_H = 18
_NOTES_H = 132

_COLUMNS = tuple(JobColumn)


class JobTableDelegate(QStyledItemDelegate):
    """Paints and edits a cell."""

    def __init__(self, model: JobListModel, view: QTableView) -> None:
        super().__init__(view)
        self._model = model
        self._pointer = RowPointer(view)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        # Roles are not used: each takes ten times as long on its way through Qt.
        model, row = self._model, index.row()
        summary = model.summary_at(row)
        column = _COLUMNS[index.column()]
        state = option.state.value
        is_hovered = row == self._pointer.row
        cell = QRectF(option.rect)
        # Antialiased edges of two cells leave a seam where a pixel is not a dot.
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        t = theme.current()
        if state & SELECTED:
            painter.fillRect(cell, t.q("selected"))
        elif is_hovered:
            painter.fillRect(cell, t.q("hover"))
        painter.fillRect(QRectF(cell.left(), cell.bottom() - 1, cell.width(), 1), t.q("line"))
        if state & SELECTED and t.high_contrast:
            for top in (cell.top(), cell.bottom() - FOCUS_W):
                painter.fillRect(QRectF(cell.left(), top, cell.width(), FOCUS_W), t.q("text"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if state & KEY_FOCUS == KEY_FOCUS:
            paint_focus(painter, cell.adjusted(1, 1, -1, -2))
        area = cell.adjusted(LEFT_W, 0, -RIGHT_W, -1)
        if column is JobColumn.STATE:
            _paint_state(painter, area, summary)
        elif column is JobColumn.TAGS:
            # The row above shows the sweep.
            sweep_tag = sweep_of(summary.tags) if model.is_member(row) else ""
            tags = [tag for tag in summary.tags if tag != sweep_tag]
            _paint_tags(painter, area, tags, is_plain_row=not (state & SELECTED or is_hovered))
        elif column is JobColumn.PROGRESS:
            _paint_progress(painter, area, summary, model.queued_job(summary.id))
        elif column is JobColumn.BEST:
            _paint_best(painter, area, summary)
        elif column is JobColumn.NAME and summary.sweep is not None:
            _paint_sweep(painter, area, summary, model.is_open(row))
        elif column is JobColumn.NAME:
            area.setLeft(area.left() + (_CARET_W if model.is_member(row) else 0))
            paint_text(painter, area, model.name_at(row), "strong")
        else:
            paint_text(
                painter, area, cell_text(summary, column), "body", "text2", right=column.is_figure
            )

    def createEditor(
        self, parent: QWidget, _option: QStyleOptionViewItem, index: AnyIndex
    ) -> QWidget:
        column = JobColumn(index.column())
        if column is JobColumn.NOTES:
            return TextBox(name="Notes", parent=parent)
        hint = "Tags, separated by commas" if column is JobColumn.TAGS else ""
        return LineEdit(placeholder=hint, name=column.title, parent=parent)

    def setEditorData(self, editor: QWidget, index: AnyIndex) -> None:
        # Qt also calls this when the row of an open editor changes; what was typed must stay.
        text = str(index.data(Qt.ItemDataRole.EditRole))
        if isinstance(editor, TextBox) and not editor.document().isModified():
            editor.setPlainText(text)
        elif isinstance(editor, LineEdit) and not editor.isModified():
            editor.setText(text)
            editor.selectAll()

    def setModelData(self, editor: QWidget, model: object, index: AnyIndex) -> None:
        text = ""
        if isinstance(editor, TextBox):
            text = editor.toPlainText()
        elif isinstance(editor, LineEdit):
            text = editor.text()
        source = index.model()
        source.setData(index, text, Qt.ItemDataRole.EditRole)

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, _index: AnyIndex
    ) -> None:
        rect = QRect(option.rect)
        parent = editor.parentWidget()
        if isinstance(editor, TextBox) and parent is not None:
            rect.setHeight(_NOTES_H)
            rect.moveBottom(min(rect.bottom(), parent.rect().bottom() - S1))
        editor.setGeometry(rect)


def caret_right(cell: QRect) -> int:
    """Return the right end of a sweep's caret in its name cell."""
    return cell.left() + LEFT_W + _CARET_W


def _paint_sweep(painter: QPainter, cell: QRectF, summary: JobSummary, is_open: bool) -> None:
    caret = QRectF(cell.left(), cell.center().y() - ICON / 2, ICON, ICON)
    paint_icon(painter, caret, "caret-down" if is_open else "caret-right", "text2")
    name_box = cell.adjusted(_CARET_W, 0, 0, 0)
    name_w = paint_text(painter, name_box, summary.name, "strong")
    if summary.sweep is not None:
        paint_colored_texts(
            painter, name_box.adjusted(name_w + S2, 0, 0, 0), notable_counts(summary.sweep)
        )


def _paint_state(painter: QPainter, cell: QRectF, summary: JobSummary) -> None:
    glyph = QRectF(cell.left(), cell.center().y() - ICON_NAV / 2, ICON_NAV, ICON_NAV)
    paint_state(painter, glyph, summary.state, summary.progress or 0.0, current_turn())
    label_box = cell.adjusted(ICON_NAV + S2, 0, 0, 0)
    color_role = "warn" if summary.contact_warning else state_color_role(summary.state)
    paint_text(painter, label_box, summary.state_label, "small_strong", color_role)


def _paint_tags(
    painter: QPainter, cell: QRectF, tags: Sequence[str], *, is_plain_row: bool
) -> None:
    x = cell.left()
    # A selected row is as dark as a chip.
    background = theme.current().q("sunken" if is_plain_row else "surface")
    for number, tag in enumerate(tags):
        remaining_count = len(tags) - number
        available_w = cell.right() - x
        width = text_width(tag, "tiny") + 2 * S2
        count_text = f"+{remaining_count - 1}" if remaining_count > 1 else ""
        count_w = text_width(count_text, "tiny") + S1 if count_text else 0
        if width + count_w > available_w and number:
            paint_text(
                painter,
                QRectF(x, cell.top(), available_w, cell.height()),
                f"+{remaining_count}",
                "tiny",
                "text3",
            )
            return
        width = int(min(width, available_w - count_w))
        chip = QRectF(x, cell.center().y() - _CHIP_H / 2, width, _CHIP_H)
        fill_round(painter, chip, background, R_CELL)
        paint_text(painter, chip.adjusted(S2, 0, -S2, 0), tag, "tiny", "text2")
        x += width + S1


def _paint_progress(
    painter: QPainter, cell: QRectF, summary: JobSummary, queued_job: QueuedJob | None
) -> None:
    if queued_job is not None:
        paint_text(painter, cell, f"place {queued_job.number}", "small", "text2")
        return
    if not summary.run or summary.state is JobState.CREATED or summary.state.is_queued:
        paint_text(painter, cell, formats.NONE, "body", "text3")
        return
    bar = QRectF(
        cell.left(), cell.center().y() - _BAR_H / 2, cell.width() - _PERCENT_W - S2, _BAR_H
    )
    family = summary.state.color_role
    t = theme.current()
    if bar.width() > _BAR_H:
        fill_round(painter, bar, t.q(family, 0.22), _BAR_H / 2)
        filled_bar = QRectF(bar)
        filled_bar.setWidth(bar.width() * min(max(summary.progress or 0.0, 0.0), 1.0))
        fill_round(painter, filled_bar, t.q(family), _BAR_H / 2)
    percent_box = QRectF(cell.right() - _PERCENT_W, cell.top(), _PERCENT_W, cell.height())
    paint_text(painter, percent_box, formats.progress(summary.progress), "small", "text2")


def _paint_best(painter: QPainter, cell: QRectF, summary: JobSummary) -> None:
    name, value = best_metric_labels(summary)
    width = text_width(value, "strong")
    color_role = "text" if name else "text3"
    paint_text(painter, cell, value, "strong" if name else "body", color_role, right=True)
    caption_box = cell.adjusted(0, 0, -width - S1 - 2, 0)
    if name and caption_box.width() > QFontMetrics(theme.font("small")).averageCharWidth() * 2:
        paint_text(painter, caption_box, name, "small", "text3", right=True)
