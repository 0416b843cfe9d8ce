"""The menu of the open job's runs, to show an earlier one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from PySide6.QtWidgets import QMenu, QWidget

from backend.records.base.timestamps import instant
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobRun
from widgets.common import formats
from widgets.common.buttons import end_hover
from widgets.common.labels import escape_ampersands
from widgets.jobs.actions.job_actions import SHOW_EARLIER_RUN, SHOW_NEWEST_RUN, JobActions
from widgets.jobs.detail.warning import JobFinding

_SCOPE_NOTE = "Curves and log are from this run; the rest is current."


class EarlierRuns:
    """The runs of the job; `shown` is the one whose curves and log the page shows."""

    def __init__(self, actions: JobActions, window: QWidget) -> None:
        self._actions = actions
        self._window = window
        self._job_id = ""
        self._runs: tuple[JobRun, ...] = ()
        self.shown_run: JobRun | None = None
        """None for the newest."""

    def open_job(self, job_id: str) -> None:
        self._job_id = job_id
        self._runs, self.shown_run = (), None

    def show_runs(self, runs: Sequence[JobRun]) -> None:
        """Set all runs, newest first."""
        self._runs = tuple(runs)

    def show_run(self, number: int) -> JobRun | None:
        """Set the run that the page shows; None if it was not put away."""
        matching_runs = (run for run in self._runs if run.number == number and run.put_away)
        self.shown_run = next(matching_runs, None)
        return self.shown_run

    def menu(self) -> QMenu:
        """Return a menu with one line per run; the one that is shown is checked."""
        menu = QMenu(self._window)
        shown_number = self.shown_run.put_away if self.shown_run is not None else 0
        now = datetime.now().astimezone()
        for run in self._runs:
            action = menu.addAction(
                escape_ampersands(run_label(run, now)), partial(self._choose_run, run)
            )
            action.setCheckable(True)
            action.setChecked(run.put_away == shown_number)
        return menu

    def open_menu(self, button: QWidget) -> None:
        """Open the menu below a button."""
        menu = self.menu()
        menu.aboutToHide.connect(partial(end_hover, button))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))

    def finding(self) -> JobFinding | None:
        """Return the finding of the page while it shows an earlier run."""
        run = self.shown_run
        if run is None:
            return None
        numbers = sorted(r.number for r in self._runs if r.put_away == run.put_away)
        run_names = f"Run {numbers[0]}"
        if len(numbers) > 1:
            run_names = f"Runs {numbers[0]} {'to' if len(numbers) > 2 else 'and'} {numbers[-1]}"
        now = datetime.now().astimezone()
        run_time = instant(run.started_at) or instant(run.ended_at)
        time_suffix = f", of {formats.time_with_day(run_time, now)}" if run_time is not None else ""
        message = f"{run_names} of {formats.count(len(self._runs))}{time_suffix}."
        return JobFinding("idle", message, _SCOPE_NOTE, icon="clock-counter-clockwise")

    def _choose_run(self, run: JobRun) -> None:
        if run.put_away:
            self._actions.ask(SHOW_EARLIER_RUN, self._job_id, run.number)
        elif self.shown_run is not None:
            self._actions.ask(SHOW_NEWEST_RUN, self._job_id)


def run_label(run: JobRun, now: datetime) -> str:
    """Return ``Run 2 · Stopped by ben · 12 Nov 15:04 · steps 401 to 1 200``."""
    outcome = run.state.label
    if run.state is JobState.INTERRUPTED and run.message:
        # "Stopped by ben. Saved at …"; older runs have a semicolon there.
        outcome = re.split(r"[;.] ", run.message)[0].rstrip(".")
    parts = [f"Run {formats.count(run.number)}", outcome]
    run_time = instant(run.ended_at) or instant(run.started_at)
    if run_time is not None:
        parts.append(formats.time_with_day(run_time, now))
    if run.last_step:
        steps = f"{formats.count(run.first_step)} to {formats.count(run.last_step)}"
        parts.append(f"steps {steps}")
    else:
        parts.append("no steps")
    return " · ".join(parts)
