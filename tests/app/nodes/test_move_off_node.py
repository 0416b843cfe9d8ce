"""A job leaves a node: it is stopped, and then the user is asked where it resumes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject, Signal

from app.jobs.job_controller import JobController
from backend.base.errors import BackendError
from backend.records.jobs.placement import parse_placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCommand
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import LIVE, checkpoint
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.nodes import samples
from tests.windows import find_button, find_only, visible_window, visible_windows
from widgets.common.banner import Banner
from widgets.jobs.actions.job_questions import MoveQuestion
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.placement.placement_picker import PlacementPicker

NODES = tuple(samples.state(name) for name in ("gpu01", "gpu07", "gpu09"))
EIGHT = [f"GPU-{n}" for n in range(8)]
PLACEMENT, _ = parse_placement([{"node": "gpu01", "gpus": EIGHT}, {"node": "gpu07", "gpus": EIGHT}])
RUNS = replace(LIVE, config=replace(LIVE.config, placement=tuple(PLACEMENT)))


class Poller(QObject):
    updated = Signal(object)
    jobs_listed = Signal(object)

    def open_job(self, _job_id):
        pass

    def take_change(self, _view):
        pass


class Jobs:
    """The job service and both its parts."""

    def __init__(self):
        self.queries = self.lifecycle = self
        self.stopped, self.resumed = [], []
        self.saved_checkpoints = (checkpoint(30),)
        self.refusal = None

    def stop(self, job_id, reason=""):
        if self.refusal is not None:
            raise self.refusal
        self.stopped.append(job_id)
        return replace_fields(RUNS, state=JobState.STOPPING)

    def show(self, _job_id):
        return RUNS

    def resume(self, job_id, checkpoint="", placement=(), progress=None):
        self.resumed.append((job_id, [p.node for p in placement]))
        return RUNS

    def checkpoints(self, _job_id):
        return self.saved_checkpoints

    def audit_entries(self, _job_id):
        return ()

    def command(self, _job_id):
        return JobCommand()


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def poller():
    return Poller()


@pytest.fixture
def page(qtbot):
    page = JobsPage()
    qtbot.addWidget(page)
    show_jobs(page, (RUNS,))
    return page


@pytest.fixture
def controller(qtbot, jobs, poller, page, immediately):
    form = JobForm()
    qtbot.addWidget(form)
    services = SimpleNamespace(jobs=jobs, sweeps=None, templates=None, packages=None)
    controller = JobController(services, immediately, poller, page, form, page)
    controller.show_nodes(NODES)
    return controller


def report_end(poller, state=JobState.INTERRUPTED):
    poller.jobs_listed.emit((replace_fields(RUNS, state=state),))


def test_a_job_is_stopped_and_when_it_is_over_asked_for_other_nodes(
    controller, jobs, poller, page, qtbot
):
    with qtbot.waitSignal(controller.jobs_requested):
        controller.move_off(RUNS.id, "gpu07")
    assert (jobs.stopped, page.open_id) == ([RUNS.id], RUNS.id)
    poller.jobs_listed.emit((replace_fields(RUNS, state=JobState.STOPPING),))
    assert not visible_windows(MoveQuestion), "its checkpoint is still being written"
    report_end(poller)
    dialog = visible_window(MoveQuestion)
    qtbot.addWidget(dialog)
    assert [p["node"] for p in find_only(PlacementPicker, dialog).value()] == ["gpu01"]
    find_button(find_only(PlacementPicker, dialog), "Select 16 for me").click()
    find_button(dialog, "Resume on 16 processes").click()
    assert jobs.resumed == [(RUNS.id, ["gpu01", "gpu09"])]
    report_end(poller)
    assert not visible_windows(MoveQuestion), "it is asked once"


def test_a_job_that_finished_meanwhile_has_nowhere_to_go(controller, poller, immediately):
    controller.move_off(RUNS.id, "gpu07")
    report_end(poller, JobState.FINISHED)
    assert immediately.notifications == [f"{RUNS.name} has finished, so it was not moved."]
    assert not visible_windows(MoveQuestion)


def test_without_a_checkpoint_nothing_is_asked_that_cannot_be(controller, jobs, poller, page):
    jobs.saved_checkpoints = ()
    controller.move_off(RUNS.id, "gpu07")
    report_end(poller)
    assert not visible_windows(MoveQuestion)
    assert "has no checkpoint to resume from" in find_only(Banner, page.detail).accessibleName()


def test_another_request_meanwhile_cancels_the_dialog_for_the_new_place(
    controller, jobs, poller, page
):
    controller.move_off(RUNS.id, "gpu07")
    controller.resume(RUNS.id)
    report_end(poller)
    assert not visible_windows(MoveQuestion)


def test_a_refused_stop_moves_nothing(controller, jobs, poller, page):
    jobs.refusal = BackendError("The data root does not answer.")
    controller.move_off(RUNS.id, "gpu07")
    report_end(poller)
    assert not visible_windows(MoveQuestion)
