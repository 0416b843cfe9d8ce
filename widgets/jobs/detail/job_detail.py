"""The page of one job: header, progress, the most serious finding, and the tabs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import ParamSpec

from PySide6.QtCore import QEvent, Qt, QTimer, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.metric_names import VALIDATION
from backend.records.jobs.state import JobState
from backend.records.jobs.stop_request import STOP_GRACE_S
from backend.records.jobs.view import JobRun, JobView, RunUpdate, earlier_log
from backend.records.nodes.reading import NodeState
from backend.records.queue.entry import QueuedJob
from widgets.common import formats
from widgets.common.buttons import Button
from widgets.common.dialog import DialogHolder
from widgets.common.focus import FocusForwarder
from widgets.common.layout import col
from widgets.common.theme import HEADER_H, PAGE_MARGIN, S3
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions, JobSubject
from widgets.jobs.actions.job_questions import MoveQuestion
from widgets.jobs.checkpoints.checkpoints_tab import CheckpointsTab
from widgets.jobs.checkpoints.export_dialog import Exporter
from widgets.jobs.curves.curves_tab import CurvesTab
from widgets.jobs.detail.header_texts import stop_cost_message
from widgets.jobs.detail.job_header import JobHeader
from widgets.jobs.detail.job_progress import JobProgress
from widgets.jobs.detail.job_tabs import JobTabs
from widgets.jobs.detail.notes_tab import NotesTab
from widgets.jobs.detail.run_history_menu import EarlierRuns
from widgets.jobs.detail.settings_tab import SettingsTab
from widgets.jobs.detail.warning import (
    JobFinding,
    ReplayComparison,
    SlowNode,
    job_finding,
    slow_node,
)
from widgets.jobs.failure.failure_tab import FailureTab
from widgets.jobs.log.log_tab import LogTab
from widgets.jobs.ranks.rank_history import job_problems
from widgets.jobs.ranks.ranks_tab import RanksTab
from widgets.nodes.history.node_history import NodeHistory

P = ParamSpec("P")
_ANNOUNCED_STEP = 0.1
_SCRIPT_SAVES_MS = 5000


class JobDetail(QWidget):
    """The right side of the page Jobs; `job_actions` emits what the user requests.

    Attributes:
        exporter: The export dialog of the checkpoints.
        header: Name, state and actions of the job.
        tabs: The tabs, each of which is also an attribute.
    """

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self.job_actions = actions
        self._view: JobView | None = None
        self._announcer = _Announcer(self)
        self._checkpoints: tuple[Checkpoint, ...] | None = None
        self._script_save_timer = QTimer(self, singleShot=True, interval=_SCRIPT_SAVES_MS)
        self._script_save_timer.timeout.connect(self._read_script_saves)
        self._busy_label, self._can_cancel = "", False
        self._error: tuple[str, str] = ("", "")
        self._read_error = ""
        self._replay_result = ReplayComparison()
        self._nodes: tuple[NodeState, ...] = ()
        self._queued_job: QueuedJob | None = None
        self._is_export_pending = False
        self._stopping_s: float | None = None
        """The start of stopping, by this computer's clock; the clocks of nodes differ."""
        self._earlier_runs = EarlierRuns(actions, self)
        self.exporter = Exporter(actions, self)
        self._move_dialog: DialogHolder[MoveQuestion] = DialogHolder()
        self.header = JobHeader(actions)
        self._progress = JobProgress()
        self._banner_key: tuple[bool, str, str, bool] = (False, "", "", False)
        self._make_tabs()
        self._connect_signals()
        self._focus_lead = FocusForwarder(self, self.header.main_button)
        self.setLayout(
            col(
                col(
                    self.header,
                    self._progress,
                    self.tabs.bar,
                    gap=S3,
                    margins=(0, 0, PAGE_MARGIN, 0),
                ),
                # Its pages reach the edge: their scroll bars are in the margin.
                (self.tabs, 1),
                gap=S3,
                margins=(PAGE_MARGIN, (HEADER_H - 40) // 2, 0, 0),
            )
        )

    # -- input

    def open_job(self, view: JobView) -> None:
        """Show another job: at its first tab, or at the tab of the previous job."""
        usual_tabs = ("failure", "curves", "" if self._view is None else _first_tab(self._view))
        self._view = view
        self._announcer.open_job(view)
        self._checkpoints = None
        self._busy_label, self._error, self._read_error = "", ("", ""), ""
        self._replay_result = ReplayComparison()
        self._queued_job = None
        self._is_export_pending = False
        self._stopping_s = None
        self._earlier_runs.open_job(view.id)
        self.curves.clear(view.name, view.id)
        self.log.open_job(view)
        self.notes.open_job(view)
        self.settings.show_job(view)
        if view.run:
            self.checkpoints.begin_reading()
        else:
            self.checkpoints.show_checkpoints(view, ())
        self.failure.clear()
        self._update_page()
        previous_tab = self.tabs.key()
        self.tabs.choose(_first_tab(view) if previous_tab in usual_tabs else previous_tab)
        self.job_actions.ask(job_actions.READ_SETTINGS, view.id)
        self.job_actions.ask(job_actions.READ_HISTORY, view.id)

    def show_update(self, update: RunUpdate) -> None:
        """Show an update of the job: its view, and points to append."""
        if not self._is_open(update.view.id):
            return
        self._read_error = ""
        if self._earlier_runs.shown_run is None:
            self.curves.append(update.history)
            if any(name.startswith(VALIDATION) for name in update.history.metrics):
                self.job_actions.ask(job_actions.READ_SAMPLES, update.view.id)
        self.show_view(update.view)

    def show_view(self, view: JobView) -> None:
        previous_view = self._view
        if previous_view is None or previous_view.id != view.id:
            return
        self._view = view
        self._announcer.show_view(view)
        has_new_state = view.state is not previous_view.state
        if has_new_state and not self._checkpoints:
            # There were none; the check below finds out if there are some now.
            self._checkpoints = None
            self.failure.show_checkpoints(None)
        self._update_page()
        is_newest = self._earlier_runs.shown_run is None
        has_ended = previous_view.state.is_live and not view.state.is_live
        has_failed = has_ended and view.state.has_failed
        if is_newest and (has_failed or view.run != previous_view.run):
            # A new run may have other ranks, and none has failed.
            self.log.open_job(view)
        if is_newest and has_failed:
            self.tabs.choose("failure")
        if has_new_state or view.status.epoch != previous_view.status.epoch:
            self.job_actions.ask(job_actions.READ_CHECKPOINTS, view.id)
        elif view.config.script and view.state.is_live and not self._script_save_timer.isActive():
            # A script saves when it likes, and may name no epochs.
            self._script_save_timer.start()
        has_new_notes = (view.name, view.notes, view.tags) != (
            previous_view.name,
            previous_view.notes,
            previous_view.tags,
        )
        if has_new_state or has_new_notes:
            self.job_actions.ask(job_actions.READ_HISTORY, view.id)

    def show_queued_job(self, queued_job: QueuedJob | None) -> None:
        """Set the queue entry of the open job, with its position."""
        if queued_job != self._queued_job:
            self._queued_job = queued_job
            self._update_page()

    def show_checkpoints(self, job_id: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        if self._view is None or not self._is_open(job_id):
            return
        self._checkpoints = checkpoints
        self.checkpoints.show_checkpoints(self._view, checkpoints)
        if self._earlier_runs.shown_run is None:
            self.curves.show_checkpoints(checkpoints)
        self.failure.show_checkpoints(checkpoints)
        self.exporter.show_checkpoints(job_id, checkpoints)
        self._update_page()
        if self._is_export_pending:
            self.export()

    def if_open(self, job_id: str, show: Callable[P, object]) -> Callable[P, None]:
        """Return ``show``, which does nothing while another job is open."""

        def show_if_open(*args: P.args, **kwargs: P.kwargs) -> None:
            if self._is_open(job_id):
                show(*args, **kwargs)

        return show_if_open

    def show_runs(self, job_id: str, runs: tuple[JobRun, ...]) -> None:
        """Set all runs of the job, to choose from."""
        if self._is_open(job_id):
            button = self.header.runs_button
            self._earlier_runs.show_runs(runs)
            self._earlier_runs.open_menu(button)

    def show_earlier_run(self, job_id: str, number: int, update: RunUpdate) -> None:
        """Show the curves and the log of an earlier run, kept when the job started over."""
        run = self._earlier_runs.show_run(number) if self._is_open(job_id) else None
        if run is None:
            return
        self.curves.clear(f"{update.view.name} run {number}", job_id)
        self.curves.append(update.history)
        self.curves.show_view(update.view)
        self.log.open_job(replace(update.view, id=earlier_log(job_id, run.put_away)))
        self._update_page()
        if self.tabs.key() != "log":
            self.tabs.choose("curves")

    def show_busy(self, job_id: str, label: str) -> None:
        """Show that an action is under way ("Starting…"), or has ended ("")."""
        if self._is_open(job_id):
            self._busy_label, self._can_cancel = label, False
            if label:
                self._error = ("", "")
            self._update_page()

    def show_starting(self, job_id: str, label: str) -> None:
        """Show that a start is under way and can be cancelled, or has ended ("")."""
        self.show_busy(job_id, label)
        if self._is_open(job_id) and label:
            self._can_cancel = True
            self._update_page()

    def show_error(self, job_id: str, message: str, remedy: str = "") -> None:
        """Show the refusal of an action above the page, until the next action."""
        is_shown = self.exporter.show_error(f"{message} {remedy}".strip())
        if not is_shown and self._is_open(job_id):
            self._error = (message, remedy)
            self._update_page()

    def show_read_error(self, job_id: str, message: str) -> None:
        """Show why the job could not be read; its last known state stays."""
        if self._is_open(job_id):
            self._read_error = message
            self._update_page()

    def show_check_result(self, job_id: str, result: ReplayComparison) -> None:
        """Show the comparison of the open replay with its original."""
        if self._is_open(job_id) and result != self._replay_result:
            self._replay_result = result
            self._update_page()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._view is not None:
            # The units of its figures may have changed.
            self._update_page()
            if self._checkpoints:
                self.checkpoints.show_checkpoints(self._view, self._checkpoints)

    # -- actions by key

    @Slot()
    def focus_smoothing(self) -> None:
        self.tabs.choose("curves")
        self.curves.focus_smoothing()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return to the list on Esc, if no child used the key."""
        if event.key() == Qt.Key.Key_Escape and not event.modifiers():
            self.job_actions.ask(job_actions.BACK)
        else:
            super().keyPressEvent(event)

    @Slot()
    def focus_log(self) -> None:
        self.tabs.choose("log")
        self.log.focus_search()

    @Slot()
    def export(self) -> None:
        """Open the export dialog, once the checkpoints are known."""
        self._is_export_pending = self._checkpoints is None
        if self._view is not None and self._checkpoints:
            self.exporter.open_dialog(self._view, self._checkpoints)

    # -- construction

    def _make_tabs(self) -> None:
        self.curves = CurvesTab(self.job_actions)
        self.ranks = RanksTab()
        self.checkpoints = CheckpointsTab(self.job_actions, self.exporter)
        self.log = LogTab()
        self.settings = SettingsTab()
        self.notes = NotesTab(self.job_actions)
        self.failure = FailureTab(self.job_actions, self.curves.run_curves)
        self.tabs = JobTabs(
            failure=self.failure,
            curves=self.curves,
            ranks=self.ranks,
            checkpoints=self.checkpoints,
            log=self.log,
            settings=self.settings,
            notes=self.notes,
        )

    def _connect_signals(self) -> None:
        self.tabs.tab_changed.connect(self._tab_changed)
        self.curves.completed.connect(self.failure.show_points)
        self.failure.plots.saved.connect(self._save_picture)
        self.ranks.history.pictures.saved.connect(self._save_picture)
        self.failure.placement_requested.connect(self.open_move_dialog)
        self.failure.log_requested.connect(self._show_log)
        self.log.number_marked.connect(
            lambda job_id, pattern: self.job_actions.ask(job_actions.DRAW_NUMBER, job_id, pattern)
        )
        self.job_actions.add_handler(job_actions.EXPORT, lambda _job_id: self.export())
        self.job_actions.add_handler(job_actions.MOVE, lambda _job_id: self.open_move_dialog())
        self.job_actions.add_handler(job_actions.RENAME, lambda _job_id: self.header.edit_name())

    # -- display

    def _update_page(self) -> None:
        view = self._view
        if view is None:
            return
        checkpoints = self._checkpoints or ()
        is_overdue = self._is_overdue(view)
        is_newest = self._earlier_runs.shown_run is None
        # "What happened" always shows the curves of the newest run.
        shows_failure = view.state.has_failed and is_newest
        self.tabs.show_failure_tab(shows_failure)
        self.tabs.show_counts(view.world_size, len(checkpoints))
        has_checkpoints, can_cancel = self.has_checkpoints, self._can_cancel
        subject = JobSubject(
            view, has_checkpoints, self._queued_job, self._busy_label, can_cancel, is_overdue
        )
        self.header.show_view(view, subject)
        cost_message = stop_cost_message(view, checkpoints, self._queued_job, is_overdue=is_overdue)
        caption = self._busy_label or cost_message
        run_starts = self.curves.run_curves.run_starts() if is_newest else ()
        self._progress.show_view(view, checkpoints, run_starts, caption)
        self._show_banner(view)
        if is_newest:
            self.curves.show_view(view, self._slow_node(view))
        self.ranks.show_view(view, self.curves.started_s)
        self.checkpoints.set_live(view.state.is_live)
        if shows_failure:
            self.failure.show_view(view)
        self._update_main_button()
        self.log.show_view(view)

    def _update_main_button(self) -> None:
        """Hide the main button while the tab "What happened" offers its own actions."""
        is_reported = (
            self._view is not None and self._view.state.has_failed and not self._busy_label
        )
        is_below = is_reported and self.tabs.key() == "failure"
        self.header.main_button.setVisible(not is_below)
        self._focus_lead.set_part(
            self.failure.first_button if is_below else self.header.main_button
        )

    def _show_banner(self, view: JobView) -> None:
        earlier_finding = self._earlier_runs.finding()
        finding = job_finding(
            view,
            self._error,
            self._read_error,
            self._queued_job,
            self._replay_result,
            self._slow_node(view),
        )
        if earlier_finding is not None and not self._error[0]:
            finding = earlier_finding
        banner_key = (
            earlier_finding is not None,
            finding.node if finding is not None else "",
            finding.original_id if finding is not None else "",
            finding is not None and finding.is_about_processes,
        )
        if banner_key != self._banner_key:
            self._banner_key = banner_key
            self._progress.banner.set_actions(
                self._banner_buttons(earlier_finding is not None, finding)
            )
        self._progress.show_finding(finding)

    def _banner_buttons(self, is_earlier: bool, finding: JobFinding | None) -> list[Button]:
        if is_earlier:
            button = Button("Show newest run")
            button.clicked.connect(
                lambda: self.job_actions.ask(job_actions.SHOW_NEWEST_RUN, self._job_id())
            )
        elif finding is not None and finding.node:
            is_about_processes = finding.is_about_processes
            button = Button("Show processes" if is_about_processes else "Show node")
            request = job_actions.SHOW_PROCESSES if is_about_processes else job_actions.SHOW_NODE
            button.clicked.connect(partial(self.job_actions.ask, request, finding.node))
        elif finding is not None and finding.original_id:
            button = Button("Compare")
            job_ids = (finding.original_id, self._job_id())
            button.clicked.connect(lambda: self.job_actions.ask(job_actions.COMPARE_ALL, job_ids))
        else:
            return []
        return [button]

    def _is_overdue(self, view: JobView) -> bool:
        """Return whether the job should have stopped by now, so that it may be killed."""
        if view.state is not JobState.STOPPING:
            self._stopping_s = None
            return False
        now_s = time.monotonic()
        if self._stopping_s is None:
            self._stopping_s = now_s
        return now_s - self._stopping_s > STOP_GRACE_S

    def _slow_node(self, view: JobView) -> SlowNode | None:
        return slow_node(view, {state.name: state for state in self._nodes})

    # -- events

    def _job_id(self) -> str:
        return self._view.id if self._view is not None else ""

    def _is_open(self, job_id: str) -> bool:
        return self._view is not None and self._view.id == job_id

    @Slot()
    def _read_script_saves(self) -> None:
        if self._view is not None and self._view.config.script:
            self.job_actions.ask(job_actions.READ_CHECKPOINTS, self._job_id())

    @Slot(str)
    def _tab_changed(self, key: str) -> None:
        self._update_main_button()
        if key == "checkpoints" and self._view is not None:
            self.job_actions.ask(job_actions.READ_CHECKPOINTS, self._job_id())

    @Slot(str, object)
    def _save_picture(self, plot: str, content: bytes) -> None:
        if self._view is not None:
            self.job_actions.ask(job_actions.SAVE_FILE, f"{self._view.name} {plot}", content)

    @Slot(str, int)
    def _show_log(self, source: str, line: int) -> None:
        self.tabs.choose("log")
        self.log.show_source(source, line)

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Set the nodes on which a job can be resumed."""
        self._nodes = states
        if self._move_dialog.dialog is not None:
            self._move_dialog.dialog.show_nodes(states)
        if self._view is not None and self._view.status.slow_ranks:
            self._show_banner(self._view)

    def show_node_histories(
        self, histories: Mapping[str, NodeHistory], heartbeat_ages: Mapping[str, str], now_s: float
    ) -> None:
        """Set the recent history of the nodes, and the age of each heartbeat."""
        states = {state.name: state for state in self._nodes}
        self.ranks.show_nodes(states, histories, heartbeat_ages)
        if self._view is not None:
            first_point_s = self.curves.started_s
            problems = job_problems(self._view, states, histories, first_point_s, now_s)
            if self._earlier_runs.shown_run is None:
                self.curves.show_problems(problems)
            if self._view.state.has_failed:
                self.failure.show_nodes(states, histories, problems)

    @property
    def has_checkpoints(self) -> bool | None:
        """Return whether the open job has checkpoints to resume from; None if not known yet."""
        return None if self._checkpoints is None else bool(self._checkpoints)

    @property
    def job_nodes(self) -> tuple[str, ...]:
        """Return the nodes of the open job; () before its first run."""
        view = self._view
        return tuple(dict.fromkeys(view.nodes)) if view is not None and view.run else ()

    def open_move_dialog(self, excluded_node: str = "") -> None:
        """Open the dialog that asks where to resume the job, without the excluded node."""
        view = self._view
        if view is None or self._move_dialog.dialog is not None:
            return
        placement = view.config.to_dict()["placement"]
        dialog = MoveQuestion(
            *(view.name, placement, self._nodes),
            lambda placement: self.job_actions.ask(job_actions.RESUME_ON_NODES, view.id, placement),
            self,
            excluded_node=excluded_node,
        )
        self._move_dialog.open(dialog)


def _first_tab(view: JobView) -> str:
    if view.state.has_failed:
        return "failure"
    return "log" if view.is_session else "curves"


class _Announcer:
    """Announces each new state, and every 10 % of progress, to screen readers.

    Nothing is announced when a job is opened: the screen reader reads its state then.

    Args:
        widget: The widget that shows the job.
    """

    def __init__(self, widget: QWidget) -> None:
        self._widget = widget
        self._announced_view: JobView | None = None

    def open_job(self, view: JobView) -> None:
        self._announced_view = view

    def show_view(self, view: JobView) -> None:
        """Announce a new state or progress of the open job."""
        announced_view = self._announced_view
        if announced_view is None or announced_view.id != view.id:
            return
        if view.state is not announced_view.state or view.run != announced_view.run:
            self._announced_view = view
            cause = view.error.message if view.error is not None and view.state.has_failed else ""
            self._announce(f"{view.name}: {view.state_label}. {cause}".strip())
        elif view.state.is_live and _progress_tenths(view) > _progress_tenths(announced_view):
            self._announced_view = view
            self._announce(
                f"{view.name}: {formats.progress(_progress_tenths(view) * _ANNOUNCED_STEP)}"
            )

    def _announce(self, message: str) -> None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._widget, message))


def _progress_tenths(view: JobView) -> int:
    # Avoids rounding: 0.3 / 0.1 is 2.999…
    return int((view.progress or 0.0) / _ANNOUNCED_STEP + 1e-9)
