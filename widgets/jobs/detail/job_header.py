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
from widgets.jobs.detail.header_facts import run_details, header_figures
from widgets.jobs.detail.job_name import JobName
from widgets.jobs.ranks.rank_strip import rank_marks

_RING = 96


class JobHeader(QWidget):
    """Shows one job.

    Attributes:
        act: The button of the main action for the state.
        more: The button with the menu of the other actions.
    """

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._view: JobView | None = None
        self._on: JobSubject | None = None
        self._main, self._wait_act = job_actions.START, job_actions.QUEUE
        self._back = IconButton("arrow-left", "All jobs")
        self._back.clicked.connect(lambda: actions.ask(job_actions.BACK))
        self._back.hide()
        self._ring = RankRing(_RING)
        self._name = JobName()
        self._name.renamed.connect(self._rename)
        self._badge = StateBadge()
        self.runs_button = Button("", kind="quiet", icon="clock-counter-clockwise", tip="All runs")
        self.runs_button.setFixedHeight(TARGET_MIN)
        keep_size_when_hidden(self.runs_button)
        self.runs_button.clicked.connect(self._ask_runs)
        self._facts = KeyValueRow(gap=24)
        self.main_button = Button("Start", icon="play")
        self.main_button.clicked.connect(lambda: self._ask(self._main))
        self._wait = Button("Queue")
        self._wait.clicked.connect(lambda: self._ask(self._wait_act))
        self.menu_button = MoreButton(self._fill_menu)
        words = col(
            row((self._name, 1), self._wait, self.main_button, self.menu_button, gap=S2),
            row((self._badge, 1), self.runs_button, gap=S2),
            S1,
            self._facts,
            gap=2,
        )
        self.setLayout(row(self._back, self._ring, (words, 1), gap=S3))

    def show_view(self, view: JobView, on: JobSubject) -> None:
        """Show a job, or an update of it, and the actions that fit it."""
        self._view, self._on = view, on
        self._ring.set_progress(view.state, view.progress, rank_marks(view))
        self._name.show_name(view.name)
        self._badge.set_state(view.state, view.progress or 0.0, run_details(view))
        # A job that ran once has no other runs to choose from.
        self.runs_button.setVisible(view.run > 1)
        self.runs_button.setText(f"Run {formats.count(view.run)}")
        self._facts.set_items(header_figures(view))
        self._main = main_action(on)
        self._main.show_on(self.main_button, on)
        if self._main.shortcut:
            self.main_button.setToolTip(
                plain_tip(self.main_button.toolTip() or self._main.text, self._main.shortcut)
            )
        self.main_button.set_kind("primary" if self._main.is_primary else "plain")
        self._wait_act = job_actions.LEAVE_QUEUE if view.state.is_queued else job_actions.QUEUE
        self._wait_act.show_on(self._wait, on)
        self._wait.setVisible(view.state.is_queued or view.state is JobState.CREATED)
        self._wait.setEnabled(not on.busy_label)

    def set_narrow(self, narrow: bool) -> None:
        """Show a back button in a narrow window, which shows either the list or the job."""
        self._back.setVisible(narrow)

    def _ask(self, action: JobAction) -> None:
        if self._view is not None:
            self._actions.ask(action, self._view.id)

    @Slot()
    def _ask_runs(self) -> None:
        if self._view is not None:
            self._actions.ask(job_actions.READ_RUNS, self._view.id)

    def _fill_menu(self, menu: QMenu) -> None:
        if self._on is not None:
            fill_job_menu(menu, QUEUE_ACTIONS, self._on, self._ask)

    def rename(self) -> None:
        """Replace the name with a field to edit it."""
        self._name.edit()

    @Slot(str)
    def _rename(self, name: str) -> None:
        if self._view is not None:
            self._actions.ask(job_actions.SET_NAME, self._view.id, name)
