"""The header of the wide job table."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QHeaderView, QStyleOptionHeader, QWidget

from widgets.common.icons import paint_icon
from widgets.jobs.list.job_columns import JobColumn
from widgets.jobs.list.job_table_delegate import LEFT_W, RIGHT_W

_CARET_W = 12
_MARK_W = _CARET_W + 2


class JobTableHeader(QHeaderView):
    """A header with the sort mark next to the title; Qt's mark covers a right-aligned title."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._order: JobColumn | None = None
        self._descending = True
        self.setStretchLastSection(False)
        self.setSectionsClickable(True)

    def show_order(self, column: JobColumn | None, *, descending: bool) -> None:
        """Mark the column that the table is sorted by."""
        self._order, self._descending = column, descending
        self.viewport().update()

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:
        super().initStyleOptionForIndex(option, section)
        option.text = self.fitted_title(section)

    def fitted_title(self, section: int) -> str:
        """Return the title, cut to the space next to the sort mark."""
        column = JobColumn(section)
        room = self.sectionSize(section) - (RIGHT_W if column.is_figure else LEFT_W)
        if section == self._order:
            room -= _MARK_W
        if self._metrics().horizontalAdvance(column.title) <= room:
            return column.title
        return self._metrics().elidedText(column.title, Qt.TextElideMode.ElideRight, room)

    def mark_left(self, rect: QRect, section: int) -> int:
        """Return the left edge of the mark in the rectangle of its section."""
        title_w = self._metrics().horizontalAdvance(self.fitted_title(section))
        if JobColumn(section).is_figure:
            return rect.right() + 1 - RIGHT_W - title_w - _MARK_W
        return rect.left() + LEFT_W + title_w + 2

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        super().paintSection(painter, rect, section)
        if self._order is None or section != self._order:
            return
        left = self.mark_left(rect, section)
        caret = QRectF(left, rect.center().y() - _CARET_W / 2, _CARET_W, _CARET_W)
        paint_icon(painter, caret, "caret-down" if self._descending else "caret-up", "text")

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(self.font())
