"""Datasets, Models, Loaders: the chosen item is previewed, and late answers confuse nothing."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QListView, QTableView

from backend.records.library.item import Combination, Kind, LibraryItem
from backend.records.library.preview import (
    ChannelStatistics,
    ClassCount,
    LayerRow,
    ModelCheck,
    Preview,
    SamplePart,
    SamplePreview,
    rare_class_warning,
)
from backend.records.library.project import ImportGuess, Project, ProjectPart
from tests.windows import (
    add_widget,
    find_button,
    find_by_name,
    find_field,
    find_label,
    find_line,
    find_only,
    finish_timers,
    open_tab,
    show_widget,
    shows_text,
    visible_texts,
)
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl, UnderlinedTabs
from widgets.common.dialog import TaskStatus
from widgets.common.fields import ComboBox
from widgets.common.labels import Label
from widgets.library.import_dialog import ImportDialog
from widgets.library.item_groups import EntryModel, group_by_name
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import PreviewBanner, Trial


def item(name, version=1, kind=Kind.DATASET, **details):
    return LibraryItem(
        kind, name, version, "ab" * 32, 1000, 3, "2026-11-20T14:02:00+00:00", details=details
    )


def preview(count=10):
    part = SamplePart("data", (1, 8, 8), "float32", "values", values=(0.5,))
    return Preview(
        "training",
        "UserDataset",
        count,
        count,
        samples=(SamplePreview(0, (part,), "7", 0.4),),
        classes=(ClassCount("7", count),),
        statistics=(ChannelStatistics("data", 0, 0.5, 0.1, 0.0, 1.0),),
        item_time_ms=0.4,
        warnings=("All samples are of one class.",),
    )


@pytest.fixture
def page(qtbot):
    return show_widget(qtbot, LibraryPage(Kind.DATASET), 1200, 800)


def test_versions_of_one_name_are_one_row_newest_first(qtmodeltester):
    model = EntryModel()
    model.set_entries(group_by_name((item("digits", 1), item("coco"), item("digits", 2))))
    qtmodeltester.check(model)
    assert [model.index(row).data() for row in range(model.rowCount())] == ["coco", "digits"]
    assert group_by_name((item("digits", 1), item("digits", 2)))[0].newest.version == 2


def test_hundreds_of_versions_delay_nothing(page, qtbot):
    """Neither while another tab is open nor when they are shown: every test here is timed."""
    versions = tuple(item("digits", number) for number in range(1, 401))
    page.show_items(versions)
    qtbot.waitUntil(lambda: "digits" in visible_texts(page.detail))
    find_only(UnderlinedTabs, page.detail).choose("versions")
    with qtbot.waitSignal(page.detail.changes_requested) as signal:
        open_tab(page.detail, "versions")
    assert signal.args == ["digits@400", "digits@399"]
    page.show_items(versions[:-1])
    assert find_only(QTableView, page.detail.versions).model().rowCount() == 399


def test_facts_that_a_preview_adds_to_an_entry_leave_the_shown_samples(page, qtbot):
    page.detail.show_companions((), ("digits",), (Combination("digits", "digits"),))
    page.show_items((item("digits"),))
    page.detail.show_preview(Trial("digits@1", "digits"), preview())
    with qtbot.assertNotEmitted(page.detail.preview_requested):
        page.show_items((item("digits", items=10),))
    assert page.detail.results.pages["samples"].currentWidget() is page.detail.results.samples


def test_the_list_of_a_narrow_window_stays_when_it_is_read_again(page):
    page.resize(828, 600)
    page.show_items((item("digits"),))
    page.detail.back_button.click()
    page.show_items((item("digits"), item("pictures")))
    assert find_only(QListView, page).isVisible()


def test_a_change_of_one_entry_keeps_the_selection(page):
    page.show_items((item("coco"), item("digits")))
    page.show_item("digits")
    page.show_items((item("coco"), item("digits", 1), item("digits", 2)))
    assert "digits" in visible_texts(page.detail)


def test_choosing_a_dataset_previews_its_samples_through_the_loader(page, qtbot):
    page.detail.show_companions((), ("digits",), (Combination("digits", "digits"),))
    with qtbot.waitSignal(page.detail.preview_requested) as requested:
        page.show_items((item("digits", 2),))
    assert requested.args[0] == Trial("digits@2", "digits")


def test_only_a_loader_that_has_read_a_dataset_is_tried_by_itself(page, qtbot):
    page.detail.show_companions((), ("digits", "plankton"), (Combination("digits", "digits"),))
    with qtbot.assertNotEmitted(page.detail.preview_requested):
        page.show_items((item("plankton"),))
    question = page.detail.results.questions["samples"]
    assert question.isVisible()
    assert question.accessibleName() == "Which loader reads it?"
    buttons = [b for b in question.findChildren(Button) if b.isVisible()]
    buttons.sort(key=lambda b: b.mapTo(page, QPoint(0, 0)).y())
    answers = [b.text() for b in buttons]
    assert answers == ["plankton", "digits", "Import a loader…"], "its namesake first"
    with qtbot.waitSignal(page.detail.preview_requested) as requested:
        qtbot.mouseClick(buttons[1], Qt.MouseButton.LeftButton)
    assert requested.args[0] == Trial("plankton@1", "digits")
    assert not question.isVisible()
    page.detail.show_companions((), ("digits", "plankton"), (Combination("plankton", "plankton"),))
    assert find_by_name(ComboBox, page.detail, "Loader").key() == "digits", "what was chosen stays"


def test_a_loader_asks_which_dataset_it_reads_and_a_model_is_built_alone(qtbot):
    loader, model = LibraryPage(Kind.LOADER), LibraryPage(Kind.MODEL)
    for page, kind in ((loader, Kind.LOADER), (model, Kind.MODEL)):
        qtbot.addWidget(page)
        page.detail.show_companions(("digits",), ("digits",), (Combination("digits", "digits"),))
        page.show_items((item("other", kind=kind),))
        page.show()
    find_only(UnderlinedTabs, loader.detail).choose("samples")
    with qtbot.assertNotEmitted(loader.detail.preview_requested):
        open_tab(loader.detail, "samples")
    assert (
        loader.detail.results.questions["samples"].accessibleName() == "Which dataset does it read?"
    )
    find_only(UnderlinedTabs, model.detail).choose("check")
    with qtbot.waitSignal(model.detail.check_requested) as requested:
        open_tab(model.detail, "check")
    assert requested.args[0] == Trial(model="other@1")


def test_choosing_a_loader_in_the_list_starts_the_preview(page, qtbot):
    page.detail.show_companions((), ("digits",))
    page.show_items((item("plankton"),))
    box = find_by_name(ComboBox, page.detail, "Loader")
    with qtbot.waitSignal(page.detail.preview_requested):
        qtbot.keyClick(box, Qt.Key.Key_Down)


def test_without_a_loader_nothing_is_run_and_the_page_says_what_is_missing(page, qtbot):
    with qtbot.assertNotEmitted(page.detail.preview_requested):
        page.show_items((item("digits"),))
        qtbot.mouseClick(find_button(page.detail, "Preview"), Qt.MouseButton.LeftButton)
    assert find_only(PreviewBanner, page.detail).isVisible()


def test_a_preview_that_comes_late_is_not_shown_for_another_dataset(page):
    page.detail.show_companions((), ("any",), (Combination("b", "any"),))
    page.show_items((item("a"), item("b")))
    page.show_item("b")
    page.detail.show_preview(Trial("a@1", "any"), preview())
    assert page.detail.results.pages["samples"].currentIndex() == 1


def test_a_preview_shows_samples_and_warnings(page):
    page.detail.show_companions((), ("any",))
    page.show_items((item("a"),))
    page.detail.show_preview(Trial("a@1", "any"), preview())
    assert page.detail.results.pages["samples"].currentWidget() is page.detail.results.samples
    assert shows_text(find_only(PreviewBanner, page.detail), "one class")


def test_the_samples_of_a_rare_class_are_one_click_away(page, qtbot):
    page.detail.show_companions((), ("any",))
    page.show_items((item("a"),))
    classes = (ClassCount("7", 990), ClassCount("8", 10))
    shown_preview = replace(
        preview(1000), classes=classes, warnings=(rare_class_warning(classes), "One more.")
    )
    page.detail.show_preview(Trial("a@1", "any"), shown_preview)
    banner, samples = find_only(PreviewBanner, page.detail), page.detail.results.samples
    assert banner.accessibleName() == (
        f"Class 8 is rare: 10 of {formats.count(1000)} samples. "
        f"A model can reach 99{formats.GAP}% accuracy without predicting it. "
        "1 more finding."
    )
    assert "One more." in banner.toolTip()
    find_only(UnderlinedTabs, page.detail).choose("statistics")
    open_tab(page.detail, "statistics")
    [show_button] = banner.findChildren(Button)
    qtbot.mouseClick(show_button, Qt.MouseButton.LeftButton)
    assert find_only(UnderlinedTabs, page.detail).key() == "samples"
    assert samples.isVisible()
    assert find_only(ComboBox, samples.filter).currentText().startswith("8 ")
    page.detail.show_trial_error("The loader stopped.")
    assert not show_button.isVisible()


@pytest.mark.parametrize("key", ["samples", "statistics", "scan", "files", "versions"])
def test_progress_moves_nothing_on_the_page(page, key):
    page.show_items((item("digits"),))
    detail = page.detail
    key = {"files": "source"}.get(key, key)
    find_only(UnderlinedTabs, detail).choose(key)
    open_tab(detail, key)
    QApplication.processEvents()
    previous_rect = detail._pages.geometry()
    detail.show_trial_progress(0.4, "Sample 720 of 1 797")
    QApplication.processEvents()
    assert detail._pages.geometry() == previous_rect
    detail.end_trial()
    QApplication.processEvents()
    assert detail._pages.geometry() == previous_rect


def test_the_progress_of_a_preview_does_not_stand_beside_a_scan(page):
    page.show_items((item("digits"),))
    page.detail.show_trial_progress(None, "Starting Python")
    for key, is_shown in (("scan", False), ("samples", True), ("scan", False), ("source", True)):
        open_tab(page.detail, key)
        assert page.detail._progress.isVisible() is is_shown
    page.detail.end_trial()
    open_tab(page.detail, "samples")
    assert not page.detail._progress.isVisible()


def test_a_refused_preview_says_why_and_can_be_tried_again(page):
    page.detail.show_companions((), ("any",))
    page.show_items((item("a"),))
    page.detail.show_trial_error("The loader stopped at item 1000: no file 1000.png.")
    assert "The loader stopped at item 1000: no file 1000.png." in visible_texts(
        find_only(PreviewBanner, page.detail)
    )
    assert find_button(page.detail, "Preview").isEnabled()


def test_a_model_is_checked_with_the_chosen_parts(qtbot):
    page = add_widget(qtbot, LibraryPage(Kind.MODEL))
    combinations = (Combination("digits", "digits", "net"),)
    page.detail.show_companions(("digits",), ("digits",), combinations)
    page.show_items((item("net", kind=Kind.MODEL),))
    page.show()
    with qtbot.waitSignal(page.detail.check_requested) as requested:
        find_only(UnderlinedTabs, page.detail).choose("check")
        open_tab(page.detail, "check")
    assert requested.args[0] == Trial("digits", "digits", "net@1")
    layers = (LayerRow("conv", "Conv2d", 320, "[4, 32, 8, 8]"),)
    page.detail.show_check(requested.args[0], ModelCheck(320, 320, 1280, layers=layers, loss=2.3))
    assert find_only(QTableView, page.detail.results.check).model().rowCount() == 1


def test_a_name_with_markup_is_shown_as_it_is(page):
    page.show_items((item("<b>bold</b>"),))
    assert find_label(page.detail, "<b>bold</b>").textFormat() is Qt.TextFormat.PlainText


def test_an_invalid_name_is_an_error_at_its_field(qtbot):
    dialog = add_widget(qtbot, ImportDialog(Kind.MODEL, "/tmp/net", "CON"))
    assert "reserved" in find_field(dialog, "Name").error()
    assert not find_button(dialog, "Import").isEnabled()


def test_closing_during_an_import_cancels_it(qtbot):
    dialog = add_widget(qtbot, ImportDialog(Kind.MODEL, "/tmp/net", "net"))
    dialog.show_progress(0.5, "Copying")
    with qtbot.waitSignal(dialog.cancel_requested):
        dialog.reject()


CODE_PARTS = {
    Kind.MODEL: ProjectPart("model"),
    Kind.LOADER: ProjectPart("loader"),
}
ALL_PARTS_GUESS = ImportGuess(
    Kind.DATASET, Project({Kind.DATASET: ProjectPart("data"), **CODE_PARTS}, ("README.md",))
)
CODE_GUESS = ImportGuess(Kind.DATASET, Project(CODE_PARTS))


def import_dialog(qtbot, source="/home/mai/plankton", name="", **options):
    dialog = add_widget(qtbot, ImportDialog(Kind.DATASET, source, name, **options))
    dialog.requests = []
    dialog.guess_requested.connect(dialog.requests.append)
    return dialog


def choices(dialog):
    return {b.text(): b for b in find_only(SegmentedControl, dialog).findChildren(QAbstractButton)}


def test_a_folder_with_the_three_says_so_and_is_imported_as_all_of_them(qtbot):
    dialog = import_dialog(qtbot, newest_versions={Kind.MODEL: {"plankton": 4}})
    assert not choices(dialog)["All parts"].isEnabled()
    dialog.show_guess("/home/mai/plankton", ALL_PARTS_GUESS)
    assert choices(dialog)["All parts"].isChecked()
    assert find_only(TaskStatus, dialog).message.text() == (
        "Model, loader and data: model/bks_model.py, loader/bks_dataset.py, data. "
        "Not imported: README.md."
    )
    assert shows_text(dialog, "“plankton” exists; changed parts become its next version.")
    with qtbot.waitSignal(dialog.import_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Import"), Qt.MouseButton.LeftButton)
    assert requested.args[0].project is ALL_PARTS_GUESS.project
    assert requested.args[0].name == "plankton"


def test_one_of_the_three_can_be_chosen_and_is_imported_as_the_whole_folder(qtbot):
    dialog = import_dialog(qtbot)
    dialog.show_guess("/home/mai/plankton", CODE_GUESS)
    assert "All parts" not in choices(dialog)
    qtbot.mouseClick(choices(dialog)["Loader"], Qt.MouseButton.LeftButton)
    assert find_only(TaskStatus, dialog).message.text() == (
        "It has a model and a loader: choose “Both” to import them together."
    )
    with qtbot.waitSignal(dialog.import_requested) as requested:
        qtbot.mouseClick(find_button(dialog, "Import"), Qt.MouseButton.LeftButton)
    assert (requested.args[0].kind, requested.args[0].project) == (Kind.LOADER, None)


@pytest.mark.parametrize("options", [{"name": "plankton"}, {"prefers_all": False}])
def test_a_request_for_one_kind_only_offers_all_three(qtbot, options):
    dialog = import_dialog(qtbot, **options)
    dialog.show_guess("/home/mai/plankton", ALL_PARTS_GUESS)
    assert choices(dialog)["Dataset"].isChecked()
    assert choices(dialog)["All parts"].isEnabled()


def test_a_typed_path_is_inspected_before_it_is_imported(qtbot):
    dialog = import_dialog(qtbot, "")
    qtbot.keyClicks(find_line(dialog, "From"), "/home/mai/net")
    assert not find_button(dialog, "Import").isEnabled(), "it may be all three"
    qtbot.waitUntil(lambda: dialog.requests == ["/home/mai/net"])
    dialog.show_guess("/home/mai/ne", ALL_PARTS_GUESS)
    assert not find_button(dialog, "Import").isEnabled(), "that is said of another path"
    dialog.show_guess("/home/mai/net", ALL_PARTS_GUESS)
    assert find_button(dialog, "Import").isEnabled()
    find_line(dialog, "From").setText("/home/mai/other")
    dialog.show_guess("/home/mai/other", ImportGuess(Kind.MODEL))
    assert choices(dialog)["Model"].isChecked()
    assert not choices(dialog)["All parts"].isEnabled()
    assert find_only(TaskStatus, dialog).message.text() == ""
    dialog.show_guess("/home/mai/other", ALL_PARTS_GUESS)
    find_line(dialog, "From").clear()
    assert choices(dialog)["Dataset"].isChecked()


def test_without_a_readable_sample_nothing_is_drawn_and_no_time_is_shown(page):
    page.detail.show_companions((), ("any",))
    page.show_items((item("a"),))
    page.detail.show_preview(Trial("a@1", "any"), Preview("training", "UserDataset", 5000, 5000))
    for pages in (page.detail.results.pages["samples"], page.detail.results.pages["statistics"]):
        assert "could be read. Fix the loader" in pages.currentWidget().accessibleName()
    assert not shows_text(page.detail, "Load time")


@pytest.mark.parametrize("width", [1200, 828])
def test_the_first_of_a_kind_can_be_imported_in_every_window(page, qtbot, width):
    page.resize(width, 600)
    page.show_items(())
    buttons = [b for b in page.findChildren(Button) if b.isVisible() and "Import" in b.text()]
    assert [widget.text() for widget in buttons] == ["Import dataset…"]
    with qtbot.waitSignal(page.import_requested):
        buttons[0].click()
    drop_texts = [
        widget.text() for widget in page.findChildren(Label) if "zip here" in widget.text()
    ]
    visible_labels = [
        widget
        for widget in page.findChildren(Label)
        if widget.isVisible() and widget.text() in drop_texts
    ]
    assert len(visible_labels) == 1, "a place to drop is named once"
    page.show_items((item("a"),))
    page.show_items(())
    assert buttons[0].isVisible()


def test_the_empty_page_says_why_it_is_empty(page):
    page.detail.show_companions((), ("any",), (Combination("a", "any"),))
    page.show_items((item("a"),))
    empty_page = page.detail.results.empty_states["samples"]
    assert "Reading the samples" in empty_page.accessibleName()
    page.detail.show_trial_error("The loader stopped at item 1000: no file 1000.png.")
    assert "Fix the problem above" in empty_page.accessibleName()
    page.show_items((item("a"), item("a", 2)))
    page.detail.open_version("2")
    assert "Fix" not in empty_page.accessibleName()


def test_the_whole_name_of_an_entry_is_in_its_tool_tip():
    model = EntryModel()
    model.set_entries(
        group_by_name((item("a name that goes on and on", warning="1 class has 3 images"),))
    )
    tip = model.index(0).data(Qt.ItemDataRole.ToolTipRole)
    assert "a name that goes on and on" in tip
    assert "1 class has 3 images" in tip


def test_while_an_import_goes_on_there_is_one_cancel(qtbot):
    dialog = show_widget(qtbot, ImportDialog(Kind.DATASET, "/home/mai/plankton"))
    status = find_only(TaskStatus, dialog)
    dialog.show_progress(0.4, "Copying train/0412.png")
    assert not dialog._close_button.isVisible()
    assert status.progress.isVisible()
    dialog.show_error("“plankton.zip” holds a path that leads out of it.")
    assert dialog._close_button.isVisible()
    assert not status.progress.isVisible()


@pytest.mark.parametrize("change", ["kind", "from", "name"])
def test_an_error_goes_when_something_different_is_to_be_imported(qtbot, change):
    dialog = add_widget(qtbot, ImportDialog(Kind.DATASET, "/home/mai/plankton"))
    dialog.show_error("A model needs a file bks_model.py.")
    if change == "kind":
        model_button = next(
            b
            for b in find_only(SegmentedControl, dialog).findChildren(QAbstractButton)
            if b.text() == "Model"
        )
        qtbot.mouseClick(model_button, Qt.MouseButton.LeftButton)
        assert find_only(SegmentedControl, dialog).key() == "model"
    else:
        (find_line(dialog, "From") if change == "from" else find_line(dialog, "Name")).setText(
            "fish"
        )
    assert find_only(TaskStatus, dialog).message.isHidden()


# Before it is known what there is


def test_a_place_that_is_read_for_long_says_so_and_claims_nothing(page, qtbot):
    assert not shows_text(page, "No datasets yet"), "it is not known yet that there is nothing"
    page.begin_reading()
    finish_timers(page)
    assert shows_text(page, "Reading the datasets…")
    page.show_items((item("digits"),))
    assert page.detail.isVisible()
    page.begin_reading()
    finish_timers(page)
    assert page.detail.isVisible(), "the shown preview stays while it is read again"


def test_a_page_that_cannot_be_read_says_why_and_reads_again(page, qtbot):
    page.show_error("The share does not answer.", "Mount it.")
    assert shows_text(page, "The datasets cannot be read")
    assert shows_text(page, "The share does not answer. Mount it.")
    with qtbot.waitSignal(page.refresh_requested):
        qtbot.mouseClick(find_button(page, "Try again"), Qt.MouseButton.LeftButton)
    assert shows_text(page, "Reading the datasets…")
    page.show_items(())
    assert shows_text(page, "No datasets yet")


def test_a_read_error_leaves_the_shown_item(page):
    page.show_items((item("digits"),))
    page.show_error("The share does not answer.", "Mount it.")
    assert page.detail.isVisible()
    assert find_only(QListView, page).isVisible()
    assert any("does not answer" in label.text() for label in page.detail.findChildren(Label))
