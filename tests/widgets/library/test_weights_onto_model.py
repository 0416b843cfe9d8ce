"""A file of weights is dropped on a model: the page says on which one, and what became of it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, QPoint

from app.library.library_controller import LibraryController
from backend.records.library.item import Kind
from backend.services.context.container import open_services
from backend.services.tools import tool_process
from tests.widgets import drags
from tests.widgets.library.test_library_page import item
from tests.windows import add_widget, find_only, show_widget
from widgets.library.library_page import LibraryPage
from widgets.library.trial_pages import PreviewBanner
from widgets.shell.main_window import MainWindow

pytestmark = pytest.mark.usefixtures("theme_manager")
CONTENT = b"PK\x03\x04 numbers"


@pytest.fixture
def page(qtbot):
    return show_widget(qtbot, LibraryPage(Kind.MODEL), 1200, 800)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "best.pt"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def services(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "bks_model.py").write_text("import torch\n")
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    services.library.import_item(Kind.MODEL, source, "cats")
    yield services
    services.close()


@pytest.fixture
def controller(services, immediately, page, qtbot):
    pages = {kind: page if kind is Kind.MODEL else LibraryPage(kind) for kind in Kind}
    for library_page in pages.values():
        qtbot.addWidget(library_page)
    controller = LibraryController(services.library, services.gallery, immediately, pages, page)
    controller.notifications = immediately.notifications
    controller.refresh()
    return controller


def models(*names, **details):
    return tuple(item(name, kind=Kind.MODEL, **details) for name in names)


def row_center(page, number):
    row_rect = page._list.visualRect(page._model.index(number))
    return page._list.viewport().mapTo(page, row_rect.center())


def test_a_drag_over_a_row_opens_and_names_its_model(page, file, qtbot):
    page.show_items(models("cats", "dogs"))
    assert drags.drag_over(page, drags.file(file), row_center(page, 1))
    assert page.shown_name == "dogs"
    assert page.drop_overlay.isVisible()
    assert page.drop_overlay.accessibleName() == "Give dogs @ 1 the weights “best.pt”"
    with qtbot.waitSignal(page.weights_dropped) as dropped:
        drags.drop(page, drags.file(file), QPoint(900, 400))
    assert dropped.args == ["dogs@1", str(file)]
    assert not page.drop_overlay.isVisible()


def test_the_open_version_gets_the_weights(page, file, qtbot):
    page.show_items((*models("cats"), item("cats", 2, Kind.MODEL)))
    for version in ("1", "2"):
        page.detail.open_version(version)
        with qtbot.waitSignal(page.weights_dropped) as dropped:
            drags.drop(page, drags.file(file), QPoint(900, 400))
        assert dropped.args[0] == f"cats@{version}"


def test_a_drag_over_a_model_with_weights_says_so(page, file):
    weights = {"name": "weights.pt", "bytes": 98_000_000}
    page.show_items(models("cats", weights=weights))
    drags.drag_over(page, drags.file(file))
    assert page.drop_overlay.accessibleName() == (
        "cats @ 1 already has weights: import a new version for others"
    )
    assert not page.drop_overlay._is_accepted
    drags.drag_away(page)
    assert not page.drop_overlay.isVisible()
    details = [label.text() for label in page.detail._details.findChildren(type(page.detail._name))]
    assert any("98.0 MB" in text.replace("\xa0", " ") for text in details), details


@pytest.mark.parametrize("name", ["folder", "model.zip", "bks_model.py"])
def test_other_files_are_left_to_the_window(page, tmp_path, name):
    page.show_items(models("cats"))
    assert not drags.drag_over(page, drags.file(tmp_path / name))
    assert not drags.drag_over(page, QMimeData())
    assert not page.drop_overlay.isVisible()


def test_a_library_without_models_says_where_weights_belong(qtbot, file):
    window = add_widget(qtbot, MainWindow())
    page = LibraryPage(Kind.MODEL)
    window.add_page("models", page)
    window.open_page("models")
    window.show()
    assert drags.drag_over(page, drags.file(file))
    assert window.drop_overlay.accessibleName() == (
        "Weights belong to a model: drop “best.pt” on a model in Models"
    )


def test_dropped_weights_are_copied_next_to_the_model_with_a_message(
    controller, page, services, file, monkeypatch
):
    monkeypatch.setattr(tool_process, "read_weights", lambda *_: ())
    page.weights_dropped.emit("cats@1", str(file))
    assert (services.data_root.path / "models/cats/v1/weights.pt").read_bytes() == CONTENT
    assert controller.notifications == ["New jobs of cats start from these weights"]
    assert page.detail.has_weights
    assert not page.detail._progress.isVisible()


def test_the_page_of_the_model_says_why_weights_are_refused(controller, page, services, file):
    file.write_bytes(b"hello")
    page.weights_dropped.emit("cats@1", str(file))
    assert find_only(PreviewBanner, page.detail).isVisible()
    assert find_only(PreviewBanner, page.detail).accessibleName() == (
        "“best.pt” contains no weights, despite its name. Save them with "
        "torch.save(model.state_dict(), …)."
    )
    assert not page.detail.has_weights
    assert controller.notifications == []
