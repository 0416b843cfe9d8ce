"""Open the dialog that looks inside a checkpoint, and answer what it asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.progress import Progress
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.inspection import CheckpointInspection
from backend.services.jobs.inspection import InspectionService
from widgets.jobs.actions.job_actions import INSPECT_CHECKPOINT, JobActions
from widgets.jobs.checkpoints.inspection_dialog import InspectionDialog, InspectionRequest


class InspectionController(DialogController[InspectionDialog]):
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
        actions.add_handler(INSPECT_CHECKPOINT, self._open)

    def _open(self, job_id: str, checkpoint: str, checkpoints: Sequence[Checkpoint]) -> None:
        dialog = InspectionDialog(checkpoints, checkpoint, self._window)
        dialog.requested.connect(partial(self._inspect, job_id, dialog))
        dialog.cancelled.connect(self.cancel_task)
        self.open(dialog)
        dialog.request_inspection()

    def _inspect(self, job_id: str, dialog: InspectionDialog, request: InspectionRequest) -> None:
        def inspect(progress: Progress) -> CheckpointInspection:
            return self._inspection.checkpoint(
                job_id,
                request.checkpoint,
                request.other_checkpoint,
                request.sample_index,
                progress=progress,
            )

        self.run_task(dialog, "inspect", inspect, dialog.show_inspection, dialog.show_progress)
