"""Jobs go to the trash with their size shown, and come back whole when the user restores them."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.jobs.trash_controller import TrashController
from backend.datastore.jobs import files as job_files
from tests.asks import open_menu_entries
from tests.backend.catalogue.catalogue_rig import CONFIG
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import (
    find_button,
    find_only,
    show_widget,
    shows_text,
    visible_texts,
    visible_window,
    visible_windows,
)
from widgets.common.buttons import Button
from widgets.common.dialog import Question
from widgets.common.fields import LineEdit
from widgets.common.labels import Label
from widgets.common.toast import Toast
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_questions import TrashQuestion
from widgets.jobs.page.jobs_page import JobsPage


@pytest.fixture
def ids(services):
    job_ids = (job_files.create_job(services.data_root, CONFIG, {}).id for _ in range(3))
    return tuple(sorted(job_ids))


@pytest.fixture
def page(qtbot, services, ids):
    page = show_widget(qtbot, JobsPage(), 1200, 800)
    show_jobs(page, services.jobs.queries.list())
    return page


@pytest.fixture
def toast(qtbot):
    parent = show_widget(qtbot, QWidget(), 900, 600)
    return Toast(parent)


@pytest.fixture
def trash(services, page, immediately, toast):
    """Wired to the toast as the window wires it."""
    immediately.notify = toast.show_message
    trash = TrashController(services, immediately, page, page)
    trash.undoable.connect(lambda text, tag: toast.show_message(text, undo_tag=tag))
    toast.undone.connect(trash.undo)
    return trash


def content(folder):
    """All its files but those that say who removed it and restored it."""
    files = (
        path for path in folder.path.rglob("*") if path.is_file() and path.parent.name != "acts"
    )
    return {path.relative_to(folder.path): path.read_bytes() for path in files}


def fill(services, job_id):
    (services.data_root.job(job_id).logs / "rank-0.log").write_bytes(b"x" * 5_000_000)


def move_from_header(page, job_id):
    page.open_job(job_id)
    open_menu_entries(page.detail.header.menu_button)["Move to the trash"].trigger()


def test_the_header_moves_a_job_to_the_trash_and_undo_restores_it_whole(
    qtbot, services, page, ids, trash, toast
):
    fill(services, ids[0])
    folder = services.data_root.job(ids[0])
    original_content = content(folder)
    move_from_header(page, ids[0])
    assert find_only(Label, toast).text() == "Moved 1 job to the trash, 5.0\u00a0MB."
    assert not folder.path.exists()
    assert page.model.row_of(ids[0]) < 0
    qtbot.mouseClick(find_button(toast, "Undo"), Qt.MouseButton.LeftButton)
    assert content(folder) == original_content
    assert page.model.row_of(ids[0]) >= 0
    assert page.open_id == ids[0]
    assert find_only(Label, toast).text() == "Moved 1 job out of the trash."
    assert not find_only(Button, toast).isVisible()


def test_the_dialog_shows_the_size_of_several_jobs_and_one_undo_restores_them(
    qtbot, services, page, ids, trash, toast
):
    fill(services, ids[0])
    page.job_actions.ask(job_actions.TRASH_ALL, ids[:2])
    dialog = visible_window(TrashQuestion)
    assert shows_text(dialog, "5.0\u00a0MB with logs, curves and checkpoints.")
    find_button(dialog, "Move to trash").click()
    assert {view.id for view in services.jobs.queries.list()} == {ids[2]}
    assert find_only(Label, toast).text() == "Moved 2 jobs to the trash, 5.0\u00a0MB."
    qtbot.mouseClick(find_button(toast, "Undo"), Qt.MouseButton.LeftButton)
    assert {view.id for view in services.jobs.queries.list()} == set(ids)
    assert all(page.model.row_of(job_id) >= 0 for job_id in ids)


def test_the_message_names_failed_removals_and_undo_restores_the_moved_jobs(
    qtbot, services, page, ids, trash, toast
):
    page.job_actions.ask(job_actions.TRASH_ALL, ids[:2])
    # Another user was faster with one of them.
    services.jobs.remove(ids[1])
    find_button(visible_window(TrashQuestion), "Move to trash").click()
    assert {view.id for view in services.jobs.queries.list()} == {ids[2]}
    assert page.job_count == 2, "what went with the other desktop, the next listing takes away"
    text = find_only(Label, toast).text()
    assert text.startswith("Moved 1 of 2 jobs to the trash, 7")
    assert "digits: There is no job" in text
    qtbot.mouseClick(find_button(toast, "Undo"), Qt.MouseButton.LeftButton)
    assert {view.id for view in services.jobs.queries.list()} == {ids[0], ids[2]}, (
        "theirs stays away"
    )


def test_a_failed_removal_offers_no_undo(services, page, ids, trash, toast):
    page.job_actions.ask(job_actions.TRASH_ALL, ids[:1])
    services.jobs.remove(ids[0])
    find_button(visible_window(TrashQuestion), "Move to trash").click()
    assert (
        find_only(Label, toast)
        .text()
        .startswith("Moved 0 of 1 job to the trash. digits: There is no job")
    )
    assert not find_only(Button, toast).isVisible()


def test_a_rejected_dialog_moves_no_job_to_the_trash(services, page, ids, trash):
    page.job_actions.ask(job_actions.TRASH_ALL, ids)
    visible_window(TrashQuestion).reject()
    assert len(services.jobs.queries.list()) == 3
    assert not visible_windows(TrashQuestion)


def test_jobs_of_another_user_go_with_a_reason_after_the_size_was_shown(
    qtbot, services, page, ids, trash, toast, monkeypatch
):
    owner = services.jobs.queries.show(ids[0]).user
    monkeypatch.setenv("LOGNAME", "ben")
    page.job_actions.ask(job_actions.TRASH_ALL, ids[:2])
    button = find_button(visible_window(TrashQuestion), "Move to trash")
    qtbot.waitUntil(button.isEnabled)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    question = visible_window(Question)
    assert f"Remove 2 jobs of {owner}?" in visible_texts(question)
    assert all(services.data_root.job(job_id).path.exists() for job_id in ids)
    find_only(LineEdit, question).setText("the disk is full")
    qtbot.mouseClick(find_button(question, "Remove"), Qt.MouseButton.LeftButton)
    assert not any(services.data_root.job(job_id).path.exists() for job_id in ids[:2])
    monkeypatch.setenv("LOGNAME", owner)
    notices = services.notifications.take_notices()
    assert [n.message.partition(" (")[0] for n in notices] == [
        "Moved to the trash: the disk is full"
    ] * 2
