"""The left side of the place Jobs: search, groups, the queue's strip, and two lines a job."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPoint,
    Signal,
    Slot,
)
from PySide6.QtWidgets import QWidget

from backend.records.jobs.summary import ENDED, LIVE, WAITING, JobQuery, JobSummary
from backend.records.queue.entry import Queue
from widgets.common import formats
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import EmptyState
from widgets.common.fields import SearchField
from widgets.common.focus import FocusLead
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import LIST_NARROW_W, ROW_H, S2, S3, S4
from widgets.common.view_style import dress
from widgets.jobs.list.job_delegate import JobDelegate
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel
from widgets.jobs.list.job_list_view import JobListView
from widgets.jobs.list.job_rows import JobRows
from widgets.jobs.list.queue_strip import QueueStrip
from widgets.jobs.list.selection_bar import SelectionBar
from widgets.jobs.list.sweep_folding import SweepFolding

SEARCH_TIP = "Also with numbers: lr<0.1, batch>=64, epochs>10, accuracy>0.9"
GROUPS: dict[str, int | None] = {"all": None, "live": LIVE, "waiting": WAITING, "ended": ENDED}
GROUP_TITLES = (("all", "All"), ("live", "Live"), ("waiting", "Waiting"), ("ended", "Ended"))


class JobListPane(QWidget):
    """The list.

    Signals:
        query_changed: A `JobQuery`: other rows are wished for.
        chosen: Id of the job that became the current one; ``pressed`` too when by mouse.
        sweep_chosen: Tag of the sweep that became the current row.
        fold_requested: Tag of a sweep, and whether it is to be folded.
        menu_requested: Index of a row, and where on the screen.
        act_requested: Key of a `ManyAct`, and the ids of the jobs that are ticked, as a tuple.
        new_requested, table_requested: What the buttons say.
    """

    query_changed = Signal(JobQuery)
    chosen = Signal(str)
    sweep_chosen = Signal(str)
    fold_requested = Signal(str, bool)
    pressed = Signal()
    menu_requested = Signal(QModelIndex, QPoint)
    act_requested = Signal(str, object)
    new_requested = Signal()
    table_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = JobListModel()
        self.strip = QueueStrip()
        new = Button("New job", kind="primary", icon="plus")
        new.setToolTip(plain_tip("New job", "Ctrl+N"))
        new.clicked.connect(self.new_requested)
        self.search = SearchField("Name, note, tag, setting", key="Ctrl+F")
        self.search.setToolTip(plain_tip(SEARCH_TIP, "Ctrl+F"))
        self.search.searched.connect(self._asked)
        self._groups = SegmentedControl(GROUP_TITLES, "all", name="Which jobs")
        self._groups.chosen.connect(self._asked)
        table = IconButton("table", "As a table over the whole width")
        table.clicked.connect(self.table_requested)
        self.view = JobListView(self.model)
        self.view.setItemDelegate(JobDelegate(self.model, self.view))
        dress(self.view, "Jobs", row_h=ROW_H)
        self.view.viewport().installEventFilter(self)
        self._folding = SweepFolding(self.view, self.model)
        self._folding.wished.connect(self.fold_requested)
        self._shown_id = ""
        self.view.selectionModel().currentChanged.connect(self._current_changed)
        self.view.clicked.connect(self._clicked)
        self.view.menu_requested.connect(self.menu_requested)
        self.no_match = EmptyState("magnifying-glass", "No job matches", "", button="Clear")
        self.no_match.pressed.connect(self.clear)
        self.no_match.hide()
        self.ticks = self.model.ticks
        self.ticks.changed.connect(self._show_ticked)
        self._to_tick: tuple[str, ...] = ()
        self.bar = SelectionBar(stacked=True)
        self.bar.act_requested.connect(
            lambda key: self.act_requested.emit(key, self.model.ticked())
        )
        self.bar.clear_requested.connect(self.ticks.clear)
        self._below = QWidget()
        self._below.setLayout(col(self.bar, margins=(S2, S2, S2, S2)))
        self._below.hide()
        self.setMinimumWidth(LIST_NARROW_W - 24)
        title = Label("Jobs", "title")
        title.setToolTip("\n".join((plain_tip("Next job", "J"), plain_tip("Previous job", "K"))))
        head = row(title, STRETCH, new)
        filters = row(self._groups, STRETCH, table)
        self.setLayout(
            col(
                col(head, self.search, filters, gap=S2, margins=(S4, S3, S4, S2)),
                self.strip,
                (self.view, 1),
                (self.no_match, 1),
                self._below,
                gap=0,
            )
        )
        FocusLead(self, self.view)

    @property
    def query(self) -> JobQuery:
        """What is wished for now."""
        return JobQuery(text=self.search.text().strip(), group=GROUPS[self._groups.key()])

    def show_rows(self, rows: JobRows, *, at_once: bool = False) -> None:
        self.model.show_rows(rows, at_once=at_once)
        show_counts(self._groups, rows)
        empty = rows.total > 0 and self.model.rowCount() == 0
        if empty:
            say_no_match(self.no_match, self.query)
        self.view.setVisible(not empty)
        self.no_match.setVisible(empty)
        there = [one for one in self.ticks if self.model.line(one) is not None]
        if self._to_tick and at_once:
            there, self._to_tick = list(self._to_tick), ()
            self.ticks.add(there)
        self.ticks.keep(there)
        self._show_ticked()

    def tick(self, ids: Sequence[str]) -> None:
        """Tick these and no others, as soon as it is known that they are there."""
        self._to_tick = tuple(ids)

    def show_queue(self, queue: Queue) -> bool:
        """Whether a row has to move for it."""
        self.strip.show_queue(queue)
        return self.model.show_queue(queue)

    def choose(self, line_id: str) -> None:
        """Select a job or a sweep, or the sweep into which the job is folded, or no row."""
        self._shown_id = line_id
        self.model.set_open(line_id)
        row_number = self.model.row_of(line_id)
        if row_number < 0:
            row_number = self.model.head_row(line_id)
        selection = self.view.selectionModel()
        index = self.model.index(row_number, 0)
        if index == selection.currentIndex() and selection.isSelected(index) == index.isValid():
            return
        blocked = selection.blockSignals(True)
        if index.isValid():
            selection.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
            self.view.scrollTo(index)
        else:
            # A list without a current row would open its first one when Tab leads into it.
            selection.clearSelection()
        selection.blockSignals(blocked)
        self.view.viewport().update()

    def step(self, by: int) -> None:
        index = self.model.index(self.view.currentIndex().row() + by, 0)
        if index.isValid():
            self.view.setCurrentIndex(index)

    @Slot()
    def clear(self) -> None:
        """All jobs again."""
        self._groups.choose("all")
        if self.search.text():
            self.search.clear()
        else:
            self._asked()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """No row moves under the pointer."""
        if event.type() == QEvent.Type.Enter:
            self.model.hold(True)
        elif event.type() == QEvent.Type.Leave:
            self.model.hold(False)
            self.choose(self._shown_id)
        return super().eventFilter(watched, event)

    @Slot()
    def _show_ticked(self) -> None:
        ids = self.model.ticked()
        self._below.setVisible(bool(ids))
        if ids:
            self.bar.show_chosen(len(ids), self.model.live_of(ids))

    @Slot()
    def _asked(self) -> None:
        self.query_changed.emit(self.query)

    @Slot(QModelIndex)
    def _current_changed(self, index: QModelIndex) -> None:
        # Of a row that goes the next one becomes the current one, and nobody chose that.
        if not index.isValid() or self.model.is_changing:
            return
        line: JobSummary = index.data(JOB_ROLE)
        if line.sweep is not None:
            self.sweep_chosen.emit(line.id)
        else:
            self.chosen.emit(line.id)

    @Slot(QModelIndex)
    def _clicked(self, index: QModelIndex) -> None:
        self.ticks.clear()
        self._current_changed(index)
        if not self._folding.toggle(index):
            self.pressed.emit()


def show_counts(groups: SegmentedControl, rows: JobRows) -> None:
    """``Live 2``: how many there are, where there are any."""
    for key, title, number in (("live", "Live", rows.live), ("waiting", "Waiting", rows.waiting)):
        groups.set_text(key, f"{title} {formats.count(number)}" if number else title)


def say_no_match(place: EmptyState, query: JobQuery) -> None:
    """Why there is no row, and the way back."""
    if query.text and query.group is None and not query.is_narrow:
        title = f"No job matches “{query.text}”."
    elif query.text:
        title = f"No such job matches “{query.text}”."
    else:
        title = "No job is like that."
    sentence = "" if query.group is None and not query.is_narrow else "A filter is on."
    place.say("magnifying-glass", title, sentence, button="Clear")
