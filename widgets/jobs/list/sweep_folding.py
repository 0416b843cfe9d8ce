"""Folding of the sweeps in a list of jobs."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QTableView

from backend.records.jobs.summary import JobSummary
from widgets.jobs.list.job_list_model import JOB_ROLE, OPEN_ROLE, JobListModel

_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class SweepFolding(QObject):
    """Requests folding by key: Right unfolds, Left folds, Enter toggles.

    In the list, which has no columns, the keys also move between a sweep and its jobs.

    Signals:
        fold_requested: Tag of a sweep, and whether to fold it.
    """

    fold_requested = Signal(str, bool)

    def __init__(self, view: QTableView, model: JobListModel) -> None:
        super().__init__(view)
        self._view = view
        self._model = model
        view.installEventFilter(self)

    def toggle(self, index: QModelIndex) -> bool:
        """Fold or unfold the sweep of a row; return False for the row of a job."""
        is_open = index.data(OPEN_ROLE)
        if is_open is None:
            return False
        self.fold_requested.emit(index.data(JOB_ROLE).id, is_open)
        return True

    def eventFilter(self, target: QObject, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.KeyPress
            and isinstance(event, QKeyEvent)
            and event.modifiers() == Qt.KeyboardModifier.NoModifier
            and self._handle_key(Qt.Key(event.key()))
        ):
            return True
        return super().eventFilter(target, event)

    def _handle_key(self, key: Qt.Key) -> bool:
        index = self._view.currentIndex()
        if not index.isValid():
            return False
        is_open = index.data(OPEN_ROLE)
        if key in _ENTER:
            return self.toggle(index)
        if is_open is not None and key == (Qt.Key.Key_Left if is_open else Qt.Key.Key_Right):
            return self.toggle(index)
        if self._model.columnCount() > 1:
            return False
        summary: JobSummary = index.data(JOB_ROLE)
        row = -1
        if key == Qt.Key.Key_Right and is_open:
            row = index.row() + 1
        elif key == Qt.Key.Key_Left:
            row = self._model.sweep_row(summary.id)
        if row < 0:
            return False
        self._view.setCurrentIndex(self._model.index(row, 0))
        return True
