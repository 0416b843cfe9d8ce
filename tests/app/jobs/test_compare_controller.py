"""Comparison in the window: the compared jobs, when each is read, and what is exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QFileDialog

from app.jobs.compare_controller import CompareController
from app.jobs.file_export import FileExport
from backend.base.errors import BackendError
from backend.records.jobs.state import JobState
from backend.records.jobs.summary import JobListing, summary_of
from backend.services.jobs.index import JobIndex
from tests.job_views import replace_fields
from tests.widgets.compare.compare_samples import draft, eight_updates, three_updates, update_of
from tests.windows import find_button, shows_text
from widgets.compare.compare_page import ComparePage
from widgets.jobs.list.job_list_model import JobRows


class Service:
    """Returns the samples, and records what it was asked for."""

    def __init__(self, updates):
        self.updates = {update.view.id: update for update in updates}
        self.polls = []
        self.tables = []

    def poll(self, job_id, cursor=None):
        self.polls.append((job_id, cursor))
        if job_id not in self.updates:
            raise BackendError(f"There is no job “{job_id}”.", "Try again.")
        return replace(self.updates[job_id], cursor=f"after {job_id}")

    def find(self, query, on_result):
        """As the index of jobs answers."""
        index = JobIndex()
        index.update([summary_of(update.view) for update in self.updates.values()])
        result = index.find(query)
        on_result(JobRows(result.summaries, result.order, index.slot, result.total_count))

    def views(self, job_ids):
        return tuple(self.updates[job_id].view for job_id in job_ids)

    def write_csv(self, job_ids, path, *, overwrite):
        self.tables.append((job_ids, path, overwrite))
        return path


@pytest.fixture
def service():
    return Service((*eight_updates(), draft()))


@pytest.fixture
def page(qtbot):
    page = ComparePage()
    qtbot.addWidget(page)
    page.show()
    yield page
    page.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def controller(service, page, immediately):
    file_export = FileExport(service, immediately, page)
    controller = CompareController(service, immediately, page, file_export, service.find)
    controller.notifications = immediately.notifications
    return controller


def test_a_request_to_compare_shows_only_the_chosen_jobs(controller, page, service, qtbot):
    with qtbot.waitSignal(controller.page_requested):
        controller.compare(("id0", "id1"))
    assert page.ids == ("id0", "id1")
    controller.compare(("id1", "id2"))
    assert page.ids == ("id1", "id2")
    assert page.colour("id1") == 1
    assert service.polls == [("id0", None), ("id1", None), ("id2", None)]


def test_a_single_job_joins_the_compared_jobs(controller, page):
    controller.compare(("id0", "id1"))
    controller.compare(("id2",))
    controller.compare(("id2",))
    assert page.ids == ("id0", "id1", "id2")


def test_a_message_names_the_limit_of_eight_jobs(controller, page):
    ids = tuple(f"id{n}" for n in range(8))
    controller.compare((*ids, "id9"))
    assert page.ids == ids
    page.add_requested.emit("id9")
    assert page.ids == ids
    assert controller.notifications == [
        "At most 8 jobs can be compared: the first 8 are shown",
        "At most 8 jobs can be compared: remove one first",
    ]


def test_only_live_jobs_are_read_again_and_from_the_last_cursor(controller, service):
    controller.compare(("id0", "id1"))
    service.polls.clear()
    controller.refresh()
    assert service.polls == [("id0", "after id0")]


def test_a_hidden_page_reads_nothing(controller, page, service):
    controller.compare(("id0", "id1"))
    service.polls.clear()
    page.hide()
    controller.refresh()
    assert service.polls == []


def test_a_job_resumed_elsewhere_is_read_again(controller, service):
    views = tuple(u.view for u in eight_updates())
    controller.compare(("id0", "id1"))
    service.polls.clear()
    controller.see_listing(JobListing(views))
    assert service.polls == []
    resumed = replace_fields(views[1], state=JobState.TRAINING, run=2)
    service.updates["id1"] = update_of(resumed, 4601, 10)
    controller.see_listing(JobListing((resumed,)))
    assert service.polls == [("id1", "after id1")]


def test_the_page_keeps_a_job_that_went_to_the_trash_and_says_so(controller, page):
    controller.compare(("id0", "id1"))
    controller.see_listing(JobListing(removed_ids=("id1", "id2")))
    assert shows_text(page, "is no longer in the list of jobs")
    assert page.ids == ("id0", "id1")


def test_a_job_of_a_sweep_shows_the_whole_sweep_and_its_changes(controller, page, service):
    for key in ("id0", "id1", "id2"):
        update = service.updates[key]
        service.updates[key] = replace(
            update, view=replace(update.view, tags=("sweep:digits-k3pf",))
        )
    controller.compare(("id0",))
    card = page.parallel
    assert {line.job_id for line in card.coordinates.lines} == {"id0", "id1", "id2"}
    renamed = replace(service.updates["id2"].view, name="another name")
    controller.see_listing(JobListing(views=(renamed,), removed_ids=("id1",)))
    names = {line.job_id: line.name for line in card.coordinates.lines}
    assert names.keys() == {"id0", "id2"}
    assert names["id2"] == "another name"
    controller.remove("id0")
    assert not card.isVisible()


def test_a_missing_job_is_reported_and_not_compared(controller, page):
    controller.compare(("id0", "gone"))
    assert page.ids == ("id0",)
    assert controller.notifications == ["There is no job “gone”. Try again."]


def test_a_late_update_is_not_shown(service, page, monkeypatch):
    tasks, shown_ids = [], []
    monkeypatch.setattr(page, "show_update", lambda update: shown_ids.append(update.view.id))
    runner = SimpleNamespace(
        run=lambda queue_name, work, on_success, on_error: tasks.append((work, on_success))
    )
    controller = CompareController(
        service, runner, page, FileExport(service, runner, page), service.find
    )
    controller.compare(("id0", "id1"))
    controller.remove("id0")
    controller.add("id0")
    assert len(tasks) == 3
    for work, on_success in tasks:
        on_success(work())
    assert shown_ids == ["id1", "id0"]


def test_s4_the_button_writes_one_table_of_all_compared_jobs(
    controller, page, service, monkeypatch, tmp_path, qtbot
):
    dialogs = []

    def choose(_parent, _title, suggested, kinds):
        dialogs.append((suggested, kinds))
        return str(tmp_path / "all.csv"), kinds

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    controller.compare(("id0", "id1"))
    find_button(page, "CSV").click()
    assert dialogs == [("curves.csv", "Table (*.csv)")]
    # The dialog has asked whether the file is to be replaced.
    assert service.tables == [(("id0", "id1"), tmp_path / "all.csv", True)]
    assert controller.notifications[-1] == "Saved all.csv"


def test_a_plot_is_saved_where_the_user_chooses(controller, page, monkeypatch, tmp_path):
    targets = iter([tmp_path / "plot.pdf", tmp_path / "nowhere" / "plot.svg", Path()])
    monkeypatch.setattr(
        QFileDialog,
        "getSaveFileName",
        lambda *_: ((str(target) if (target := next(targets)).name else ""), ""),
    )
    controller.compare(tuple(u.view.id for u in three_updates()))
    menu = page.plots.panels()["loss"].parentWidget().pictures.menu()
    for action in reversed(menu.actions()):
        action.trigger()
    assert (tmp_path / "plot.pdf").read_bytes()[:5] == b"%PDF-"
    assert "Saved plot.pdf" in controller.notifications
    assert "cannot be written" in controller.notifications[-1]
    assert len(list(tmp_path.iterdir())) == 1
