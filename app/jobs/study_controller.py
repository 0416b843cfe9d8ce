"""Start studies from the gallery, and show the result of an open study or search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.records.jobs.view import JobView
from backend.records.studies.study import FormName
from backend.records.studies.table import StudyTable
from backend.records.sweeps.spec import QueuedSweep, sweep_name
from backend.services.context.container import Services
from widgets.common import formats
from widgets.jobs.actions.job_actions import SAVE_FILE
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.studies.study_dialog import StudyDialog

_QUEUE, _SEARCHES = "studies", "searches"


class StudyController(DialogController[StudyDialog]):
    """Serve the dialog New study, and the pane of a sweep that is a study or a search.

    Signals:
        study_queued: A `QueuedSweep`: all jobs of a study are in the queue.
    """

    study_queued = Signal(object)

    def __init__(self, services: Services, runner: Runner, page: JobsPage, window: QWidget) -> None:
        super().__init__(runner, window)
        self._studies = services.studies
        self._sweeps = services.sweeps
        self._page = page
        self._pane = page.sweep
        result = self._pane.study
        self._pane.table_requested.connect(self._read_table)
        self._pane.table_requested.connect(self._read_search)
        result.resume_requested.connect(self._resume)
        result.export_requested.connect(self._ask_export_path)
        result.saved.connect(lambda *picture: page.job_actions.ask(SAVE_FILE, *picture))

    def choose(self) -> None:
        """Open the gallery."""
        dialog = StudyDialog(self._window)
        dialog.start_requested.connect(self._start)
        dialog.file_requested.connect(self._open_file)
        self.open(dialog)
        self.serve_dialog(dialog, _QUEUE, self._studies.list, dialog.show_studies)

    @Slot()
    def _open_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self._window, "Open study file", "", "Study files (*.toml)"
        )
        dialog = self.dialog
        if path and dialog is not None:
            self.serve_dialog(
                dialog, _QUEUE, partial(self._studies.inspect, Path(path)), dialog.add_study
            )

    @Slot(str, object)
    def _start(self, name: str, form: FormName) -> None:
        def show_step(_share: float | None, step: str) -> None:
            if self.dialog is not None:
                self.dialog.set_busy(formats.with_ellipsis(step))

        show_step(None, "Starting")
        progress = self._runner.progress(show_step)
        start = partial(self._studies.start, name, form, (), progress)
        self.serve(_QUEUE, start, self._show_queued)

    def _show_queued(self, sweep: QueuedSweep) -> None:
        if self.dialog is not None:
            self.dialog.accept()
        self._runner.notify(f"Queued {formats.plural(len(sweep.jobs), 'job')} of a study")
        self.study_queued.emit(sweep)
        self._page.open_new_sweep(sweep.tag, sweep.jobs)

    # The open study.

    @Slot(str)
    def _read_table(self, tag: str) -> None:
        def read() -> StudyTable | None:
            study = self._studies.find(tag)
            return None if study is None else self._studies.table(study)

        self.serve(_QUEUE, read, partial(self._pane.show_study, tag), self._runner.notify)

    @Slot(str)
    def _read_search(self, tag: str) -> None:
        read = partial(self._sweeps.result, tag)
        self.serve(_SEARCHES, read, partial(self._pane.show_search, tag), self._runner.notify)

    @Slot()
    def _resume(self) -> None:
        def show_resumed(views: Sequence[JobView]) -> None:
            for view in views:
                self._page.show_view(view)
            self._runner.notify("The rest of the study is in the queue")

        resume = partial(self._sweeps.resume, self._pane.tag)
        self.serve(_QUEUE, resume, show_resumed, self._runner.notify)

    @Slot()
    def _ask_export_path(self) -> None:
        tag = self._pane.tag
        # The dialog itself asks before it overwrites a file.
        path, _ = QFileDialog.getSaveFileName(
            self._window,
            "Save table",
            f"{sweep_name(tag)}.md",
            "Markdown (*.md);;Values by seed (*.csv)",
        )
        if path:
            self.export(tag, Path(path))

    def export(self, tag: str, path: Path) -> None:
        """Write the table of a study to a file."""

        def write() -> Path:
            return self._studies.export(self._studies.find_started(tag), path, overwrite=True)

        def confirm(saved_path: Path) -> None:
            self._runner.notify(f"Saved {saved_path.name}")

        self.serve(_QUEUE, write, confirm, self._runner.notify)
