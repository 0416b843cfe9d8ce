"""The versions of a thing: newest on top, with hash, date and the jobs that use each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from backend.records.library import LibraryItem
from widgets.common import formats
from widgets.common.cards import Card
from widgets.common.layout import col
from widgets.common.views import dress

AnyIndex = QModelIndex | QPersistentModelIndex
NO_PARENT = QModelIndex()
_TITLES = ("Version", "Imported", "Size", "Files", "Used by", "From", "SHA-256")


class VersionModel(QAbstractTableModel):
    """One row per version."""

    def __init__(self) -> None:
        super().__init__()
        self._items: tuple[LibraryItem, ...] = ()
        self._jobs: dict[str, int] = {}

    def put(self, items: tuple[LibraryItem, ...], jobs_by_reference: dict[str, int]) -> None:
        self.beginResetModel()
        self._items, self._jobs = items, dict(jobs_by_reference)
        self.endResetModel()

    def rowCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._items)

    def columnCount(self, parent: AnyIndex = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _TITLES[section]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        item = self._items[index.row()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return item.sha256 if index.column() == len(_TITLES) - 1 else None
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        jobs = self._jobs.get(item.reference, 0)
        return (
            formats.version(item.name, item.version),
            formats.exact(when(item.created)),
            formats.disk(item.bytes),
            formats.count(item.files),
            formats.plural(jobs, "job") if jobs else "–",
            item.source or "–",
            item.sha256[:12],
        )[index.column()]


class VersionsView(QWidget):
    """The tab Versions."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = VersionModel()
        table = QTableView()
        table.setModel(self._model)
        dress(table, "Versions")
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        table.horizontalHeader().setSectionResizeMode(5, QHeaderView.ResizeMode.Stretch)
        self.setLayout(col((Card((table, 1)), 1)))

    def show_versions(
        self, items: tuple[LibraryItem, ...], jobs_by_reference: dict[str, int]
    ) -> None:
        self._model.put(items, jobs_by_reference)


def when(iso: str) -> datetime | None:
    """A time of a record, None when it has none that can be read."""
    try:
        return datetime.fromisoformat(iso.replace("Z", "+00:00"))
    except ValueError:
        return None
