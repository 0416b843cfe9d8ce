"""Scans and pages of samples, from the window to the service and back."""

import pytest

from app.library.scan_controller import ScanController
from backend.base.errors import BackendError, Cancelled
from backend.records.library.item import Combination, Kind, LibraryItem
from backend.records.library.preview import PageSample, SamplePage, SamplePreview
from backend.records.library.scan import DatasetScan
from tests.windows import find_by_name, find_only
from widgets.common import formats
from widgets.common.banner import Banner
from widgets.common.fields import ComboBox
from widgets.library.library_page import LibraryPage
from widgets.library.sample_grid import SampleGrid
from widgets.library.trial_pages import Trial


class Scans:
    """A service that answers at once."""

    def __init__(self):
        self.requests = []
        self.answer = DatasetScan(9, 9, duplicates=((0, 5),), duplicate_count=1)

    def scan(self, dataset, loader, progress):
        self.requests.append((dataset, loader))
        if isinstance(self.answer, BackendError):
            raise self.answer
        progress.step(1, 9, "Reading training samples")
        return self.answer

    def page(self, dataset, loader, request, progress):
        self.requests.append((dataset, loader, request))
        if isinstance(self.answer, BackendError):
            raise self.answer
        positions = request.get("places", [["training", 0]])
        return SamplePage(
            tuple(PageSample(split, SamplePreview(index, ())) for split, index in positions)
        )


@pytest.fixture
def scans():
    return Scans()


@pytest.fixture
def detail(qtbot, scans, immediately):
    pages = {kind: LibraryPage(kind) for kind in Kind}
    for page in pages.values():
        qtbot.addWidget(page)
    controller = ScanController(scans, immediately, pages)
    page = pages[Kind.DATASET]
    page.detail.show_companions((), ("reader",), (Combination("digits", "reader"),))
    page.show_items((LibraryItem(Kind.DATASET, "digits", 1, "ab" * 32, 9, 9, "2026-11-27"),))
    page.show_item("digits")
    yield page.detail
    del controller


def test_s08_a_scan_shows_its_findings_with_their_samples(detail, scans):
    view = detail.results.scan
    view.scan_requested.emit()
    assert scans.requests[0] == ("digits@1", "reader")
    assert [r.message for r in view.model.rows] == ["1 training sample is equal to earlier ones."]
    assert scans.requests[1] == (
        "digits@1",
        "reader",
        {"places": [["training", 0], ["training", 5]]},
    )
    assert [r.index for r in find_only(SampleGrid, view).samples] == [0, 5]


@pytest.mark.parametrize(
    ("leaks", "warning", "message"),
    [
        (0, "", ""),
        (0, "1 class is rare.", ""),
        (1, "", "1 validation sample is in training, too."),
        (31, "1 class is rare.", "31 validation samples are in training, too."),
        (2, "", "2 validation samples are in training, too."),
        (1200, "", f"{formats.count(1200)} validation samples are in training, too."),
        ((0, 1), "", "1 validation sample is almost equal to training samples."),
        (
            (2, 3),
            "1 class is rare.",
            "2 validation samples are in training, too. "
            "3 validation samples are almost equal to training samples.",
        ),
    ],
)
def test_leaks_that_a_scan_found_stay_in_the_row_and_above_all_tabs(qtbot, leaks, warning, message):
    leaks, near_leaks = leaks if isinstance(leaks, tuple) else (leaks, 0)
    page = LibraryPage(Kind.DATASET)
    qtbot.addWidget(page)
    details = {**({"leaks": leaks} if leaks else {}), **({"warning": warning} if warning else {})}
    details |= {"near_leaks": near_leaks} if near_leaks else {}
    item = LibraryItem(Kind.DATASET, "a", 1, "ab" * 32, 9, 9, "2026-11-27", details=details)
    other_item = LibraryItem(Kind.DATASET, "b", 1, "cd" * 32, 9, 9, "2026-11-27")
    page.show_items((item, other_item))
    for _ in range(2):
        page.show_item("a")
        banner = page.detail._leak_banner
        assert (banner.isHidden(), banner._headline.text()) == (not message, message)
        assert page._entry.warning == (message or warning)
        page.show_item("b")
        assert banner.isHidden()
    # A preview has a banner of its own.
    page.show_item("a")
    page.detail.show_trial_error("No loader.")
    assert banner.isHidden() is not bool(message)


def test_a_scan_that_fails_says_why(detail, scans):
    scans.answer = BackendError("The dataset moved.", "Import it again.")
    detail.results.scan.scan_requested.emit()
    assert not find_only(Banner, detail.results.scan).isHidden()


def test_a_scan_that_the_user_cancels_is_no_failure(detail, scans):
    scans.answer = Cancelled()
    detail.results.scan.scan_requested.emit()
    assert find_only(Banner, detail.results.scan).isHidden()
    assert "Not scanned yet" in detail.results.scan._empty_state.accessibleName()


def test_without_a_loader_a_scan_asks_for_one(detail, scans):
    find_by_name(ComboBox, detail, "Loader").choose("")
    detail.results.scan.scan_requested.emit()
    assert scans.requests == []
    assert not find_only(Banner, detail.results.scan).isHidden()


def test_s08_a_page_of_samples_is_read_with_the_selected_loader(detail, scans):
    request = {"split": "training", "start": 0, "count": 48, "of_class": ""}
    detail.results.samples.page_requested.emit(request)
    assert scans.requests == [("digits@1", "reader", request)]
    assert detail.trial == Trial("digits@1", "reader")
