"""A table of records for any Qt view, defined by its columns.

For tables that are small or replaced as a whole. The list of jobs, whose rows change under a
selection, has its own model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from widgets.common import icons, theme
from widgets.common.labels import plain_tip
from widgets.common.theme import ColorRole

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()
RECORD_ROLE = Qt.ItemDataRole.UserRole
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_UNUSED_ROLES = frozenset(
    {
        Qt.ItemDataRole.FontRole,
        Qt.ItemDataRole.BackgroundRole,
        Qt.ItemDataRole.CheckStateRole,
        Qt.ItemDataRole.SizeHintRole,
    }
)
"""Half of the roles that a delegate requests for each cell."""

Record = TypeVar("Record")


@dataclass(frozen=True)
class TableColumn(Generic[Record]):
    """A column: its title, its text for a record, and the full text in the tool tip.

    With ``is_figure`` a column holds numbers, aligned at the right digit by digit.
    """

    is_figure: bool = field(default=False, kw_only=True)
    title: str
    cell_text: Callable[[Record], str]
    tip: Callable[[Record], str] | None = None
    is_bad: Callable[[Record], bool] | None = None
    """Returns True if the value is an error of the record: red, with a sign."""
    needs_attention: Callable[[Record], bool] | None = None
    """Returns True if the value needs attention: amber, with a sign."""


class RowTableModel(QAbstractTableModel, Generic[Record]):
    """One row per record, in the given order; `RECORD_ROLE` returns the record itself."""

    def __init__(self, columns: Sequence[TableColumn[Record]]) -> None:
        super().__init__()
        self._columns = tuple(columns)
        self._rows: tuple[Record, ...] = ()

    @property
    def rows(self) -> tuple[Record, ...]:
        return self._rows

    def set_records(self, rows: Sequence[Record]) -> None:
        """Replace the records. The same number keeps the selection; equal rows emit nothing."""
        new_rows = tuple(rows)
        if new_rows == self._rows:
            return
        if len(new_rows) == len(self._rows):
            self._rows = new_rows
            last_index = self.index(len(new_rows) - 1, len(self._columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last_index)
            return
        self.beginResetModel()
        self._rows = new_rows
        self.endResetModel()

    def set_column_title(self, column: int, title: str) -> None:
        """Change the title of a column: the metric that a job is judged by."""
        previous_column = self._columns[column]
        if title != previous_column.title:
            new_column = replace(previous_column, title=title)
            self._columns = (*self._columns[:column], new_column, *self._columns[column + 1 :])
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, column, column)

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and column.is_figure:
            return _RIGHT
        return column.title if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role in _UNUSED_ROLES or not index.isValid():
            return None
        record = self._rows[index.row()]
        column = self._columns[index.column()]
        if role == RECORD_ROLE:
            return record
        if role == Qt.ItemDataRole.DisplayRole:
            return column.cell_text(record)
        if role == Qt.ItemDataRole.TextAlignmentRole and column.is_figure:
            return _RIGHT
        if role == Qt.ItemDataRole.ToolTipRole and column.tip is not None:
            return plain_tip(column.tip(record))
        if column.is_bad is not None and column.is_bad(record):
            return _mark_data("x-circle-fill", "bad", role)
        if column.needs_attention is not None and column.needs_attention(record):
            return _mark_data("warning-fill", "warn", role)
        return None


def _mark_data(icon: str, color_role: ColorRole, role: int) -> Any:
    if role == Qt.ItemDataRole.ForegroundRole:
        return theme.current().q(color_role)
    return icons.icon(icon, color_role) if role == Qt.ItemDataRole.DecorationRole else None
