"""Turn user actions on samples of datasets and loaders into calls of the scan service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QObject

from app.runtime.background import Runner
from app.runtime.controller import Controller, LatestRequest
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.library.item import Kind
from backend.records.library.preview import SamplePage
from backend.records.library.scan import DatasetScan
from backend.services.library.data_scan import DataScanService
from widgets.library.library_detail import LibraryDetail
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import Trial


class ScanController(Controller):
    """Serve the tab Scan of datasets, and the pages of samples of datasets and loaders."""

    def __init__(
        self,
        scans: DataScanService,
        runner: Runner,
        pages: dict[Kind, LibraryPage],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._scans = scans
        self._scan_request = LatestRequest(runner)
        self._requests: defaultdict[str, LatestRequest] = defaultdict(
            partial(LatestRequest, runner)
        )
        dataset_detail = pages[Kind.DATASET].detail
        view = dataset_detail.results.scan
        view.scan_requested.connect(partial(self._scan, dataset_detail))
        view.cancel_requested.connect(self._scan_request.cancel)
        view.samples_requested.connect(partial(self._read_samples, dataset_detail))
        for kind in (Kind.DATASET, Kind.LOADER):
            detail = pages[kind].detail
            detail.results.samples.page_requested.connect(partial(self._read_page, kind, detail))

    def _scan(self, detail: LibraryDetail) -> None:
        view, trial = detail.results.scan, detail.trial
        if not trial.loader:
            view.show_error("Choose the loader that reads the samples.")
            return

        def scan(progress: Progress) -> DatasetScan:
            return self._scans.scan(trial.dataset, trial.loader, progress)

        def show(dataset_scan: DatasetScan) -> None:
            if trial == detail.trial:
                view.show_scan(dataset_scan)

        def show_error(error: BackendError) -> None:
            if isinstance(error, Cancelled):
                view.clear()
            else:
                view.show_error(str(error), error.remedy)

        self._scan_request.run("scan", scan, show, show_error, view.show_progress)

    def _read_samples(self, detail: LibraryDetail, positions: tuple[tuple[str, int], ...]) -> None:
        view = detail.results.scan
        request = {"places": [list(p) for p in positions]}
        show = partial(view.show_samples, positions)
        show_error = partial(view.show_samples_error, positions)
        self._read("places", detail.trial, request, show, show_error)

    def _read_page(self, kind: Kind, detail: LibraryDetail, request: dict[str, object]) -> None:
        view = detail.results.samples
        show, show_error = partial(view.show_page, request), partial(view.show_page_error, request)
        self._read(f"page of {kind.value}", detail.trial, request, show, show_error)

    def _read(
        self,
        queue_name: str,
        trial: Trial,
        request: Mapping[str, object],
        show: Callable[[SamplePage], None],
        show_error: Callable[[str], None],
    ) -> None:
        """Read samples; an earlier request in this queue is cancelled."""
        self._requests[queue_name].run(
            queue_name,
            lambda progress: self._scans.page(trial.dataset, trial.loader, request, progress),
            show,
            lambda error: show_error(error.with_remedy),
        )
