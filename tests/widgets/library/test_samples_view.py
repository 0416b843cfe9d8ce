"""Samples by class, and how numbers are spread: chosen with the mouse or the keys alone."""

import base64
from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import QBuffer, QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QStackedWidget, QTableView, QWidget
from pytestqt.qtbot import QtBot

from backend.records.library.preview import (
    ChannelStatistics,
    ClassCount,
    Histogram,
    PageSample,
    Preview,
    SampleError,
    SamplePage,
    SamplePart,
    SamplePreview,
    ShapeCount,
)
from tests.windows import (
    add_widget,
    find_button,
    find_label,
    find_only,
    show_widget,
    shows_text,
    visible_texts,
)
from widgets.common.buttons import SegmentedControl
from widgets.common.cards import EmptyState
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.common.theme_manager import ThemeChoice, ThemeManager
from widgets.library import sample_parts
from widgets.library.class_columns import ClassColumns, ClassRows
from widgets.library.distribution_card import ValuesCard, spread_text, statistics_titles
from widgets.library.sample_grid import SampleGrid
from widgets.library.samples_view import SamplesView
from widgets.library.statistics_view import StatisticsView

ShowPreview = Callable[..., SamplesView]


def sample(index: int, of_class: str) -> SamplePreview:
    part = SamplePart("data", (4,), "float32", "values", values=(0.1, 0.2, None, -0.4))
    return SamplePreview(index, (part,), of_class, 0.4, of_class)


def preview(names: tuple[str, ...] = ("cat", "dog", "owl"), **fields: object) -> Preview:
    """90 and 80 of the first classes, 5 of the last, of which one alone is in the even choice."""
    counts = [90, 80, *(60 for _ in names[3:]), 5]
    spread_samples = tuple(sample(10 * n, names[n % 2]) for n in range(12))
    class_samples = tuple(sample(10 * n + 1, names[-1]) for n in range(5))
    return Preview(
        "training", "UserDataset", 175, 175, spread_samples, class_samples,
        classes=tuple(ClassCount(name, count) for name, count in zip(names, counts, strict=True)),
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def show(qtbot: QtBot) -> ShowPreview:
    """A view and its filter in one window; the filter has what room the window leaves it."""
    window = add_widget(qtbot, QWidget())
    view = SamplesView()
    layout = QHBoxLayout(window)
    layout.addWidget(view)
    layout.addWidget(view.filter, 1)
    window.resize(1400, 800)

    def show(shown_preview: Preview) -> SamplesView:
        view.show_preview(shown_preview)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        return view

    return show


def indices(view: SamplesView) -> list[int]:
    return [s.index for s in find_only(SampleGrid, view).samples]


def segment(view: SamplesView, text: str) -> QAbstractButton:
    return find_button(find_only(SegmentedControl, view.filter), text)


def test_all_classes_show_the_even_choice_and_one_class_all_that_is_kept_of_it(
    show: ShowPreview, qtbot: QtBot
) -> None:
    view = show(preview())
    assert indices(view) == [10 * n for n in range(12)]
    qtbot.mouseClick(segment(view, "owl"), Qt.MouseButton.LeftButton)
    assert indices(view) == [1, 11, 21, 31, 41]
    assert "5 of 5 samples of class owl" in visible_texts(view)
    assert "Sample 1" in visible_texts(view)
    qtbot.mouseClick(segment(view, "All"), Qt.MouseButton.LeftButton)
    assert indices(view) == [10 * n for n in range(12)]


def test_a_class_is_chosen_by_the_arrow_keys(show: ShowPreview, qtbot: QtBot) -> None:
    view = show(preview())
    first_segment = segment(view, "All")
    first_segment.setFocus()
    qtbot.keyClick(first_segment, Qt.Key.Key_Right)
    assert {s.of_class for s in find_only(SampleGrid, view).samples} == {"cat"}


def test_a_column_is_a_way_to_its_class_and_back(show: ShowPreview, qtbot: QtBot) -> None:
    view = show(preview())
    columns = find_only(ClassColumns, view)
    assert columns.isVisible()
    assert not find_only(ClassRows, view).isVisible()
    last_column = QPoint(columns.width() - 20, columns.height() // 2)
    qtbot.mouseClick(columns, Qt.MouseButton.LeftButton, pos=last_column)
    assert {s.of_class for s in find_only(SampleGrid, view).samples} == {"owl"}
    assert segment(view, "owl").isChecked()
    qtbot.mouseClick(columns, Qt.MouseButton.LeftButton, pos=last_column)
    assert segment(view, "All").isChecked()


def test_many_classes_are_a_list_with_counts_that_the_keys_walk(
    show: ShowPreview, qtbot: QtBot
) -> None:
    names = tuple(f"kind of thing {n}" for n in range(300))
    view = show(preview(names))
    assert not find_only(ClassColumns, view).isVisible()
    assert find_only(ClassRows, view).parentWidget().height() < find_only(ClassRows, view).height()
    assert find_only(ComboBox, view.filter).count() == 301
    assert find_only(ComboBox, view.filter).itemText(300) == "kind of thing 299 · 5"
    find_only(ClassRows, view).setFocus()
    for _ in range(2):
        qtbot.keyClick(find_only(ClassRows, view), Qt.Key.Key_Down)
    assert {s.of_class for s in find_only(SampleGrid, view).samples} == {"kind of thing 1"}
    for _ in range(2):
        qtbot.keyClick(find_only(ClassRows, view), Qt.Key.Key_Up)
    assert len(indices(view)) == 12


def test_a_list_replaces_segments_that_do_not_fit(show: ShowPreview) -> None:
    view = show(preview())
    assert not find_only(ComboBox, view.filter).isVisible()
    view.filter.setMaximumWidth(120)
    view.window().layout().activate()
    assert find_only(ComboBox, view.filter).isVisible()
    assert [b.text() for b in view.filter.findChildren(QAbstractButton) if b.isVisible()] == []


def test_a_class_may_be_called_all(show: ShowPreview, qtbot: QtBot) -> None:
    view = show(preview(("all", "All", "owl")))
    buttons = [b for b in view.filter.findChildren(QAbstractButton) if b.text() == "all"]
    qtbot.mouseClick(buttons[0], Qt.MouseButton.LeftButton)
    assert {s.of_class for s in find_only(SampleGrid, view).samples} == {"all"}


def test_another_dataset_begins_with_all_its_classes(show: ShowPreview) -> None:
    view = show(preview())
    view.show_class("owl")
    view.show_preview(preview(("a", "b", "c")))
    assert segment(view, "All").isChecked()
    assert len(indices(view)) == 12
    view.clear()
    assert not any(child.isVisible() for child in view.filter.findChildren(QWidget))


def test_rare_classes_are_counted_in_words_too(show: ShowPreview) -> None:
    view = show(preview())
    assert find_label(view, "3 classes, 1 rare").color_role() == "warn"


def test_columns_are_for_names_that_fit_below_them() -> None:
    digits = tuple(ClassCount(str(n), 200) for n in range(10))
    assert ClassColumns.suits(digits, 236), "ten digits beside a grid in a narrow window"
    assert not ClassColumns.suits(digits, 120)
    assert not ClassColumns.suits((ClassCount("a name of some length", 5), *digits), 260)
    assert not ClassColumns.suits((), 260)


def picture_of(width: int, height: int) -> SamplePreview:
    """A bright picture of this size."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(0xFFFF00)
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    png = base64.b64encode(bytes(buffer.data().data())).decode()
    return SamplePreview(
        0, (SamplePart("data", (3, height, width), "uint8", "image", png=png),), "", 0.4, ""
    )


@pytest.mark.parametrize(("width", "min_side", "max_side"), [(520, 68, 85), (1500, 128, 160)])
def test_samples_fill_the_width_and_are_large_where_there_is_room(
    qtbot: QtBot, width: int, min_side: int, max_side: int
) -> None:
    grid = add_widget(qtbot, SampleGrid())
    grid.show_samples(tuple(sample(n, "cat") for n in range(40)))
    grid.resize(width, grid.heightForWidth(width))
    columns, side = grid._columns_and_side(width)
    assert min_side <= side <= max_side
    right = grid._cell_rect(columns - 1).right()
    assert width - columns - 2 <= right <= width
    assert grid._cell_rect(39).bottom() <= grid.height() + 2


def test_a_rectangular_picture_keeps_its_shape(qtbot: QtBot) -> None:
    grid = add_widget(qtbot, SampleGrid())
    grid.show_samples((picture_of(90, 30),))
    grid.resize(300, 120)
    image = grid.grab().toImage()
    yellow_pixels = [
        (x, y)
        for x in range(image.width())
        for y in range(image.height())
        if image.pixel(x, y) & 0xFFFFFF == 0xFFFF00
    ]
    width = max(x for x, _ in yellow_pixels) - min(x for x, _ in yellow_pixels) + 1
    height = max(y for _, y in yellow_pixels) - min(y for _, y in yellow_pixels) + 1
    assert width == pytest.approx(3 * height, abs=3)


def test_each_sample_is_drawn_once(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_parts: list[SamplePart | None] = []
    monkeypatch.setattr(sample_parts, "paint_part", lambda *args: drawn_parts.append(args[-1]))
    wave_part = SamplePart(
        "data", (256,), "float32", "wave", values=tuple(n % 7 for n in range(256))
    )
    grid = add_widget(qtbot, SampleGrid())
    grid.show_samples(tuple(SamplePreview(n, (wave_part,), "", 0.4, "") for n in range(40)))
    grid.resize(600, grid.heightForWidth(600))
    for _ in range(2):
        grid.grab()
    assert drawn_parts == [wave_part] * 40


def test_samples_are_drawn_again_in_another_theme(
    qtbot: QtBot, theme_manager: ThemeManager
) -> None:
    grid = add_widget(qtbot, SampleGrid())
    grid.show_samples((sample(0, "cat"),))
    grid.resize(300, 120)
    light_image = grid.grab().toImage()
    theme_manager.choose(ThemeChoice.DARK)
    assert grid.grab().toImage().pixelColor(10, 10) != light_image.pixelColor(10, 10)


def test_without_a_sample_the_grid_says_so(show: ShowPreview) -> None:
    view = show(Preview("training", "UserDataset", 5000, 5000))
    assert find_only(SampleGrid, view).accessibleDescription() == "No sample could be read"
    assert not shows_text(view, "Sample 1")


STATISTICS = (
    ChannelStatistics("data", 0, 1.0, 0.5, 0.0, 2.0, histogram=Histogram(0.0, 1.0, (3, 4))),
    ChannelStatistics("data", 1, 7.0, 0.0, 7.0, 7.0, 14, 1, histogram=Histogram(7.0, 0.1, (7,))),
    ChannelStatistics("target", 0, None, None, None, None, nan_count=7),
)
SHAPES = (ShapeCount("data", (2,), "float32", 7), ShapeCount("target", (), "float32", 7))


def test_a_column_with_values_that_are_no_numbers_is_shown_first(show: ShowPreview) -> None:
    shown_preview = preview(statistics=STATISTICS, shapes=SHAPES)
    assert statistics_titles(shown_preview) == ["Column 0", "Column 1", "Target"]
    card = find_only(ValuesCard, show(shown_preview))
    assert find_only(ComboBox, card).currentText() == "Column 1"
    assert find_label(card, "14 NaN, 1 infinite").color_role() == "warn"
    find_only(ComboBox, card).setCurrentIndex(0)
    assert "0 to 2.00, mean 1.00 ± 0.500" in visible_texts(card)
    assert find_label(card, "none NaN, none infinite").color_role() == "text3"


def test_a_title_begins_with_its_number_and_says_of_what_it_is_where_that_is_not_plain() -> None:
    def titles_of(*channels: tuple[str, int]) -> list[str]:
        statistics = tuple(ChannelStatistics(path, n, 1.0, 0.5, 0.0, 2.0) for path, n in channels)
        return statistics_titles(preview(statistics=statistics))

    assert titles_of(("data", 0)) == ["Data"]
    assert titles_of(("data.sound", 0), ("data.sound", 1)) == ["Channel 0", "Channel 1"]
    assert titles_of(("data.a", 0), ("data.a", 1), ("data.b", 0), ("data.b", 1), ("target", 0)) == [
        "Channel 0 of data.a",
        "Channel 1 of data.a",
        "Channel 0 of data.b",
        "Channel 1 of data.b",
        "Target",
    ]
    assert titles_of(("data", 0), ("target", 0), ("target", 1))[1:] == [
        "Channel 0 of target",
        "Channel 1 of target",
    ]


def test_each_spread_is_said_in_words() -> None:
    assert [spread_text(channel) for channel in STATISTICS] == [
        "0 to 2.00, mean 1.00 ± 0.500",
        "All values are 7.00",
        "No finite value",
    ]


def test_the_statistics_are_a_row_for_each_column_and_the_chosen_one_is_drawn(
    qtbot: QtBot,
) -> None:
    view = show_widget(qtbot, StatisticsView(), 1100, 500)
    view.show_preview(preview(statistics=STATISTICS, shapes=SHAPES))
    cells = [[view.model.index(n, m).data() for m in range(6)] for n in range(3)]
    assert cells == [
        ["Column 0", "0", "2.00", "1.00", "0.500", "–"],
        ["Column 1", "7.00", "7.00", "7.00", "0", "15"],
        ["Target", "–", "–", "–", "–", "7"],
    ]
    assert "All values are 7.00" in visible_texts(find_only(ValuesCard, view))
    widths = [find_only(QTableView, view).columnWidth(n) for n in range(6)]
    assert widths[0] > 2 * max(widths[1:]), "what is left over belongs to the titles"
    find_only(QTableView, view).selectRow(0)
    assert "0 to 2.00, mean 1.00 ± 0.500" in visible_texts(find_only(ValuesCard, view))
    view.show_preview(Preview("training", "UserDataset", 9, 9))
    assert isinstance(find_only(QStackedWidget, view).currentWidget(), EmptyState)


def page_of(*indices: int, end: int, error_count: int = 0) -> SamplePage:
    samples = tuple(PageSample("training", sample(index, "cat")) for index in indices)
    errors = tuple(SampleError(f"Item {n} is torn.", index=n) for n in range(error_count))
    return SamplePage(samples, end, 175, errors)


def test_s08_all_samples_can_be_paged_through(show: ShowPreview, qtbot: QtBot) -> None:
    view = show(preview())
    assert not find_button(view, "Previous samples").isEnabled()
    requests = []
    view.page_requested.connect(requests.append)
    find_button(view, "Next samples").click()
    assert requests[-1] == {"split": "training", "start": 0, "count": 48, "of_class": ""}
    view.show_page(requests[-1], page_of(*range(47), end=48, error_count=1))
    assert [s.index for s in find_only(SampleGrid, view).samples] == list(range(47))
    assert (
        "Item 0 is torn."
        in find_label(view, "Samples, numbers 0 to 47 of 175, 1 could not be read").toolTip()
    )
    find_button(view, "Next samples").click()
    assert requests[-1]["start"] == 48
    view.show_page(requests[-1], page_of(48, 174, end=175))
    assert not find_button(view, "Next samples").isEnabled()
    find_button(view, "Previous samples").click()
    assert requests[-1]["start"] == 0
    view.show_page(requests[-1], page_of(0, end=48))
    find_button(view, "Previous samples").click()
    assert len(find_only(SampleGrid, view).samples) == 12
    assert not find_button(view, "Previous samples").isEnabled()


def test_s08_the_samples_of_a_class_can_be_paged_through(show: ShowPreview) -> None:
    view = show(preview())
    requests = []
    view.page_requested.connect(requests.append)
    view.show_class("dog")
    find_button(view, "Next samples").click()
    assert requests[-1]["of_class"] == "dog"
    view.show_page(requests[-1], page_of(10, 30, end=90))
    assert "Samples of class dog, numbers 0 to 89 of 175" in visible_texts(view)
    find_button(view, "Next samples").click()
    assert requests[-1]["start"] == 90
    # All five samples of this class are in the preview.
    view.show_class("owl")
    assert not find_button(view, "Next samples").isVisible()


def test_a_page_that_comes_late_is_not_shown(show: ShowPreview) -> None:
    view = show(preview())
    requests = []
    view.page_requested.connect(requests.append)
    find_button(view, "Next samples").click()
    view.show_class("dog")
    previous_samples = find_only(SampleGrid, view).samples
    view.show_page(requests[-1], page_of(0, end=48))
    view.show_page_error(requests[-1], "The share is gone.")
    assert find_only(SampleGrid, view).samples == previous_samples
    assert not shows_text(view, "share")


def test_a_page_that_cannot_be_read_says_why(show: ShowPreview) -> None:
    view = show(preview())
    requests = []
    view.page_requested.connect(requests.append)
    find_button(view, "Next samples").click()
    view.show_page_error(requests[-1], "The share is gone.")
    assert "The share is gone." in visible_texts(view)
    find_button(view, "Previous samples").click()
    assert len(find_only(SampleGrid, view).samples) == 12


NAMED = SamplePart(
    "data", (3,), "float32", "values",
    values=(13.2, 1.78, None), names=("Alkohol", "Säure", "Note"), scaled_values=(0.2, -1.4, None),
)  # fmt: skip


def test_values_with_names_are_rows_with_their_names_and_units(qtbot: QtBot) -> None:
    sketch = show_widget(qtbot, sample_parts.PartSketch(), 280, 96)
    sketch.show_part(NAMED)
    assert sketch.accessibleName().split(", ")[:2] == ["Alkohol 13.2", "Säure 1.78"]
    height = sketch.height()
    plain = sketch.grab().toImage()
    sketch.show_part(replace(NAMED, names=("Alkohol", "Säure", "Farbe")))
    assert sketch.grab().toImage() != plain, "the names are painted"
    sketch.show_part(sample(0, "cat").parts[0])
    assert sketch.height() != height


@pytest.mark.parametrize("names", [(), NAMED.names])
def test_values_with_names_are_not_listed_twice(qtbot: QtBot, names: tuple[str, ...]) -> None:
    view = add_widget(qtbot, SamplesView(), 1000, 700)
    view.show_preview(
        Preview("training", "U", 1, 1, (SamplePreview(0, (replace(NAMED, names=names),)),))
    )
    captions = [label.text() for label in view.findChildren(Label)]
    assert ("Data, first values" in captions) is not bool(names)
