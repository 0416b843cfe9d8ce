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

_REST = "Curves and log are from this run; the rest is current."


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

    def show_earlier(self, number: int) -> JobRun | None:
        """Set the run that the page shows; None if it was not put away."""
        found = (run for run in self._runs if run.number == number and run.put_away)
        self.shown_run = next(found, None)
        return self.shown_run

    def menu(self) -> QMenu:
        """Return a menu with one line per run; the one that is shown is checked."""
        menu = QMenu(self._window)
        place = self.shown_run.put_away if self.shown_run is not None else 0
        now = datetime.now().astimezone()
        for run in self._runs:
            action = menu.addAction(escape_ampersands(run_label(run, now)), partial(self._choose, run))
            action.setCheckable(True)
            action.setChecked(run.put_away == place)
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
        numbers = sorted(one.number for one in self._runs if one.put_away == run.put_away)
        which = f"Run {numbers[0]}"
        if len(numbers) > 1:
            which = f"Runs {numbers[0]} {'to' if len(numbers) > 2 else 'and'} {numbers[-1]}"
        now = datetime.now().astimezone()
        when = instant(run.started_at) or instant(run.ended_at)
        of = f", of {formats.time_with_day(when, now)}" if when is not None else ""
        sentence = f"{which} of {formats.count(len(self._runs))}{of}."
        return JobFinding("idle", sentence, _REST, icon="clock-counter-clockwise")

    def _choose(self, run: JobRun) -> None:
        if run.put_away:
            self._actions.ask(SHOW_EARLIER_RUN, self._job_id, run.number)
        elif self.shown_run is not None:
            self._actions.ask(SHOW_NEWEST_RUN, self._job_id)


def run_label(run: JobRun, now: datetime) -> str:
    """Return ``Run 2 · Stopped by ben · 12 Nov 15:04 · steps 401 to 1 200``."""
    how = run.state.label
    if run.state is JobState.INTERRUPTED and run.message:
        # "Stopped by ben. Saved at …"; older runs have a semicolon there.
        how = re.split(r"[;.] ", run.message)[0].rstrip(".")
    words = [f"Run {formats.count(run.number)}", how]
    when = instant(run.ended_at) or instant(run.started_at)
    if when is not None:
        words.append(formats.time_with_day(when, now))
    if run.last_step:
        steps = f"{formats.count(run.first_step)} to {formats.count(run.last_step)}"
        words.append(f"steps {steps}")
    else:
        words.append("no steps")
    return " · ".join(words)
