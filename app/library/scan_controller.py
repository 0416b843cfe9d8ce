"""Turn user actions on samples of a dataset into calls of the scan service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QObject

from app.runtime.background import Runner
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.library.item import Kind
from backend.records.library.sample_page import SamplePage
from backend.records.library.scan import DatasetScan
from backend.services.library.data_scan import DataScanService
from widgets.library.library_detail import LibraryDetail, Trial
from widgets.library.library_page import LibraryPage


class ScanController(QObject):
    """Serve the tab Scan of datasets, and the pages of samples of datasets and loaders."""

    def __init__(
        self,
        scans: DataScanService,
        runner: Runner,
        pages: dict[Kind, LibraryPage],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._scans = scans
        self._runner = runner
        self._running: Progress | None = None
        self._reading: dict[str, Progress] = {}
        dataset = pages[Kind.DATASET].detail
        view = dataset.results.scan
        view.scan_requested.connect(partial(self._scan, dataset))
        view.cancel_requested.connect(self._cancel)
        view.samples_requested.connect(partial(self._read_places, dataset))
        for kind in (Kind.DATASET, Kind.LOADER):
            detail = pages[kind].detail
            detail.results.samples.page_requested.connect(partial(self._read_page, kind, detail))

    def _scan(self, detail: LibraryDetail) -> None:
        view, trial = detail.results.scan, detail.trial
        if not trial.loader:
            view.show_error("Choose the loader that reads the samples.")
            return
        progress = self._running = self._runner.progress(view.show_progress)

        def show(scan: DatasetScan) -> None:
            if self._running is progress and trial == detail.trial:
                view.show_scan(scan)

        def fail(error: BackendError) -> None:
            if self._running is progress and isinstance(error, Cancelled):
                view.clear()
            elif self._running is progress:
                view.show_error(str(error), error.remedy)

        self._runner.run(
            "scan", lambda: self._scans.scan(trial.dataset, trial.loader, progress), show, fail
        )

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def _read_places(self, detail: LibraryDetail, places: tuple[tuple[str, int], ...]) -> None:
        view = detail.results.scan
        asked = {"places": [list(place) for place in places]}
        show, fail = partial(view.show_samples, places), partial(view.show_fault, places)
        self._read("places", detail.trial, asked, show, fail)

    def _read_page(self, kind: Kind, detail: LibraryDetail, asked: dict[str, object]) -> None:
        view = detail.results.samples
        show, fail = partial(view.show_page, asked), partial(view.show_page_error, asked)
        self._read(f"page of {kind.value}", detail.trial, asked, show, fail)

    def _read(
        self,
        lane: str,
        trial: Trial,
        asked: Mapping[str, object],
        show: Callable[[SamplePage], None],
        fail: Callable[[str], None],
    ) -> None:
        """Read samples; a request that was made before in this lane is cancelled."""
        if lane in self._reading:
            self._reading[lane].cancel()
        progress = self._reading[lane] = self._runner.progress(lambda share, text: None)

        def missed(error: BackendError) -> None:
            if not progress.is_cancelled:
                fail(error.with_remedy)

        self._runner.run(
            lane,
            lambda: self._scans.page(trial.dataset, trial.loader, asked, progress),
            show,
            missed,
        )
