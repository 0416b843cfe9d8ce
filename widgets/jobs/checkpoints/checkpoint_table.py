"""The table of checkpoints; a row can be dragged out to export it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDrag
from PySide6.QtWidgets import QAbstractItemView, QTableView, QWidget

from backend.records.jobs.checkpoint import Checkpoint
from widgets.common.lazy_file_drag import Promise, PromisedFile
from widgets.common.record_table_model import RECORD_ROLE, AnyIndex, RowTableModel


class CheckpointModel(RowTableModel[Checkpoint]):
    """A model whose rows can be dragged."""

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsDragEnabled if index.isValid() else flags


class CheckpointTable(QTableView):
    """A table in which one row is selected at a time.

    Signals:
        drag_began: A `Checkpoint` and a `Promise`; the receiver sets the file's path at once.
    """

    drag_began = Signal(object, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)

    def startDrag(self, _actions: Qt.DropAction) -> None:
        index = self.currentIndex()
        if not index.isValid():
            return
        promise = Promise()
        self.drag_began.emit(index.data(RECORD_ROLE), promise)
        if not promise.path:
            return
        drag = QDrag(self)
        drag.setMimeData(PromisedFile(promise))
        drag.setPixmap(self.viewport().grab(self.visualRect(index)))
        # Copy only: a move would remove the checkpoint from the job.
        act = drag.exec(Qt.DropAction.CopyAction)
        promise.is_let_go = True
        if act == Qt.DropAction.IgnoreAction:
            promise.abandoned.emit()
