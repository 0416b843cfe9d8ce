"""What the user does in Datasets reaches the real library, and its outcome reaches the page."""

import shutil
from threading import Thread

import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QListView, QTableView

from app.library import library_controller
from app.library.library_controller import LibraryController
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.library.item import PARTS, Kind
from backend.services.context.container import open_services
from backend.services.context.example import create_example
from backend.services.library.gallery import GalleryService
from backend.services.tools.tool_process import ToolError
from tests.conftest import SynchronousRunner
from tests.windows import (
    find_button,
    find_line,
    find_only,
    finish_timers,
    open_tab,
    shows_text,
    visible_texts,
    visible_window,
    visible_windows,
)
from widgets.common.buttons import SegmentedControl, UnderlinedTabs
from widgets.common.cards import EmptyState
from widgets.common.dialog import TaskStatus
from widgets.common.fields import TextBox
from widgets.library.import_dialog import ImportDialog
from widgets.library.item_actions import TRASH
from widgets.library.library_page import LibraryPage
from widgets.library.source_view import SourceView
from widgets.library.trial_pages import PreviewBanner, Trial
from widgets.library.versions_view import ChangesCard


@pytest.fixture
def library(services):
    return services.library


@pytest.fixture
def pages(qtbot):
    pages = {kind: LibraryPage(kind) for kind in Kind}
    for page in pages.values():
        qtbot.addWidget(page)
    return pages


@pytest.fixture
def controller(library, immediately, pages):
    return LibraryController(
        library, GalleryService(library), immediately, pages, pages[Kind.DATASET]
    )


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"not really")
    return folder


def watch_offers(pages):
    """Return the list that gets each next step that is offered in a banner."""
    offers = []

    def watch(detail):
        show = detail.show_offers

        def show_and_record(reference, *new_offers):
            if new_offers and new_offers[0] not in offers:
                offers.append(new_offers[0])
            show(reference, *new_offers)

        detail.show_offers = show_and_record

    for page in pages.values():
        watch(page.detail)
    return offers


def test_a_folder_imported_by_the_dialog_is_shown_and_reported(controller, pages, pictures, qtbot):
    controller.import_dropped(pictures)
    dialog = visible_window(ImportDialog)
    qtbot.addWidget(dialog)
    offers = watch_offers(pages)
    find_button(dialog, "Import").click()
    assert [offer.button for offer in offers] == ["Import its loader…"]
    assert offers[0].text.startswith("Imported pictures. No loader of the gallery fits these files")
    (pictures / "Thumbs.db").write_bytes(b"of Windows")
    controller.import_dropped(pictures)
    find_button(visible_window(ImportDialog), "Import").click()
    assert offers[1].text.startswith("Imported pictures @ 2. Left out, as ")
    assert pages[Kind.DATASET].shown_name == "pictures"
    assert not visible_windows(ImportDialog)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("wein.csv", "wein"),
        ("my.data.parquet", "my.data"),
        ("x.tar.csv.gz", "x.tar"),
        ("x.h5", "x.h5"),
    ],
)
def test_a_dropped_data_file_is_imported_as_a_dataset(controller, pages, tmp_path, file, name):
    (tmp_path / file).write_text("a,b\n1,2\n3,4\n")
    controller.import_dropped(tmp_path / file)
    dialog = visible_window(ImportDialog)
    assert find_line(dialog, "Name").text() == name
    find_button(dialog, "Import").click()
    assert [item.name for item in controller.items(Kind.DATASET)] == [name]


def test_importing_the_name_again_makes_a_version_and_says_so_before(
    controller, pages, pictures, qtbot
):
    controller.import_dropped(pictures)
    find_button(visible_window(ImportDialog), "Import").click()
    (pictures / "b.png").write_bytes(b"more")
    pages[Kind.DATASET].import_requested.emit("pictures")
    dialog = visible_window(ImportDialog)
    find_line(dialog, "From").setText(str(pictures))
    finish_timers(dialog)
    assert shows_text(dialog, "version 2")
    find_button(dialog, "Import").click()
    assert [item.version for item in controller.items(Kind.DATASET)] == [2, 1]


def test_a_refused_import_says_why_in_the_dialog_and_changes_nothing(controller, tmp_path):
    controller.import_dropped(tmp_path / "nothing-here")
    dialog = visible_window(ImportDialog)
    find_button(dialog, "Import").click()
    assert find_only(TaskStatus, dialog).message.text()
    assert controller.items(Kind.DATASET) == ()
    dialog.reject()


def test_the_page_reads_files_and_text_of_the_chosen_item(controller, pages, tmp_path):
    source = tmp_path / "net"
    source.mkdir()
    (source / "bks_model.py").write_text("class UserModel: ...\n")
    controller.import_dropped(source)
    find_button(visible_window(ImportDialog), "Import").click()
    page = pages[Kind.MODEL]
    page.show()
    assert find_only(QListView, find_only(SourceView, page.detail)).model().stringList() == [
        "bks_model.py"
    ]
    assert (
        find_only(TextBox, find_only(SourceView, page.detail)).toPlainText()
        == "class UserModel: ...\n"
    )


def import_versions(library, folder, count):
    for number in range(1, count + 1):
        source = folder / f"net-{number}"
        source.mkdir()
        (source / "bks_model.py").write_text(f"# the {number}.\n")
        library.import_item(Kind.MODEL, source, "net")


def test_each_version_shows_its_own_text_where_its_files_have_the_same_names(
    library, controller, pages, tmp_path
):
    import_versions(library, tmp_path, 2)
    controller.refresh()
    detail = pages[Kind.MODEL].detail
    pages[Kind.MODEL].show()
    assert find_only(TextBox, find_only(SourceView, detail)).toPlainText() == "# the 2.\n"
    detail.open_version("1")
    assert find_only(TextBox, find_only(SourceView, detail)).toPlainText() == "# the 1.\n"


def test_the_chosen_version_shows_its_changes(library, controller, pages, tmp_path):
    import_versions(library, tmp_path, 3)
    controller.refresh()
    detail = pages[Kind.MODEL].detail
    pages[Kind.MODEL].show()
    card = find_only(ChangesCard, detail.versions)
    assert card._title.text() == "", "it is not visible yet"
    find_only(UnderlinedTabs, detail).choose("versions")
    open_tab(detail, "versions")
    assert "Changes from @ 2 to @ 3" in visible_texts(card)
    assert "1 file changed: bks_model.py" in visible_texts(card)
    assert find_only(TextBox, card).toPlainText().splitlines()[-2:] == ["-# the 2.", "+# the 3."]
    find_only(QTableView, detail.versions).selectRow(1)
    assert find_only(TextBox, card).toPlainText().splitlines()[-2:] == ["-# the 1.", "+# the 2."]
    find_only(QTableView, detail.versions).selectRow(2)
    assert not card.isVisible(), "there was none before the first"


def test_unreadable_files_are_reported_in_place_of_their_text(
    library, controller, pages, tmp_path, monkeypatch
):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/bks_model.py").write_text("class UserModel: ...\n")
    library.import_item(Kind.MODEL, tmp_path / "net", "net")

    def fail(kind, reference):
        raise BackendError("/lab/ring does not answer.", "Mount the share again.")

    monkeypatch.setattr(library, "files", fail)
    controller.refresh()
    pages[Kind.MODEL].show()
    source = find_only(SourceView, pages[Kind.MODEL].detail)
    assert find_only(EmptyState, source).isVisible()
    message = "/lab/ring does not answer. Mount the share again."
    assert message in find_only(EmptyState, source).accessibleName()


def test_a_removed_item_disappears_from_the_page(controller, pages, pictures):
    controller.import_dropped(pictures)
    find_button(visible_window(ImportDialog), "Import").click()
    pages[Kind.DATASET].detail.item_actions.ask(TRASH, "pictures@1")
    assert controller.items(Kind.DATASET) == ()
    assert pages[Kind.DATASET].shown_name == ""


def test_a_refresh_shows_the_import_of_another_desktop(controller, library, pictures):
    library.import_item(Kind.DATASET, pictures, "elsewhere")
    controller.refresh()
    assert [item.name for item in controller.items(Kind.DATASET)] == ["elsewhere"]


def names(controller):
    return {kind: [item.reference for item in controller.items(kind)] for kind in Kind}


def test_every_write_to_the_catalogue_is_shown_without_a_refresh(
    services, library, controller, pages, pictures, tmp_path
):
    """The example, an import of another part of the window, new facts, weights, the trash."""
    create_example(services, 1)
    assert names(controller) == {kind: ["digits@1"] for kind in PARTS} | {Kind.SCRIPT: []}
    assert {pages[kind].shown_name for kind in PARTS} == {"digits"}
    library.import_item(Kind.DATASET, pictures, "pictures")
    assert names(controller)[Kind.DATASET] == ["digits@1", "pictures@1"]
    torch.save({"layer.weight": torch.ones(2)}, tmp_path / "best.pt")
    library.add_weights("digits@1", tmp_path / "best.pt", Progress())
    assert pages[Kind.MODEL].detail.has_weights
    library.remove(Kind.DATASET, "pictures@1")
    assert names(controller)[Kind.DATASET] == ["digits@1"]


def test_a_loader_imported_for_a_dataset_reads_it_at_once(
    library, controller, pages, pictures, tmp_path, monkeypatch
):
    monkeypatch.setattr(library, "preview", lambda *args, progress: previews.append(args))
    previews = []
    library.import_item(Kind.DATASET, pictures, "pictures")
    (tmp_path / "bks_dataset.py").write_text("class UserDataset: ...\n")
    page = pages[Kind.DATASET]
    monkeypatch.setattr(page.detail, "show_preview", lambda trial, preview: None)
    page.show()
    page.detail.results.questions["samples"].import_requested.emit()
    dialog = visible_window(ImportDialog)
    find_line(dialog, "From").setText(str(tmp_path / "bks_dataset.py"))
    finish_timers(dialog)
    find_line(dialog, "Name").setText("reader")
    find_button(dialog, "Import").click()
    assert previews == [("pictures@1", "reader")]


def test_each_import_offers_the_next_step_up_to_the_job(
    library, controller, pages, pictures, tmp_path, monkeypatch
):
    monkeypatch.setattr(library, "preview", _refuse)
    for name, text in (("bks_dataset", "UserDataset"), ("bks_model", "UserModel")):
        (tmp_path / f"{name}.py").write_text(f"class {text}: ...\n")
    offers, requested = watch_offers(pages), []
    controller.job_requested.connect(lambda *job: requested.append(job))
    controller.import_dropped(pictures)
    find_button(visible_window(ImportDialog), "Import").click()
    for source in ("bks_dataset.py", "bks_model.py"):
        offers[-1].action()
        find_line(visible_window(ImportDialog), "From").setText(str(tmp_path / source))
        finish_timers(visible_window(ImportDialog))
        find_line(visible_window(ImportDialog), "Name").setText("mine")
        find_button(visible_window(ImportDialog), "Import").click()
    assert [offer.button for offer in offers] == [
        "Import its loader…",
        "Import a model…",
        "New job with it",
    ]
    offers[-1].action()
    assert requested == [(Kind.MODEL, "mine@1")]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "plankton"
    for path in ("net/bks_model.py", "reader/bks_dataset.py", "pictures/a.png", "reader/.DS_Store"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def test_a_folder_with_all_three_parts_is_imported_by_one_press_and_leads_to_a_job(
    library, controller, pages, project, monkeypatch
):
    previewed = []
    monkeypatch.setattr(library, "preview", lambda *args, progress: previewed.append(args))
    monkeypatch.setattr(pages[Kind.DATASET].detail, "show_preview", lambda *_: None)
    offers, requested = watch_offers(pages), []
    controller.new_job_requested.connect(requested.append)
    controller.import_dropped(project)
    dialog = visible_window(ImportDialog)
    find_button(dialog, "Import").click()
    assert names(controller) == {kind: ["plankton@1"] for kind in PARTS} | {Kind.SCRIPT: []}
    assert [(offer.text, offer.button) for offer in offers] == [
        (
            "Imported plankton. Left out, as files of systems and tools or link loops: 1 file "
            "(.DS_Store).",
            "New job with it",
        )
    ]
    assert [pages[kind].detail._offer_banner.isHidden() for kind in PARTS] == [False] * 3
    offers[-1].action()
    assert [pages[kind].detail._offer_banner.isHidden() for kind in PARTS] == [True] * 3, (
        "it was used"
    )
    assert requested == [{"dataset": "plankton", "loader": "plankton", "model": "plankton"}]
    assert {pages[kind].shown_name for kind in PARTS} == {"plankton"}
    assert previewed == [], "the page is not open"
    pages[Kind.DATASET].show()
    assert previewed == [("plankton@1", "plankton")]


@pytest.mark.parametrize(
    ("changed_parts", "message"),
    [
        ((), "plankton is here already, with the same files."),
        (("net",), "Imported plankton. Model is new: version 2."),
        (("reader",), "Imported plankton. Loader is new: version 2."),
        (("pictures",), "Imported plankton. Dataset is new: version 2."),
        (
            ("reader", "net"),
            "Imported plankton. Loader is new: version 2. Model is new: version 2.",
        ),
        (
            ("pictures", "reader", "net"),
            "Imported plankton. Dataset is new: version 2. Loader is new: version 2. "
            "Model is new: version 2.",
        ),
    ],
)
def test_a_second_import_of_a_folder_names_the_new_parts(
    controller, pages, project, changed_parts, message
):
    offers = watch_offers(pages)
    controller.import_dropped(project)
    find_button(visible_window(ImportDialog), "Import").click()
    for part in changed_parts:
        (project / part / "more.txt").write_text("more")
    controller.import_dropped(project)
    find_button(visible_window(ImportDialog), "Import").click()
    assert offers[1].text.partition(" Left out")[0] == message


def test_code_without_data_asks_for_the_data_next(controller, pages, project):
    shutil.rmtree(project / "pictures")
    offers = watch_offers(pages)
    controller.import_dropped(project)
    find_button(visible_window(ImportDialog), "Import").click()
    assert offers[-1].button == "Import its data…"
    offers[-1].action()
    assert "plankton" in visible_texts(visible_window(ImportDialog))
    visible_window(ImportDialog).reject()


def test_a_folder_chosen_in_the_dialog_is_inspected_too(
    controller, pages, project, monkeypatch, qtbot
):
    pages[Kind.MODEL].import_requested.emit("")
    dialog = visible_window(ImportDialog)
    qtbot.addWidget(dialog)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(project))
    find_button(dialog, "Folder…").click()
    assert find_only(SegmentedControl, dialog).key() == "all"
    assert find_button(dialog, "Import").isEnabled()
    dialog.reject()


def test_a_home_that_does_not_exist_is_a_sentence_in_the_dialog(controller, pages, qtbot):
    pages[Kind.DATASET].import_requested.emit("")
    dialog = visible_window(ImportDialog)
    qtbot.addWidget(dialog)
    find_line(dialog, "From").setText("~no-such-user/plankton")
    finish_timers(dialog)
    qtbot.mouseClick(find_button(dialog, "Import"), Qt.MouseButton.LeftButton)
    assert (
        find_only(TaskStatus, dialog)
        .message.text()
        .startswith("~no-such-user/plankton does not exist.")
    )
    dialog.reject()


def test_a_request_for_a_loader_does_not_import_all_three_parts(
    controller, pages, pictures, project, monkeypatch, qtbot
):
    controller.import_dropped(pictures)
    find_button(visible_window(ImportDialog), "Import").click()
    pages[Kind.DATASET].detail.partner_requested.emit(Kind.LOADER)
    dialog = visible_window(ImportDialog)
    qtbot.addWidget(dialog)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(project))
    find_button(dialog, "Folder…").click()
    assert find_only(SegmentedControl, dialog).key() == "loader"
    dialog.reject()


def test_a_project_that_fails_half_way_says_so_in_the_dialog(
    library, controller, project, monkeypatch
):
    def fail(*_):
        library.import_item(Kind.DATASET, project / "pictures", "plankton")
        raise BackendError("The loader cannot be imported: it went away.", "The dataset stays.")

    monkeypatch.setattr(library, "import_project", fail)
    controller.import_dropped(project)
    dialog = visible_window(ImportDialog)
    find_button(dialog, "Import").click()
    assert find_only(TaskStatus, dialog).message.text() == (
        "The loader cannot be imported: it went away. The dataset stays."
    )
    assert find_button(dialog, "Import").isEnabled()
    assert names(controller)[Kind.DATASET] == ["plankton@1"]
    dialog.reject()


def test_opening_the_page_shows_imports_of_another_desktop(
    library, controller, pages, pictures, tmp_path
):
    other_services = open_services(tmp_path / "root", tmp_path / "other.sqlite")
    other_services.library.import_item(Kind.DATASET, pictures, "pictures")
    other_services.close()
    assert names(controller)[Kind.DATASET] == []
    pages[Kind.DATASET].show()
    assert names(controller)[Kind.DATASET] == ["pictures@1"]


def test_the_gui_thread_reads_items_that_a_worker_wrote(library, controller, pictures, qtbot):
    with qtbot.waitSignal(controller.changed):
        worker = Thread(target=library.import_item, args=(Kind.DATASET, pictures, "pictures"))
        worker.start()
        worker.join()
        assert names(controller)[Kind.DATASET] == [], "only the GUI thread changes what is shown"
    assert names(controller)[Kind.DATASET] == ["pictures@1"]


class DelayedRunner(SynchronousRunner):
    """Stores the tasks of a controller until the test runs them."""

    def __init__(self, library, pages):
        super().__init__()
        self.tasks = []
        self.controller = LibraryController(
            library, GalleryService(library), self, pages, pages[Kind.DATASET]
        )

    def run(self, *task):
        self.tasks.append(task)

    def run_tasks(self, held_queue=""):
        """Run the tasks in order, without those of ``held_queue``."""
        held_tasks = [task for task in self.tasks if task[0] == held_queue]
        while free_tasks := [task for task in self.tasks if task not in held_tasks]:
            self.tasks.remove(free_tasks[0])
            super().run(*free_tasks[0])


@pytest.fixture
def delayed_runner(library, pages):
    return DelayedRunner(library, pages)


@pytest.fixture
def model(library, tmp_path):
    source = tmp_path / "net"
    source.mkdir()
    (source / "bks_model.py").write_text("class UserModel: ...\n")
    return library.import_item(Kind.MODEL, source, "net")


def test_a_requested_check_does_not_disturb_the_copying_of_weights(
    delayed_runner, library, pages, model, tmp_path, monkeypatch
):
    torch.save({"layer.weight": torch.ones(2)}, tmp_path / "best.pt")
    pages[Kind.MODEL].weights_dropped.emit(model.reference, str(tmp_path / "best.pt"))
    monkeypatch.setattr(library, "check_model", _refuse)
    pages[Kind.MODEL].detail.check_requested.emit(Trial(model=model.reference))
    delayed_runner.run_tasks()
    assert delayed_runner.notifications == ["New jobs of net start from these weights"]


def test_weights_do_not_wait_for_a_trial_that_still_runs(delayed_runner, pages, model, tmp_path):
    """A drop opens the model, which tries it in a process that may be slow to end."""
    torch.save({"layer.weight": torch.ones(2)}, tmp_path / "best.pt")
    pages[Kind.MODEL].detail.check_requested.emit(Trial(model=model.reference))
    pages[Kind.MODEL].weights_dropped.emit(model.reference, str(tmp_path / "best.pt"))
    delayed_runner.run_tasks(held_queue="try model")
    assert delayed_runner.notifications == ["New jobs of net start from these weights"]


def _refuse(*_, **__):
    raise BackendError("There is no dataset to try it with.")


def test_a_check_replaced_by_a_newer_one_is_not_reported_as_cancelled(
    delayed_runner, library, pages, monkeypatch
):
    detail = pages[Kind.MODEL].detail
    failed = []
    monkeypatch.setattr(detail, "show_trial_error", lambda *args: failed.append(args))

    def check(model, *_, progress):
        progress.step(0, 1, "Reading")
        raise BackendError(f"{model} has no forward().")

    monkeypatch.setattr(library, "check_model", check)
    detail.check_requested.emit(Trial(model="net@1"))
    detail.check_requested.emit(Trial(model="net@2"))
    delayed_runner.run_tasks()
    assert failed == [("net@2 has no forward().", "")]


def test_a_check_that_the_user_cancels_says_so(delayed_runner, library, pages, monkeypatch):
    detail = pages[Kind.MODEL].detail
    failed = []
    monkeypatch.setattr(detail, "show_trial_error", lambda *args: failed.append(args))
    monkeypatch.setattr(library, "check_model", lambda *_, progress: progress.step(0, 1, "Reading"))
    detail.check_requested.emit(Trial(model="net@1"))
    detail.cancel_requested.emit()
    delayed_runner.run_tasks()
    assert failed == [("Cancelled; nothing was changed.", "")]


def test_a_library_that_cannot_be_read_says_so_and_is_read_again(
    controller, pages, library, monkeypatch
):
    def fail(_kind):
        raise BackendError("The share does not answer.", "Mount it.")

    page = pages[Kind.MODEL]
    with monkeypatch.context() as patch:
        patch.setattr(library, "list", fail)
        controller.refresh()
    assert shows_text(page, "The models cannot be read")
    page.refresh_requested.emit()
    assert shows_text(page, "No models yet")


def test_a_button_removes_files_added_to_a_version(library, controller, pages, tmp_path):
    source = tmp_path / "net"
    source.mkdir()
    (source / "bks_model.py").write_text("class UserModel: ...\n")
    controller.import_dropped(source)
    find_button(visible_window(ImportDialog), "Import").click()
    view = find_only(SourceView, pages[Kind.MODEL].detail)
    pages[Kind.MODEL].show()
    assert find_button(view, "Remove added files").isHidden()
    (library.content(Kind.MODEL, "net") / "cache.pt").write_text("x")
    pages[Kind.MODEL].detail.files_requested.emit("net@1")
    assert not find_button(view, "Remove added files").isHidden()
    assert "cache.pt" in find_button(view, "Remove added files").toolTip()
    find_button(view, "Remove added files").click()
    assert find_only(QListView, view).model().stringList() == ["bks_model.py"]
    assert find_button(view, "Remove added files").isHidden()
    assert library.added_files(Kind.MODEL, "net") == ()


@pytest.mark.parametrize("kind", [Kind.DATASET, Kind.MODEL])
@pytest.mark.parametrize("works", [True, False])
def test_one_button_installs_a_missing_package_and_repeats_the_trial(
    controller, pages, monkeypatch, qtbot, kind, works
):
    detail, calls = pages[kind].detail, []

    def install(name, _progress):
        calls.append(name)
        if not works:
            raise BackendError("Pillow could not be installed: no network.", "Install it with pip.")

    monkeypatch.setattr(library_controller, "install_package", install)
    monkeypatch.setattr(detail, "try_again", lambda: calls.append("again"))
    controller._show_error(kind, ToolError("The loader needs Pillow.", "Long.", package="Pillow"))
    assert "Long." not in visible_texts(find_only(PreviewBanner, detail))
    find_button(find_only(PreviewBanner, detail), "Install Pillow").click()
    assert calls == (["Pillow", "again"] if works else ["Pillow"])
    if not works:
        assert "no network" in find_only(PreviewBanner, detail).accessibleName()
        assert "Install it with pip." in find_only(PreviewBanner, detail).accessibleName()
