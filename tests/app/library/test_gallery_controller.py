"""The gallery and the depth planner in the window add to the real library."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from app.library.gallery_controller import DepthController, GalleryController
from app.library.library_controller import LibraryController
from backend.base.errors import BackendError
from backend.records.library.depth_plan import NETWORK, plan_depth
from backend.records.library.item import Kind
from backend.services.library.gallery import GalleryService
from tests.app.library.test_library_controller import watch_offers
from tests.widgets.library.gallery_samples import LENET, graph_of
from tests.widgets.library.test_gallery_dialog import button, click_row, line_edit, titles, write
from tests.windows import find_button, visible_window
from widgets.common.fields import Slider
from widgets.library.gallery_dialog import GalleryDialog, GalleryPreset
from widgets.library.import_dialog import ImportDialog
from widgets.library.library_page import LibraryPage

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def pages(qtbot):
    pages = {kind: LibraryPage(kind) for kind in Kind}
    for page in pages.values():
        qtbot.addWidget(page)
        page.resize(1100, 700)
    return pages


class Inspection:
    """Lays graphs out at once; ``error`` is why it cannot."""

    error = ""

    def graph(self, layers):
        if self.error:
            raise BackendError(self.error)
        return graph_of(LENET)


@pytest.fixture
def library(services, immediately, pages):
    library = LibraryController(
        services.library, services.gallery, immediately, pages, pages[Kind.DATASET]
    )
    library.jobs, library.notifications = [], immediately.notifications
    library.offers = watch_offers(pages)
    library.new_job_requested.connect(library.jobs.append)
    library.page_requested.connect(lambda kind: pages[kind].show())
    library.refresh()
    return library


@pytest.fixture
def gallery(services, library, immediately, pages, qtbot):
    controller = GalleryController(
        services.gallery, Inspection(), immediately, library.items, pages[Kind.MODEL]
    )
    library.gallery_requested.connect(controller.choose)
    return controller


@pytest.fixture
def flowers(tmp_path):
    for name in ("daisy", "poppy"):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(4):
            picture = QImage(40, 32, QImage.Format.Format_Grayscale8)
            picture.fill(60 * number)
            assert picture.save(str(tmp_path / "flowers" / name / f"{number}.png"))
    return tmp_path / "flowers"


def import_folder(library, folder):
    library.import_dropped(folder)
    QTest.mouseClick(button(visible_window(ImportDialog), "Import"), LEFT_BUTTON)


def visible_texts(page):
    return [w.text() for w in page.findChildren(QLabel) if w.isVisible()]


@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.LOADER])
@pytest.mark.parametrize("has_some", [False, True])
def test_the_button_of_the_page_adds_the_chosen_entry_and_opens_it(
    gallery, library, pages, services, kind, has_some
):
    if has_some:
        services.gallery.add("lenet-5" if kind is Kind.MODEL else "table", {}, "mine")
        library.refresh()
    page = pages[kind]
    page.show()
    QTest.mouseClick(button(page, "From the gallery…"), LEFT_BUTTON)
    dialog = gallery.dialog
    entries = services.gallery.list(kind)
    shown_titles = {e.card.title for e in entries if not e.card.collection}
    assert set(titles(dialog)) == shown_titles
    if kind is Kind.MODEL:
        QTest.mouseClick(button(dialog, "From the theses (9)"), LEFT_BUTTON)
        assert len(titles(dialog)) == len(entries)
    click_row(dialog, entries[-1].card.title)
    write(dialog, "Name in the library", "other")
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    assert gallery.dialog is None
    assert page.shown_name == "other"
    assert [offer.text for offer in library.offers] == ["Imported other."]
    assert {e.name for e in library.items(kind)} == {"other"} | ({"mine"} if has_some else set())


def test_datasets_have_no_gallery(library, pages):
    page = pages[Kind.DATASET]
    page.show()
    with pytest.raises(StopIteration):
        button(page, "From the gallery…")


def test_the_dialog_says_why_an_entry_cannot_be_added(gallery, library, pages, monkeypatch):
    def refuse(*_):
        raise BackendError("The disk is full.", "Free some space.")

    monkeypatch.setattr(GalleryService, "add", refuse)
    pages[Kind.MODEL].gallery_requested.emit()
    dialog = gallery.dialog
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    assert "The disk is full. Free some space." in visible_texts(dialog)
    assert library.items(Kind.MODEL) == ()


def test_a_gallery_that_cannot_be_read_says_why_in_the_dialog(gallery, pages, monkeypatch):
    def refuse(*_):
        raise BackendError("card.toml: no title.", "Install Ringmaster again.")

    monkeypatch.setattr(GalleryService, "list", refuse)
    pages[Kind.MODEL].gallery_requested.emit()
    assert "card.toml: no title. Install Ringmaster again." in visible_texts(gallery.dialog)


@pytest.mark.parametrize(
    ("dataset", "values"),
    [
        ("flowers", {"Classes": "2", "Side of a picture, pixels": "32"}),
        ("flowers@1", {"Classes": "2", "Side of a picture, pixels": "32"}),
        ("", {"Classes": "10", "Side of a picture, pixels": "28"}),
        ("removed", {"Classes": "10", "Side of a picture, pixels": "28"}),
        ("notes", {"Classes": "10", "Side of a picture, pixels": "28"}),
    ],
)
def test_a_job_s_network_has_the_settings_that_its_data_needs(
    gallery, library, services, flowers, tmp_path, dataset, values
):
    services.library.import_item(Kind.DATASET, flowers, "flowers")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("no data")
    services.library.import_item(Kind.DATASET, tmp_path / "notes", "notes")
    library.refresh()
    added = []
    gallery.choose_for_job(dataset, "", added.append)
    dialog = gallery.dialog
    click_row(dialog, "LeNet-5")
    assert {name: line_edit(dialog, name).text() for name in values} == values
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    assert [i.reference for i in added] == ["lenet-5@1"]


def test_classes_that_a_preview_counted_are_believed(gallery, library, services, flowers):
    item = services.library.import_item(Kind.DATASET, flowers, "flowers")
    services.library._add_details(item, {"classes": 5}, "")
    library.refresh()
    gallery.choose_for_job("flowers", "", print)
    click_row(gallery.dialog, "LeNet-5")
    assert line_edit(gallery.dialog, "Classes").text() == "5"


@pytest.mark.parametrize(
    ("code", "side"),
    [
        ("SIDE = 24\n", "24"),
        ("SIDE: int = 20\nCHANNELS = 1\n", "20"),
        ("SIDE = 'x'\n", "32"),
        ("SIDE = True\n", "32"),
        ("def f():\n    SIDE = 24\n", "32"),
        ("SIDE = (\n", "32"),
        ("", "32"),
    ],
)
def test_the_side_that_the_loader_makes_is_believed(
    gallery, library, services, flowers, tmp_path, code, side
):
    services.library.import_item(Kind.DATASET, flowers, "flowers")
    (tmp_path / "reader").mkdir()
    (tmp_path / "reader/bks_dataset.py").write_text(f"# Reads.\n{code}")
    services.library.import_item(Kind.LOADER, tmp_path / "reader", "reader")
    library.refresh()
    gallery.choose_for_job("flowers", "reader", print)
    click_row(gallery.dialog, "LeNet-5")
    assert line_edit(gallery.dialog, "Side of a picture, pixels").text() == side


# The loader that fits a dataset


def test_an_imported_folder_of_pictures_is_offered_its_loader_and_then_a_job(
    library, services, pages, flowers
):
    page = pages[Kind.DATASET]
    import_folder(library, flowers)
    assert page.isVisible(), "what is to be done next is there"
    offer = library.offers[-1]
    assert offer.text.startswith("This looks like pictures")
    assert offer.button == "Add a loader for it"
    assert "Which loader reads it?" not in visible_texts(page), "another loader would be a guess"
    QTest.mouseClick(button(page.detail, "Add a loader for it"), LEFT_BUTTON)
    assert services.library.list(Kind.LOADER)[0].reference == "flowers@1"
    assert pages[Kind.LOADER].shown_name == "flowers"
    code = services.library.text(Kind.LOADER, "flowers@1", "bks_dataset.py")
    assert "SIDE = 32\n" in code
    assert "CHANNELS = 1\n" in code
    assert library.offers[-1].button == "Train…"
    assert page.detail.trial.loader == "flowers"
    QTest.mouseClick(button(page.detail, "Train…"), LEFT_BUTTON)
    assert library.jobs == [{"dataset": "flowers", "loader": "flowers"}]


def test_the_settings_of_the_suggested_loader_can_be_changed_first(
    gallery, library, services, pages, flowers
):
    services.library.import_item(Kind.DATASET, flowers, "flowers")
    library.refresh()
    page = pages[Kind.DATASET]
    page.show()
    QTest.mouseClick(button(page.detail, "Settings…"), LEFT_BUTTON)
    dialog = gallery.dialog
    assert line_edit(dialog, "Name in the library").text() == "flowers"
    assert line_edit(dialog, "Side of a picture, pixels").text() == "32"
    write(dialog, "Side of a picture, pixels", "24")
    QTest.mouseClick(button(dialog, "Add"), LEFT_BUTTON)
    assert "SIDE = 24\n" in services.library.text(Kind.LOADER, "flowers@1", "bks_dataset.py")
    assert library.offers[-1].button == "Train…"


@pytest.mark.parametrize(
    ("loaders", "is_offered"), [((), True), (("other",), True), (("flowers",), False)]
)
def test_nothing_is_suggested_where_a_loader_has_the_name_of_the_dataset(
    library, services, pages, flowers, loaders, is_offered
):
    for name in loaders:
        services.gallery.add("image-folder", {}, name)
    services.library.import_item(Kind.DATASET, flowers, "flowers")
    library.refresh()
    page = pages[Kind.DATASET]
    page.show()
    is_seen = any(text.startswith("This looks like") for text in visible_texts(page))
    assert is_seen is is_offered


def test_data_that_cannot_be_inspected_is_imported_anyway(library, pages, flowers, monkeypatch):
    def fail(*_):
        raise BackendError("The share does not respond.")

    monkeypatch.setattr(GalleryService, "suggest", fail)
    pages[Kind.DATASET].show()
    import_folder(library, flowers)
    assert [i.reference for i in library.items(Kind.DATASET)] == ["flowers@1"]
    assert (library.offers[-1].text, library.offers[-1].button) == (
        *("Imported flowers.", "Import its loader…"),
    )


@pytest.mark.parametrize(
    ("content", "text", "button_text"),
    [
        ({"1.wav": "RIFF"},
         "Imported flowers. No loader of the gallery fits these files (1 .wav)",
         "Import its loader…"),
        ({"t.csv": "day,y\n" + "".join(f"0{n}/03/2024,{n % 2}\n" for n in range(1, 9))},
         "This looks like a table", "Settings of its loader…"),
    ],
)  # fmt: skip
def test_data_whose_loader_has_to_be_chosen_or_set_says_so(
    library, pages, tmp_path, content, text, button_text
):
    pages[Kind.DATASET].show()
    folder = tmp_path / "flowers"
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_text(data)
    import_folder(library, folder)
    offer = library.offers[-1]
    assert offer.text.startswith(text)
    assert offer.button == button_text


def test_a_suggested_loader_that_cannot_be_added_says_why(library, pages, flowers, monkeypatch):
    def refuse(*_):
        raise BackendError("The disk is full.", "Free some space.")

    page = pages[Kind.DATASET]
    page.show()
    import_folder(library, flowers)
    monkeypatch.setattr(GalleryService, "add", refuse)
    QTest.mouseClick(button(page.detail, "Add a loader for it"), LEFT_BUTTON)
    assert library.notifications[-1] == "The disk is full. Free some space."
    assert button(page.detail, "Add a loader for it").isEnabled()


def test_pictures_are_drawn_until_the_dialog_closes(gallery, pages, services, monkeypatch):
    drawn_layers = []

    class ClosingInspection(Inspection):
        def graph(self, layers):
            drawn_layers.append(layers)
            if len(drawn_layers) == 2:
                gallery.dialog.reject()
            return super().graph(layers)

    monkeypatch.setattr(gallery, "_inspection", ClosingInspection())
    figures = LENET.figures
    entries = [LENET, LENET, LENET, LENET]
    monkeypatch.setattr(GalleryService, "list", lambda *_: entries)
    gallery.choose(Kind.MODEL, GalleryPreset(), print)
    assert drawn_layers == [figures.layers] * 2


@pytest.fixture
def page(qtbot):
    page = LibraryPage(Kind.MODEL)
    qtbot.addWidget(page)
    return page


@pytest.fixture
def added_items():
    return []


@pytest.fixture
def dialog(page, services, immediately, added_items):
    page.controller = DepthController(services.gallery, immediately, added_items.append, page)
    page.controller.plan()
    return page.controller.dialog


def drawing_text(dialog):
    return dialog.drawing.accessibleDescription()


def test_the_drawing_follows_the_sliders_and_the_fields(dialog):
    dialog.grab()
    assert dialog.summary.text() == "20 convolutions in 4 stages"
    assert drawing_text(dialog).startswith(
        "9 convolutions, 128 px, sees 18 px, c-value 0.17; 4 conv"
    )
    dialog.limit.choose("printed")
    dialog.limit.key_chosen.emit("printed")
    assert dialog.summary.text() == "34 convolutions in 3 stages"
    assert drawing_text(dialog).startswith(
        "18 convolutions, 128 px, sees 36 px, c-value 0.08; 9 conv"
    )
    dialog.limit.choose("kept")
    dialog.limit.key_chosen.emit("kept")
    slider = next(s for s in dialog.findChildren(Slider) if "z" in s.accessibleName())
    slider.set_share(0)
    assert dialog.side.value() == 8
    assert dialog.summary.text() == "4 convolutions in 1 stage"
    dialog.side.setValue(4000)
    assert slider.share() == 1
    assert dialog.side.value() == 4000, "the slider ends earlier and does not pull it back"


@pytest.mark.parametrize(
    ("side", "kernel", "min_fan", "message"),
    [
        (4, 5, 6, "A side of 4 is smaller than the kernel of 5"),
        (128, 1, 6, "A kernel of 1"),
        (128, 0, 6, "A kernel of 0"),
        (0, 3, 6, "A side of 0"),
        (99_999, 3, 6, "too large"),
        (128, 3, 0, "c-value must be from 1/100 to 1, not 0"),
        (128, 3, 999, "c-value must be from 1/100 to 1"),
    ],
)
def test_bad_input_is_a_sentence_and_no_network(
    dialog, added_items, side, kernel, min_fan, message
):
    dialog.side.setValue(side)
    dialog.kernel.setValue(kernel)
    dialog.min_c_value.setValue(min_fan)
    dialog.grab()
    assert message in dialog._error.text()
    assert not find_button(dialog, "Use this network").isEnabled()
    assert drawing_text(dialog) == ""
    dialog._request_network()
    assert added_items == []
    for box, value in ((dialog.side, 128), (dialog.kernel, 3), (dialog.min_c_value, 6)):
        box.setValue(value)
    assert (dialog._error.text(), find_button(dialog, "Use this network").isEnabled()) == ("", True)


@pytest.mark.parametrize(
    ("side", "kernel", "min_fan"), [(8192, 2, 100), (3, 3, 1), (99, 99, 1), (8192, 99, 100)]
)
def test_any_plan_is_drawn(dialog, side, kernel, min_fan):
    dialog.side.setValue(side)
    dialog.kernel.setValue(kernel)
    dialog.min_c_value.setValue(min_fan)
    dialog.grab()
    assert len(drawing_text(dialog).split("; ")) == len(dialog._plan.stages)


def test_the_network_is_added_and_opened(dialog, page, services, added_items):
    dialog.channels.choose("3")
    dialog.classes.setValue(4)
    dialog.name.setText(" deep ")
    find_button(dialog, "Use this network").click()
    (item,) = added_items
    assert (item.kind, item.reference) == (Kind.MODEL, "deep@1")
    code = (services.library.content(Kind.MODEL, "deep@1") / "bks_model.py").read_text()
    stages = plan_depth(128, 3).text
    assert f"\nCLASSES = 4\nCHANNELS = 3\nSIDE = 128\nKERNEL = 3\nSTAGES = '{stages}'\n" in code
    assert page.controller.dialog is None


def test_a_name_that_the_library_refuses_stays_in_the_dialog(dialog, page, added_items):
    dialog.name.setText("a/b")
    find_button(dialog, "Use this network").click()
    assert dialog._error.text()
    assert page.controller.dialog is dialog
    assert added_items == []


def test_only_the_card_of_the_planned_network_has_the_button(qtbot, services):
    dialog = GalleryDialog(Kind.MODEL, {}, GalleryPreset(NETWORK))
    qtbot.addWidget(dialog)
    dialog.show_entries(services.gallery.list(Kind.MODEL))
    dialog.show()
    plan = find_button(dialog, "Plan the depth…")
    assert plan.isVisible()
    with qtbot.waitSignal(dialog.plan_requested):
        plan.click()
    dialog._select_entry("lenet-5")
    assert not plan.isVisible()
