"""Header of the wide job table."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QHeaderView, QWidget

from widgets.common.icons import paint_icon
from widgets.jobs.job_columns import JobColumn
from widgets.jobs.job_table_delegate import LEFT_W, RIGHT_W

_CARET_W = 12


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

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        super().paintSection(painter, rect, section)
        if self._order is None or section != self._order:
            return
        title_w = QFontMetrics(self.font()).horizontalAdvance(self._order.title)
        left = rect.left() + LEFT_W + title_w + 2
        if self._order.is_figure:
            left = rect.right() + 1 - RIGHT_W - title_w - 2 - _CARET_W
        caret = QRectF(left, rect.center().y() - _CARET_W / 2, _CARET_W, _CARET_W)
        paint_icon(painter, caret, "caret-down" if self._descending else "caret-up", "text")
