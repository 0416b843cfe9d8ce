"""Open TensorBoard on the event files of a job."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.services.jobs.inspection import NO_GRAPH, InspectionService
from backend.services.tools.event_viewer import EventViewers
from widgets.common.dialog import DialogHolder, ProgressDialog
from widgets.jobs.actions.job_actions import TENSORBOARD, TENSORBOARD_WEIGHTS, JobActions


class EventsController(Controller):
    """Start a server for a job, and open it in the browser. The servers end with the services."""

    def __init__(
        self,
        viewers: EventViewers,
        inspection: InspectionService,
        runner: Runner,
        actions: JobActions,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._viewers = viewers
        self._inspection = inspection
        self.dialog: DialogHolder[ProgressDialog] = DialogHolder()
        actions.add_handler(TENSORBOARD, self._open)
        actions.add_handler(TENSORBOARD_WEIGHTS, partial(self._open, with_weights=True))

    def _open(self, job_id: str, with_weights: bool = False) -> None:
        dialog = ProgressDialog("TensorBoard", parent=self._window)
        self.dialog.open(dialog)
        dialog.show_progress(None, "Reading the event files")
        progress = self._runner.progress(self.dialog.guard_callback(dialog, dialog.show_progress))
        dialog.cancel_requested.connect(progress.cancel)

        def start_viewer() -> tuple[str, bool]:
            has_graph = not with_weights or self._inspection.write_events(job_id, progress)
            return self._viewers.open(job_id, progress), has_graph

        self._runner.run(
            f"events of {job_id}",
            start_viewer,
            self.dialog.guard_callback(dialog, partial(self._show, dialog)),
            self.dialog.guard_callback(dialog, lambda error: dialog.show_error(error.with_remedy)),
        )

    def _show(self, dialog: ProgressDialog, result: tuple[str, bool]) -> None:
        url, has_graph = result
        QDesktopServices.openUrl(QUrl(url))
        if has_graph:
            dialog.accept()
        else:
            dialog.show_result("text", NO_GRAPH)
