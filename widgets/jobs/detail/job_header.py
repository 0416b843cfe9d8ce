"""The header of the open job: progress ring, name, state, figures and actions."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QMenu, QWidget

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.queue.entry import QueuePlace
from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.key_value_row import KeyValueRow
from widgets.common.labels import plain_tip
from widgets.common.layout import col, keep_place, row
from widgets.common.state_badge import RankRing, StateBadge
from widgets.common.theme import S1, S2, S3, TARGET_MIN
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.actions.job_menu import QUEUE_TIP, Do, add_acts, add_queue_acts
from widgets.jobs.actions.primary_action import KEYS_OF_ACTS, MainAct, PrimaryAction, main_act
from widgets.jobs.detail.header_facts import circumstances, facts
from widgets.jobs.detail.job_name import JobName
from widgets.jobs.ranks.rank_strip import rank_marks

_RING = 96


class JobHeader(QWidget):
    """Shows one job.

    Args:
        export, elsewhere: Open the dialog that exports, or that moves the job.

    Attributes:
        act: The button of the main action for the state.
    """

    def __init__(self, actions: JobActions, export: Do, elsewhere: Do) -> None:
        super().__init__()
        self._actions = actions
        self._export, self._elsewhere = export, elsewhere
        self._view: JobView | None = None
        self._place: QueuePlace | None = None
        self._busy = ""
        self._can_cancel = False
        self._has_checkpoints: bool | None = None
        self._main: MainAct | None = None
        self._back = IconButton("arrow-left", "All jobs")
        self._back.clicked.connect(actions.back_requested)
        self._back.hide()
        self._ring = RankRing(_RING)
        self._name = JobName()
        self._name.renamed.connect(self._rename)
        self._badge = StateBadge()
        self.runs = Button("", kind="quiet", icon="clock-counter-clockwise", tip="All runs")
        self.runs.setFixedHeight(TARGET_MIN)
        keep_place(self.runs)
        self.runs.clicked.connect(self._ask_runs)
        self._facts = KeyValueRow(gap=24)
        self.act = Button("Start", icon="play")
        self.act.clicked.connect(self._do_act)
        self._wait = Button("Queue", tip=QUEUE_TIP)
        self._wait.clicked.connect(self._do_wait)
        self._more = IconButton("dots-three", "More")
        self._menu = QMenu(self._more)
        self._menu.aboutToShow.connect(self._fill_menu)
        self._more.setMenu(self._menu)
        words = col(
            row((self._name, 1), self._wait, self.act, self._more, gap=S2),
            row((self._badge, 1), self.runs, gap=S2),
            S1,
            self._facts,
            gap=2,
        )
        self.setLayout(row(self._back, self._ring, (words, 1), gap=S3))

    def show_view(
        self,
        view: JobView,
        place: QueuePlace | None = None,
        *,
        has_checkpoints: bool | None = None,
        busy: str = "",
        can_cancel: bool = False,
        is_overdue: bool = False,
    ) -> None:
        """Show a job, or an update of it.

        Args:
            place: Its place in the queue.
            has_checkpoints: There are some to export or resume from; None if not known yet.
            busy: The action under way ("Stopping…"), "" for none.
            can_cancel: The action under way can be cancelled.
            is_overdue: Stopping takes longer than expected.
        """
        self._view, self._place = view, place
        self._busy, self._can_cancel = busy, bool(busy) and can_cancel
        self._has_checkpoints = has_checkpoints
        self._ring.set_progress(view.state, view.progress, rank_marks(view))
        self._name.show_name(view.name)
        self._badge.set_state(view.state, view.progress, circumstances(view))
        # A job that ran once has no other runs to choose from.
        self.runs.setVisible(view.run > 1)
        self.runs.setText(f"Run {formats.count(view.run)}")
        self._facts.set_facts(facts(view))
        self._fit_act(main_act(view, has_checkpoints, is_overdue=is_overdue))
        self._fit_wait(view)

    def set_narrow(self, narrow: bool) -> None:
        """Show a back button in a narrow window, which shows either the list or the job."""
        self._back.setVisible(narrow)

    def _fit_act(self, act: MainAct) -> None:
        if self._can_cancel:
            act = MainAct(PrimaryAction.CANCEL, "Cancel", "x")
        elif self._busy:
            act = replace(act, text=self._busy, is_able=False, tip="")
        self._main = act
        self.act.setText(act.text)
        self.act.set_tip(act.tip)
        key = KEYS_OF_ACTS.get(act.text, "")
        if key:
            self.act.setToolTip(plain_tip(act.tip or act.text, key))
        self.act.set_icon(act.icon)
        self.act.set_kind("primary" if act.is_primary else "plain")
        self.act.setEnabled(act.is_able)

    def _fit_wait(self, view: JobView) -> None:
        waits = view.state is JobState.QUEUED
        self._wait.setVisible(waits or view.state is JobState.CREATED)
        self._wait.setText("Remove from queue" if waits else "Queue")
        self._wait.set_tip("Remove the job from the queue" if waits else QUEUE_TIP)
        self._wait.setEnabled(not self._busy)

    @Slot()
    def _do_act(self) -> None:
        view = self._view
        if view is None or self._main is None:
            return
        match self._main.act:
            case PrimaryAction.START:
                self._actions.start_requested.emit(view.id)
            case PrimaryAction.CANCEL:
                self._actions.start_cancelled.emit(view.id)
            case PrimaryAction.STOP:
                self._actions.stop_requested.emit(view.id)
            case PrimaryAction.KILL:
                self._actions.kill_requested.emit(view.id)
            case PrimaryAction.RESUME:
                self._actions.resume_requested.emit(view.id, "")
            case PrimaryAction.START_OVER:
                self._actions.start_over_requested.emit(view.id)
            case PrimaryAction.EXPORT:
                self._export()

    @Slot()
    def _do_wait(self) -> None:
        view = self._view
        if view is not None and view.state is JobState.QUEUED:
            self._actions.leave_requested.emit(view.id)
        elif view is not None:
            self._actions.queue_requested.emit(view.id)

    @Slot()
    def _ask_runs(self) -> None:
        if self._view is not None:
            self._actions.runs_requested.emit(self._view.id)

    @Slot()
    def _fill_menu(self) -> None:
        view = self._view
        self._menu.clear()
        if view is None:
            return
        add_queue_acts(self._menu, view, self._place, self._actions, self._has_checkpoints)
        if self._menu.actions():
            self._menu.addSeparator()
        add_acts(
            self._menu,
            view,
            self._actions,
            export=self._export,
            elsewhere=self._elsewhere,
            rename=self.rename,
            has_checkpoints=self._has_checkpoints,
            busy=bool(self._busy),
        )

    def rename(self) -> None:
        """Replace the name with a field to edit it."""
        self._name.edit()

    @Slot(str)
    def _rename(self, name: str) -> None:
        if self._view is not None:
            self._actions.rename_requested.emit(self._view.id, name)
