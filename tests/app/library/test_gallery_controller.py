"""The gallery in the window reaches the real library, and what it suggests is offered."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from app.library.gallery_controller import GalleryController
from app.library.library_controller import LibraryController
from backend.base.errors import BackendError
from backend.records.library.item import Kind
from backend.services.context.container import open_services
from backend.services.library.gallery import GalleryService
from tests.app.library.test_library_controller import watch_offers
from tests.widgets.library.gallery_samples import LENET, graph_of
from tests.widgets.library.test_gallery_dialog import button, click_row, line_edit, titles, write
from tests.windows import visible_window
from widgets.library.gallery_dialog import GalleryPreset
from widgets.library.import_dialog import ImportDialog
from widgets.library.library_page import LibraryPage

LEFT_BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def services(tmp_path):
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    yield services
    services.close()


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
