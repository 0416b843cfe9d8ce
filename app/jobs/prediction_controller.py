"""Try checkpoints in the window: the dialog, and the predictions in the background."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths
from PySide6.QtWidgets import QWidget

from app.jobs.file_export import show_in_folder
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base import log
from backend.base.progress import Progress
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.prediction import Prediction
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services
from widgets.jobs.actions.job_actions import TRY_CHECKPOINT, JobActions
from widgets.jobs.checkpoints.try_dialog import TryDialog, TryRequest


class PredictionController(DialogController[TryDialog]):
    """Serve “Try it” of a checkpoint."""

    def __init__(
        self,
        services: Services,
        runner: Runner,
        actions: JobActions,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
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
