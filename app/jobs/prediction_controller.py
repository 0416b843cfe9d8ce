"""Try checkpoints in the window: the dialog, and the predictions in the background."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Slot
from PySide6.QtWidgets import QWidget

from app.jobs.file_export import show_in_folder
from app.runtime.background import Controller, Runner
from backend.base import log
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.prediction import Prediction
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.services.context.container import Services
from widgets.common.dialog import DialogHolder
from widgets.jobs.actions.job_actions import TRY_CHECKPOINT, JobActions
from widgets.jobs.checkpoints.try_dialog import TryDialog, TryRequest


class PredictionController(Controller):
    """Serve “Try it” of a checkpoint.

    Attributes:
        dialog: The dialog, while it is open.
    """

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
        self._progress: Progress | None = None
        self.dialog: DialogHolder[TryDialog] = DialogHolder()
        actions.add_handler(TRY_CHECKPOINT, self.open_dialog)

    def open_dialog(
        self, view: JobView, checkpoints: Sequence[Checkpoint], checkpoint: str
    ) -> None:
        """Open the dialog for a checkpoint of a job."""
        home = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
        dialog = TryDialog(view, tuple(checkpoints), checkpoint, home, self._window)
        dialog.try_requested.connect(self._predict)
        dialog.cancel_requested.connect(self._cancel)
        dialog.save_requested.connect(self._save)
        dialog.file_requested.connect(show_in_folder)
        self.dialog.open(dialog)
        self._runner.run("library", self._references, self._show_library, log.swallowed)

    def _references(self) -> tuple[list[str], list[str]]:
        """Return the versions of datasets and of loaders, the newest first."""
        datasets, loaders = (
            [item.reference for item in self._services.library.list(kind)]
            for kind in (Kind.DATASET, Kind.LOADER)
        )
        return datasets, loaders

    def _show_library(self, references: tuple[list[str], list[str]]) -> None:
        if self.dialog.dialog is not None:
            self.dialog.dialog.show_library(*references)

    @Slot(object)
    def _predict(self, request: TryRequest) -> None:
        dialog = self.dialog.dialog
        if dialog is None:
            return
        progress = self._runner.progress(self.dialog.guard_callback(dialog, dialog.show_progress))
        self._progress = progress

        def predict() -> tuple[Prediction, ...]:
            return tuple(
                self._services.predictions.predict(
                    request.job_id, name, request.prediction_input, progress
                )
                for name in request.checkpoints
            )

        self._runner.run(
            "predict",
            predict,
            self.dialog.guard_callback(dialog, partial(dialog.show_answers, request)),
            self.dialog.guard_callback(dialog, partial(_show_error, dialog)),
        )

    @Slot()
    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()

    @Slot(object, str)
    def _save(self, prediction: Prediction, path: str) -> None:
        dialog = self.dialog.dialog
        if dialog is not None:
            self._runner.run(
                "predict",
                lambda: self._services.predictions.write_table(prediction, Path(path)),
                self.dialog.guard_callback(dialog, lambda file: dialog.show_saved(str(file))),
                self.dialog.guard_callback(dialog, partial(_show_error, dialog)),
            )


def _show_error(dialog: TryDialog, error: BackendError) -> None:
    dialog.show_error(error.with_remedy)
