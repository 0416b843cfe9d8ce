"""The table of checkpoints, whose rows can be dragged out to where a copy is wanted."""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDrag
from PySide6.QtWidgets import QAbstractItemView, QTableView, QWidget

from backend.records.checkpoint import Checkpoint
from widgets.common.row_table import RECORD_ROLE, AnyIndex, RowTableModel


class CheckpointModel(RowTableModel[Checkpoint]):
    """Rows of which this computer has the file can be dragged."""

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        if index.isValid() and file_here(self.rows[index.row()]):
            flags |= Qt.ItemFlag.ItemIsDragEnabled
        return flags


class CheckpointTable(QTableView):
    """One row at a time."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)

    def startDrag(self, _actions: Qt.DropAction) -> None:
        index = self.currentIndex()
        path = file_here(index.data(RECORD_ROLE)) if index.isValid() else ""
        if not path:
            return
        content = QMimeData()
        content.setUrls([QUrl.fromLocalFile(path)])
        drag = QDrag(self)
        drag.setMimeData(content)
        drag.setPixmap(self.viewport().grab(self.visualRect(index)))
        # A copy and nothing else: what is moved out of a job is gone from it.
        drag.exec(Qt.DropAction.CopyAction)


def file_here(checkpoint: Checkpoint) -> str:
    """The path of its file, "" where another computer has it."""
    return checkpoint.path if PurePath(checkpoint.path).is_absolute() else ""
