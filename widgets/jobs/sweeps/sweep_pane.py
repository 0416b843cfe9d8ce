"""A sweep next to the list: the state of its jobs, best first, and its actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from backend.records.jobs.metric_names import metric_label
from backend.records.jobs.summary import JobSummary, SweepCount
from backend.records.studies.table import StudyTable
from backend.records.sweeps.search import SearchResult
from backend.records.sweeps.summary import sweep_summary
from widgets.common import formats
from widgets.common.actions import MoreButton, always, fill_menu
from widgets.common.buttons import Button, IconButton, SegmentedControl
from widgets.common.cards import Card
from widgets.common.key_value_row import KeyValue, KeyValueRow
from widgets.common.labels import Label, plain_tip
from widgets.common.layout import SLACK, STRETCH, col, row
from widgets.common.state_badge import Mark, RankRing, StateBadge
from widgets.common.theme import HEADER_H, PAGE_MARGIN, S1, S2, S3, S4
from widgets.common.view_style import TableHeightLimit
from widgets.jobs.actions.job_actions import (
    BACK,
    CLONE,
    COMPARE_ALL,
    MAX_COMPARED_JOBS,
    STOP_ALL,
    SWEEP_ACTIONS,
    TAG_ALL,
    TRASH_ALL,
    BulkAction,
    JobActions,
    Selection,
)
from widgets.jobs.list.job_columns import JobColumn
from widgets.jobs.list.job_list_model import JobListModel, JobRows
from widgets.jobs.list.job_table_view import JobTableView
from widgets.jobs.list.sweep_text import count_message
from widgets.jobs.studies.study_result import StudyResult
from widgets.jobs.sweeps.search_result import SearchView

_COLUMNS = (JobColumn.NAME, JobColumn.STATE, JobColumn.PROGRESS, JobColumn.BEST, JobColumn.TOOK)
_COMPARE_BEST = replace(
    COMPARE_ALL, text=f"Compare the best {MAX_COMPARED_JOBS}", is_enabled=always
)
_BUTTON_ACTIONS = (COMPARE_ALL, STOP_ALL, TAG_ALL)
_MENU_ACTIONS = tuple(action for action in SWEEP_ACTIONS if action not in _BUTTON_ACTIONS)
_MAX_RING_JOBS = 64
RESULT, JOBS = "result", "jobs"
_PARTS = ((RESULT, "Result"), (JOBS, "Jobs"))


class SweepPane(QWidget):
    """The right side of the page Jobs while a sweep is open.

    Signals:
        table_requested: The tag of a sweep; if it is a study, answer with `show_study`, if it is a
            search, with `show_search`.
        modes_changed: The user said which values of a metric are better: ``min`` or ``max`` by the
            names of all such metrics.

    Attributes:
        back_button: The button of a narrow window, which shows either the list or the sweep.
    """

    table_requested = Signal(str)
    modes_changed = Signal(object)

    def __init__(self, actions: JobActions) -> None:
        super().__init__()
        self._actions = actions
        self._summary: JobSummary | None = None
        self._rows: JobRows | None = None
        self._modes: dict[str, str] = {}
        self._metric = ""
        self._best_first_ids: tuple[str, ...] = ()
        self._selection = Selection(0, 0, 0)
        self.back_button = IconButton("arrow-left", "All jobs")
        self.back_button.clicked.connect(lambda: actions.ask(BACK))
        self.back_button.hide()
        self._ring = RankRing(96)
        self._name = Label("", "title", elide="right")
        self._badge = StateBadge()
        self._figures = KeyValueRow()
        self._buttons = {action: Button() for action in _BUTTON_ACTIONS}
        for action, button in self._buttons.items():
            button.clicked.connect(partial(self.run_action, action))
        menu_button = MoreButton(
            lambda menu: fill_menu(menu, (_MENU_ACTIONS,), self._selection, self.run_action)
        )
        self.model = JobListModel(has_columns=True)
        self.view = JobTableView(self.model)
        self.view.restore({"columns": [column.key for column in _COLUMNS]})
        self.view.setAccessibleName("Jobs of the sweep, best first")
        self.view.horizontalHeader().setSectionsClickable(False)
        self.view.trash_requested.connect(self._trash_selected)
        self._read_state: tuple[str, int] | None = None
        self.study = StudyResult()
        self.search = SearchView()
        self.search.use_requested.connect(lambda job_id: actions.ask(CLONE, job_id))
        self._result: QWidget = self.study
        self._parts = SegmentedControl(_PARTS, RESULT, name="Parts of the sweep")
        self._parts.key_chosen.connect(self._show_part)
        self._parts.hide()
        self.study.hide()
        self.search.hide()
        self._question = Label("", "body", "text2")
        self._mode_buttons = [Button("Lower"), Button("Higher")]
        for button, mode in zip(self._mode_buttons, ("min", "max"), strict=True):
            button.clicked.connect(partial(self._set_mode, mode))
        text_column = col(self._name, self._badge, S1, self._figures, gap=2)
        self._card = card = Card((self.view, 1), gap=0, margins=(S1, S1, S1, S1))
        TableHeightLimit(self.view, card, 2 * S1)
        self.setLayout(
            col(
                row(self.back_button, self._ring, (text_column, 1), gap=S3),
                row(*self._buttons.values(), menu_button, STRETCH, gap=S2),
                row(self._question, *self._mode_buttons, STRETCH, gap=S2),
                row(self._parts, STRETCH),
                (self.study, 1),
                (self.search, 1),
                (card, 1),
                SLACK,
                gap=S3,
                margins=(PAGE_MARGIN, (HEADER_H - 40) // 2, PAGE_MARGIN, S4),
            )
        )

    def show_sweep(self, summary: JobSummary, rows: JobRows) -> None:
        """Show a sweep; `rows` has all jobs, including those of the sweep."""
        count = summary.sweep
        if count is None:
            return
        self._rows = rows
        slots = [slot for slot in map(rows.slot_of, count.ids) if slot is not None]
        summaries = [rows.summaries[slot] for slot in slots]
        jobs = [self._with_mode(job) for job in summaries]
        self._summary = summary = summary if jobs == summaries else sweep_summary(summary.id, jobs)
        self._ask_mode(jobs)
        jobs = _sort_best_first(jobs)
        self._best_first_ids = tuple(job.id for job in jobs)
        self._ring.set_progress(summary.state, summary.progress, _ring_marks(jobs))
        message = f"{formats.progress(summary.progress)} of the sweep, {count_message(count)}"
        self._ring.setAccessibleName(message)
        self._ring.setToolTip(plain_tip(message))
        self._name.setText(summary.name)
        self._badge.set_state(summary.state, summary.progress or 0.0, count_message(count))
        self._figures.set_items(_sweep_figures(summary))
        self._show_actions(count)
        slots = [slot for slot in map(rows.slot_of, self._best_first_ids) if slot is not None]
        sweep_rows = JobRows(
            rows.summaries, np.array(slots, np.int32), rows.slot_of, sweep_slots=rows.sweep_slots
        )
        self.model.show_rows(sweep_rows)
        self.study.show_actions(
            is_idle=not count.live and not count.queued,
            is_finished=count.finished == len(count.ids),
        )
        read_state = (summary.id, count.finished + count.stopped + count.failed)
        if read_state != self._read_state:
            if self._read_state is None or self._read_state[0] != summary.id:
                self._show_result(None)
            self._read_state = read_state
            self.table_requested.emit(summary.id)

    def restore_modes(self, modes: Mapping[str, str]) -> None:
        """Restore a value of `modes_changed`."""
        self._modes = {name: mode for name, mode in modes.items() if mode in ("min", "max")}

    def _with_mode(self, summary: JobSummary) -> JobSummary:
        if summary.best_metric is None or summary.best_mode:
            return summary
        return summary._replace(best_mode=self._modes.get(summary.best_metric[0], ""))

    def _ask_mode(self, jobs: Sequence[JobSummary]) -> None:
        """Ask which values are better if the name of the metric leaves this open."""
        unclear_jobs = [job for job in jobs if job.best_metric is not None and not job.best_mode]
        self._metric = next((job.best_metric[0] for job in unclear_jobs if job.best_metric), "")
        self._question.setText(f"Which values of “{self._metric}” are better?")
        for part in (self._question, *self._mode_buttons):
            part.setVisible(bool(self._metric))

    def _set_mode(self, mode: str) -> None:
        self._modes = {**self._modes, self._metric: mode}
        self.modes_changed.emit(self._modes)
        if self._summary is not None and self._rows is not None:
            self.show_sweep(self._summary, self._rows)

    @property
    def tag(self) -> str:
        """Return the tag of the open sweep, "" for none."""
        return "" if self._summary is None else self._summary.id

    def show_study(self, tag: str, table: StudyTable | None) -> None:
        """Show the table of the open sweep if it is a study."""
        if tag == self.tag and table is not None:
            self.study.show_table(table)
            self._show_result(self.study)

    def show_search(self, tag: str, result: SearchResult | None) -> None:
        """Show the result of the open sweep if it is a search."""
        if tag == self.tag and result is not None:
            self.search.show_result(result)
            self._show_result(self.search)

    def _show_result(self, result: QWidget | None) -> None:
        self._result = result or self._result
        if self._parts.isHidden() is (result is not None):
            self._parts.setVisible(result is not None)
            self._parts.choose(RESULT)
        self._show_part()

    @Slot()
    def _show_part(self) -> None:
        shows_result = not self._parts.isHidden() and self._parts.key() == RESULT
        for result in (self.study, self.search):
            result.setVisible(shows_result and result is self._result)
        self._card.setVisible(not shows_result)

    def run_action(self, action: BulkAction) -> None:
        """Act on all jobs of the sweep, if the action is enabled."""
        count = self._summary.sweep if self._summary is not None else None
        if (
            count is None
            or action not in SWEEP_ACTIONS
            or not self._current_action(action).is_enabled(self._selection)
        ):
            return
        is_compared = action == COMPARE_ALL
        self._actions.ask(
            action, self._best_first_ids[:MAX_COMPARED_JOBS] if is_compared else count.ids
        )

    def _show_actions(self, count: SweepCount) -> None:
        self._selection = Selection(len(count.ids), count.live, count.queued)
        for action, button in self._buttons.items():
            self._current_action(action).show_on(button, self._selection)
        stop_button = self._buttons[STOP_ALL]
        stop_button.setVisible(stop_button.isEnabled())

    def _current_action(self, action: BulkAction) -> BulkAction:
        is_many = action == COMPARE_ALL and len(self._best_first_ids) > MAX_COMPARED_JOBS
        return _COMPARE_BEST if is_many else action

    @Slot()
    def _trash_selected(self) -> None:
        selected_ids = self.view.selected_ids()
        summaries = map(self.model.summary, selected_ids)
        if selected_ids and not any(
            summary is not None and summary.state.is_live for summary in summaries
        ):
            self._actions.ask(TRASH_ALL, selected_ids)


def _sort_best_first(jobs: Sequence[JobSummary]) -> list[JobSummary]:
    def sort_key(summary: JobSummary) -> tuple[bool, str, float]:
        metric, value = summary.best_metric or ("", float("nan"))
        # Missing and NaN values come last; values of two different metrics are not compared.
        if value != value or not summary.best_mode:
            return True, "", 0.0
        return False, metric, -value if summary.best_mode == "max" else value

    return sorted(jobs, key=sort_key)


def _ring_marks(jobs: Sequence[JobSummary]) -> list[Mark]:
    """Return a ring segment per job, red for a failed job."""
    if len(jobs) > _MAX_RING_JOBS:
        return []
    sorted_jobs = sorted(jobs, key=lambda job: (job.created_s, job.id))
    return ["bad" if job.state.has_failed else "" for job in sorted_jobs]


def _sweep_figures(summary: JobSummary) -> list[KeyValue]:
    figures = []
    if summary.best_metric is not None and summary.sweep is not None:
        name, value = summary.best_metric
        figures.append(KeyValue(f"Best saved: {metric_label(name)}", formats.metric(value)))
        figures.append(KeyValue("Best job", summary.sweep.best_job))
    if summary.eta_s is not None:
        figures.append(KeyValue("Left", formats.duration(summary.eta_s)))
    if summary.started_s and summary.ended_s:
        figures.append(KeyValue("Took", formats.duration(summary.ended_s - summary.started_s)))
    if summary.user:
        figures.append(KeyValue("By", summary.user))
    return figures
