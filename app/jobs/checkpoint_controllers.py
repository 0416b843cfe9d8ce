"""Try a checkpoint, look inside it, and export it by dragging it out of the window."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths
from PySide6.QtWidgets import QWidget

from app.jobs.file_export import show_in_folder
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base import log
from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.prediction import Prediction
from backend.records.jobs.view import JobView
from backend.records.library.inspection import CheckpointInspection
from backend.records.library.item import Kind
from backend.services.context.container import Services
from backend.services.jobs.inspection import InspectionService
from backend.services.jobs.service import JobService
from widgets.common.drag_and_drop import FilePromise
from widgets.jobs.actions.job_actions import (
    DRAG_CHECKPOINT,
    INSPECT_CHECKPOINT,
    TRY_CHECKPOINT,
    CheckpointDrag,
    JobActions,
)
from widgets.jobs.checkpoints.inspection_dialog import InspectionDialog, InspectionRequest
from widgets.jobs.checkpoints.try_dialog import TryDialog, TryRequest


class PredictionController(DialogController[TryDialog]):
    """Serve “Try it” of a checkpoint."""

    def __init__(
        self, services: Services, runner: Runner, actions: JobActions, window: QWidget
    ) -> None:
        super().__init__(runner, window)
        self._services = services
        actions.add_handler(TRY_CHECKPOINT, self.open_dialog)

    def open_dialog(
        self, view: JobView, checkpoints: Sequence[Checkpoint], checkpoint: str
    ) -> None:
        """Open the dialog for a checkpoint of a job."""
        home = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
        dialog = TryDialog(view, tuple(checkpoints), checkpoint, home, self._window)
        dialog.try_requested.connect(partial(self._predict, dialog))
        dialog.cancel_requested.connect(self.cancel_task)
        dialog.save_requested.connect(partial(self._save, dialog))
        dialog.file_requested.connect(show_in_folder)
        self.open(dialog)

        def read_library() -> tuple[list[str], list[str]]:
            datasets, loaders = (
                [item.reference for item in self._services.library.list(kind)]
                for kind in (Kind.DATASET, Kind.LOADER)
            )
            return datasets, loaders

        show = self.if_open(dialog, lambda references: dialog.show_library(*references))
        self._runner.run("library", read_library, show, log.swallowed)

    def _predict(self, dialog: TryDialog, request: TryRequest) -> None:
        def predict(progress: Progress) -> tuple[Prediction, ...]:
            predict_input = self._services.predictions.predict
            return tuple(
                predict_input(request.job_id, name, request.prediction_input, progress)
                for name in request.checkpoints
            )

        show = partial(dialog.show_answers, request)
        self.run_task(dialog, "predict", predict, show, dialog.show_progress)

    def _save(self, dialog: TryDialog, prediction: Prediction, path: str) -> None:
        write = partial(self._services.predictions.write_table, prediction, Path(path))
        self.serve_dialog(dialog, "predict", write, lambda file: dialog.show_saved(str(file)))


class InspectionController(DialogController[InspectionDialog]):
    """Serve the request `INSPECT_CHECKPOINT`."""

    def __init__(
        self, inspection: InspectionService, runner: Runner, actions: JobActions, window: QWidget
    ) -> None:
        super().__init__(runner, window)
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


_DRAG_QUEUE = "carry out"
_MAX_FILES = 3
"""The number of finished files that are kept: a target may still be copying the last ones."""


class CheckpointDragSource(QObject):
    """Export into a temporary folder off the GUI thread, from the start of the drag."""

    def __init__(
        self,
        jobs: JobService,
        runner: Runner,
        actions: JobActions,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._runner = runner
        self._folder = Path(tempfile.gettempdir()) / f"ringmaster-{secrets.token_hex(8)}"
        self._exported_files: deque[Path] = deque()
        self._late_files: dict[tuple[str, ...], Path] = {}
        actions.add_handler(DRAG_CHECKPOINT, self.start_export)

    def start_export(self, drag: CheckpointDrag) -> None:
        """Export the dragged file, or reuse a file that came too late for an earlier drag."""
        checkpoint, name, promise = drag.checkpoint, drag.file_name, drag.promise
        key = (drag.job_id, checkpoint.sha256, drag.format, name)
        late_file = self._late_files.pop(key, None)
        if late_file is not None:
            promise.path = str(late_file)
            promise.fulfil()
            return
        target = self._folder / secrets.token_hex(4) / name
        promise.path = str(target)
        progress = self._runner.progress(lambda _share, _step: None)
        promise.abandoned.connect(progress.cancel)
        promise.timed_out.connect(partial(self._remember_late, promise, key))
        stale_files = [
            self._exported_files.popleft()
            for _ in range(len(self._exported_files) - _MAX_FILES + 1)
        ]
        self._late_files = {
            k: path for k, path in self._late_files.items() if path not in stale_files
        }
        self._runner.notify(f"Making “{name}”…")

        def make() -> Path:
            for file in stale_files:
                shutil.rmtree(file.parent, ignore_errors=True)
            try:
                # Other users of this computer must not read it.
                self._folder.mkdir(mode=0o700, exist_ok=True)
                target.parent.mkdir()
            except OSError as error:
                raise BackendError(
                    f"“{name}” cannot be made in {self._folder.parent}: {error.strerror or error}.",
                    f"Free some space in {self._folder.parent}, or use Export….",
                ) from error
            return self._jobs.export(drag.job_id, checkpoint.name, drag.format, target, progress)

        self._runner.run(
            _DRAG_QUEUE,
            make,
            partial(self._finish_export, promise, key),
            partial(self._handle_error, promise, key),
        )

    def close(self) -> None:
        """Delete the files that were not copied; block until they are deleted."""
        with suppress(OSError):
            shutil.rmtree(self._folder)

    def _finish_export(self, promise: FilePromise, key: tuple[str, ...], path: Path) -> None:
        self._exported_files.append(path)
        promise.fulfil()
        if key in self._late_files:
            self._runner.notify(f"“{path.name}” is ready: drag it again")
        elif not promise.is_drag_over:
            self._runner.notify(f"“{path.name}” is ready: drop it in a folder")

    def _remember_late(self, promise: FilePromise, key: tuple[str, ...]) -> None:
        path = Path(promise.path)
        self._late_files[key] = path
        self._runner.notify(
            f"“{path.name}” was not ready yet; a message will say when to drag it again"
        )

    def _handle_error(
        self, promise: FilePromise, key: tuple[str, ...], error: BackendError
    ) -> None:
        self._late_files.pop(key, None)
        promise.finish()
        if not isinstance(error, Cancelled):
            self._runner.notify(error.with_remedy)
