"""The style of tables, trees and lists beyond the style sheet."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRectF,
    QSize,
    Qt,
    Slot,
)
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QTreeView,
    QWidget,
)

from widgets.common import theme
from widgets.common.painting import paint_focus
from widgets.common.theme import TABLE_ROW_H, TARGET_MIN

_LINE_W, _SAMPLE_ROWS = 1, 32
_MAX_H = (1 << 24) - 1
"""Qt's value for an unlimited height."""


def style_view(view: QAbstractItemView, name: str, *, row_h: int = TABLE_ROW_H) -> None:
    """Style a table, tree or list like all views: rows, no grid, plain header.

    Args:
        name: The accessible name: the kind of the rows.
    """
    view.setFont(theme.font("body"))
    view.setAccessibleName(name)
    view.setFrameShape(QFrame.Shape.NoFrame)
    view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    view.setMouseTracking(True)
    if isinstance(view, QTableView):
        view.setShowGrid(False)
        view.setWordWrap(False)
        view.setCornerButtonEnabled(False)
        view.setTabKeyNavigation(False)  # Tab leaves a table, arrows move in it
        view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        if type(view.itemDelegate()) is QStyledItemDelegate:
            view.setItemDelegate(RowDelegate(view))
        view.verticalHeader().hide()
        view.verticalHeader().setMinimumSectionSize(TARGET_MIN)
        view.verticalHeader().setDefaultSectionSize(row_h)
        # Fixed height; otherwise a table of 100,000 rows measures each of them.
        view.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        _style_header(view.horizontalHeader())
    elif isinstance(view, QTreeView):
        view.setUniformRowHeights(True)
        view.setAllColumnsShowFocus(True)
        _style_header(view.header())
    elif isinstance(view, QListView):
        view.setUniformItemSizes(True)


def context_menu_row(
    view: QAbstractItemView, event: QContextMenuEvent
) -> tuple[QModelIndex, QPoint]:
    """The row whose menu is requested, and the position of the menu on the screen.

    For a menu that is opened by key Qt gives the position of the current row, but in pixels of the
    view's content: below a header that is the row after it.
    """
    viewport = view.viewport()
    if event.reason() is QContextMenuEvent.Reason.Keyboard:
        index = view.currentIndex()
        return index, viewport.mapToGlobal(view.visualRect(index).center())
    return view.indexAt(event.pos()), event.globalPos()


def share_column_width(view: QTableView, stretched_column: int, *, equally: bool = False) -> None:
    """Give ``stretched_column`` the remaining width, or all columns the same width.

    Equal widths are for wide tables, where related values would be too distant from each other.
    """
    modes = QHeaderView.ResizeMode
    header = view.horizontalHeader()
    header.setStretchLastSection(False)  # of two that stretch each has half
    # A thousand rows, Qt's default, take 0.2 s.
    header.setResizeContentsPrecision(_SAMPLE_ROWS)
    header.setSectionResizeMode(modes.Stretch if equally else modes.ResizeToContents)
    header.setSectionResizeMode(stretched_column, modes.Stretch)


class ColumnHider(QObject):
    """Hide ``optional_columns``, in this order, while the texts of the others do not fit."""

    def __init__(self, view: QTableView, optional_columns: Sequence[int]) -> None:
        super().__init__(view)
        self._view, self._optional_columns = view, optional_columns
        view.viewport().installEventFilter(self)
        view.model().modelReset.connect(self.update_columns)

    def eventFilter(self, _receiver: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.update_columns()
        return False

    @Slot()
    def update_columns(self) -> None:
        """Measure again: another column was shown or hidden."""
        view = self._view
        header = view.horizontalHeader()

        def needed_width(column: int) -> int:
            return max(view.sizeHintForColumn(column), header.sectionSizeHint(column))

        columns = range(header.count())
        candidates = [
            number
            for number in columns
            if number in self._optional_columns or not view.isColumnHidden(number)
        ]
        missing_w = sum(map(needed_width, candidates)) - view.viewport().width()
        for column in self._optional_columns:
            view.setColumnHidden(column, missing_w > 0)
            missing_w -= needed_width(column)


class TableHeightLimit(QObject):
    """Keep the frame of a table at most as high as its rows.

    The frame needs a share of its layout and, below it, space that no other widget takes
    (`layout.SLACK`).
    """

    def __init__(self, view: QTableView, frame: QWidget, margin_px: int) -> None:
        """``margin_px``: Pixels of the frame above and below the view, together."""
        super().__init__(frame)
        self._view, self._frame, self._margin_px = view, frame, margin_px
        model = view.model()
        for rows_signal in (model.modelReset, model.rowsInserted, model.rowsRemoved):
            rows_signal.connect(self.update_height)
        self.update_height()

    @Slot()
    def update_height(self) -> None:
        """Measure again: the view was shown or hidden."""
        rows, row_h = self._view.model().rowCount(), self._view.verticalHeader()
        # A frame of the maximum height has no limit.
        max_height = _MAX_H
        if not self._view.isHidden():
            header_h = self._view.horizontalHeader().sizeHint().height()
            # The view's own edge, the line around the frame, and the space between them.
            edges = 2 * self._view.frameWidth() + 2 * _LINE_W + self._margin_px
            max_height = min(header_h + rows * row_h.defaultSectionSize() + edges, _MAX_H)
        self._frame.setMaximumHeight(max_height)


class RowPointer(QObject):
    """The row of a table under the pointer, -1 for none; all its cells are highlighted."""

    def __init__(self, view: QTableView) -> None:
        super().__init__(view)
        self._view = view
        self.row = -1
        view.viewport().installEventFilter(self)

    def eventFilter(self, _receiver: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent):
            self._set_row(self._view.rowAt(int(event.position().y())))
        elif event.type() == QEvent.Type.Leave:
            self._set_row(-1)
        return False

    def _set_row(self, row: int) -> None:
        if row != self.row:
            self.row = row
            self._view.viewport().update()


class RowDelegate(QStyledItemDelegate):
    """Cells of a table in which whole rows are hovered and selected, never single cells."""

    def __init__(self, view: QTableView) -> None:
        super().__init__(view)
        self._pointer = RowPointer(view)

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        flags = QStyle.StateFlag
        option.state &= ~(flags.State_MouseOver | flags.State_HasFocus)
        if index.row() == self._pointer.row:
            option.state |= flags.State_MouseOver


class TallRowDelegate(QStyledItemDelegate):
    """Rows of a plain list that are high enough to click."""

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), max(hint.height(), TARGET_MIN))

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        super().paint(painter, option, index)
        by_key = QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_KeyboardFocusChange
        if option.state & by_key == by_key:
            painter.save()
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_focus(painter, QRectF(option.rect))
            painter.restore()


def _style_header(header: QHeaderView) -> None:
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setStretchLastSection(True)
    header.setMinimumHeight(TARGET_MIN)
