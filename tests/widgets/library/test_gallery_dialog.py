"""The dialog of the gallery, as it is read, typed into and clicked."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QLineEdit, QListView

from backend.records.library.gallery import Card, CardSetting, DataShape, GalleryEntry
from backend.records.library.item import Kind
from tests.app.pointer import Hands
from tests.widgets.library.gallery_samples import LENET, LOADERS, MODELS, graph_of
from tests.windows import show_widget
from widgets.common import formats
from widgets.common.buttons import Switch
from widgets.common.fields import ComboBox, Field, SpinBox
from widgets.common.labels import Label
from widgets.library.gallery_dialog import GalleryChoice, GalleryDialog, GalleryPreset

LEFT_BUTTON, ENTER = Qt.MouseButton.LeftButton, Qt.Key.Key_Return
BY_SIZE = ["LeNet-5", "NDSB-Net 1", "AlexNet", "VGG-19"]


def open_dialog(qtbot, kind=Kind.MODEL, entries=MODELS, *, newest_versions=None, **preset):
    shape = DataShape(preset.pop("task", ""), preset.pop("facts", {}))
    dialog = GalleryDialog(kind, newest_versions or {}, GalleryPreset(data=shape, **preset))
    dialog.requests, dialog.cancellations = [], []
    dialog.add_requested.connect(dialog.requests.append)
    dialog.cancel_requested.connect(lambda: dialog.cancellations.append(True))
    show_widget(qtbot, dialog, 940, 680)
    dialog.show_entries(entries)
    qtbot.waitExposed(dialog)
    return dialog


def gallery_list(dialog):
    """The list of the gallery; a choice has one, too."""
    views = dialog.findChildren(QListView)
    return next(view for view in views if view.accessibleName().endswith("of the gallery"))


def titles(dialog):
    model = gallery_list(dialog).model()
    rows = (model.index(row, 0).data() for row in range(model.rowCount()))
    return [row.partition(", ")[0] for row in rows]


def click_row(dialog, title):
    view = gallery_list(dialog)
    index = view.model().index(titles(dialog).index(title), 0)
    view.scrollTo(index)
    QTest.mouseClick(view.viewport(), LEFT_BUTTON, pos=view.visualRect(index).center())
    # In a window that is not shown, the row is outside its list.
    view.setCurrentIndex(index)


def line_edit(dialog, name):
    edits = [edit for edit in dialog.findChildren(QLineEdit) if edit.accessibleName() == name]
    # Those of the card before may not be deleted yet.
    return edits[-1]


def field(dialog, label):
    return next(widget for widget in dialog.findChildren(Field) if widget.label() == label)


def button(dialog, text):
    """A button by its text, or a choice by its name, that is seen."""
    QApplication.processEvents()  # shows the settings of another card
    buttons = (b for b in dialog.findChildren(QAbstractButton) if b.isVisible())
    return next(b for b in buttons if b.accessibleName() == text)


def write(dialog, name, text):
    QTest.mouseClick(line_edit(dialog, name), LEFT_BUTTON)
    line_edit(dialog, name).selectAll()
    QTest.keyClicks(line_edit(dialog, name), text)


def texts(dialog):
    """Return all visible texts of a dialog."""
    QApplication.processEvents()
    labels = (label for label in dialog.findChildren(QLabel) if label.isVisible())
    return [label.text() if isinstance(label, Label) else "" for label in labels]


def test_the_card_says_what_it_is_where_it_is_from_and_how_large(qtbot):
    dialog = open_dialog(qtbot, entry="ndsb-net-1")
    text = " ".join(texts(dialog))
    assert "A deep network for pictures of plankton" in text
    assert "Source: Deep convolutional networks" in text
    assert "Note: The source gives two figures for the slope of RReLU" in text
    for figure in (formats.count(9_409_983), f"520{formats.GAP}M", "compute 0.610 × AlexNet."):
        assert figure in text
    click_row(dialog, "LeNet-5")
    assert "Note:" not in " ".join(texts(dialog))
    assert "compute 0.0123 × AlexNet." in " ".join(texts(dialog))


def test_the_memory_of_outputs_follows_the_batch_size_in_every_card(qtbot):
    dialog = open_dialog(qtbot, entry="lenet-5")
    (batch,) = dialog.findChildren(SpinBox)
    per_sample = LENET.figures.layers.activation_bytes
    for number in (1, 8, 512):
        batch.selectAll()
        QTest.keyClicks(batch, str(number))
        assert f"{formats.memory(number * per_sample)} of outputs" in texts(dialog)
    click_row(dialog, "VGG-19")
    vgg = next(entry for entry in MODELS if entry.name == "vgg-19").figures.layers.activation_bytes
    assert f"{formats.memory(512 * vgg)} of outputs" in texts(dialog)


@pytest.mark.parametrize(
    ("query", "expected_titles"),
    [
        ("net", ["LeNet-5", "NDSB-Net 1", "AlexNet"]),
        ("NDSB classification", ["NDSB-Net 1"]),
        ("vgg-19", ["VGG-19"]),
        ("", BY_SIZE),
        ("  ", BY_SIZE),
        ("transformer", []),
    ],
)
def test_a_search_finds_titles_tasks_and_names(qtbot, query, expected_titles):
    dialog = open_dialog(qtbot)
    write(dialog, "Search: Title or task", f"{query}x")
    QTest.keyClick(line_edit(dialog, "Search: Title or task"), Qt.Key.Key_Backspace)
    QTest.keyClick(line_edit(dialog, "Search: Title or task"), ENTER)
    assert titles(dialog) == expected_titles
    assert dialog.requests == [], "Enter in the search adds nothing"
    says_none = f"Nothing in the gallery matches “{query}”." in texts(dialog)
    assert says_none is not bool(expected_titles)
    assert button(dialog, "Add").isEnabled() is bool(expected_titles)


SETTINGS = {
    "count": CardSetting("Count", 5, minimum=2, maximum=9),
    "rate": CardSetting("Rate", 0.5, minimum=0),
    "seed": CardSetting("Seed", 1, minimum=0, maximum=1_000_000),
    "side": CardSetting("Side", 28, choices=(28, 32)),
    "mode": CardSetting("Mode", "a", choices=("a", "b", "a long choice of many words")),
    "target": CardSetting("Target", ""),
    "batch_norm": CardSetting("Batch norm", True),
}
ODD_ENTRY = GalleryEntry(Kind.LOADER, "odd", Card("Odd", "-", "-", "-", settings=SETTINGS))


def test_each_setting_has_the_control_of_its_kind_and_all_are_handed_on(qtbot):
    dialog = open_dialog(qtbot, Kind.LOADER, (ODD_ENTRY,), newest_versions={"odd": 2})
    write(dialog, "Count", "7")
    write(dialog, "Rate", "1e-3")
    QTest.mouseClick(button(dialog, "32"), LEFT_BUTTON)
    (combo,) = dialog.findChildren(ComboBox)
    QTest.keyClick(combo, Qt.Key.Key_Down)
    write(dialog, "Target", "price")
    (switch,) = dialog.findChildren(Switch)
    QTest.keyClick(switch, Qt.Key.Key_Space)
    assert "“odd” exists; other settings become its version 3." in texts(dialog)
    write(dialog, "Name in the library", "mine")
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    settings = {"count": "7", "rate": "1e-3", "seed": "1", "side": "32", "mode": "b"}
    settings |= {"target": "price", "batch_norm": "false"}
    assert dialog.requests == [GalleryChoice("odd", settings, "mine")]
    # As the service reads them.
    assert ODD_ENTRY.card.values(settings)["batch_norm"] is False


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("Count", "1", "Count must be a whole number from 2 to 9, not “1”."),
        ("Count", "10", "Count must be a whole number from 2 to 9, not “10”."),
        ("Count", "2.5", "Count must be a whole number from 2 to 9, not “2.5”."),
        ("Count", "many", "Count must be a whole number from 2 to 9, not “many”."),
        ("Seed", "-1", "Seed must be a whole number from 0 to 1000000, not “-1”."),
        ("Rate", "-1", "Rate must be a number from 0 on, not “-1”."),
        ("Rate", "0,5", "Rate must be a number from 0 on, not “0,5”."),
        ("Rate", "nan", "Rate must be a number from 0 on, not “nan”."),
    ],
)
def test_a_fault_is_at_its_field_and_nothing_can_be_added(qtbot, name, text, message):
    dialog = open_dialog(qtbot, Kind.LOADER, (ODD_ENTRY,))
    write(dialog, name, text)
    assert field(dialog, name).error() == message
    assert message in texts(dialog)
    assert line_edit(dialog, name).accessibleDescription() == message
    assert not button(dialog, "Add").isEnabled()
    QTest.keyClick(line_edit(dialog, name), ENTER)
    assert dialog.requests == []
    write(dialog, name, "3")
    assert field(dialog, name).error() == ""
    assert button(dialog, "Add").isEnabled()


def test_typed_values_remain_after_another_card_was_open(qtbot):
    dialog = open_dialog(qtbot, entry="lenet-5")
    write(dialog, "Classes", "7")
    write(dialog, "Name in the library", "mine")
    click_row(dialog, "VGG-19")
    assert line_edit(dialog, "Name in the library").text() == "vgg-19"
    click_row(dialog, "LeNet-5")
    assert line_edit(dialog, "Classes").text() == "7"
    assert line_edit(dialog, "Name in the library").text() == "mine"


@pytest.mark.parametrize(
    ("data", "title"),
    [
        ({}, "LeNet-5"),
        ({"side": 28}, "LeNet-5"),
        ({"side": 227}, "LeNet-5"),
        ({"side": 48, "classes": 4}, "LeNet-5"),
        ({"side": 144, "classes": 4, "features": 20_736}, "LeNet-5"),
    ],
)
def test_the_smallest_network_that_takes_the_data_is_chosen(qtbot, data, title):
    dialog = open_dialog(qtbot, facts=data)
    view = gallery_list(dialog)
    assert view.currentIndex().data().startswith(f"{title}, ")


def test_the_setting_says_that_the_network_cannot_take_the_data(qtbot):
    dialog = open_dialog(qtbot, entry="alexnet", facts={"classes": 3, "channels": 1, "side": 28})
    assert line_edit(dialog, "Classes").text() == "3"
    assert button(dialog, "1").isChecked()
    assert button(dialog, "227").isChecked()
    assert "The data has 28; valid is 227." in texts(dialog)


def test_the_layers_are_drawn_as_soon_as_they_are_laid_out(qtbot):
    dialog = open_dialog(qtbot, entry="lenet-5")
    QTest.mouseClick(button(dialog, "Layers"), LEFT_BUTTON)
    assert "Laying the graph out…" in texts(dialog)
    view = gallery_list(dialog)

    def picture(title):
        index = view.model().index(titles(dialog).index(title), 0)
        row_rect = QRect(view.visualRect(index).topLeft(), view.visualRect(index).size())
        return view.viewport().grab(row_rect).toImage()

    previous_pictures = {title: picture(title) for title in titles(dialog)}
    dialog.show_graph("lenet-5", graph_of(LENET))
    assert "Laying the graph out…" not in texts(dialog)
    assert picture("LeNet-5") != previous_pictures["LeNet-5"]
    assert picture("VGG-19") == previous_pictures["VGG-19"]
    click_row(dialog, "VGG-19")
    dialog.show_graph("vgg-19", "Graphviz is missing.")
    assert "Graphviz is missing." in texts(dialog)
    QTest.mouseClick(button(dialog, "Card"), LEFT_BUTTON)
    assert "Sixteen convolutions of 3 × 3 and three linear layers." in texts(dialog)


def test_an_addition_shows_its_progress_and_why_it_failed(qtbot):
    dialog = open_dialog(qtbot)
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    assert not button(dialog, "Add").isEnabled()
    dialog.show_progress(0.5, "Copying bks_model.py")
    assert {"Copying bks_model.py", formats.progress(0.5)} <= set(texts(dialog))
    QTest.mouseClick(button(dialog, "Cancel"), LEFT_BUTTON)
    assert dialog.cancellations == [True]
    dialog.show_error("The disk is full. Free some space.")
    assert "The disk is full. Free some space." in texts(dialog)
    assert button(dialog, "Add").isEnabled()
    click_row(dialog, "VGG-19")
    assert "The disk is full. Free some space." not in texts(dialog)


def test_a_gallery_that_cannot_be_read_says_why(qtbot):
    dialog = open_dialog(qtbot, entries=())
    dialog.show_error("card.toml: no title. Install Ringmaster again.")
    assert "card.toml: no title. Install Ringmaster again." in texts(dialog)
    assert not button(dialog, "Add").isEnabled()


@pytest.mark.parametrize(
    ("kind", "entries", "labels"),
    [
        (Kind.MODEL, MODELS, ["Classes", "1", "Side of a picture, pixels", "Batch size"]),
        (Kind.LOADER, (*LOADERS, ODD_ENTRY), ["Count", "Rate", "Mode", "Target", "Batch norm"]),
    ],
)
def test_tab_leads_to_everything_and_all_of_it_has_a_name(qtbot, kind, entries, labels):
    entry = "lenet-5" if kind is Kind.MODEL else "odd"
    data = {"channels": 1} if kind is Kind.MODEL else {}
    dialog = open_dialog(qtbot, kind, entries, entry=entry, facts=data)
    names = [widget.accessibleName() for widget in Hands(qtbot, dialog).walk()]
    assert all(names)
    expected_names = {"Search: Title or task", "Name in the library", "Add", "Cancel"}
    expected_names |= {f"{'Models' if kind is Kind.MODEL else 'Loaders'} of the gallery"}
    assert expected_names | set(labels) <= set(names)


def test_escape_clears_the_search_first_and_then_closes(qtbot):
    dialog = open_dialog(qtbot)
    search = line_edit(dialog, "Search: Title or task")
    QTest.keyClicks(search, "vgg")
    QTest.keyClick(search, Qt.Key.Key_Escape)
    assert search.text() == ""
    assert dialog.isVisible()
    QTest.keyClick(search, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_a_column_of_the_dataset_is_chosen_from_a_list(qtbot):
    target = CardSetting("Target column", "")
    card = Card("Table", "Rows.", "RFC 4180", "regression", settings={"target": target})
    table = GalleryEntry(Kind.LOADER, "table", card)
    choices = {"target": ["Alkohol", "", "Säure", "Säure"]}
    dialog = open_dialog(qtbot, Kind.LOADER, [table], entry="table", choices=choices)
    box = next(
        combo
        for combo in dialog.findChildren(ComboBox)
        if combo.accessibleName() == "Target column"
    )
    assert [box.itemText(row) for row in range(box.count())] == ["Default", "Alkohol", "Säure"]
    box.setCurrentIndex(2)
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    assert [choice.settings["target"] for choice in dialog.requests] == ["Säure"]
