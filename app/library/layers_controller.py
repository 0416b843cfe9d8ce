"""Read the layers of the model whose tab is open, their graph and their variances."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.library.layers import ModelLayers
from backend.services.jobs.inspection import InspectionService
from widgets.library.library_detail import LibraryDetail
from widgets.library.trial_pages import Trial

_QUEUE = "layers"


class LayersController(QObject):
    """Serve the tab Layers of the models."""

    def __init__(
        self,
        inspection: InspectionService,
        runner: Runner,
        detail: LibraryDetail,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._inspection = inspection
        self._runner = runner
        self._detail = detail
        self._progress: Progress | None = None
        detail.layers_requested.connect(self._read)
        detail.variance_requested.connect(self._measure)
        detail.cancel_requested.connect(self._cancel)

    @Slot(object)
    def _read(self, trial: Trial) -> None:
        self._cancel()
        progress = self._runner.progress(self._detail.show_trial_progress)
        self._progress = progress
        self._runner.run(
            _QUEUE,
            lambda: self._inspection.layers(
                trial.model, trial.dataset, trial.loader, progress=progress
            ),
            partial(self._show, trial),
            partial(self._show_error, progress),
        )

    def _show(self, trial: Trial, layers: ModelLayers) -> None:
        self._detail.show_layers(trial, layers)
        self._runner.run(
            _QUEUE,
            lambda: self._inspection.graph(layers),
            partial(self._detail.show_layer_graph, trial),
            lambda error: self._detail.show_layer_graph(trial, error.with_remedy),
        )

    @Slot(object)
    def _measure(self, trial: Trial) -> None:
        self._cancel()
        progress = self._progress = self._runner.progress(self._detail.show_trial_progress)
        show = partial(self._detail.show_variance, trial)
        self._runner.run(
            _QUEUE,
            lambda: self._inspection.variance(
                trial.model, trial.dataset, trial.loader, progress=progress
            ),
            show,
            lambda error: show(error.with_remedy),
        )

    def _show_error(self, progress: Progress, error: BackendError) -> None:
        if self._progress is progress:
            self._detail.show_trial_error(str(error), error.remedy)

    @Slot()
    def _cancel(self) -> None:
        """Cancel the request; its end is reported unless another request replaces it."""
        if self._progress is not None:
            self._progress.cancel()
