"""Turn user actions on samples of datasets and loaders into calls of the scan service."""

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
from widgets.library.library_detail import LibraryDetail
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import Trial


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
        self._scan_progress: Progress | None = None
        self._read_progresses: dict[str, Progress] = {}
        dataset_detail = pages[Kind.DATASET].detail
        view = dataset_detail.results.scan
        view.scan_requested.connect(partial(self._scan, dataset_detail))
        view.cancel_requested.connect(self._cancel)
        view.samples_requested.connect(partial(self._read_samples, dataset_detail))
        for kind in (Kind.DATASET, Kind.LOADER):
            detail = pages[kind].detail
            detail.results.samples.page_requested.connect(partial(self._read_page, kind, detail))

    def _scan(self, detail: LibraryDetail) -> None:
        view, trial = detail.results.scan, detail.trial
        if not trial.loader:
            view.show_error("Choose the loader that reads the samples.")
            return
        progress = self._scan_progress = self._runner.progress(view.show_progress)

        def show(scan: DatasetScan) -> None:
            if self._scan_progress is progress and trial == detail.trial:
                view.show_scan(scan)

        def fail(error: BackendError) -> None:
            if self._scan_progress is progress and isinstance(error, Cancelled):
                view.clear()
            elif self._scan_progress is progress:
                view.show_error(str(error), error.remedy)

        self._runner.run(
            "scan", lambda: self._scans.scan(trial.dataset, trial.loader, progress), show, fail
        )

    def _cancel(self) -> None:
        if self._scan_progress is not None:
            self._scan_progress.cancel()

    def _read_samples(self, detail: LibraryDetail, positions: tuple[tuple[str, int], ...]) -> None:
        view = detail.results.scan
        request = {"places": [list(p) for p in positions]}
        show, fail = (
            partial(view.show_samples, positions),
            partial(view.show_samples_error, positions),
        )
        self._read("places", detail.trial, request, show, fail)

    def _read_page(self, kind: Kind, detail: LibraryDetail, request: dict[str, object]) -> None:
        view = detail.results.samples
        show, fail = partial(view.show_page, request), partial(view.show_page_error, request)
        self._read(f"page of {kind.value}", detail.trial, request, show, fail)

    def _read(
        self,
        queue_name: str,
        trial: Trial,
        request: Mapping[str, object],
        show: Callable[[SamplePage], None],
        fail: Callable[[str], None],
    ) -> None:
        """Read samples; an earlier request in this queue is cancelled."""
        if queue_name in self._read_progresses:
            self._read_progresses[queue_name].cancel()
        progress = self._read_progresses[queue_name] = self._runner.progress(
            lambda share, text: None
        )

        def handle_error(error: BackendError) -> None:
            if not progress.is_cancelled:
                fail(error.with_remedy)

        self._runner.run(
            queue_name,
            lambda: self._scans.page(trial.dataset, trial.loader, request, progress),
            show,
            handle_error,
        )
