"""Bundles in the window: written from a job's menu, dropped on another desktop, replayed."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt

from app.jobs.bundle_controller import BundleController
from app.jobs.form_controller import FormController
from backend.datastore.bundles.imported_job import mark_replay
from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from backend.services.context.container import open_services
from tests.asks import expect_request, open_menu_entries
from tests.backend.services.bundles.test_bundle_service import finished_job
from tests.programs import open_program
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import find_button, find_only, finish_timers, setting_field
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.common.dialog import TaskStatus
from widgets.common.fields import ComboBox, LineEdit
from widgets.jobs.actions import job_actions
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.warning import ReplayComparison
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.bundle_dialog import BundleDialog, UnbundleDialog
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.placement.placement_picker import PlacementPicker


@pytest.fixture
def origin(tmp_path):
    """A desktop that holds a finished job."""
    services = open_services(tmp_path / "first", tmp_path / "first.sqlite")
    yield services, finished_job(services, tmp_path / "sources")
    services.close()


@pytest.fixture
def page(qtbot, origin):
    services, job_id = origin
    page = JobsPage()
    qtbot.addWidget(page)
    page.show()
    show_jobs(page, services.jobs.queries.list())
    page.open_job(job_id)
    return page


@pytest.fixture
def controller(origin, page, immediately, qtbot):
    return BundleController(origin[0], immediately, page, page)


def press(detail: JobDetail, text: str) -> None:
    action = open_menu_entries(detail.header.menu_button)[text]
    assert action.isEnabled()
    action.trigger()


def test_a_bundle_is_written_from_the_menu_of_a_job(controller, page, qtbot, tmp_path):
    press(page.detail, "Bundle…")
    dialog = controller.dialog
    assert isinstance(dialog, BundleDialog)
    assert find_only(ComboBox, dialog).key() == "epoch-0001-step-000004"
    assert Path(find_only(LineEdit, dialog).text()).name == "Täglich-1.ringmaster"
    target = tmp_path / "mine.ringmaster"
    find_only(LineEdit, dialog).setText(str(target))
    qtbot.mouseClick(find_button(dialog, "Bundle"), Qt.MouseButton.LeftButton)
    assert target.is_file()
    assert str(target) in find_only(TaskStatus, dialog).message.text()
    assert "TOKEN" in find_only(TaskStatus, dialog).message.text()
    original_bytes = target.read_bytes()
    find_button(dialog, "Include the dataset's files").setChecked(True)
    qtbot.mouseClick(find_button(dialog, "Bundle"), Qt.MouseButton.LeftButton)
    assert "exists already" in find_only(TaskStatus, dialog).message.text()
    assert target.read_bytes() == original_bytes
    dialog.reject()
    assert controller.dialog is None


def test_a_file_confirmed_in_the_save_dialog_is_overwritten(
    controller, page, qtbot, tmp_path, monkeypatch
):
    press(page.detail, "Bundle…")
    dialog = controller.dialog
    target = tmp_path / "mine.ringmaster"
    target.write_text("an older one")
    monkeypatch.setattr(
        "widgets.jobs.page.bundle_dialog.QFileDialog.getSaveFileName",
        lambda *_: (str(target), ""),
    )
    dialog._choose_path()
    qtbot.mouseClick(find_button(dialog, "Bundle"), Qt.MouseButton.LeftButton)
    assert target.read_bytes().startswith(b"PK")
    dialog.reject()


def test_a_changed_bundle_is_refused_in_the_window(controller, origin, tmp_path, page):
    services, job_id = origin
    bundle = tmp_path / "x.ringmaster"
    services.bundles.bundle(job_id, bundle)
    content = bytearray(bundle.read_bytes())
    content[content.index(b"class UserModel")] ^= 1
    bundle.write_bytes(content)
    created_views = []
    controller.job_created.connect(created_views.append)
    controller.unbundle(bundle)
    dialog = controller.dialog
    assert isinstance(dialog, UnbundleDialog)
    assert "“model/bks_model.py” was changed" in find_only(TaskStatus, dialog).message.text()
    assert created_views == []
    assert len(services.jobs.queries.list()) == 1
    dialog.reject()


def test_the_page_of_a_finished_replay_shows_its_result(controller, origin, page, tmp_path, qtbot):
    services, job_id = origin
    controller.compare_replay(services.jobs.queries.poll(job_id))
    assert page.detail._replay_result == ReplayComparison(), "the original is not a replay"
    bundle = tmp_path / "x.ringmaster"
    services.bundles.bundle(job_id, bundle)
    replay_view = services.bundles.unbundle(bundle).view
    mark_replay(services.data_root.job(replay_view.id), job_id)
    page.show_view(replay_view)
    page.open_job(replay_view.id)
    controller.compare_replay(services.jobs.queries.poll(replay_view.id))
    banner = find_only(Banner, page.detail)
    assert banner.isVisible()
    result_text = "The same curve. All 4 steps that this job and "
    assert banner.accessibleName().startswith(result_text)
    page.open_job(job_id)
    controller.compare_replay(services.jobs.queries.poll(job_id))
    assert not banner.isVisible()
    page.open_job(replay_view.id)
    controller.compare_replay(services.jobs.queries.poll(replay_view.id))
    assert banner.accessibleName().startswith(result_text), "it is said each time the job is opened"
    with expect_request(page.job_actions, job_actions.COMPARE_ALL) as compared:
        banner.findChild(Button).click()
    assert compared.args == [(job_id, replay_view.id)]


def test_a_replay_opens_a_form_with_a_choice_of_nodes_and_is_known_as_one(
    origin, page, qtbot, immediately
):
    services, job_id = origin
    form, started_requests = JobForm(), []
    qtbot.addWidget(form)
    start_controller = SimpleNamespace(start=started_requests.append)
    controller = FormController(services, immediately, start_controller, page, form, page)
    controller.replay(job_id, lambda error: pytest.fail(str(error)))
    draft = form.draft()
    assert draft.raw["name"] == "Täglich/1 (replay)"
    assert draft.origin.replayed_id == job_id
    finish_timers(form)
    assert find_only(Banner, form).accessibleName().startswith("Replay of “Täglich/1”.")
    # Other nodes, or more processes on the same, are still the replay; other settings are none.
    find_only(PlacementPicker, form).put([{"node": "this-computer", "processes": 2}])
    assert form.draft().origin.replayed_id == job_id
    setting_field(form, "epochs").control.setText("9")
    assert form.draft().origin.replayed_id == ""
    form.show_draft(draft)
    form.save_requested.emit(form.draft())
    (replay,) = [v for v in services.jobs.queries.list() if v.id != job_id]
    assert services.replays.original_id(replay.id) == job_id
    assert replay.state is JobState.CREATED


def test_a_bundle_dropped_on_the_window_becomes_a_job(qtbot, qapp, origin, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    services, job_id = origin
    bundle = tmp_path / "täglich.ringmaster"
    services.bundles.bundle(job_id, bundle)
    paths = tmp_path / "second", tmp_path / "second.sqlite"
    with open_program(qapp, qtbot, *paths) as program:
        controller = program._job_controllers.bundles

        program.window.dropped.emit(str(bundle))
        qtbot.waitUntil(lambda: program.jobs.open_id != "")
        dialog = controller.dialog
        # The dataset did not come along: that is said, and how to get it.
        qtbot.waitUntil(
            lambda: (
                "is neither in this data root nor" in find_only(TaskStatus, dialog).message.text()
            )
        )
        view = program.jobs.open_view
        assert (view.status.state, view.name) == (JobState.FINISHED, "Täglich/1")
        qtbot.waitUntil(lambda: program.jobs.detail.curves.curve("loss") is not None)
        qtbot.waitUntil(lambda: len(program._library_controller.items(Kind.MODEL)) == 1)
        dialog.reject()
        banner = find_only(Banner, program.jobs.detail)
        assert f"Imported from a bundle of the job {job_id}" in banner.accessibleName()
        assert banner.isVisible()
        press(program.jobs.detail, "Bundle…")
        qtbot.waitUntil(lambda: controller.dialog is not None)
        controller.dialog.reject()
