"""Requests of the wide table become actions: one for each job, and one sentence at the end."""

import hashlib
import zipfile
from types import SimpleNamespace

import pytest
import torch

from app.jobs.bulk_controller import BulkController
from backend.datastore.jobs import files as job_files
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from backend.records.library.item import Kind
from tests.backend.catalogue.catalogue_rig import CONFIG
from tests.integration.tiny import raw_job, write_sources
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.windows import find_button, find_line, visible_window
from widgets.common.dialog import Question
from widgets.jobs.actions import job_actions
from widgets.jobs.list.job_list_model import CellEdit
from widgets.jobs.page.jobs_page import JobsPage


@pytest.fixture
def ids(services):
    job_ids = (job_files.create_job(services.data_root, CONFIG, {}).id for _ in range(3))
    return tuple(sorted(job_ids))


@pytest.fixture
def page(qtbot, services, ids):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    show_jobs(page, services.jobs.queries.list())
    page.show_table()
    return page


@pytest.fixture
def controller(services, page, immediately):
    stop_calls, cloned_ids = [], []
    jobs = SimpleNamespace(
        stop_for=lambda job_id, reason: stop_calls.append(f"{job_id} {reason}".strip()),
        clone=cloned_ids.append,
    )
    controller = BulkController(services, immediately, page, jobs, page)
    controller.stop_calls, controller.cloned_ids = stop_calls, cloned_ids
    controller.messages = immediately.notifications
    return controller


def test_a_changed_cell_is_written_and_shown(controller, page, services, ids):
    page.table.model.edited.emit(CellEdit(ids[0], "name", "digits", "better"))
    assert services.jobs.queries.show(ids[0]).name == "better"
    assert page.table.model.summary(ids[0]).name == "better"
    assert page.model.summary(ids[0]).name == "better"


def test_the_page_keeps_and_reports_a_newer_value_of_another_desktop(
    controller, page, services, ids
):
    services.jobs.annotate(ids[0], name="theirs")
    page.table.model.edited.emit(CellEdit(ids[0], "name", "digits", "mine"))
    assert controller.messages == [
        "The name is now “theirs”, changed by someone else; yours was not saved. "
        "Change it again if you still want to."
    ]
    assert page.table.model.summary(ids[0]).name == "theirs"


def test_tagging_several_jobs_keeps_their_other_tags(controller, page, services, ids):
    services.jobs.annotate(ids[0], tags=("kept", "old"))
    show_jobs(page, services.jobs.queries.list())
    page.job_actions.ask(job_actions.TAG_ALL, ids[:2])
    dialog = visible_window(Question)
    assert not find_button(dialog, "Tag").isEnabled()
    find_line(dialog, "Tags to add").setText("a, b")
    find_line(dialog, "Tags to remove").setText("old")
    find_button(dialog, "Tag").click()
    assert [services.jobs.queries.show(job_id).tags for job_id in ids] == [
        ("kept", "a", "b"),
        ("a", "b"),
        (),
    ]
    assert controller.messages == ["Tagged 2 jobs."]
    assert page.table.model.summary(ids[1]).tags == ("a", "b")


def test_stop_ends_only_running_jobs(controller, page, ids):
    lines = page.table.model._rows.summaries
    slot = page.table.model._rows.slot_of(ids[1])
    lines[slot] = lines[slot]._replace(state=JobState.TRAINING)
    page.job_actions.ask(job_actions.STOP_ALL, ids)
    assert controller.stop_calls == [ids[1]]
    assert controller.messages == ["Stopping 1 job; each saves a checkpoint first."]


def test_stop_empties_the_queue_before_a_running_job_ends(controller, page, ids, monkeypatch):
    lines = page.table.model._rows.summaries
    states = (JobState.TRAINING, JobState.QUEUED, JobState.QUEUED)
    for job_id, state in zip(ids, states, strict=True):
        slot = page.table.model._rows.slot_of(job_id)
        lines[slot] = lines[slot]._replace(state=state)

    def dequeue(job_id, reason=""):
        controller.stop_calls.append(("left", job_id))
        return controller._jobs.queries.show(job_id)

    monkeypatch.setattr(controller._queue, "dequeue", dequeue)
    page.job_actions.ask(job_actions.STOP_ALL, ids)
    assert controller.stop_calls == [("left", ids[1]), ("left", ids[2]), ids[0]]
    assert controller.messages == [
        "Removed 2 jobs from the queue. Stopping 1 job; each saves a checkpoint first."
    ]


def test_an_export_names_the_job_that_has_nothing_to_export(controller, ids, tmp_path):
    controller.export(ids, tmp_path)
    (message,) = controller.messages
    assert message.startswith("Exported 0 of 3 jobs. digits: The job")
    assert "has no checkpoint" in message


@pytest.fixture
def real_ids(services, tmp_path):
    """Two jobs of a library that is there, the first with a checkpoint."""
    sources = write_sources(tmp_path / "sources")
    for kind, source in zip((Kind.MODEL, Kind.LOADER, Kind.DATASET), sources, strict=True):
        services.library.import_item(kind, source, "tiny")
    job_ids = [services.jobs.create(raw_job(name=name)).id for name in ("with it", "without")]
    weights_file = services.data_root.job(job_ids[0]).checkpoints / "epoch-0001-step-000004.pt"
    weights = {"layer.weight": torch.ones(2, 4), "layer.bias": torch.zeros(2)}
    torch.save({"model": weights, "optimizer": {}, "step": 4}, weights_file)
    content = weights_file.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    made_at = "2026-11-21T07:30:00Z"
    record = Checkpoint(weights_file.stem, 1, 1, 4, 4, len(content), sha256, "c" * 64, made_at, {})
    replace_json(weights_file.with_suffix(".json"), record.to_dict())
    return tuple(job_ids)


@pytest.fixture
def real_page(page, services, real_ids):
    show_jobs(page, services.jobs.queries.list())
    return page


def test_each_of_several_jobs_is_exported_to_its_own_file(
    controller, real_page, real_ids, tmp_path
):
    (tmp_path / "out").mkdir()
    controller.export(real_ids, tmp_path / "out")
    (message,) = controller.messages
    assert message.startswith("Exported 1 of 2 jobs. without: The job")
    (archive_file,) = (tmp_path / "out").iterdir()
    assert archive_file.name == f"with it {real_ids[0]}.zip"
    with zipfile.ZipFile(archive_file) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    assert {"job.toml", "bks_model.py"} <= names
    original_bytes = archive_file.read_bytes()
    controller.export(real_ids[:1], tmp_path / "out")
    assert controller.messages[1].startswith("Exported 0 of 1 job. with it: ")
    assert archive_file.read_bytes() == original_bytes, "what is there is not written over"


def test_cloning_several_jobs_makes_drafts_and_selects_them(
    controller, real_page, services, real_ids, ids
):
    real_page.job_actions.ask(job_actions.CLONE_ALL, real_ids)
    cloned_views = {
        view.id: view for view in services.jobs.queries.list() if view.id not in (*ids, *real_ids)
    }
    assert sorted(view.name for view in cloned_views.values()) == [
        "with it (copy)",
        "without (copy)",
    ]
    assert {view.state for view in cloned_views.values()} == {JobState.CREATED}
    assert controller.messages == ["Cloned 2 jobs. The drafts are selected."]
    assert set(real_page.table.view.selected_ids()) == set(cloned_views)
    assert controller.cloned_ids == [], "the form holds one"


def test_the_list_ticks_the_drafts_of_cloned_jobs(controller, real_page, services, real_ids, ids):
    real_page.show_list()
    real_page.job_actions.ask(job_actions.CLONE_ALL, real_ids)
    cloned_views = {view.id for view in services.jobs.queries.list()} - {*ids, *real_ids}
    assert set(real_page.model.ticked_ids()) == cloned_views
    assert real_page.list.selection_bar.isVisible()


def test_the_page_says_why_a_job_cannot_be_cloned(controller, real_page, real_ids, ids):
    # Of the others there is no model.
    real_page.job_actions.ask(job_actions.CLONE_ALL, (ids[0], real_ids[0]))
    (message,) = controller.messages
    assert message.startswith("Cloned 1 of 2 jobs. The drafts are selected. digits: ")
    assert len(real_page.table.view.selected_ids()) == 1


def test_a_single_job_is_cloned_in_the_form(controller, real_page, real_ids):
    real_page.job_actions.ask(job_actions.CLONE_ALL, real_ids[:1])
    assert controller.cloned_ids == [real_ids[0]]
    assert controller.messages == []
