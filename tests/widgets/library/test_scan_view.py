"""The tab Scan: findings, and the samples of the selected one next to each other."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QTableView
from pytestqt.qtbot import QtBot

from backend.records.library.preview import (
    PageSample,
    SampleError,
    SamplePage,
    SamplePart,
    SamplePreview,
)
from backend.records.library.scan import BrokenSample, DatasetScan, SplitScan
from tests.windows import add_widget, find_button, find_only, visible_texts
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.common.cards import EmptyState, ProgressLine
from widgets.library.sample_grid import SampleGrid
from widgets.library.scan_view import ScanView, _summary_text


def scan(**fields: object) -> DatasetScan:
    all_fields = {"validation": SplitScan(359, 359), "seconds": 4.2, **fields}
    return DatasetScan(1438, 1438, **all_fields)  # type: ignore[arg-type]  # any of its fields


def sample_page(sample_keys: tuple[tuple[str, int], ...]) -> SamplePage:
    part = SamplePart("data", (4,), "float32", "values", values=(0.1, 0.2))
    return SamplePage(
        tuple(PageSample(split, SamplePreview(index, (part,))) for split, index in sample_keys)
    )


LEAKS = tuple((3 * n, n) for n in range(30))


@pytest.fixture
def view(qtbot: QtBot) -> ScanView:
    view = add_widget(qtbot, ScanView())
    view.resize(700, 700)
    view.show()
    return view


def shown_indices(view: ScanView) -> list[int]:
    return [s.index for s in find_only(SampleGrid, view).samples]


def test_s08_one_press_scans(view: ScanView, qtbot: QtBot) -> None:
    (button,) = (b for b in view.findChildren(Button) if b.text() == "Scan all samples")
    with qtbot.waitSignal(view.scan_requested):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert find_only(ProgressLine, view).isVisible()


def test_s08_a_running_scan_can_be_cancelled(view: ScanView, qtbot: QtBot) -> None:
    view.show_progress(0.5, "Reading training samples")
    (button,) = find_only(ProgressLine, view).findChildren(Button)
    with qtbot.waitSignal(view.cancel_requested):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_another_version_cancels_the_scan_of_this_one(view: ScanView, qtbot: QtBot) -> None:
    view.show_progress(0.5, "Reading training samples")
    with qtbot.waitSignal(view.cancel_requested):
        view.clear()
    with qtbot.assertNotEmitted(view.cancel_requested):
        view.clear()


def test_s08_leaks_are_shown_as_pairs_in_one_row(view: ScanView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.samples_requested) as signal:
        view.show_scan(scan(leaks=LEAKS, leak_count=30))
    (sample_keys,) = signal.args
    assert sample_keys[:4] == (
        ("training", 0),
        ("validation", 0),
        ("training", 3),
        ("validation", 1),
    )
    view.show_samples(sample_keys, sample_page(sample_keys))
    assert shown_indices(view)[:6] == [0, 0, 3, 1, 6, 2]
    assert "Pairs 1 to 24 of 30; left training, right validation" in visible_texts(view)
    for width in range(200, 700, 30):
        find_only(SampleGrid, view).resize(width, 600)
        pairs = [
            (
                find_only(SampleGrid, view)._cell_rect(n),
                find_only(SampleGrid, view)._cell_rect(n + 1),
            )
            for n in range(0, 48, 2)
        ]
        assert all(
            training_rect.top() == validation_rect.top() for training_rect, validation_rect in pairs
        )
        assert all(validation_rect.right() <= width for _, validation_rect in pairs)


def test_s08_more_pairs_are_on_the_next_page(view: ScanView, qtbot: QtBot) -> None:
    view.show_scan(scan(leaks=LEAKS, leak_count=30))
    with qtbot.waitSignal(view.samples_requested) as signal:
        qtbot.mouseClick(find_button(view, "Next samples"), Qt.MouseButton.LeftButton)
    (sample_keys,) = signal.args
    view.show_samples(sample_keys, sample_page(sample_keys))
    assert shown_indices(view) == [n for pair in LEAKS[24:] for n in pair]
    assert not find_button(view, "Next samples").isEnabled()
    qtbot.mouseClick(find_button(view, "Previous samples"), Qt.MouseButton.LeftButton)
    # What was requested before is not shown as this page.
    view.show_samples(sample_keys, sample_page(sample_keys))
    assert "Reading samples…" in visible_texts(view)


def test_a_pair_of_which_one_cannot_be_read_shifts_no_other(view: ScanView) -> None:
    view.show_scan(scan(leaks=LEAKS[:2], leak_count=2))
    sample_keys = view._sample_keys()
    error = SampleError("UserDataset, item 0, raised OSError: gone.", index=0)
    view.show_samples(
        sample_keys, SamplePage(sample_page(sample_keys[1:]).samples, errors=(error,))
    )
    assert shown_indices(view) == [3, 1]
    assert error.message in visible_texts(view)


def test_s08_a_click_on_a_finding_shows_its_samples(view: ScanView, qtbot: QtBot) -> None:
    view.show_scan(
        scan(
            broken_samples=(BrokenSample(7, "Item 7 is torn."),),
            broken_count=1,
            not_finite=2,
            not_finite_samples=(4, 9),
        )
    )
    assert [finding.message for finding in view.model.rows] == [
        "1 training sample was not read: Item 7 is torn.",
        "2 training samples have NaN or infinite values, so the loss will be NaN too.",
    ]
    row_center = find_only(QTableView, view).visualRect(view.model.index(1, 0)).center()
    with qtbot.waitSignal(view.samples_requested) as signal:
        qtbot.mouseClick(
            find_only(QTableView, view).viewport(),
            Qt.MouseButton.LeftButton,
            pos=QPoint(row_center.x(), row_center.y()),
        )
    assert signal.args == [(("training", 4), ("training", 9))]


def test_a_dataset_without_findings_says_so(view: ScanView) -> None:
    view.show_scan(scan())
    assert "No findings" in find_only(EmptyState, view).accessibleName()
    assert (
        "1\u202f438 training and 359 validation samples"
        in find_only(EmptyState, view).accessibleName()
    )


def test_a_failed_scan_says_why_and_can_be_repeated(view: ScanView, qtbot: QtBot) -> None:
    view.show_progress(0.5, "Reading training samples")
    view.show_error("A sample hangs.", "Find it.")
    assert find_only(Banner, view).isVisible()
    with qtbot.waitSignal(view.scan_requested):
        find_only(EmptyState, view).pressed.emit()
    assert not find_only(Banner, view).isVisible()


@pytest.mark.parametrize(
    ("examined", "each_ms", "seconds", "summary"),
    [
        (210, 0.5, 28.1, "Read 210 training samples (0.5 ms each); starting took 28 s."),
        (797, 0.8, 4.2, "Read 797 training samples (0.8 ms each); starting took 3.6 s."),
        (900, 10.0, 9.4, "Read 900 training samples (10 ms each)."),
        (10, 100.0, 0.9, "Read 10 training samples (100 ms each)."),
        (2, 900.0, 2.0, "Read 2 training samples (900 ms each)."),
        (0, 0.0, 12.0, "Read 0 training samples (0 ms each); starting took 12 s."),
    ],
)
def test_the_time_of_a_scan_is_that_of_its_samples_and_of_its_start(
    examined: int, each_ms: float, seconds: float, summary: str
) -> None:
    scan = DatasetScan(examined, examined, sample_time_ms=each_ms, seconds=seconds)
    assert _summary_text(scan).replace("\u00a0", " ") == summary
