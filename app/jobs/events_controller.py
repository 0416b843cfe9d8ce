"""Open TensorBoard on the event files of a job."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QUrl, Slot
from PySide6.QtGui import QDesktopServices

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.services.tools.event_viewer import EventViewers
from widgets.jobs.actions.job_actions import JobActions


class EventsController(QObject):
    """Start a server for a job, and open it in the browser. The servers end with the services."""

    def __init__(
        self,
        viewers: EventViewers,
        runner: Runner,
        actions: JobActions,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewers = viewers
        self._runner = runner
        actions.events_requested.connect(self._open)

    @Slot(str)
    def _open(self, job_id: str) -> None:
        self._runner.notify("Starting TensorBoard…")
        progress = self._runner.progress(lambda share, text: None)
        self._runner.run(
            f"events of {job_id}",
            partial(self._viewers.open, job_id, progress),
            _show,
            self._failed,
        )

    def _failed(self, error: BackendError) -> None:
        self._runner.notify(error.with_remedy)


def _show(url: str) -> None:
    QDesktopServices.openUrl(QUrl(url))
