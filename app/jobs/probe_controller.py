"""Measure the job of the form before it exists: the search for its learning rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.services.jobs.service import JobService
from widgets.common.dialog import DialogHolder, TaskDialog
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.rate_dialog import RateDialog

_QUEUE = "probe"


class ProbeController(Controller):
    """Serve the buttons of the form that measure its job.

    Attributes:
        dialog_holder: The dialog of the measurement, while it is open.
    """

    def __init__(
        self,
        jobs: JobService,
        runner: Runner,
        form: JobForm,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._jobs = jobs
        self._form = form
        self.dialog_holder: DialogHolder[TaskDialog] = DialogHolder()
        form.rate_requested.connect(self._find_rate)

    @Slot()
    def _find_rate(self) -> None:
        dialog = RateDialog(self._window)
        dialog.rate_chosen.connect(self._form.choose_rate)
        self._measure(
            dialog, partial(self._jobs.find_rate, self._form.draft().raw), dialog.show_search
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

        guard = partial(self.dialog_holder.guard_callback, dialog)
        progress = self._runner.progress(guard(dialog.show_progress))
        dialog.cancel_requested.connect(progress.cancel)
        self.dialog_holder.open(dialog)
        dialog.show_progress(None, "Starting Python")
        self._runner.run(_QUEUE, partial(work, progress), guard(on_success), guard(show_error))
