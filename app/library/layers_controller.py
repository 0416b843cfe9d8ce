"""Read the layers of the model whose tab is open, their graph and their variances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, Slot

from app.runtime.background import Runner
from app.runtime.controller import Controller, LatestRequest
from backend.base.errors import BackendError
from backend.records.library.layers import ModelLayers
from backend.services.jobs.inspection import InspectionService
from widgets.library.library_detail import LibraryDetail
from widgets.library.trial_pages import Trial

T = TypeVar("T")
_QUEUE = "layers"


class LayersController(Controller):
    """Serve the tab Layers of the models."""

    def __init__(
        self,
        inspection: InspectionService,
        runner: Runner,
        detail: LibraryDetail,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._inspection = inspection
        self._detail = detail
        self._request = LatestRequest(runner)
        detail.layers_requested.connect(self._read)
        detail.variance_requested.connect(self._measure)
        detail.cancel_requested.connect(self._request.cancel)

    @Slot(object)
    def _read(self, trial: Trial) -> None:
        def show(layers: ModelLayers) -> None:
            self._detail.show_layers(trial, layers)
            show_graph = partial(self._detail.show_layer_graph, trial)
            self.serve(_QUEUE, lambda: self._inspection.graph(layers), show_graph, show_graph)

        def show_error(error: BackendError) -> None:
            self._detail.show_trial_error(str(error), error.remedy)

        self._run(self._inspection.layers, trial, show, show_error)

    @Slot(object)
    def _measure(self, trial: Trial) -> None:
        show = partial(self._detail.show_variance, trial)
        self._run(self._inspection.variance, trial, show, lambda error: show(error.with_remedy))

    def _run(
        self,
        work: Callable[..., T],
        trial: Trial,
        show: Callable[[T], object],
        show_error: Callable[[BackendError], object],
    ) -> None:
        parts = trial.model, trial.dataset, trial.loader
        self._request.run(
            _QUEUE,
            lambda progress: work(*parts, progress=progress),
            show,
            show_error,
            self._detail.show_trial_progress,
        )
