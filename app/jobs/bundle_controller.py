"""Export jobs to bundles, import bundles, and compare replays with their originals."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.jobs.file_export import show_in_folder
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base import log
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.bundles.job_archive import ImportedJob, ReplayResult, WrittenBundle
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from backend.records.jobs.view import RunUpdate
from backend.services.context.container import Services
from widgets.jobs.actions.job_actions import BUNDLE
from widgets.jobs.detail.warning import ReplayComparison
from widgets.jobs.page.bundle_dialog import BundleDialog, BundleRequest, UnbundleDialog
from widgets.jobs.page.jobs_page import JobsPage


class BundleController(DialogController[BundleDialog | UnbundleDialog]):
    """Serve the bundle entries of a job's menu, and bundles that are opened or dropped.

    Signals:
        job_created: The `JobView` of a new job to show.
    """

    job_created = Signal(object)

    def __init__(self, services: Services, runner: Runner, page: JobsPage, window: QWidget) -> None:
        super().__init__(runner, window)
        self._services = services
        self._detail = page.detail
        self._page = page
        self._replay_results: dict[tuple[str, int], tuple[str, ReplayResult] | None] = {}
        """By job and run: the original and the comparison, None for no replay or not yet."""
        page.job_actions.add_handler(BUNDLE, self.ask)

    # Export.

    def ask(self, job_id: str) -> None:
        """Ask for the contents of the bundle and its destination."""
        self._runner.run(
            f"read {job_id}",
            partial(self._services.jobs.queries.checkpoints, job_id),
            partial(self._ask, job_id),
            partial(self._show_error, job_id),
        )

    def _ask(self, job_id: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        summary = self._page.model.summary(job_id)
        if summary is None:
            return
        home = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
        dialog = BundleDialog(summary.name, checkpoints, home, self._window)
        dialog.bundle_requested.connect(partial(self._bundle, job_id, dialog))
        dialog.folder_requested.connect(show_in_folder)
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)

    def _bundle(self, job_id: str, dialog: BundleDialog, request: BundleRequest) -> None:
        def write(progress: Progress) -> WrittenBundle:
            return self._services.bundles.bundle(
                job_id,
                Path(request.path),
                with_data=request.with_data,
                checkpoint=request.checkpoint,
                overwrite=request.overwrite,
                progress=progress,
            )

        self.run_task(dialog, f"export {job_id}", write, dialog.show_done, dialog.show_progress)

    # Import.

    @Slot(object)
    def unbundle(self, path: Path) -> None:
        """Import a bundle that was chosen or dropped."""
        dialog = UnbundleDialog(path.name, self._window)
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)

        def show_import(result: ImportedJob) -> None:
            if_open(dialog.show_done)(result)
            self.job_created.emit(result.view)
            self._runner.notify(result.origin)

        if_open = partial(self.if_open, dialog)
        self._task.run(
            "import",
            partial(self._services.bundles.unbundle, path),
            show_import,
            if_open(lambda error: dialog.show_error(error.with_remedy)),
            if_open(dialog.show_progress),
        )

    # Replay.

    @Slot(object)
    def compare_replay(self, update: RunUpdate) -> None:
        """When the open job has finished and is a replay, show the comparison on its page."""
        view, run_key = update.view, (update.view.id, update.view.run)
        if view.state is not JobState.FINISHED:
            return
        replays = self._services.replays

        def compare() -> tuple[str, ReplayResult] | None:
            original_id = replays.original_id(view.id)
            return (original_id, replays.compare(view.id)) if original_id else None

        def show(replay_result: tuple[str, ReplayResult] | None) -> None:
            self._replay_results[run_key] = replay_result
            if replay_result is not None:
                original_id, result = replay_result
                comparison = ReplayComparison(result.message, result.is_same, original_id)
                self._detail.show_check_result(view.id, comparison)

        if run_key in self._replay_results:
            show(self._replay_results[run_key])  # the page forgets it when another job is opened
            return
        self._replay_results[run_key] = None
        self._runner.run(f"read {view.id}", compare, show, log.swallowed)

    def _show_error(self, job_id: str, error: BackendError) -> None:
        self._detail.show_busy(job_id, "")
        self._detail.show_error(job_id, str(error), error.remedy)
