"""The left side of the page Jobs: search, groups, queue strip, the list, and the selection bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.summary import (
    ENDED_GROUP,
    LIVE_GROUP,
    WAITING_GROUP,
    JobQuery,
    JobSummary,
)
from backend.records.queue.entry import Queue
from widgets.common import formats
from widgets.common.actions import MoreButton, fill_menu
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import EmptyState, StyledFrame
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import LIST_NARROW_W, ROW_H, S1, S2, S3, S4
from widgets.common.view_style import style_view
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import (
    BULK_ACTIONS,
    NEW_JOB,
    PAUSE_QUEUE,
    BulkAction,
    JobActions,
    JobIds,
    Selection,
)
from widgets.jobs.list.job_delegate import JobDelegate
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel, JobRows, SweepFolding
from widgets.jobs.list.job_list_view import JobListView

SEARCH_TIP = "Conditions also work: lr<0.1, batch>=64, epochs>10, accuracy>0.9"
GROUPS: dict[str, int | None] = {
    "all": None,
    "live": LIVE_GROUP,
    "waiting": WAITING_GROUP,
    "ended": ENDED_GROUP,
}
GROUP_TITLES = (("all", "All"), ("live", "Live"), ("waiting", "Waiting"), ("ended", "Ended"))


class JobListPane(QWidget):
    """The list and its controls.

    Signals:
        query_changed: A `JobQuery`; other rows are requested.
        job_chosen: Id of the job that became current.
        row_clicked: A row was clicked with the mouse.
        sweep_chosen: Tag of the sweep that became the current row.

    Attributes:
        table_button: The button that shows the table.
        model, view, folding: The rows, the list, and the folding of sweeps.
        search, groups: The field above the list, and the choice of states.
        queue_strip: The queue as a whole, with its pause.
        ticks: The selected jobs, which stay selected when rows move.
        selection_bar: Actions on the selected jobs.
    """

    query_changed = Signal(JobQuery)
    job_chosen = Signal(str)
    sweep_chosen = Signal(str)
    row_clicked = Signal()

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self.model = JobListModel()
        self.queue_strip = QueueStrip(actions)
        new_button = Button("New job", kind="primary", icon="plus")
        new_button.setToolTip(plain_tip("New job", "Ctrl+N"))
        new_button.clicked.connect(lambda: actions.ask(NEW_JOB))
        self.search = SearchField("Name, note, tag, setting", key="Ctrl+F")
        self.search.setToolTip(plain_tip(SEARCH_TIP, "Ctrl+F"))
        self.search.searched.connect(self._emit_query)
        self.groups = SegmentedControl(GROUP_TITLES, "all", name="Filter by state")
        self.groups.key_chosen.connect(self._emit_query)
        self.table_button = IconButton("table", "Show as a full-width table")
        self.view = JobListView(self.model, actions)
        self.view.setItemDelegate(JobDelegate(self.model, self.view))
        style_view(self.view, "Jobs", row_h=ROW_H)
        self.view.viewport().installEventFilter(self)
        self.folding = SweepFolding(self.view, self.model)
        self._shown_id = ""
        self._shown_query = JobQuery()
        self.view.selectionModel().currentChanged.connect(self._change_current)
        self.view.clicked.connect(self._click_row)
        self.no_match = EmptyState("magnifying-glass", "No job matches", "", button="Clear")
        self.no_match.pressed.connect(self.clear)
        self.no_match.hide()
        self.ticks = self.model.ticks
        self.ticks.changed.connect(self._show_ticked)
        self._pending_ticks: tuple[str, ...] = ()
        self.selection_bar = SelectionBar(actions, self.model.ticked_ids, is_stacked=True)
        self.selection_bar.clear_button.clicked.connect(self.ticks.clear)
        self._bar_area = QWidget()
        self._bar_area.setLayout(col(self.selection_bar, margins=(S2, S2, S2, S2)))
        self._bar_area.hide()
        self.setMinimumWidth(LIST_NARROW_W - 24)
        title = Label("Jobs", "title")
        title.setToolTip("\n".join((plain_tip("Next job", "J"), plain_tip("Previous job", "K"))))
        head = row(title, STRETCH, new_button, gap=S1)
        filters = row(self.groups, STRETCH, self.table_button)
        self.setLayout(
            col(
                col(head, self.search, filters, gap=S2, margins=(S4, S3, S4, S2)),
                self.queue_strip,
                (self.view, 1),
                (self.no_match, 1),
                self._bar_area,
                gap=0,
            )
        )
        FocusForwarder(self, self.view)

    @property
    def query(self) -> JobQuery:
        """Return the current query."""
        return JobQuery(text=self.search.text().strip(), group=GROUPS[self.groups.key()])

    def show_rows(self, rows: JobRows, *, is_user_request: bool = False) -> None:
        self.model.show_rows(rows, is_user_request=is_user_request)
        if self.query != self._shown_query:
            self._shown_query = self.query
            self.view.scrollToTop()
        show_counts(self.groups, rows)
        has_no_match = rows.total_count > 0 and self.model.rowCount() == 0
        if has_no_match:
            show_no_match(self.no_match, self.query)
        self.view.setVisible(not has_no_match)
        self.no_match.setVisible(has_no_match)
        kept_ids = [t for t in self.ticks if self.model.summary(t) is not None]
        if self._pending_ticks and is_user_request:
            kept_ids, self._pending_ticks = list(self._pending_ticks), ()
            self.ticks.add(kept_ids)
        self.ticks.keep(kept_ids)
        self._show_ticked()

    def select_jobs(self, ids: Sequence[str]) -> None:
        """Tick only the rows of these jobs, with the next rows."""
        self._pending_ticks = tuple(ids)

    def show_queue(self, queue: Queue) -> bool:
        """Show the queue; return whether the entry of any job changed."""
        self.queue_strip.show_queue(queue)
        return self.model.show_queue(queue)

    def choose(self, line_id: str) -> None:
        """Select a job or a sweep, or the sweep that hides the job, or no row."""
        self._shown_id = line_id
        self.model.set_open(line_id)
        row_number = self.model.row_of(line_id)
        if row_number < 0:
            row_number = self.model.sweep_row(line_id)
        selection = self.view.selectionModel()
        index = self.model.index(row_number, 0)
        if index == selection.currentIndex() and selection.isSelected(index) == index.isValid():
            return
        was_blocked = selection.blockSignals(True)
        if index.isValid():
            selection.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
            self.view.scrollTo(index)
        else:
            # Without a current row, Tab into the list would open its first row.
            selection.clearSelection()
        selection.blockSignals(was_blocked)
        self.view.viewport().update()

    def step(self, offset: int) -> None:
        index = self.model.index(self.view.currentIndex().row() + offset, 0)
        if index.isValid():
            self.view.setCurrentIndex(index)

    @Slot()
    def clear(self) -> None:
        """Reset the query to all jobs."""
        self.groups.choose("all")
        if self.search.text():
            self.search.clear()
        else:
            self._emit_query()

    def eventFilter(self, target: QObject, event: QEvent) -> bool:
        """Hold the rows while the pointer is over them."""
        if event.type() == QEvent.Type.Enter:
            self.model.hold_rows(True)
        elif event.type() == QEvent.Type.Leave:
            self.model.hold_rows(False)
            self.choose(self._shown_id)
        return super().eventFilter(target, event)

    @Slot()
    def _show_ticked(self) -> None:
        ids = self.model.ticked_ids()
        self._bar_area.setVisible(bool(ids))
        if ids:
            self.selection_bar.show_selection(len(ids), *self.model.active_counts(ids))

    @Slot()
    def _emit_query(self) -> None:
        self.query_changed.emit(self.query)

    @Slot(QModelIndex)
    def _change_current(self, index: QModelIndex) -> None:
        # When a row is removed, Qt makes the next one current; the user did not choose it. A row
        # under a pressed button may be dragged.
        if not self.view.is_pressed and not self.model.is_changing:
            self._open_row(index)

    def _open_row(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        summary: JobSummary = index.data(JOB_ROLE)
        if summary.sweep is not None:
            self.sweep_chosen.emit(summary.id)
        else:
            self.job_chosen.emit(summary.id)

    @Slot(QModelIndex)
    def _click_row(self, index: QModelIndex) -> None:
        self.ticks.clear()
        self._open_row(index)
        if not self.folding.toggle(index):
            self.row_clicked.emit()


def show_counts(groups: SegmentedControl, rows: JobRows) -> None:
    """Show the counts in the groups, as in ``Live 2``."""
    for key, title, number in (
        ("live", "Live", rows.live_count),
        ("waiting", "Waiting", rows.queued_count),
    ):
        groups.set_count(key, title, formats.count(number) if number else "")


def show_no_match(empty_state: EmptyState, query: JobQuery) -> None:
    """Show why there are no rows, with a button that clears the query."""
    if query.text and query.group is None and not query.is_narrow:
        title = f"No job matches “{query.text}”."
    elif query.text:
        title = f"No job matches “{query.text}” and this filter."
    else:
        title = "No job matches this filter."
    hint = "" if query.group is None and not query.is_narrow else "A filter is active."
    empty_state.show_message("magnifying-glass", title, hint, button="Clear")


class QueueStrip(QWidget):
    """The state of the queue, with the button that pauses the queue.

    The strip is hidden while no job waits and the queue is not paused.
    """

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._is_paused = False
        self._message_label = Label("", "small", "text2", wrap=True)
        self._pause_button = Button("", kind="quiet")
        self._pause_button.clicked.connect(
            lambda: self._actions.ask(PAUSE_QUEUE, not self._is_paused)
        )
        # At most two lines in a narrow list; a single line is centred.
        self._message_label.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        line = row((self._message_label, 1), self._pause_button, gap=S2, margins=(S3, 2, 2, 2))
        self.setLayout(col(StyledFrame("sunken", line), margins=(S4, 0, S4, S2)))
        self.show_queue(Queue())

    def show_queue(self, queue: Queue) -> None:
        self._is_paused = bool(queue.pause_message)
        count = len(queue.jobs)
        waiting_text = (
            "1 job is queued and will start automatically."
            if count == 1
            else f"{formats.count(count)} jobs are queued and will start automatically."
        )
        self._message_label.setText(queue.pause_message or waiting_text)
        self._message_label.set_color_role("warn" if self._is_paused else "text2")
        self._pause_button.setText("Resume" if self._is_paused else "Pause")
        self._pause_button.set_icon("play" if self._is_paused else "pause")
        self._pause_button.set_tip(
            "Start jobs from the queue again"
            if self._is_paused
            else "Start no more jobs from the queue; running jobs continue"
        )
        self.setVisible(bool(count) or self._is_paused)


_ALL_BUTTONS_FROM_W = 1060
_MENU_ACTIONS = (
    job_actions.CLONE_ALL,
    job_actions.CSV_ALL,
    job_actions.EXPORT_ALL,
    job_actions.REPORT_ALL,
)
_STACKED_MENU_ACTIONS = BULK_ACTIONS[2:]


class SelectionBar(StyledFrame):
    """Shows the number of selected jobs and their actions; in two lines below a list.

    Args:
        selected_ids: Returns the ids of the selected jobs.

    Attributes:
        clear_button: The button that clears the selection.
    """

    def __init__(
        self, actions: JobActions, selected_ids: Callable[[], JobIds], *, is_stacked: bool = False
    ) -> None:
        super().__init__("card")
        self._actions, self._selected_ids = actions, selected_ids
        self._is_stacked = is_stacked
        self._menu_actions = _STACKED_MENU_ACTIONS if is_stacked else _MENU_ACTIONS
        self._count_label = Label("", "strong")
        self._selection = Selection(2, 0, 0)
        self._buttons = {action: Button(action.text, icon=action.icon) for action in BULK_ACTIONS}
        for action, button in self._buttons.items():
            button.clicked.connect(partial(self._ask, action))
        self._menu_button = MoreButton(
            lambda menu: fill_menu(menu, (self._menu_actions,), self._selection, self._ask),
            "More actions",
        )
        self.clear_button = IconButton("x", "Clear selection", key="")
        buttons = self._buttons.values()
        margins = (S3, S2, S2, S2)
        if is_stacked:
            count_row = row(self._count_label, STRETCH, self.clear_button)
            buttons_row = row(*buttons, self._menu_button, STRETCH)
            self.setLayout(col(count_row, buttons_row, gap=S1, margins=margins))
        else:
            self.setLayout(
                row(
                    self._count_label,
                    S2,
                    *buttons,
                    self._menu_button,
                    STRETCH,
                    self.clear_button,
                    margins=margins,
                )
            )
        self._fit_buttons()

    def show_selection(self, count: int, live_count: int, queued_count: int) -> None:
        """Show the number of selected jobs, and their actions; some jobs may be live or queued."""
        self._count_label.setText(f"{formats.plural(count, 'job')} selected")
        self._selection = Selection(count, live_count, queued_count)
        for action, button in self._buttons.items():
            action.show_on(button, self._selection)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_buttons()

    def _fit_buttons(self) -> None:
        is_narrow = self._is_stacked or self.width() < _ALL_BUTTONS_FROM_W
        for action in self._menu_actions:
            self._buttons[action].setVisible(not is_narrow)
        self._menu_button.setVisible(is_narrow)

    def _ask(self, action: BulkAction) -> None:
        self._actions.ask(action, self._selected_ids())
