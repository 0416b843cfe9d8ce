"""Adds jobs to the comparison: a search and the jobs that are not in it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QListView, QWidget

from backend.records.comparison import MOST_JOBS
from backend.records.job_view import JobView
from widgets.common.buttons import Button
from widgets.common.cards import EmptyState
from widgets.common.fields import SearchField
from widgets.common.layout import STRETCH, col, row
from widgets.common.text import Label
from widgets.common.theme import ROW_H, S3, S6
from widgets.common.views import dress
from widgets.jobs.job_delegate import JobDelegate
from widgets.jobs.job_list_model import JOB_ROLE, JobFilter, JobListModel

_WIDTH, _ROWS = 560, 8


class JobPicker(QDialog):
    """A click, or Enter, adds a job; the dialog stays for the next one.

    Signals:
        picked: The id of a job to add.
    """

    picked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Add a job")
        self.setObjectName("dialog")
        self.setFixedWidth(_WIDTH)
        self._model = JobListModel()
        self._filter = JobFilter(self._model, in_groups=True)
        self._search = SearchField("Name, note or tag")
        self._search.searched.connect(self._searched)
        self._search.returnPressed.connect(self._take_current)
        self._search.installEventFilter(self)
        self._list = QListView()
        self._list.setModel(self._filter)
        self._list.setItemDelegate(JobDelegate(self._list))
        dress(self._list, "Jobs that can be added")
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
        self.setLayout(
            col(
                Label("Add a job", "title"),
                self._search,
                self._list,
                self._nothing,
                row(self._count, STRETCH, done),
                gap=S3,
                margins=(S6, S6, S6, S6),
            )
        )
        self._search.setFocus()

    def show_jobs(self, views: tuple[JobView, ...], compared: tuple[str, ...]) -> None:
        """All jobs there are, and those that need no adding."""
        self._model.replace_all(tuple(view for view in views if view.id not in compared))
        self._count.setText(f"{len(compared)} of {MOST_JOBS}")
        self._list.setEnabled(len(compared) < MOST_JOBS)
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Up and down walk in the list while one types."""
        keys = (Qt.Key.Key_Up, Qt.Key.Key_Down)
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() in keys
            and self._filter.rowCount()
        ):
            by = 1 if event.key() == Qt.Key.Key_Down else -1
            number = self._list.currentIndex().row() + by
            last = self._filter.rowCount() - 1
            self._list.setCurrentIndex(self._filter.index(min(max(number, 0), last), 0))
            return True
        return super().eventFilter(watched, event)

    @Slot(str)
    def _searched(self, text: str) -> None:
        self._filter.search(text)
        self._settle()

    def _settle(self) -> None:
        some = self._filter.rowCount() > 0
        self._list.setVisible(some)
        self._nothing.setVisible(not some)
        text = self._search.text()
        if self._model.rowCount():
            self._nothing.say("magnifying-glass", f"No job matches “{text}”.")
        else:
            self._nothing.say("stack", "There is no other job.")
        if some and not self._list.currentIndex().isValid():
            self._list.setCurrentIndex(self._filter.index(0, 0))

    @Slot()
    def _take_current(self) -> None:
        # What was typed last is looked for first.
        self._searched(self._search.text())
        if self._list.currentIndex().isValid():
            self._take(self._list.currentIndex())

    @Slot(QModelIndex)
    def _take(self, index: QModelIndex) -> None:
        if self._list.isEnabled():
            self.picked.emit(index.data(JOB_ROLE).id)
