"""Check, queue and take back a sweep: a job form whose fields hold several values."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.view import JobCheck
from backend.records.sweeps.spec import CancelledSweep, QueuedSweep
from backend.services.sweeps.service import IncompleteSweep, SweepService
from widgets.common import formats
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm


class SweepController(QObject):
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
        super().__init__(parent)
        self._sweeps = sweeps
        self._runner = runner
        self._form = form
        self._progress: Progress | None = None
        form.take_back_requested.connect(self.take_back)

    def check(self, draft: JobDraft) -> JobCheck:
        """Check a sweep, on a worker."""
        return self._sweeps.check(draft.sweep)

    def queue(self, draft: JobDraft) -> None:
        self._form.set_busy("Checking…")
        progress = self._runner.progress(
            lambda _share, step: self._form.set_busy(formats.with_ellipsis(step))
        )
        self._progress = progress
        self._runner.run(
            "create",
            partial(self._sweeps.queue, draft.sweep, progress),
            self._show_queued,
            self._show_error,
        )

    @Slot()
    def cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()

    @Slot(str)
    def take_back(self, tag: str) -> None:
        self._form.set_busy("Removing the sweep…")
        self._runner.run(
            "create", partial(self._sweeps.take_back, tag), self._show_removed, self._show_error
        )

    def _show_queued(self, sweep: QueuedSweep) -> None:
        self._progress = None
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
        self._progress = None
        if isinstance(error, IncompleteSweep):
            self._form.show_incomplete_sweep(str(error), error.tag)
            self._runner.notify(str(error))
        else:
            self._form.show_error(error.with_remedy)
