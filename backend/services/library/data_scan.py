"""Read all samples of a dataset in a process on this computer; keep the results."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.base.progress import Progress
from backend.records.base.number_format import count
from backend.records.library.item import Kind, LibraryItem
from backend.records.library.preview import SamplePage
from backend.records.library.scan import DatasetScan
from backend.services.library.service import LibraryService
from backend.services.tools.result_files import ResultCache
from backend.services.tools.tool_process import ToolError, run_tool

_BUDGET_S = 3600.0
_PAGE_S = 20.0
_STALL_S = 120.0
"""The tool skips a sample after 30 s, unless the sample hangs in a C library."""


class DataScanService:
    """Scans of datasets. Every call blocks and may run on any thread."""

    def __init__(self, library: LibraryService, cache: Path) -> None:
        self._library = library
        self._cache = ResultCache(cache)

    def scan(self, dataset: str, loader: str, progress: Progress | None = None) -> DatasetScan:
        """Read all samples with a loader, or return the result for exactly these files.

        Raises:
            ToolError: The loader cannot be used, or a sample hangs and cannot be interrupted.
            Cancelled: The user cancelled.
        """
        data = self._library.show(Kind.DATASET, dataset)
        code = self._library.show(Kind.LOADER, loader)
        scan = self._cache.get(
            ("scan 2", data.sha256, code.sha256),
            DatasetScan.from_dict,
            lambda: self._scan(data, code, progress or Progress()),
        )
        self._library.note_leaks(data.reference, scan.leak_count, scan.near_leak_count)
        return scan

    def page(
        self,
        dataset: str,
        loader: str,
        selection: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> SamplePage:
        """Read some samples.

        Args:
            selection: ``{"places": [[split, index], …]}``; or, for consecutive samples,
                ``{"split": …, "start": …, "count": …}`` and optionally ``of_class``.
        """
        data = self._library.show(Kind.DATASET, dataset)
        code = self._library.show(Kind.LOADER, loader)
        return self._cache.get(
            ("page", data.sha256, code.sha256, json.dumps(selection, sort_keys=True)),
            SamplePage.from_dict,
            lambda: run_tool(
                "sample_page",
                {
                    **self._files(data, code, progress or Progress()),
                    **selection,
                    "budget_s": _PAGE_S,
                },
                SamplePage.from_dict,
                "Reading the samples",
                _PAGE_S + 100,
                progress,
            ),
        )

    def _files(self, data: LibraryItem, code: LibraryItem, progress: Progress) -> dict[str, Any]:
        return {
            "loader": str(self._library.open_content(Kind.LOADER, code.reference, progress)),
            "dataset": str(self._library.open_content(Kind.DATASET, data.reference, progress)),
        }

    def _scan(self, data: LibraryItem, code: LibraryItem, progress: Progress) -> DatasetScan:
        request = {**self._files(data, code, progress), "budget_s": _BUDGET_S}
        watch = StallWatch(progress, _STALL_S)
        return run_tool(
            "scan", request, DatasetScan.from_dict, "The scan", _BUDGET_S + _STALL_S, watch
        )


class StallWatch(Progress):
    """Forwards progress, and raises if the number of read samples stands still for too long."""

    def __init__(self, progress: Progress, limit_s: float) -> None:
        super().__init__()
        self._progress = progress
        self._limit_s = limit_s
        self._done_amount = self._total = 0.0
        self._title = ""
        self._changed_s = time.monotonic()

    def step(self, done_amount: float, total: float, title: str) -> None:
        if total or title != self._title:
            self._done_amount, self._total, self._title = done_amount, total, title
            self._changed_s = time.monotonic()
        elif self._total and time.monotonic() - self._changed_s > self._limit_s:
            raise ToolError(
                f"A sample after number {count(int(self._done_amount))} was not read within "
                f"{self._limit_s:.0f} s and cannot be interrupted ({title}).",
                "Find what hangs in __getitem__: a C library, a file on a dead share, a lock.",
            )
        self._progress.step(self._done_amount, self._total, title)
