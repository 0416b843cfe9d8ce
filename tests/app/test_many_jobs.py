"""The wide table's wishes become acts: each job for itself, and one sentence in the end."""

from types import SimpleNamespace

import pytest

from app.many_jobs import ManyJobs
from backend.datastore import job_files
from backend.records.state import JobState
from backend.services.workplace import open_services
from tests.backend.catalogue.catalogue_rig import CONFIG
from tests.widgets.jobs.jobs_rig import show_jobs
from widgets.jobs.jobs_page import JobsPage


@pytest.fixture
def services(tmp_path):
    (tmp_path / "root").mkdir()
    services = open_services(tmp_path / "root", tmp_path / "c.sqlite")
    yield services
    services.close()


@pytest.fixture
def ids(services):
    made = (job_files.create_job(services.data_root, CONFIG, {}).id for _ in range(3))
    return tuple(sorted(made))


@pytest.fixture
def page(qtbot, services, ids):
    page = JobsPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    show_jobs(page, services.jobs.list())
    page.show_table()
    return page


@pytest.fixture
def acts(services, page, immediately):
    stopped = []
    jobs = SimpleNamespace(stop=stopped.append, clone=lambda job_id: None)
    many = ManyJobs(services, immediately, page, jobs, page, page)
    many.sentences = []
    many.stopped = stopped
    many.told.connect(many.sentences.append)
    return many


def test_a_changed_cell_is_written_and_shown(acts, page, services, ids):
    page.table.model.edited.emit(ids[0], "name", "digits", "better")
    assert services.jobs.show(ids[0]).name == "better"
    assert page.table.model.line(ids[0]).name == "better"
    assert page.model.line(ids[0]).name == "better"


def test_what_another_desktop_wrote_meanwhile_stays_is_said_and_is_shown(acts, page, services, ids):
    services.jobs.annotate(ids[0], name="theirs")
    page.table.model.edited.emit(ids[0], "name", "digits", "mine")
    assert acts.sentences == [
        "Somebody changed the name meanwhile; it is “theirs” now and left so. "
        "Change it again if that is still wanted."
    ]
    assert page.table.model.line(ids[0]).name == "theirs"


def test_several_are_tagged_and_their_other_tags_stay(acts, page, services, ids):
    services.jobs.annotate(ids[0], tags=("kept", "old"))
    show_jobs(page, services.jobs.list())
    page.many.tag_requested.emit(ids[:2])
    dialog = acts._dialog.now
    assert not dialog._save.isEnabled()
    dialog._add.setText("a, b")
    dialog._remove.setText("old")
    dialog._save.click()
    assert [services.jobs.show(job_id).tags for job_id in ids] == [
        ("kept", "a", "b"),
        ("a", "b"),
        (),
    ]
    assert acts.sentences == ["Tagged 2 jobs."]
    assert page.table.model.line(ids[1]).tags == ("a", "b")


def test_the_trash_asks_with_bytes_and_what_cannot_go_is_said(acts, page, services, ids):
    (services.data_root.job(ids[0]).logs / "rank-0.log").write_bytes(b"x" * 5_000_000)
    page.many.trash_requested.emit(ids[:2])
    dialog = acts._dialog.now
    assert dialog._size.text().startswith("5.0\u00a0MB with logs, curves and checkpoints.")
    # Somebody else was faster with one of them.
    services.jobs.remove(ids[1])
    dialog._go.click()
    assert {view.id for view in services.jobs.list()} == {ids[2]}
    assert page.total == 2, "what went with the other desktop, the next listing takes away"
    (sentence,) = acts.sentences
    assert sentence.startswith("Moved to the trash: 1 of 2 jobs. digits: There is no job")


def test_nobody_who_says_no_loses_anything(acts, page, services, ids):
    page.many.trash_requested.emit(ids)
    acts._dialog.now.reject()
    assert len(services.jobs.list()) == 3
    assert acts._dialog.now is None


def test_stop_reaches_those_that_run_and_no_others(acts, page, ids):
    lines = page.table.model._rows.lines
    slot = page.table.model._rows.slot_of(ids[1])
    lines[slot] = lines[slot]._replace(state=JobState.TRAINING)
    page.many.stop_requested.emit(ids)
    assert acts.stopped == [ids[1]]
    assert acts.sentences == ["Stopping 1 job; each saves first"]


def test_an_export_says_of_which_job_there_is_nothing_to_export(acts, ids, tmp_path):
    acts.export(ids, tmp_path)
    (sentence,) = acts.sentences
    assert sentence.startswith("Exported 0 of 3 jobs. digits: The job")
    assert "has no checkpoint" in sentence
