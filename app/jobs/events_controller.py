"""Open TensorBoard on the event files of a job."""

from __future__ import annotations

from PySide6.QtCore import QObject, QUrl, Slot
from PySide6.QtGui import QDesktopServices

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.services.jobs.inspection import NO_GRAPH, InspectionService
from backend.services.tools.event_viewer import EventViewers
from widgets.jobs.actions.job_actions import JobActions


class EventsController(QObject):
    """Start a server for a job, and open it in the browser. The servers end with the services."""

    def __init__(
        self,
        viewers: EventViewers,
        inspection: InspectionService,
        runner: Runner,
        actions: JobActions,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewers = viewers
        self._inspection = inspection
        self._runner = runner
        actions.events_requested.connect(self._open)

    @Slot(str, bool)
    def _open(self, job_id: str, with_weights: bool) -> None:
        self._runner.notify("Writing the weights…" if with_weights else "Starting TensorBoard…")
        progress = self._runner.progress(lambda share, text: None)

        def opened() -> tuple[str, bool]:
            has_graph = not with_weights or self._inspection.write_events(job_id, progress)
            return self._viewers.open(job_id, progress), has_graph

        self._runner.run(f"events of {job_id}", opened, self._show, self._failed)

    def _show(self, opened: tuple[str, bool]) -> None:
        url, has_graph = opened
        if not has_graph:
            self._runner.notify(NO_GRAPH)
        QDesktopServices.openUrl(QUrl(url))

    def _failed(self, error: BackendError) -> None:
        self._runner.notify(error.with_remedy)
