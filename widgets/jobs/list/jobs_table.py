"""All jobs at full width: search, filters, the table, and a bar for the selected jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QModelIndex, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.summary import JobQuery, JobSummary
from widgets.common import formats
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import Card, EmptyState
from widgets.common.fields import SearchField
from widgets.common.focus import FocusForwarder
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import SLACK, col, row
from widgets.common.theme import HEADER_H, PAGE_MARGIN, S1, S3, S4
from widgets.common.view_style import TableHeightLimit
from widgets.jobs.actions.job_actions import NEW_JOB, TRASH_ALL, JobActions
from widgets.jobs.list.filter_panel import FilterPanel
from widgets.jobs.list.job_columns import JobColumn
from widgets.jobs.list.job_list_model import JOB_ROLE, JobListModel, JobRows
from widgets.jobs.list.job_list_pane import (
    GROUP_TITLES,
    GROUPS,
    SEARCH_TIP,
    SelectionBar,
    show_counts,
    show_no_match,
)
from widgets.jobs.list.job_table_view import JobTableView

_SEARCH_W, _SEARCH_NARROW_W = 240, 180
_NARROW_W = 1040
_RENAME_KEY = "F2"
_KEYS = f"Enter open · Space select · {_RENAME_KEY} rename · O sort"


class JobsTable(QWidget):
    """The wide table.

    Signals:
        query_changed: A `JobQuery`; other rows are requested.
        choices_requested: The filter row was opened; answer with `show_choices`.

    Attributes:
        list_button: The button that shows the list.
        model, view: The rows and the table.
        search, groups: The field above the table, and the choice of states.
        filter_panel: The row of filters.
        selection_bar: Actions on the selected jobs.
    """

    query_changed = Signal(JobQuery)
    choices_requested = Signal()

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._pending_ids: tuple[str, ...] = ()
        self.model = JobListModel(has_columns=True)
        self.view = JobTableView(self.model)
        self.view.order_changed.connect(self._emit_query)
        self.view.selection_changed.connect(self._show_selection)
        self.view.trash_requested.connect(self._request_trash)
        self.filter_panel = FilterPanel()
        self.filter_panel.filter_changed.connect(self._emit_query)
        self.filter_panel.hide()
        self.selection_bar = SelectionBar(actions, self.view.selected_ids)
        self.selection_bar.hide()
        self._make_head()
        self.no_match = EmptyState("magnifying-glass", "No job matches", "", button="Clear")
        self.no_match.pressed.connect(self.clear)
        self.no_match.hide()
        self._total_label = Label("", "small", "text2", elide="right")
        self._keys_label = Label(_KEYS, "small", "text3")
        table_card = Card((self.view, 1), (self.no_match, 1), gap=0, margins=(S1, S1, S1, S1))
        self._height_limit = TableHeightLimit(self.view, table_card, 2 * S1)
        self.setLayout(
            col(
                self._head,
                self.filter_panel,
                (table_card, 1),
                self.selection_bar,
                row((self._total_label, 1), self._keys_label),
                SLACK,
                gap=S3,
                margins=(PAGE_MARGIN, (HEADER_H - 32) // 2, PAGE_MARGIN, S4),
            )
        )
        self.selection_bar.clear_button.clicked.connect(self.view.clearSelection)
        FocusForwarder(self, self.view)

    def _make_head(self) -> None:
        self._counts_label = Label("", "body", "text2", elide="right")
        self.search = SearchField("Name, note, tag, setting", key="Ctrl+F")
        self.search.setToolTip(plain_tip(SEARCH_TIP, "Ctrl+F"))
        self.search.searched.connect(self._emit_query)
        self.groups = SegmentedControl(GROUP_TITLES, "all", name="Filter by state")
        self.groups.key_chosen.connect(self._emit_query)
        self._filter_button = IconButton("funnel-simple", "Filter by tag, user, node or metric")
        self._filter_button.setCheckable(True)
        self._filter_button.toggled.connect(self._toggle_filter)
        self.list_button = IconButton("rows", "Show as a list next to the open job")
        new_button = Button("New job", kind="primary", icon="plus")
        new_button.clicked.connect(lambda: self._actions.ask(NEW_JOB))
        self._head = QWidget()
        self._head.setLayout(
            row(
                Label("Jobs", "title"),
                S1,
                (self._counts_label, 1),
                self.search,
                self.groups,
                self._filter_button,
                self.list_button,
                new_button,
            )
        )

    # -- input

    @property
    def query(self) -> JobQuery:
        """Return the current query."""
        order, descending = self.view.order
        query = JobQuery(
            text=self.search.text().strip(),
            group=GROUPS[self.groups.key()],
            order=order,
            descending=descending,
        )
        return self.filter_panel.narrow_query(query)

    def show_rows(self, rows: JobRows, *, is_user_request: bool = False) -> None:
        self.model.show_rows(rows, is_user_request=is_user_request)
        self.view.set_empty_columns(rows.empty_columns)
        show_counts(self.groups, rows)
        hit_count, query = rows.hit_count, self.query
        is_unfiltered = replace(query, order="", descending=False) == JobQuery()
        total = formats.plural(rows.total_count, "job")
        self._total_label.setText(
            total if is_unfiltered else f"{formats.count(hit_count)} of {total}"
        )
        counts = [f"{formats.count(rows.live_count)} running"] if rows.live_count else []
        counts += [f"{formats.count(rows.queued_count)} waiting"] if rows.queued_count else []
        self._counts_label.setText(", ".join(counts))
        is_empty = hit_count == 0 and rows.total_count > 0
        if is_empty:
            show_no_match(self.no_match, query)
        self.view.setVisible(not is_empty)
        self.no_match.setVisible(is_empty)
        self._height_limit.update_height()
        self._show_selection(self.view.selected_ids())
        rows_exist = all(self.model.row_of(job_id) >= 0 for job_id in self._pending_ids)
        if self._pending_ids and (is_user_request or rows_exist):
            ids, self._pending_ids = self._pending_ids, ()
            self.view.select_jobs(ids)

    def select_jobs(self, ids: Sequence[str]) -> None:
        """Select only the rows of these jobs, with the next rows."""
        self._pending_ids = tuple(ids)

    @Slot()
    def clear(self) -> None:
        """Reset the query to all jobs."""
        self.groups.choose("all")
        self.search.clear()
        self.filter_panel.clear()
        self._emit_query()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < _NARROW_W
        self._counts_label.setVisible(not is_narrow)
        self.search.setFixedWidth(_SEARCH_NARROW_W if is_narrow else _SEARCH_W)

    # -- events

    def fill_menu(self, menu: QMenu, index: QModelIndex) -> None:
        """Add the actions that edit a cell in place."""
        summary: JobSummary = index.data(JOB_ROLE)
        menu.addAction("Open", lambda: self.view.job_opened.emit(summary.id))
        menu.addSeparator()
        for text, column in (
            ("Rename", JobColumn.NAME),
            ("Change tags", JobColumn.TAGS),
            ("Change notes", JobColumn.NOTES),
        ):
            menu.addAction(text, partial(self._edit_cell, summary.id, column))

    def _edit_cell(self, job_id: str, column: JobColumn) -> None:
        row_number = self.model.row_of(job_id)
        if row_number >= 0:
            self.view.edit_cell(row_number, column)

    @Slot()
    def _emit_query(self) -> None:
        # An active filter stays visible on the button when its row is closed.
        self._filter_button.set_icon("funnel-fill" if self.query.is_narrow else "funnel-simple")
        self.query_changed.emit(self.query)

    @Slot(bool)
    def _toggle_filter(self, is_open: bool) -> None:
        self.filter_panel.setVisible(is_open)
        if is_open:
            self.choices_requested.emit()

    @Slot(object)
    def _show_selection(self, ids: tuple[str, ...]) -> None:
        self.selection_bar.setVisible(len(ids) > 1)
        if ids:
            self.selection_bar.show_selection(len(ids), *self.model.active_counts(ids))

    @Slot()
    def _request_trash(self) -> None:
        if self.view.selected_ids():
            self._actions.ask(TRASH_ALL, self.view.selected_ids())
