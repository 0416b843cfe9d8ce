"""Check, queue and take back a sweep: a job form whose fields hold several values."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.runtime.background import Runner
from app.runtime.controller import Controller, LatestRequest
from backend.base.errors import BackendError
from backend.records.jobs.view import JobCheck
from backend.records.sweeps.spec import CancelledSweep, QueuedSweep
from backend.services.sweeps.service import IncompleteSweep, SweepService
from widgets.common import formats
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm


class SweepController(Controller):
    """Serve the form when it describes several jobs.

    Signals:
        sweep_queued: A `QueuedSweep`: all its jobs are in the queue.
        sweep_removed: A `CancelledSweep`.
    """

    sweep_queued = Signal(object)
    sweep_removed = Signal(object)

    def __init__(
        self,
        sweeps: SweepService,
        runner: Runner,
        form: JobForm,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._sweeps = sweeps
        self._form = form
        self._request = LatestRequest(runner)
        form.cancel_jobs_requested.connect(self.cancel_jobs)

    def check(self, draft: JobDraft) -> JobCheck:
        """Check a sweep, on a worker."""
        return self._sweeps.check(draft.sweep)

    def queue(self, draft: JobDraft) -> None:
        self._form.set_busy("Checking…")
        self._request.run(
            "create",
            partial(self._sweeps.queue, draft.sweep),
            self._show_queued,
            self._show_error,
            lambda _share, step: self._form.set_busy(formats.with_ellipsis(step)),
        )

    def cancel(self) -> None:
        """Stop adding jobs to the queue."""
        self._request.cancel()

    @Slot(str)
    def cancel_jobs(self, tag: str) -> None:
        self._form.set_busy("Removing the sweep…")
        self._runner.run(
            "create", partial(self._sweeps.cancel, tag), self._show_removed, self._show_error
        )

    def _show_queued(self, sweep: QueuedSweep) -> None:
        self._form.set_busy("")
        self._runner.notify(f"Queued {len(sweep.jobs)} jobs")
        self.sweep_queued.emit(sweep)

    def _show_removed(self, result: CancelledSweep) -> None:
        self._form.show_error("")
        hint = (
            f"; {len(result.remaining_jobs)} that already ran stay" if result.remaining_jobs else ""
        )
        self._runner.notify(f"Moved {len(result.removed_jobs)} jobs to the trash{hint}")
        self.sweep_removed.emit(result)

    def _show_error(self, error: BackendError) -> None:
        if isinstance(error, IncompleteSweep):
            self._form.show_incomplete_sweep(str(error), error.tag)
            self._runner.notify(str(error))
        else:
            self._form.show_error(error.with_remedy)
