"""Write the report of a job, a comparison, a sweep or a study."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Slot
from PySide6.QtWidgets import QWidget

from app.jobs.file_export import show_in_folder
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.progress import Progress
from backend.services.context.container import Services
from widgets.jobs.actions.job_actions import REPORT, REPORT_ALL
from widgets.jobs.checkpoints.export_dialog import file_stem
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.page.report_dialog import ReportDialog, ReportRequest


class ReportController(DialogController[ReportDialog]):
    """Serve the action “Report…” of jobs, sweeps and the page Compare."""

    def __init__(self, services: Services, runner: Runner, page: JobsPage, window: QWidget) -> None:
        super().__init__(runner, window)
        self._services = services
        self._page = page
        page.job_actions.add_handler(REPORT, lambda job_id: self.ask((job_id,)))
        page.job_actions.add_handler(REPORT_ALL, self.ask)

    @Slot(object)
    def ask(self, job_ids: Sequence[str]) -> None:
        """Ask for the content of the report of these jobs, and its path."""
        summary = self._page.model.summary(job_ids[0]) if len(job_ids) == 1 else None
        name = file_stem(summary.name) if summary is not None else "report"
        home = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
        dialog = ReportDialog(str(Path(home) / f"{name}.html"), self._window)
        dialog.report_requested.connect(partial(self._write, tuple(job_ids), dialog))
        dialog.folder_requested.connect(show_in_folder)
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)

    def _write(
        self, job_ids: tuple[str, ...], dialog: ReportDialog, request: ReportRequest
    ) -> None:
        def write(progress: Progress) -> Path:
            return self._services.reports.write(
                job_ids,
                request.path,
                samples=request.samples,
                shows_places=request.shows_places,
                overwrite=True,
                progress=progress,
            )

        self.run_task(dialog, "report", write, dialog.show_done, dialog.show_progress)
