"""A dialog that adds jobs to the comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QListView, QWidget

from backend.records.jobs.comparison import MOST_JOBS
from backend.records.jobs.summary import JobQuery
from widgets.common.buttons import Button
from widgets.common.cards import EmptyState
from widgets.common.dialog import Dialog
from widgets.common.fields import SearchField
from widgets.common.labels import Label
from widgets.common.layout import STRETCH
from widgets.common.theme import ROW_H
from widgets.common.view_style import style_view
from widgets.jobs.list.job_delegate import JobDelegate
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel
from widgets.jobs.list.job_rows import JobRows

_WIDTH, _ROWS = 560, 7


class JobPicker(Dialog):
    """A search and a list of jobs; a click or Enter adds one, and the dialog stays open.

    Signals:
        picked: The id of a job to add.
        rows_requested: A `JobQuery`; answer with `show_rows`.
    """

    picked = Signal(str)
    rows_requested = Signal(JobQuery)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Add a job", _WIDTH, parent)
        self._model = JobListModel()
        self._rows = JobRows()
        self._compared: tuple[str, ...] = ()
        self._takes_first = False
        self._search = SearchField("Name, note or tag")
        self._search.searched.connect(self.ask)
        self._search.returnPressed.connect(self._take_current)
        self._search.installEventFilter(self)
        self._list = QListView()
        self._list.setModel(self._model)
        self._list.setItemDelegate(JobDelegate(self._model, self._list))
        style_view(self._list, "Jobs that can be added")
        self._list.setFixedHeight(_ROWS * ROW_H)
        self._list.clicked.connect(self._take)
        self._list.activated.connect(self._take)
        self._nothing = EmptyState("magnifying-glass", "", "")
        self._nothing.setFixedHeight(_ROWS * ROW_H)
        self._count = Label("", "small", "text2")
        done = Button("Done", kind="primary")
        done.setDefault(False)
        done.setAutoDefault(False)
        done.clicked.connect(self.accept)
        self.fill(self._search, self._list, self._nothing, foot=(self._count, STRETCH, done))
        self._search.setFocus()

    def ask(self) -> None:
        """Request the jobs that match the typed text."""
        self.rows_requested.emit(JobQuery(self._search.text()))

    def show_compared(self, ids: tuple[str, ...]) -> None:
        """Set the jobs that are compared already."""
        self._compared = ids
        self._count.setText(f"{len(ids)} of {MOST_JOBS}")
        self._list.setEnabled(len(ids) < MOST_JOBS)
        self._show_left()

    def show_rows(self, query: JobQuery, rows: JobRows) -> None:
        """Show the jobs found, without those that are compared already."""
        self._rows = rows
        self._show_left()
        # The rows of an earlier, shorter text do not have the job that the user means first.
        if self._takes_first and query.text == self._search.text():
            self._takes_first = False
            self._take(self._list.currentIndex())

    def _show_left(self) -> None:
        rows = self._rows
        slots = [slot for job_id in self._compared if (slot := rows.slot_of(job_id)) is not None]
        left = rows.order[~np.isin(rows.order, slots)]
        self._model.show_rows(replace(rows, order=left), is_user_request=True)
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move through the list with Up and Down while the search has the focus."""
        keys = (Qt.Key.Key_Up, Qt.Key.Key_Down)
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() in keys
            and self._model.rowCount()
        ):
            by = 1 if event.key() == Qt.Key.Key_Down else -1
            number = self._list.currentIndex().row() + by
            last = self._model.rowCount() - 1
            self._list.setCurrentIndex(self._model.index(min(max(number, 0), last), 0))
            return True
        return super().eventFilter(watched, event)

    def _settle(self) -> None:
        some = self._model.rowCount() > 0
        self._list.setVisible(some)
        self._nothing.setVisible(not some)
        text = self._search.text()
        if self._rows.total_count > len(self._compared):
            self._nothing.show_message("magnifying-glass", f"No job matches “{text}”.")
        else:
            self._nothing.show_message("stack", "There are no other jobs.")
        if some and not self._list.currentIndex().isValid():
            self._list.setCurrentIndex(self._model.index(0, 0))

    @Slot()
    def _take_current(self) -> None:
        # Search for the newest text first.
        self._takes_first = True
        self.ask()

    @Slot(QModelIndex)
    def _take(self, index: QModelIndex) -> None:
        if self._list.isEnabled() and index.isValid():
            self.picked.emit(index.data(JOB_ROLE).id)
