"""Scans of datasets as the desktop runs them: in a process, kept, cancelled, and never endless."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.base.errors import Cancelled
from backend.base.progress import Progress
from backend.records.library.item import Kind
from backend.records.library.scan import DatasetScan
from backend.services.context.container import Services, open_services
from backend.services.library import data_scan
from backend.services.library.data_scan import StallWatch
from backend.services.tools.tool_process import ToolError

LOADER = """
import ctypes, torch

class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder): self.folder = folder
    def __len__(self): return 3000
    def __getitem__(self, index):
        {item}
"""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    container = open_services(tmp_path / "root", tmp_path / "here" / "c.sqlite")
    yield container
    container.close()


def fill(services: Services, folder: Path, item: str) -> None:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "bks_dataset.py").write_text(LOADER.format(item=item))
    services.library.import_item(Kind.DATASET, source, "tiny")
    services.library.import_item(Kind.LOADER, source, "tiny")


class Reports(Progress):
    """Keep the reports with a total; cancel at a number of samples."""

    def __init__(self, cancel_at: float = math.inf) -> None:
        super().__init__()
        self.reports: list[tuple[float, float, str]] = []
        self._cancel_at = cancel_at

    def report(self, done: float, total: float, label: str) -> None:
        if total:
            self.reports.append((done, total, label))
        if done >= self._cancel_at:
            self.cancel()


def test_a_scan_is_made_once_for_the_same_files(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "seen"
    fill(
        services,
        tmp_path,
        "import os, time\n"
        f"        while not os.path.exists({str(marker)!r}): time.sleep(0.01)\n"
        "        return torch.tensor([float(index % 2999)]), index % 3",
    )

    class Waited(Reports):
        """No sample is read before a report of them was seen."""

        def report(self, done: float, total: float, label: str) -> None:
            super().report(done, total, label)
            if total:
                marker.touch()

    progress = Waited()
    scan = services.scans.scan("tiny", "tiny", progress)
    assert (scan.samples, scan.duplicates) == (3000, ((0, 2999),))
    assert progress.reports[0][1:] == (3000, "Reading training samples")
    monkeypatch.setattr(data_scan, "run_tool", None)
    assert services.scans.scan("tiny", "tiny") == scan


def test_a_scan_can_be_cancelled(services: Services, tmp_path: Path) -> None:
    fill(services, tmp_path, "import time; time.sleep(0.1); return torch.rand(1), 0")
    with pytest.raises(Cancelled):
        services.scans.scan("tiny", "tiny", Reports(cancel_at=1))


def test_a_sample_that_hangs_in_a_library_ends_the_scan_with_a_sentence(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler of Python does not run within a call into C."""
    fill(
        services,
        tmp_path,
        "import time; time.sleep(0.2)\n"
        "        if index == 5: ctypes.PyDLL(None).pause()\n"
        "        return torch.rand(1), 0",
    )
    now = data_scan.time.monotonic

    class WaitingProgress(Progress):
        """From sample 5 on, two minutes pass at once."""

        def report(self, done: float, total: float, label: str) -> None:
            if done == 5:
                monkeypatch.setattr(data_scan.time, "monotonic", lambda: now() + 121)

    with pytest.raises(ToolError) as caught:
        services.scans.scan("tiny", "tiny", WaitingProgress())
    assert str(caught.value) == (
        "A sample after number 5 was not read within 120 s and cannot be interrupted "
        "(Reading training samples)."
    )


def test_waiting_for_the_loader_to_open_is_no_stall() -> None:
    progress = Reports()
    watch = StallWatch(progress, 0.0)
    for _ in range(3):
        watch.step(0, 0, "Opening the loader…")
    watch.step(7, 9, "Reading training samples")
    watch.step(0, 0, "Comparing the samples…")
    watch.step(0, 0, "Comparing the samples…")
    assert progress.reports == [(7, 9, "Reading training samples")]


def test_a_page_of_samples_is_read_once(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(services, tmp_path, "return torch.tensor([float(index)]), index % 3")
    query = {"split": "training", "start": 2900, "count": 2, "of_class": "1"}
    page = services.scans.page("tiny", "tiny", query)
    assert [s.sample.index for s in page.samples] == [2902, 2905]
    monkeypatch.setattr(data_scan, "run_tool", None)
    assert services.scans.page("tiny", "tiny", query) == page


@pytest.mark.parametrize("field", ["leak_count", "near_leak_count"])
@pytest.mark.parametrize("counts", [(0,), (3,), (3, 0), (0, 2), (2, 2), (5, 1, 0)])
def test_leaks_stay_with_the_dataset_until_another_scan(
    services: Services,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    counts: tuple[int, ...],
    field: str,
) -> None:
    fill(services, tmp_path, "return torch.zeros(1), 0")
    library = services.library
    for count in counts:
        scan = replace(DatasetScan(9, 9), **{field: count})
        monkeypatch.setattr(services.scans._cache, "get", lambda *_, scan=scan: scan)
        services.scans.scan("tiny", "tiny")
        item = library.show(Kind.DATASET, "tiny")
        library._add_details(item, {"items": 9}, "Another finding of a preview.")
        item = library.show(Kind.DATASET, "tiny")
        assert bool(item.leaks) is bool(count)
        library.rescan()
        assert library.show(Kind.DATASET, "tiny").leaks == item.leaks, "it is in the data root"
