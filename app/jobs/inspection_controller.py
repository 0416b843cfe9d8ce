"""Open the dialog that looks inside a checkpoint, and answer what it asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.base.progress import Progress
from backend.records.jobs.checkpoint import Checkpoint
from backend.services.jobs.inspection import InspectionService
from widgets.common.dialog import DialogHolder
from widgets.jobs.actions.job_actions import INSPECT_CHECKPOINT, JobActions
from widgets.jobs.checkpoints.inspection_dialog import InspectionDialog, InspectionRequest


class InspectionController(Controller):
    """Serve the request `INSPECT_CHECKPOINT`."""

    def __init__(
        self,
        inspection: InspectionService,
        runner: Runner,
        actions: JobActions,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._inspection = inspection
        self._progress: Progress | None = None
        self.dialog_holder: DialogHolder[InspectionDialog] = DialogHolder()
        actions.add_handler(INSPECT_CHECKPOINT, self._open)

    def _open(self, job_id: str, checkpoint: str, checkpoints: Sequence[Checkpoint]) -> None:
        dialog = InspectionDialog(checkpoints, checkpoint, self._window)
        dialog.requested.connect(partial(self._inspect, job_id, dialog))
        dialog.cancelled.connect(self._cancel)
        dialog.finished.connect(self._cancel)
        self.dialog_holder.open(dialog)
        dialog.request_inspection()

    def _inspect(self, job_id: str, dialog: InspectionDialog, request: InspectionRequest) -> None:
        self._cancel()
        progress = self._progress = self._runner.progress(
            self.dialog_holder.guard_callback(dialog, dialog.show_progress)
        )
        self._runner.run(
            "inspect",
            lambda: self._inspection.checkpoint(
                job_id,
                request.checkpoint,
                request.other_checkpoint,
                request.sample_index,
                progress=progress,
            ),
            self.dialog_holder.guard_callback(dialog, dialog.show_inspection),
            self.dialog_holder.guard_callback(
                dialog, lambda error: dialog.show_error(error.with_remedy)
            ),
        )

    @Slot()
    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()
