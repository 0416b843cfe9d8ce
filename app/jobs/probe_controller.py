"""Measure the job of the form before it exists: the search for its rate, and its needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.services.context.container import Services
from widgets.common.dialog import TaskDialog
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.plan_dialog import PlanDialog
from widgets.jobs.form.rate_dialog import RateDialog

_QUEUE = "probe"


class ProbeController(DialogController[TaskDialog]):
    """Serve the buttons of the form that measure its job."""

    def __init__(self, services: Services, runner: Runner, form: JobForm, window: QWidget) -> None:
        super().__init__(runner, window)
        self._services = services
        self._form = form
        form.rate_requested.connect(self._find_rate)
        form.plan_requested.connect(self._plan)

    @Slot()
    def _find_rate(self) -> None:
        dialog = RateDialog(self._window)
        dialog.rate_chosen.connect(lambda rate: self._form.choose_settings({"optimizer.lr": rate}))
        self._measure(
            dialog,
            partial(self._services.jobs.find_rate, self._form.draft().raw),
            dialog.show_search,
        )

    @Slot()
    def _plan(self) -> None:
        dialog = PlanDialog(self._window)
        dialog.settings_chosen.connect(self._form.choose_settings)
        raw = self._form.draft().raw
        self._measure(
            dialog,
            lambda progress: self._services.planner.plan(raw, progress=progress),
            dialog.show_plan,
        )

    def _measure(
        self,
        dialog: TaskDialog,
        work: Callable[[Progress], Any],
        on_success: Callable[[Any], None],
    ) -> None:
        """Open the dialog, and show the progress and the result of ``work`` in it."""

        def show_error(error: BackendError) -> None:
            message = "Cancelled." if isinstance(error, Cancelled) else error.with_remedy
            dialog.show_error(message)

        if_open = partial(self.if_open, dialog)
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)
        dialog.show_progress(None, "Starting Python")
        show_progress = if_open(dialog.show_progress)
        self._task.run(_QUEUE, work, if_open(on_success), if_open(show_error), show_progress)
