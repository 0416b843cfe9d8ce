"""Open TensorBoard on the event files of a job."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.progress import Progress
from backend.services.jobs.inspection import NO_GRAPH, InspectionService
from backend.services.tools.event_viewer import EventViewers
from widgets.common.dialog import ProgressDialog
from widgets.jobs.actions.job_actions import TENSORBOARD, TENSORBOARD_WEIGHTS, JobActions


class EventsController(DialogController[ProgressDialog]):
    """Start a server for a job, and open it in the browser. The servers end with the services."""

    def __init__(
        self,
        viewers: EventViewers,
        inspection: InspectionService,
        runner: Runner,
        actions: JobActions,
        window: QWidget,
    ) -> None:
        super().__init__(runner, window)
        self._viewers = viewers
        self._inspection = inspection
        actions.add_handler(TENSORBOARD, self._open)
        actions.add_handler(TENSORBOARD_WEIGHTS, partial(self._open, with_weights=True))

    def _open(self, job_id: str, with_weights: bool = False) -> None:
        dialog = ProgressDialog("TensorBoard", parent=self._window)
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)
        dialog.show_progress(None, "Reading the event files")

        def start_viewer(progress: Progress) -> tuple[str, bool]:
            has_graph = not with_weights or self._inspection.write_events(job_id, progress)
            return self._viewers.open(job_id, progress), has_graph

        def show(result: tuple[str, bool]) -> None:
            url, has_graph = result
            QDesktopServices.openUrl(QUrl(url))
            if has_graph:
                dialog.accept()
            else:
                dialog.show_result("text", NO_GRAPH)

        self.run_task(dialog, f"events of {job_id}", start_viewer, show, dialog.show_progress)
