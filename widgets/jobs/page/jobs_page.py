"""The page Jobs: the list on the left and the open job on the right, or a full-width table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from PySide6.QtCore import QModelIndex, QPoint, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.summary import JobQuery, JobSummary
from backend.records.jobs.view import JobView, RunUpdate
from backend.records.queue.entry import Queue, QueueEntry
from backend.records.sweeps.summary import MIN_JOBS
from widgets.common.actions import fill_menu
from widgets.common.cards import LOADING_TEXT_DELAY_MS, EmptyState
from widgets.common.focus import FocusForwarder
from widgets.common.layout import col
from widgets.common.panes import DETAIL_MIN_W, ListDetailSplitter, PageStack
from widgets.common.state_badge import is_animated
from widgets.common.theme import (
    LIST_NARROW_W,
    LIST_W,
    LIST_WIDE_W,
    ONE_PANE_BELOW_W,
    RAIL_BELOW_W,
    RAIL_W,
    SIDEBAR_W,
    WIDE_FROM_W,
)
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import (
    BULK_ACTIONS,
    KEYED_ACTIONS,
    KEYED_BULK_ACTIONS,
    QUEUE_ACTIONS,
    BulkAction,
    JobAction,
    JobActions,
    JobSubject,
    Selection,
    fill_job_menu,
    main_action,
    may_have_checkpoints,
)
from widgets.jobs.actions.job_questions import queue_question
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.list.job_list_model import JOB_ROLE, OPEN_ROLE, QUEUE_ROLE, JobRows
from widgets.jobs.list.job_list_pane import JobListPane
from widgets.jobs.list.jobs_table import JobsTable
from widgets.jobs.page.welcome_page import OnboardingStrip, WelcomePage
from widgets.jobs.sweeps.sweep_actions import SweepFolds
from widgets.jobs.sweeps.sweep_pane import SweepPane
from widgets.plots.axis_choice import LOG_X_KEY, LOG_Y_KEY

LIST, TABLE = "list", "table"
_ROW_ACTIONS = (job_actions.START, job_actions.STOP, job_actions.RESUME, job_actions.START_OVER)
"""Main actions that are not in the menu of a row anyway."""

_TURN_INTERVAL_MS = 80


class JobsPage(QWidget):
    """List, table and open job; `job_actions` emits what the user requests.

    The page does not search jobs: it requests rows with `rows_requested`, and `show_rows` answers.

    Signals:
        job_opened: The id of the job that is open now. If its view is not known yet, the next
            `show_update` shows it.
        rows_requested: `LIST` or `TABLE`, and a `JobQuery`.
        sweep_opened: Tag of the sweep that is open now, instead of a job.
        view_changed: `LIST` or `TABLE`: the new form of the jobs.
        queue_moved: Positions in the queue changed; whether rows may move at once, even under the
            pointer.
        job_edited: A `JobView` that was created or changed here, for the lists.
        job_updated: A `JobView` that was updated, up to twenty per second, for the lists.
        job_removed: Id of a job that went to the trash.

    Attributes:
        list, detail: The left and the right side.
        model: The rows of the list.
        open_id: Id of the open job, "" for none.
        open_sweep_tag: Tag of the sweep that is open instead of a job, "" for none.
        welcome_page: Shown instead of both while there are no jobs.
        onboarding_strip: Steps to a job with the user's own parts, above the list.
        sweeps: Opens and closes sweeps in list and table.
        split: The two sides, whose widths are stored.
    """

    job_opened = Signal(str)
    rows_requested = Signal(str, JobQuery)
    sweep_opened = Signal(str)
    view_changed = Signal(str)
    queue_moved = Signal(bool)
    job_edited = Signal(JobView)
    job_updated = Signal(JobView)
    job_removed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.job_actions = JobActions()
        self.list = JobListPane(self.job_actions)
        self.model = self.list.model
        self.table = JobsTable(self.job_actions)
        self._panes: dict[str, JobListPane | JobsTable] = {LIST: self.list, TABLE: self.table}
        self.detail = JobDetail(self.job_actions)
        self.welcome_page = WelcomePage()
        self.onboarding_strip = OnboardingStrip()
        self._views: dict[str, JobView] = {}
        self._job_count: int | None = None
        self.open_id = self.open_sweep_tag = ""
        self._restored_id = ""
        self._awaited_sweep = ""
        self._unreadable_id = ""
        """The job that could not be opened, until another one is opened."""
        self._pending_action: Callable[[], object] | None = None
        """Called once the job that is being opened is shown."""
        self._begins_as_table = False
        self.sweeps = SweepFolds(lambda name: self._panes[name].query, self)
        self._is_shown = False
        self._wants_list = True
        self._empty_state = EmptyState("stack", "No job is open", "Select a job in the list.")
        self._right_pages = PageStack(DETAIL_MIN_W)
        self._right_pages.setObjectName("pane")
        self._right_pages.addWidget(self._empty_state)
        self._opening_state = EmptyState("stack", "Opening…")
        self._right_pages.addWidget(self._opening_state)
        self._unreadable_state = EmptyState("warning", "")
        self._right_pages.addWidget(self._unreadable_state)
        self._right_pages.addWidget(self.detail)
        self.sweep = SweepPane(self.job_actions)
        self._right_pages.addWidget(self.sweep)
        self.split = ListDetailSplitter(self.list, self._right_pages)
        self._reading_state = EmptyState("stack", "Reading jobs…")
        self._pages = PageStack()
        for page in (
            EmptyState("stack", "Opening…"),
            self._reading_state,
            self.welcome_page,
            self.split,
            self.table,
        ):
            self._pages.addWidget(page)
        self.setLayout(col(self.onboarding_strip, (self._pages, 1), gap=0))
        self._focus = FocusForwarder(self, self.list)
        self._connect_parts()
        self._add_keys()

    def _connect_parts(self) -> None:
        self.job_actions.add_handler(job_actions.BACK, self._go_back)
        self.job_actions.add_handler(job_actions.SHOW_NEWEST_RUN, self._reopen)
        self.job_actions.add_handler(job_actions.PRIORITY, self._ask_priority)
        for name, pane in self._panes.items():
            pane.query_changed.connect(partial(self.rows_requested.emit, name))
            pane.view.menu_requested.connect(partial(self._open_menu, name))
        self.list.folding.fold_requested.connect(partial(self.sweeps.fold, LIST))
        self.table.view.folding.fold_requested.connect(partial(self.sweeps.fold, TABLE))
        self.list.job_chosen.connect(self.open_job)
        self.list.sweep_chosen.connect(self.open_sweep)
        self.list.row_clicked.connect(self._show_right)
        self.list.table_button.clicked.connect(self.show_table)
        self.list.view.open_requested.connect(self._focus_job)
        # Read ahead for several jobs: a key is pressed sooner than a menu opens.
        self.list.view.trash_requested.connect(self._request_trash)
        self.table.view.job_opened.connect(self.reveal)
        self.sweep.view.job_opened.connect(self.open_job)
        self.table.list_button.clicked.connect(self.show_list)
        self._animation_timer = QTimer(self, interval=_TURN_INTERVAL_MS)
        self._animation_timer.timeout.connect(self.list.view.viewport().update)
        self._animation_timer.timeout.connect(self.table.view.viewport().update)
        self._loading_timer = QTimer(self, singleShot=True, interval=LOADING_TEXT_DELAY_MS)
        self._loading_timer.timeout.connect(self._update_page)

    def _add_keys(self) -> None:
        """Add the shortcuts; each works while its part of the page is visible.

        They belong to the window: a click on a plot or a card takes the focus off the page's parts.
        """
        detail, table = self.detail, self.table
        keys: tuple[tuple[QWidget, str, Callable[[], object]], ...] = (
            (self.split, "J", lambda: self.list.step(1)),
            (self.split, "K", lambda: self.list.step(-1)),
            *(
                (self.split, action.shortcut, partial(self._act_on_open, action))
                for action in KEYED_ACTIONS
            ),
            (self.split, "Ctrl+F", self.list.search.setFocus),
            (detail, "[", lambda: detail.tabs.step(-1)),
            (detail, "]", lambda: detail.tabs.step(1)),
            (detail, LOG_Y_KEY, detail.curves.toggle_log_y),
            (detail, LOG_X_KEY, detail.curves.toggle_log_x),
            (detail, "F", detail.curves.fit),
            (detail, "S", detail.focus_smoothing),
            (detail, "Ctrl+L", detail.focus_log),
            (table, "Ctrl+L", self._show_row_log),
            *(
                (table, action.shortcut, partial(self._act_on_rows, action))
                for action in KEYED_BULK_ACTIONS
            ),
            (table, "Ctrl+F", table.search.setFocus),
        )
        for widget, key, callback in keys:
            QShortcut(QKeySequence(key), widget, callback)

    # -- input

    @property
    def queries(self) -> dict[str, JobQuery]:
        """Return the queries to run now; the query of the table only while it is visible."""
        list_queries = {LIST: self.list.query}
        return {**list_queries, TABLE: self.table.query} if self._is_table() else list_queries

    @property
    def job_count(self) -> int:
        """Return the number of all jobs."""
        return self._job_count or 0

    @property
    def open_view(self) -> JobView | None:
        """Return the view of the open job, None if it is not known yet."""
        return self._views.get(self.open_id)

    @property
    def shows_unreadable(self) -> bool:
        """Return whether the page shows why a job cannot be opened."""
        return self._unreadable_state.isVisible()

    def restore(self, row_id: str, *, as_table: bool) -> None:
        """Restore the page as the window was closed, once the rows are known.

        Args:
            row_id: The id of the job or sweep that was open, "" for none.
            as_table: The value from `view_changed`.
        """
        self._restored_id = row_id
        self._begins_as_table = as_table

    def begin_reading(self) -> None:
        """Show that the jobs are being read, if it takes long."""
        if self._job_count is None:
            self._loading_timer.start()

    def show_error(self, message: str) -> None:
        """Show why the jobs cannot be read; those shown already stay."""
        if self._job_count is None:
            self._loading_timer.stop()
            self._reading_state.show_message("wifi-slash", "Could not read the jobs", message)
            self._pages.setCurrentWidget(self._reading_state)

    def show_views(self, views: tuple[JobView, ...]) -> None:
        """Set the job views that are known: running jobs and recent ones."""
        open_view = self._views.get(self.open_id)
        self._views = {view.id: view for view in views}
        if open_view is not None and open_view.id not in self._views:
            self._views[open_view.id] = open_view
        elif open_view is not None and self._views[open_view.id] != open_view:
            self.detail.show_view(self._views[open_view.id])
        if any(is_animated(view.state) for view in views):
            self._animation_timer.start()
        else:
            self._animation_timer.stop()

    def show_rows(self, list_name: str, rows: JobRows, *, is_immediate: bool = False) -> None:
        """Show the rows of the list or the table; ``is_immediate`` moves rows under the pointer."""
        self._job_count = rows.total_count
        self._loading_timer.stop()
        self._panes[list_name].show_rows(rows, is_user_request=is_immediate)
        self._open_awaited_sweep()
        self._show_sweep()
        self._update_page()

    def repaint_slots(self, slots: tuple[int, ...]) -> None:
        """Repaint the jobs of these slots; their rows stay in place."""
        for slot in slots:
            self.list.model.emit_changed(slot)
            self.table.model.emit_changed(slot)
        if slots:
            self._show_sweep()
        # The update of the queue and that of the job's state arrive in either order.
        self.detail.show_queued_job(self.model.queued_job(self.open_id))

    def show_queue(self, queue: Queue, *, is_immediate: bool = False) -> None:
        """Set the positions of waiting jobs; ``is_immediate`` moves rows under the pointer."""
        has_moved = self.list.show_queue(queue)
        self.table.model.show_queue(queue)
        self.detail.show_queued_job(self.model.queued_job(self.open_id))
        if has_moved:
            self.queue_moved.emit(is_immediate)

    def show_update(self, update: RunUpdate) -> None:
        """Update one job."""
        view = update.view
        self._take_view(view)
        self.job_updated.emit(view)
        if view.id == self.open_id:
            if not self._is_shown:
                self._show_open_job(view)
            self.detail.show_update(update)
        self._update_page()

    def show_view(self, view: JobView) -> None:
        """Add or update a job that was created or changed here."""
        self._take_view(view)
        self.job_edited.emit(view)
        if view.id == self.open_id and self._is_shown:
            self.detail.show_view(view)
        self._update_page()

    def _take_view(self, view: JobView) -> None:
        self._views[view.id] = view
        if view.id == self._unreadable_id:
            self.open_id, self._unreadable_id = view.id, ""
        if is_animated(view.state):
            self._animation_timer.start()

    @Slot(str)
    def open_job(self, job_id: str) -> None:
        """Open a job on the right."""
        self._wants_list = False
        self._unreadable_id = self._restored_id = self.open_sweep_tag = self._awaited_sweep = ""
        if job_id != self.open_id:
            self.open_id = job_id
            self._is_shown = False
            self._pending_action = None
            view = self._views.get(job_id)
            if view is not None:
                self._show_open_job(view)
            else:
                summary = self.model.summary(job_id)
                name_text = f" “{summary.name}”" if summary is not None else ""
                self._opening_state.show_message("stack", f"Opening{name_text}…")
                self._right_pages.setCurrentWidget(self._opening_state)
            self.job_opened.emit(job_id)
        self.list.choose(job_id)
        self._update_page()

    @Slot(str)
    def reveal(self, job_id: str) -> None:
        """Open a job on the right, and switch from the table to the list."""
        if self._is_table():
            self.show_list()
        self.open_job(job_id)

    def open_and_act(self, job_id: str, action: Callable[[], object]) -> None:
        """Open a job on the right, and call ``action`` once its page is shown."""
        self._pending_action = None
        self.reveal(job_id)
        if self._is_shown and job_id == self.open_id:
            action()
        else:
            self._pending_action = action

    def choose(self, ids: Sequence[str]) -> None:
        """Select these jobs in the visible list or table, once they exist."""
        list_name = TABLE if self._is_table() else LIST
        self._panes[list_name].select_jobs(ids)
        self.rows_requested.emit(list_name, self.queries[list_name])

    @Slot(str)
    def open_sweep(self, tag: str) -> None:
        """Open a sweep on the right, instead of a job."""
        self._awaited_sweep = ""
        if tag == self.open_sweep_tag:
            return
        self._unreadable_id = self.open_id = self._restored_id = ""
        self._is_shown = self._wants_list = False
        self.open_sweep_tag = tag
        self._show_sweep()
        self.sweep_opened.emit(tag)
        self.list.choose(tag)
        self._update_page()

    def open_new_sweep(self, tag: str, views: Sequence[JobView]) -> None:
        """Add the jobs of a new sweep, and open it once its row is known."""
        if self._is_table():
            self.show_list()
        self._awaited_sweep = tag
        for view in views:
            self.show_view(view)

    def _open_awaited_sweep(self) -> None:
        summary = self.model.summary(self._awaited_sweep) if self._awaited_sweep else None
        if summary is not None and summary.sweep is not None and len(summary.sweep.ids) >= MIN_JOBS:
            self.open_sweep(self._awaited_sweep)

    def _show_sweep(self) -> None:
        """Show the open sweep; close a sweep that no longer exists."""
        if not self.open_sweep_tag:
            return
        summary = self.model.summary(self.open_sweep_tag)
        if summary is None or summary.sweep is None or len(summary.sweep.ids) < MIN_JOBS:
            self.open_sweep_tag = ""
            self._right_pages.setCurrentWidget(self._empty_state)
            return
        self.sweep.show_sweep(summary, self.model.rows)
        self._right_pages.setCurrentWidget(self.sweep)

    def show_open_error(self, job_id: str, message: str) -> None:
        """Show why a job could not be opened."""
        if job_id == self.open_id and not self._is_shown:
            self.open_id = ""
            self._unreadable_id = job_id
            self._unreadable_state.show_message("warning", "This job cannot be opened", message)
            self._right_pages.setCurrentWidget(self._unreadable_state)
            self._update_page()

    def remove_job(self, job_id: str) -> None:
        """Remove a job that went to the trash."""
        self._views.pop(job_id, None)
        if job_id in (self.open_id, self._unreadable_id):
            self.open_id = self._unreadable_id = ""
            self._is_shown = False
            self._right_pages.setCurrentWidget(self._empty_state)
        self.job_removed.emit(job_id)
        self._update_page()

    @Slot()
    def show_table(self) -> None:
        """Show the full-width table."""
        self._begins_as_table = False
        if not self._is_table():
            _share_search(self.list, self.table)
        self._pages.setCurrentWidget(self.table)
        self._focus.set_part(self.table)
        self.view_changed.emit(TABLE)
        self.rows_requested.emit(TABLE, self.table.query)
        self.table.view.setFocus()

    @Slot()
    def show_list(self) -> None:
        if self._is_table():
            _share_search(self.table, self.list)
        self._pages.setCurrentWidget(self.split)
        self._focus.set_part(self.list)
        self.view_changed.emit(LIST)
        self.list.choose(self.open_id or self.open_sweep_tag)
        self.rows_requested.emit(LIST, self.list.query)

    # -- events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        is_narrow = self.width() < ONE_PANE_BELOW_W - RAIL_W
        # In a narrow window, which shows either the list or the job, a button leads back.
        self.detail.header.set_narrow(is_narrow)
        self.sweep.back_button.setVisible(is_narrow)
        has_open = bool(self.open_id or self.open_sweep_tag) and not self._wants_list
        self.list.setVisible(not is_narrow or not has_open)
        self._right_pages.setVisible(not is_narrow or has_open)
        self.split.suggest(_list_width(self.width()))

    def _is_table(self) -> bool:
        return self._pages.currentWidget() is self.table

    @Slot()
    def _update_page(self) -> None:
        """Choose the page to show, and open a job if the user has not."""
        self.detail.show_queued_job(self.model.queued_job(self.open_id))
        if self._job_count is None and not self._views:
            if not self._loading_timer.isActive() and self._pages.currentIndex() == 0:
                self._pages.setCurrentWidget(self._reading_state)
            return
        has_jobs = bool(self._job_count or self._views)
        if has_jobs and self._begins_as_table:
            self.show_table()
        elif not (self._is_table() and has_jobs):
            self._pages.setCurrentWidget(self.split if has_jobs else self.welcome_page)
        if self.open_id or self.open_sweep_tag:
            self.list.choose(self.open_id or self.open_sweep_tag)
        elif self.model.rowCount() and not self._unreadable_id:
            self._open_first()
        self._fit_width()

    def _open_first(self) -> None:
        """Open the job or sweep that was open in the last session, or the first row."""
        restored_row = self.model.summary(self._restored_id) if self._restored_id else None
        summary: JobSummary = restored_row or self.model.index(0, 0).data(JOB_ROLE)
        if summary.sweep is None:
            self.open_job(summary.id)
        else:
            self.open_sweep(summary.id)
        self._wants_list = True

    def _show_open_job(self, view: JobView) -> None:
        self._is_shown = True
        self.detail.open_job(view)
        self.detail.show_queued_job(self.model.queued_job(view.id))
        self._right_pages.setCurrentWidget(self.detail)
        action, self._pending_action = self._pending_action, None
        if action is not None:
            action()

    def _reopen(self, job_id: str) -> None:
        """Open the job from its beginning: its page showed an earlier run."""
        view = self._views.get(job_id)
        if view is not None and job_id == self.open_id:
            self._show_open_job(view)
            self.job_opened.emit(job_id)

    @Slot()
    def _show_right(self) -> None:
        self._wants_list = False
        self._fit_width()

    @Slot()
    def _focus_job(self) -> None:
        """Move the focus from the current row to its job."""
        self._show_right()
        self.detail.setFocus(Qt.FocusReason.TabFocusReason)

    @Slot()
    def _request_trash(self) -> None:
        ids = self.model.ticked_ids() or ((self.open_id,) if self.open_id else ())
        if ids:
            self.job_actions.ask(job_actions.TRASH_ALL, ids)

    def _go_back(self) -> None:
        self._wants_list = True
        self._fit_width()
        self.list.view.setFocus(Qt.FocusReason.TabFocusReason)

    # -- actions by key

    def _act_on_open(self, action: JobAction) -> None:
        """Act on the open job, or on all jobs of the open sweep."""
        if self.open_sweep_tag:
            for bulk in (a for a in KEYED_BULK_ACTIONS if a.shortcut == action.shortcut):
                self.sweep.run_action(bulk)
        elif self.open_id:
            self._ask(self.open_id, action)

    def _act_on_rows(self, action: BulkAction) -> None:
        """Act on all selected rows, or on the current one."""
        ids = self.table.view.selected_ids() or self.table.view.current_ids()
        if ids:
            self.job_actions.ask(action, ids)

    def _ask(self, job_id: str, action: JobAction) -> None:
        """Request an action on a job; its page is opened first if the action needs it."""
        if action.needs_page:
            self.open_and_act(job_id, lambda: self.job_actions.ask(action, job_id))
        else:
            self.job_actions.ask(action, job_id)

    def _ask_priority(self, job_id: str) -> None:
        position, view = self.model.queued_job(job_id), self.open_view
        if view is not None and view.id == job_id:
            new_entry = QueueEntry(job_id, view.name, 1, (), "", length_s=view.length_s)
            entry = position.entry if position is not None else new_entry

            def ask(priority: int, start_time: datetime | None, hours: float) -> None:
                change = job_actions.CHANGE_QUEUED
                self.job_actions.ask(change, job_id, priority, start_time, hours)

            dialog = queue_question(entry, ask, self)
            dialog.finished.connect(dialog.deleteLater)
            dialog.open()

    @Slot()
    def _show_row_log(self) -> None:
        """Show the log of the current row; a sweep has none."""
        ids = self.table.view.current_ids()
        if len(ids) == 1:
            self.open_and_act(ids[0], self.detail.focus_log)

    # -- the context menu of a row

    def _open_menu(self, list_name: str, index: QModelIndex, position: QPoint) -> None:
        """Open the menu of a row: for its job, all selected jobs, or its sweep."""
        summary: JobSummary | None = index.data(JOB_ROLE)
        if summary is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        chosen_ids = (
            self.table.view.selected_ids() if list_name == TABLE else self.model.ticked_ids()
        )
        if len(chosen_ids) > 1 and summary.id in chosen_ids:
            selection = Selection(len(chosen_ids), *self.model.active_counts(chosen_ids))
            fill_menu(
                menu,
                (BULK_ACTIONS,),
                selection,
                lambda action: self.job_actions.ask(action, chosen_ids),
            )
        elif summary.sweep is not None:
            self.sweeps.add_actions(
                menu, list_name, summary, self.job_actions, is_open=index.data(OPEN_ROLE)
            )
        else:
            self._fill_menu(menu, list_name, index, summary)
        menu.popup(position)

    def _fill_menu(
        self, menu: QMenu, list_name: str, index: QModelIndex, summary: JobSummary
    ) -> None:
        """Add the actions of the job's header."""
        is_known = summary.id == self.open_id and self.detail.has_checkpoints is not None
        # The checkpoints of a job in the list are not known.
        has_checkpoints = self.detail.has_checkpoints if is_known else may_have_checkpoints(summary)
        subject = JobSubject(
            summary, has_checkpoints, index.data(QUEUE_ROLE), is_in_table=list_name == TABLE
        )
        if list_name == TABLE:
            self.table.fill_menu(menu, index)
        action = main_action(subject)
        row_actions = (action,) if action in _ROW_ACTIONS else ()
        fill_job_menu(menu, (*row_actions, *QUEUE_ACTIONS), subject, partial(self._ask, summary.id))


def _list_width(page_w: int) -> int:
    """Return the width of the list next to a job, on a page of this width."""
    if page_w < RAIL_BELOW_W - RAIL_W:
        return LIST_NARROW_W
    return LIST_W if page_w < WIDE_FROM_W - SIDEBAR_W else LIST_WIDE_W


def _share_search(shown_pane: JobListPane | JobsTable, next_pane: JobListPane | JobsTable) -> None:
    """Keep text and state of the search when the other form of the jobs is shown."""
    next_pane.groups.choose(shown_pane.groups.key())
    next_pane.search.setText(shown_pane.search.text())
