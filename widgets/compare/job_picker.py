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
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel, JobRows

_WIDTH, _ROWS = 560, 7


class JobPicker(Dialog):
    """A search and a list of jobs; a click or Enter adds a job, and the dialog stays open.

    Signals:
        job_picked: The id of a job to add.
        rows_requested: A `JobQuery`; answer with `show_rows`.
    """

    job_picked = Signal(str)
    rows_requested = Signal(JobQuery)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Add a job", _WIDTH, parent)
        self._model = JobListModel()
        self._rows = JobRows()
        self._compared_ids: tuple[str, ...] = ()
        self._picks_first = False
        self._search = SearchField("Name, note or tag")
        self._search.searched.connect(self.request_rows)
        self._search.returnPressed.connect(self._pick_first)
        self._search.installEventFilter(self)
        self._list = QListView()
        self._list.setModel(self._model)
        self._list.setItemDelegate(JobDelegate(self._model, self._list))
        style_view(self._list, "Jobs that can be added")
        self._list.setFixedHeight(_ROWS * ROW_H)
        self._list.clicked.connect(self._pick)
        self._list.activated.connect(self._pick)
        self._empty_state = EmptyState("magnifying-glass", "", "")
        self._empty_state.setFixedHeight(_ROWS * ROW_H)
        self._count_label = Label("", "small", "text2")
        done_button = Button("Done", kind="primary")
        done_button.setDefault(False)
        done_button.setAutoDefault(False)
        done_button.clicked.connect(self.accept)
        self.fill(
            self._search,
            self._list,
            self._empty_state,
            foot=(self._count_label, STRETCH, done_button),
        )
        self._search.setFocus()

    def request_rows(self) -> None:
        """Request the jobs that match the typed text."""
        self.rows_requested.emit(JobQuery(self._search.text()))

    def show_compared(self, ids: tuple[str, ...]) -> None:
        """Set the jobs that are compared already."""
        self._compared_ids = ids
        self._count_label.setText(f"{len(ids)} of {MOST_JOBS}")
        self._list.setEnabled(len(ids) < MOST_JOBS)
        self._show_remaining()

    def show_rows(self, query: JobQuery, rows: JobRows) -> None:
        """Show the found jobs, without the jobs that are compared already."""
        self._rows = rows
        self._show_remaining()
        # The rows of an earlier, shorter text do not have the job that the user means first.
        if self._picks_first and query.text == self._search.text():
            self._picks_first = False
            self._pick(self._list.currentIndex())

    def _show_remaining(self) -> None:
        rows = self._rows
        slots = [
            slot for job_id in self._compared_ids if (slot := rows.slot_of(job_id)) is not None
        ]
        remaining_order = rows.order[~np.isin(rows.order, slots)]
        self._model.show_rows(replace(rows, order=remaining_order), is_user_request=True)
        self._show_empty_state()

    def eventFilter(self, target: QObject, event: QEvent) -> bool:
        """Move through the list with Up and Down while the search has the focus."""
        keys = (Qt.Key.Key_Up, Qt.Key.Key_Down)
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() in keys
            and self._model.rowCount()
        ):
            step = 1 if event.key() == Qt.Key.Key_Down else -1
            row = self._list.currentIndex().row() + step
            last_row = self._model.rowCount() - 1
            self._list.setCurrentIndex(self._model.index(min(max(row, 0), last_row), 0))
            return True
        return super().eventFilter(target, event)

    def _show_empty_state(self) -> None:
        has_rows = self._model.rowCount() > 0
        self._list.setVisible(has_rows)
        self._empty_state.setVisible(not has_rows)
        text = self._search.text()
        if self._rows.total_count > len(self._compared_ids):
            self._empty_state.show_message("magnifying-glass", f"No job matches “{text}”.")
        else:
            self._empty_state.show_message("stack", "There are no other jobs.")
        if has_rows and not self._list.currentIndex().isValid():
            self._list.setCurrentIndex(self._model.index(0, 0))

    @Slot()
    def _pick_first(self) -> None:
        # Search for the newest text first.
        self._picks_first = True
        self.request_rows()

    @Slot(QModelIndex)
    def _pick(self, index: QModelIndex) -> None:
        if self._list.isEnabled() and index.isValid():
            self.job_picked.emit(index.data(JOB_ROLE).id)
