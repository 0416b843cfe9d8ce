"""The header of the open job: progress ring, name, state, figures and actions."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.actions import MoreButton
from widgets.common.buttons import Button, IconButton
from widgets.common.key_value_row import KeyValueRow
from widgets.common.labels import plain_tip
from widgets.common.layout import col, keep_size_when_hidden, row
from widgets.common.state_badge import RankRing, StateBadge
from widgets.common.theme import S1, S2, S3, TARGET_MIN
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import (
    QUEUE_ACTIONS,
    JobAction,
    JobActions,
    JobSubject,
    fill_job_menu,
    main_action,
)
from widgets.jobs.detail.header_texts import header_figures, run_details
from widgets.jobs.detail.job_name import JobName
from widgets.jobs.ranks.rank_strip import rank_marks

_RING = 96


class JobHeader(QWidget):
    """The header of the open job.

    Attributes:
        main_button: The button of the main action for the state.
        menu_button: The button with the menu of the other actions.
        runs_button: The button with the menu of all runs.
    """

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._view: JobView | None = None
        self._subject: JobSubject | None = None
        self._main_action, self._queue_action = job_actions.START, job_actions.QUEUE
        self._back_button = IconButton("arrow-left", "All jobs")
        self._back_button.clicked.connect(lambda: actions.ask(job_actions.BACK))
        self._back_button.hide()
        self._ring = RankRing(_RING)
        self._name = JobName()
        self._name.renamed.connect(self._rename)
        self._badge = StateBadge()
        self.runs_button = Button("", kind="quiet", icon="clock-counter-clockwise", tip="All runs")
        self.runs_button.setFixedHeight(TARGET_MIN)
        keep_size_when_hidden(self.runs_button)
        self.runs_button.clicked.connect(self._ask_runs)
        self._figures = KeyValueRow(gap=24)
        self.main_button = Button("Start", icon="play")
        self.main_button.clicked.connect(lambda: self._ask(self._main_action))
        self._queue_button = Button("Queue")
        self._queue_button.clicked.connect(lambda: self._ask(self._queue_action))
        self.menu_button = MoreButton(self._fill_menu)
        text_column = col(
            row((self._name, 1), self._queue_button, self.main_button, self.menu_button, gap=S2),
            row((self._badge, 1), self.runs_button, gap=S2),
            S1,
            self._figures,
            gap=2,
        )
        self.setLayout(row(self._back_button, self._ring, (text_column, 1), gap=S3))

    def show_view(self, view: JobView, subject: JobSubject) -> None:
        """Show a job, or an update of the job, and its actions."""
        self._view, self._subject = view, subject
        self._ring.set_progress(view.state, view.progress, rank_marks(view))
        self._name.show_name(view.name)
        self._badge.set_state(view.state, view.progress or 0.0, run_details(view))
        # A job that ran once has no other runs to choose from.
        self.runs_button.setVisible(view.run > 1)
        self.runs_button.setText(f"Run {formats.count(view.run)}")
        self._figures.set_items(header_figures(view))
        self._main_action = main_action(subject)
        self._main_action.show_on(self.main_button, subject)
        if self._main_action.shortcut:
            self.main_button.setToolTip(
                plain_tip(
                    self.main_button.toolTip() or self._main_action.text, self._main_action.shortcut
                )
            )
        self.main_button.set_kind("primary" if self._main_action.is_primary else "plain")
        self._queue_action = job_actions.LEAVE_QUEUE if view.state.is_queued else job_actions.QUEUE
        self._queue_action.show_on(self._queue_button, subject)
        self._queue_button.setVisible(view.state.is_queued or view.state is JobState.CREATED)
        self._queue_button.setEnabled(not subject.busy_label)

    def set_narrow(self, is_narrow: bool) -> None:
        """Show a back button in a narrow window, which shows either the list or the job."""
        self._back_button.setVisible(is_narrow)

    def _ask(self, action: JobAction) -> None:
        if self._view is not None:
            self._actions.ask(action, self._view.id)

    @Slot()
    def _ask_runs(self) -> None:
        if self._view is not None:
            self._actions.ask(job_actions.READ_RUNS, self._view.id)

    def _fill_menu(self, menu: QMenu) -> None:
        if self._subject is not None:
            fill_job_menu(menu, QUEUE_ACTIONS, self._subject, self._ask)

    def edit_name(self) -> None:
        """Replace the name with a field to edit it."""
        self._name.edit()

    @Slot(str)
    def _rename(self, name: str) -> None:
        if self._view is not None:
            self._actions.ask(job_actions.SET_NAME, self._view.id, name)
