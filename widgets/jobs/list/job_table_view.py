"""The wide table: its columns, their selection, sizes and order, and its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QMimeData,
    QModelIndex,
    QPoint,
    QRect,
    QRectF,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyleOptionHeader,
    QTableView,
    QWidget,
)

from widgets.common.drag_and_drop import drag_pixmap, dragged_label, put_jobs
from widgets.common.icons import paint_icon
from widgets.common.view_style import context_menu_row, style_view
from widgets.jobs.list.job_columns import SETTINGS, JobColumn
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel, SweepFolding
from widgets.jobs.list.job_table_delegate import LEFT_W, RIGHT_W, JobTableDelegate, caret_right

_CARET_W = 12
_MARK_W = _CARET_W + 2
_WIDTHS = {
    JobColumn.STATE: 108,
    JobColumn.TAGS: 112,
    JobColumn.PROGRESS: 112,
    JobColumn.BEST: 148,
    JobColumn.NODES: 108,
    JobColumn.GPUS: 56,
    JobColumn.STARTED: 122,
    JobColumn.TOOK: 84,
    JobColumn.GPU_HOURS: 84,
    JobColumn.ENERGY: 84,
    JobColumn.USER: 64,
    JobColumn.NOTES: 200,
    JobColumn.CREATED: 132,
    JobColumn.LR: 124,
    JobColumn.BATCH_SIZE: 88,
    JobColumn.OPTIMIZER: 88,
    JobColumn.EPOCHS: 68,
    JobColumn.MODEL: 132,
    JobColumn.DATASET: 132,
    JobColumn.STRATEGY: 88,
    JobColumn.SEED: 56,
    JobColumn.SCRIPT: 132,
    JobColumn.ARGUMENTS: 200,
}
_NAME_MIN_W, _NAME_MAX_W = 192, 420
"""In a wide window the columns share the space beyond the longest names: otherwise a wide gap
would separate a name and its values."""
_MIN_W, _MAX_W = 48, 900
_DEFAULT_COLUMNS: tuple[JobColumn, ...] = tuple(
    c for c in JobColumn if c not in (JobColumn.NOTES, JobColumn.CREATED, *SETTINGS)
)
_HIDING_ORDER = (
    JobColumn.ENERGY,
    JobColumn.GPU_HOURS,
    JobColumn.CREATED,
    JobColumn.USER,
    JobColumn.NOTES,
    JobColumn.TAGS,
    JobColumn.GPUS,
    JobColumn.NODES,
    JobColumn.TOOK,
    JobColumn.STARTED,
    JobColumn.PROGRESS,
    *reversed(SETTINGS),
)
"""The order in which columns are hidden in a narrow window."""


class JobTableView(QTableView):
    """All jobs as a table.

    Signals:
        job_opened: Id of a job: Enter, or a double click.
        selection_changed: Ids of the selected rows, as a tuple in row order.
        order_changed: Key of a column, and whether descending; "" for the list's own order.
        layout_changed: The result of `layout_state`, to be stored.
        trash_requested: The key for the trash was pressed.
        menu_requested: Index of a row, and the screen position.

    Attributes:
        folding: Opens and closes sweeps.
    """

    job_opened = Signal(str)
    selection_changed = Signal(object)
    order_changed = Signal(str, bool)
    layout_changed = Signal(object)
    trash_requested = Signal()
    menu_requested = Signal(QModelIndex, QPoint)

    def __init__(self, model: JobListModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._chosen_columns: tuple[JobColumn, ...] = _DEFAULT_COLUMNS
        self._order, self._descending = "", True
        self._chosen_widths = dict(_WIDTHS)
        self._is_fitting = False
        self._extra_width = 0
        self._edited_column: JobColumn | None = None
        self._empty_keys: frozenset[str] = frozenset()
        self.setModel(model)
        self.setItemDelegate(JobTableDelegate(model, self))
        style_view(self, "All jobs")
        self.setProperty("kind", "list")
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setDragEnabled(True)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._header = header = JobTableHeader(self)
        self.setHorizontalHeader(header)
        header.setMinimumSectionSize(_MIN_W)
        for column, width in _WIDTHS.items():
            self.setColumnWidth(column, width)
        header.setSectionResizeMode(JobColumn.NAME, QHeaderView.ResizeMode.Stretch)
        header.sectionClicked.connect(self._sort_by_section)
        header.sectionResized.connect(self._store_width)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._open_column_menu)
        self.selectionModel().selectionChanged.connect(
            lambda: self.selection_changed.emit(self.selected_ids())
        )
        self.viewport().installEventFilter(self)
        self.folding = SweepFolding(self, model)
        self._fit_columns()

    # -- stored layout

    def layout_state(self) -> dict[str, Any]:
        """Return columns, widths and order as plain values.

        `QHeaderView.saveState` would store a narrow window's columns as the user's choice.
        """
        return {
            "columns": [column.key for column in self._chosen_columns],
            "widths": {column.key: width for column, width in self._chosen_widths.items()},
            "order": self._order,
            "descending": self._descending,
        }

    def restore(self, layout: Mapping[str, Any]) -> None:
        """Restore a result of `layout_state`, from a file that may have been edited."""
        columns = {column.key: column for column in JobColumn}
        column_keys = layout.get("columns")
        if isinstance(column_keys, list):
            chosen_columns = tuple(c for key, c in columns.items() if key in column_keys)
            self._chosen_columns = (
                chosen_columns if JobColumn.NAME in chosen_columns else _DEFAULT_COLUMNS
            )
        widths = layout.get("widths")
        for key, width in widths.items() if isinstance(widths, Mapping) else ():
            column = columns.get(key)
            if column in _WIDTHS and isinstance(width, int):
                self._chosen_widths[column] = min(max(width, _MIN_W), _MAX_W)
        order = layout.get("order")
        if order in columns and columns[str(order)].can_sort:
            self._order, self._descending = str(order), layout.get("descending") is True
        self._show_order()
        self._fit_columns()

    @property
    def order(self) -> tuple[str, bool]:
        """Return the key of the sort column, and whether the order is descending."""
        return self._order, self._descending

    def selected_ids(self) -> tuple[str, ...]:
        """Return the ids of the selected rows, in row order."""
        # By ranges: for 100,000 rows selected with Ctrl+A, the indexes alone would take a second.
        ranges = list(self.selectionModel().selection())  # type: ignore[call-overload]
        rows = {row for part in ranges for row in range(part.top(), part.bottom() + 1)}
        return self._model.ids(sorted(rows))

    def current_ids(self) -> tuple[str, ...]:
        """Return the id of the current job, or of all jobs of the current sweep."""
        index = self.currentIndex()
        return self._model.ids((index.row(),)) if index.isValid() else ()

    def select_jobs(self, ids: Sequence[str]) -> None:
        """Select only the rows of these jobs."""
        rows = [row for row in map(self._model.row_of, ids) if row >= 0]
        selection = QItemSelection()
        for row in rows:
            selection.select(self._model.index(row, 0), self._model.index(row, 0))
        flag = QItemSelectionModel.SelectionFlag
        if rows:
            first_index = self._model.index(min(rows), JobColumn.NAME)
            self.selectionModel().setCurrentIndex(first_index, flag.NoUpdate)
            self.scrollTo(first_index)
        self.selectionModel().select(selection, flag.ClearAndSelect | flag.Rows)

    def edit_cell(self, row: int, column: JobColumn) -> None:
        """Edit a cell in place, and show its column; cells of a sweep are not edited."""
        if not self._model.flags(self._model.index(row, column)) & Qt.ItemFlag.ItemIsEditable:
            return
        if column not in self._chosen_columns:
            self._toggle_column(column, True)
        if self.isColumnHidden(column):
            self._edited_column = column
            self._fit_columns()
        index = self._model.index(row, column)
        self.setCurrentIndex(index)
        self._model.hold_rows(True)
        self.edit(index)

    # -- columns

    def set_empty_columns(self, keys: frozenset[str]) -> None:
        """Hide columns in which no job has a figure; the user can still choose them."""
        if keys != self._empty_keys:
            self._empty_keys = keys
            self._fit_columns()

    def _fit_columns(self) -> None:
        """Show all chosen columns that have figures, or as many as fit."""
        if self._is_fitting:
            return
        self._is_fitting = True
        available_width = self.viewport().width() - _NAME_MIN_W
        visible_columns = [
            c
            for c in self._chosen_columns
            if c.key not in self._empty_keys or c is self._edited_column
        ]
        for column in _HIDING_ORDER:
            if sum(self._chosen_widths.get(c, 0) for c in visible_columns) <= available_width:
                break
            if (
                column in visible_columns
                and column.key != self._order
                and column is not self._edited_column
            ):
                visible_columns.remove(column)
        used_width = sum(self._chosen_widths.get(c, 0) for c in visible_columns)
        spare_width = self.viewport().width() - _NAME_MAX_W - used_width
        self._extra_width = max(0, spare_width // len(visible_columns))
        for column in JobColumn:
            self.setColumnHidden(column, column not in visible_columns)
            if column in self._chosen_widths:
                self.setColumnWidth(column, self._chosen_widths[column] + self._extra_width)
        self._is_fitting = False

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    @Slot(int, int, int)
    def _store_width(self, section: int, _old_width: int, width: int) -> None:
        column = JobColumn(section)
        if not self._is_fitting and column in self._chosen_widths and width > 0:
            self._chosen_widths[column] = max(width - self._extra_width, _MIN_W)
            self.layout_changed.emit(self.layout_state())

    @Slot(int)
    def _sort_by_section(self, section: int) -> None:
        """Sort by the column, then in reverse, then in the list's own order."""
        column = JobColumn(section)
        if not column.can_sort:
            return
        starts_descending = column.is_figure or column is JobColumn.PROGRESS
        if self._order != column.key:
            self._order, self._descending = column.key, starts_descending
        elif self._descending == starts_descending:
            self._descending = not starts_descending
        else:
            self._order, self._descending = "", True
        self._show_order()
        self.order_changed.emit(self._order, self._descending)
        self.layout_changed.emit(self.layout_state())

    def _show_order(self) -> None:
        column = JobColumn[self._order.upper()] if self._order else None
        self._header.show_order(column, descending=self._descending)

    @Slot(QPoint)
    def _open_column_menu(self, position: QPoint) -> None:
        self.column_menu().popup(self.horizontalHeader().mapToGlobal(position))

    def column_menu(self) -> QMenu:
        """Return a menu of all columns; visible columns are ticked, the name always.

        Ticking a chosen column without space shows this column in place of another column.
        """
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        settings = QMenu("Settings", menu)
        for column in JobColumn:
            action = (settings if column in SETTINGS else menu).addAction(column.title)
            action.setCheckable(True)
            action.setChecked(not self.isColumnHidden(column))
            action.setEnabled(column is not JobColumn.NAME)
            action.toggled.connect(partial(self._toggle_column, column))
        menu.addMenu(settings)
        menu.addSeparator()
        menu.addAction("Reset columns", self._reset_columns)
        return menu

    def _toggle_column(self, column: JobColumn, is_chosen: bool) -> None:
        chosen_columns = (
            {*self._chosen_columns, column} if is_chosen else set(self._chosen_columns) - {column}
        )
        # The column just chosen stays visible, even if another must be hidden.
        self._edited_column = column if is_chosen else None
        self._chosen_columns = tuple(c for c in JobColumn if c in chosen_columns)
        self._fit_columns()
        self.layout_changed.emit(self.layout_state())

    @Slot()
    def _reset_columns(self) -> None:
        self._chosen_columns = _DEFAULT_COLUMNS
        self._chosen_widths.update(_WIDTHS)
        self._fit_columns()
        self.layout_changed.emit(self.layout_state())

    # -- rows

    def eventFilter(self, target: Any, event: QEvent) -> bool:
        """Hold the rows while the pointer is over them, or while a cell is edited."""
        if target is self.viewport():
            if event.type() == QEvent.Type.Enter:
                self._model.hold_rows(True)
            elif event.type() == QEvent.Type.Leave and not self._is_editing():
                self._model.hold_rows(False)
        return super().eventFilter(target, event)

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        super().closeEditor(editor, hint)
        self._model.hold_rows(self.viewport().underMouse())

    def _is_editing(self) -> bool:
        return self.state() is QAbstractItemView.State.EditingState

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        key = event.key()
        if self._is_editing():
            # Enter ends the editing and arrives here afterwards; it must not open a job.
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_Space and index.isValid():
            flag = QItemSelectionModel.SelectionFlag
            self.selectionModel().select(index, flag.Toggle | flag.Rows)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self.job_opened.emit(index.data(JOB_ROLE).id)
        elif key == Qt.Key.Key_F2 and index.isValid():
            self.edit_cell(index.row(), JobColumn.NAME)
        elif key == Qt.Key.Key_Delete:
            self.trash_requested.emit()
        elif key == Qt.Key.Key_O and index.isValid() and not event.modifiers():
            self._sort_by_section(index.column())
        elif key == Qt.Key.Key_C and not event.modifiers():
            self._open_column_menu(QPoint(0, self.horizontalHeader().height()))
        elif key == Qt.Key.Key_Escape and self.selectionModel().hasSelection():
            self.clearSelection()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Fold a sweep on a click on its caret, without selecting it."""
        position = event.position().toPoint()
        index = self.indexAt(position)
        is_caret = index.column() == JobColumn.NAME and position.x() < caret_right(
            self.visualRect(index)
        )
        is_plain_click = event.button() is Qt.MouseButton.LeftButton and not event.modifiers()
        if not (is_caret and is_plain_click and self.folding.toggle(index)):
            super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Open a job; on its tags or notes, edit them."""
        index = self.indexAt(event.position().toPoint())
        if not index.isValid() or self.folding.toggle(index):
            return
        column = JobColumn(index.column())
        if column in (JobColumn.TAGS, JobColumn.NOTES):
            self.edit_cell(index.row(), column)
        else:
            self.job_opened.emit(index.data(JOB_ROLE).id)

    def startDrag(self, _actions: Qt.DropAction) -> None:
        """Drag all selected rows, to compare them."""
        ids = self.selected_ids()
        summary = self._model.summary(ids[0]) if ids else None
        if summary is None:
            return
        drag_label = dragged_label(ids, summary.name)
        content = QMimeData()
        put_jobs(content, ids, drag_label)
        drag = QDrag(self)
        drag.setMimeData(content)
        drag.setPixmap(drag_pixmap(drag_label, self.devicePixelRatioF()))
        drag.exec(Qt.DropAction.CopyAction)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Open the menu of the row under the pointer, or by key of the current row."""
        index, position = context_menu_row(self, event)
        if index.isValid():
            self.menu_requested.emit(index, position)


class JobTableHeader(QHeaderView):
    """A header with the sort mark next to the title; Qt's mark covers a right-aligned title."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._order: JobColumn | None = None
        self._descending = True
        self.setStretchLastSection(False)
        self.setSectionsClickable(True)

    def show_order(self, column: JobColumn | None, *, descending: bool) -> None:
        """Mark the sort column of the table."""
        self._order, self._descending = column, descending
        self.viewport().update()

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:
        super().initStyleOptionForIndex(option, section)
        option.text = self.elided_title(section)

    def elided_title(self, section: int) -> str:
        """Return the title, cut to the space next to the sort mark."""
        column = JobColumn(section)
        available_width = self.sectionSize(section) - (RIGHT_W if column.is_figure else LEFT_W)
        if section == self._order:
            available_width -= _MARK_W
        if self._metrics().horizontalAdvance(column.title) <= available_width:
            return column.title
        return self._metrics().elidedText(
            column.title, Qt.TextElideMode.ElideRight, available_width
        )

    def mark_x(self, rect: QRect, section: int) -> int:
        """Return the left edge of the mark in the rectangle of its section."""
        title_w = self._metrics().horizontalAdvance(self.elided_title(section))
        if JobColumn(section).is_figure:
            return rect.right() + 1 - RIGHT_W - title_w - _MARK_W
        return rect.left() + LEFT_W + title_w + 2

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        super().paintSection(painter, rect, section)
        if self._order is None or section != self._order:
            return
        mark_x = self.mark_x(rect, section)
        caret = QRectF(mark_x, rect.center().y() - _CARET_W / 2, _CARET_W, _CARET_W)
        paint_icon(painter, caret, "caret-down" if self._descending else "caret-up", "text")

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(self.font())
