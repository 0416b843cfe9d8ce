"""The place Jobs: the list left, the open job right; or the whole width as a table."""

from __future__ import annotations

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPoint,
    QSortFilterProxyModel,
    Qt,
    QTimer,
    Signal,
    Slot,
)
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QMenu,
    QSplitter,
    QStackedWidget,
    QTableView,
    QWidget,
)

from backend.records.job_view import JobView, RunUpdate
from backend.records.queue import Queue
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import Card, EmptyState
from widgets.common.fields import SearchField
from widgets.common.layout import STRETCH, col, row
from widgets.common.state_badge import turns
from widgets.common.text import Label
from widgets.common.theme import (
    HEADER_H,
    LIST_NARROW_W,
    LIST_W,
    ONE_PANE_BELOW_W,
    RAIL_W,
    S2,
    S3,
    S4,
)
from widgets.common.views import dress
from widgets.jobs.first_start import FirstStart
from widgets.jobs.job_delegate import JobDelegate
from widgets.jobs.job_detail import JobDetail
from widgets.jobs.job_list_model import (
    JOB_ROLE,
    QUEUE_ROLE,
    JobColumn,
    JobFilter,
    JobListModel,
    group,
)
from widgets.jobs.job_list_view import JobListView
from widgets.jobs.queue_strip import QueueStrip

_GROUPS = {"all": None, "live": 0, "waiting": 1, "ended": 2}
_WIDTHS = {
    JobColumn.STATE: 90,
    JobColumn.NAME: 250,
    JobColumn.TAGS: 90,
    JobColumn.PROGRESS: 80,
    JobColumn.BEST: 130,
    JobColumn.WHERE: 190,
    JobColumn.STARTED: 110,
    JobColumn.TOOK: 80,
}
_TURN_INTERVAL_MS = 80


class JobsPage(QWidget):
    """List, table and detail.

    Signals:
        opened: The id of the job that is open now.
        new_requested: A new job is wished for.
        move_requested: A waiting job was dragged: its id, and the id before or after which it is
            to stand; the other one is "". What is wished by menus, `detail.queue` says.
        pause_requested: Whether the queue shall be paused from now on.
    """

    opened = Signal(str)
    new_requested = Signal()
    move_requested = Signal(str, str, str)
    pause_requested = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = JobListModel()
        self.detail = JobDetail()
        self.first_start = FirstStart()
        self._open_id = ""
        self._wants_list = True
        self._loaded = False
        self._list_filter = JobFilter(self.model, in_groups=True)
        self._table_filter = JobFilter(self.model, in_groups=False)
        self._make_list()
        self._make_table()
        self._nothing_open = EmptyState("stack", "No job is open", "Choose one from the list.")
        self._right = QStackedWidget()
        self._right.setObjectName("pane")
        self._right.addWidget(self._nothing_open)
        self._right.addWidget(self.detail)
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self._splitter.setHandleWidth(1)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self._list_pane)
        self._splitter.addWidget(self._right)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setSizes([LIST_W, 4000])
        self._pages = QStackedWidget()
        for page in (QWidget(), self.first_start, self._splitter, self._table_pane):
            self._pages.addWidget(page)
        self.setLayout(col((self._pages, 1), gap=0))
        self.setFocusProxy(self._list)
        self.detail.back_requested.connect(self._back)
        self._turning = QTimer(self)
        self._turning.setInterval(_TURN_INTERVAL_MS)
        self._turning.timeout.connect(self._list.viewport().update)
        self._make_keys()

    # -- what comes in

    def show_jobs(self, views: tuple[JobView, ...]) -> None:
        """All jobs there are."""
        self._loaded = True
        self.model.replace_all(views)
        opened = self.model.view(self._open_id)
        if opened is not None:
            self.detail.show_view(opened)
        self._settle()

    def show_queue(self, queue: Queue, *, at_once: bool = False) -> None:
        """Where the waiting jobs stand; ``at_once`` moves rows under the pointer too."""
        self.model.show_queue(queue)
        self._strip.show_queue(queue)
        self.detail.show_place(self.model.place(self._open_id))
        if at_once:
            self._list_filter.sort(0)

    def show_update(self, update: RunUpdate) -> None:
        """News of one job."""
        self.model.put(update.view)
        if update.view.id == self._open_id:
            self.detail.show_update(update)
        self._settle()

    def show_view(self, view: JobView) -> None:
        """A job was created or changed here."""
        self.model.put(view)
        if view.id == self._open_id:
            self.detail.show_view(view)
        self._settle()

    def open_job(self, job_id: str) -> None:
        """Show this job on the right."""
        view = self.model.view(job_id)
        if view is None:
            return
        self._wants_list = False
        if job_id != self._open_id:
            self._open_id = job_id
            self.detail.open_job(view)
            self.detail.show_place(self.model.place(job_id))
            self.opened.emit(job_id)
        self._right.setCurrentWidget(self.detail)
        index = self._list_filter.mapFromSource(self.model.index(self.model.row_of(job_id), 0))
        self._list.selectionModel().setCurrentIndex(
            index, QItemSelectionModel.SelectionFlag.ClearAndSelect
        )
        self._settle()

    @property
    def open_id(self) -> str:
        return self._open_id

    def forget(self, job_id: str) -> None:
        """A job went to the trash."""
        self.model.replace_all(tuple(v for v in self.model.views() if v.id != job_id))
        if job_id == self._open_id:
            self._open_id = ""
            self._right.setCurrentWidget(self._nothing_open)
        self._settle()

    # -- how it is made

    def _make_list(self) -> None:
        new = Button("New job", kind="primary", icon="plus", key="Ctrl+N")
        new.clicked.connect(self.new_requested)
        self._search = SearchField("Name, note or tag", key="Ctrl+F")
        self._search.searched.connect(self._searched)
        options = [("all", "All"), ("live", "Live"), ("waiting", "Waiting"), ("ended", "Ended")]
        self._groups = SegmentedControl(options, "all", name="Which jobs")
        self._groups.chosen.connect(self._group_chosen)
        table = IconButton("table", "As a table over the whole width")
        table.clicked.connect(self._show_table)
        self._list = JobListView()
        self._list.setModel(self._list_filter)
        self._list.setItemDelegate(JobDelegate(self._list))
        dress(self._list, "Jobs")
        self._list.viewport().installEventFilter(self)
        self._list.selectionModel().currentChanged.connect(self._chosen)
        self._list.clicked.connect(self._pressed)
        self._list.moved.connect(self.move_requested)
        self._list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._list.customContextMenuRequested.connect(self._show_menu)
        self._strip = QueueStrip()
        self._strip.pause_requested.connect(self.pause_requested)
        self._no_match = EmptyState("magnifying-glass", "No job matches", "", button="Clear")
        self._no_match.pressed.connect(self._search.clear)
        self._no_match.hide()
        head = row(Label("Jobs", "title"), STRETCH, new)
        filters = row(self._groups, STRETCH, table)
        self._list_pane = QWidget()
        self._list_pane.setMinimumWidth(LIST_NARROW_W - 24)
        self._list_pane.setLayout(
            col(
                col(head, self._search, filters, gap=S2, margins=(S4, S3, S4, S2)),
                self._strip,
                (self._list, 1),
                (self._no_match, 1),
                gap=0,
            )
        )

    def _make_table(self) -> None:
        self._table = QTableView()
        self._table.setModel(self._table_filter)
        dress(self._table, "All jobs")
        self._table.setSortingEnabled(True)
        self._table.sortByColumn(JobColumn.STARTED, Qt.SortOrder.DescendingOrder)
        self._table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        for column, width in _WIDTHS.items():
            self._table.setColumnWidth(column, width)
        self._table.activated.connect(self._activated)
        self._table.doubleClicked.connect(self._activated)
        back = Button("As a list", icon="arrow-left")
        back.clicked.connect(self._show_list)
        self._table_search = SearchField("Name, note or tag")
        self._table_search.searched.connect(self._table_filter.search)
        self._table_search.setFixedWidth(280)
        head = row(Label("Jobs", "title"), STRETCH, self._table_search, back)
        self._table_pane = QWidget()
        self._table_pane.setLayout(
            col(
                head,
                (Card((self._table, 1), margins=(0, S2, 0, 0)), 1),
                gap=S3,
                margins=(S4 + S2, (HEADER_H - 32) // 2, S4 + S2, S4),
            )
        )

    def _make_keys(self) -> None:
        detail = self.detail
        for key, act in (
            ("Ctrl+F", self._search.setFocus),
            ("J", self._next),
            ("K", self._previous),
            ("[", lambda: detail.step_tab(-1)),
            ("]", lambda: detail.step_tab(1)),
            ("L", detail.toggle_log_y),
            ("F", detail.fit),
            ("Ctrl+L", detail.focus_log),
            ("Ctrl+E", detail.export),
            ("Ctrl+.", lambda: detail.stop_requested.emit(self._open_id)),
            ("Ctrl+D", lambda: detail.clone_requested.emit(self._open_id)),
        ):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(act)

    # -- what happens

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """No row moves under the pointer."""
        if event.type() == QEvent.Type.Enter:
            self._list_filter.hold(True)
        elif event.type() == QEvent.Type.Leave:
            self._list_filter.hold(False)
            self._list_filter.sort(0)
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        narrow = self.width() < ONE_PANE_BELOW_W - RAIL_W
        self.detail.set_narrow(narrow)
        has_open = bool(self._open_id) and not self._wants_list
        self._list_pane.setVisible(not narrow or not has_open)
        self._right.setVisible(not narrow or has_open)

    def _settle(self) -> None:
        """Which of the pages is right now, and what the filters say."""
        # The queue and the state of a job come one after the other, either one first.
        self.detail.show_place(self.model.place(self._open_id))
        views = self.model.views()
        if self._pages.currentWidget() is not self._table_pane or not views:
            page = self._splitter if views else self.first_start
            if self._loaded:
                self._pages.setCurrentWidget(page)
        counts = {
            key: sum(group(view) == number for view in views)
            for key, number in (("live", 0), ("waiting", 1))
        }
        for key, title in (("live", "Live"), ("waiting", "Waiting")):
            self._groups.set_text(key, f"{title} {counts[key]}" if counts[key] else title)
        empty = bool(views) and self._list_filter.rowCount() == 0
        self._list.setVisible(not empty)
        self._no_match.setVisible(empty)
        if any(turns(view.state) for view in views):
            self._turning.start()
        else:
            self._turning.stop()
        if views and not self._open_id and self._list_filter.rowCount():
            first: JobView = self._list_filter.index(0, 0).data(JOB_ROLE)
            self.open_job(first.id)
            self._wants_list = True
        self._fit()

    @Slot(str)
    def _searched(self, text: str) -> None:
        self._list_filter.search(text)
        self._no_match.say("magnifying-glass", f"No job matches “{text}”.", "", button="Clear")
        self._settle()

    @Slot(str)
    def _group_chosen(self, key: str) -> None:
        self._list_filter.show_group(_GROUPS[key])
        self._no_match.say("stack", "No such job", "", button="")
        self._settle()

    @Slot(QModelIndex)
    def _chosen(self, index: QModelIndex) -> None:
        if index.isValid():
            self.open_job(index.data(JOB_ROLE).id)

    @Slot(QModelIndex)
    def _pressed(self, index: QModelIndex) -> None:
        self._chosen(index)
        self._wants_list = False
        self._fit()

    @Slot(QModelIndex)
    def _activated(self, index: QModelIndex) -> None:
        self._show_list()
        self.open_job(index.data(JOB_ROLE).id)

    @Slot(QPoint)
    def _show_menu(self, at: QPoint) -> None:
        """What the queue can do with the job under the pointer."""
        index = self._list.indexAt(at)
        if not index.isValid():
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.detail.queue.fill(menu, index.data(JOB_ROLE), index.data(QUEUE_ROLE))
        if menu.actions():
            menu.popup(self._list.viewport().mapToGlobal(at))

    @Slot()
    def _back(self) -> None:
        self._wants_list = True
        self._fit()

    @Slot()
    def _show_table(self) -> None:
        self._pages.setCurrentWidget(self._table_pane)
        self._table.setFocus()

    @Slot()
    def _show_list(self) -> None:
        self._pages.setCurrentWidget(self._splitter)

    @Slot()
    def _next(self) -> None:
        self._step(1)

    @Slot()
    def _previous(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        model: QSortFilterProxyModel = self._list_filter
        index = model.index(self._list.currentIndex().row() + by, 0)
        if index.isValid():
            self._list.setCurrentIndex(index)
