"""TensorBoard from the window and from the command line."""

import json
import signal
from types import SimpleNamespace

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.jobs.events_controller import EventsController
from backend.base.errors import BackendError
from backend.services.jobs.inspection import NO_GRAPH
from tests.conftest import SynchronousRunner
from tests.fakes.command_line import run_command
from tests.windows import find_only
from widgets.common.dialog import TaskStatus
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions

URL = "http://127.0.0.1:6006/secret/"


class Viewers:
    def __init__(self):
        self.job_ids = []
        self.error = None

    def open(self, job_id, progress):
        self.job_ids.append(job_id)
        if self.error is not None:
            raise self.error
        return URL


class Inspection:
    def __init__(self):
        self.job_ids = []

    def write_events(self, job_id, progress):
        self.job_ids.append(job_id)
        progress.step(1, 2, "Writing the weights")
        return False


@pytest.fixture
def viewers():
    return Viewers()


@pytest.fixture
def inspection():
    return Inspection()


@pytest.fixture
def opened_urls(monkeypatch):
    urls = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    return urls


@pytest.fixture
def window(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    return window


def test_s08_one_click_opens_the_events_of_a_job_in_the_browser(
    viewers, inspection, immediately, opened_urls, window
):
    actions = JobActions()
    controller = EventsController(viewers, inspection, immediately, actions, window)
    actions.ask(job_actions.TENSORBOARD, "job-1")
    assert (viewers.job_ids, inspection.job_ids, opened_urls) == (["job-1"], [], [URL])
    assert controller.dialog is None
    actions.ask(job_actions.TENSORBOARD_WEIGHTS, "job-1")
    assert inspection.job_ids == ["job-1"]
    assert opened_urls == [URL, URL]
    assert find_only(TaskStatus, controller.dialog).message.text() == NO_GRAPH
    controller.dialog.reject()


def test_an_error_of_tensorboard_is_shown_in_its_dialog(
    viewers, inspection, immediately, opened_urls, window
):
    actions = JobActions()
    controller = EventsController(viewers, inspection, immediately, actions, window)
    viewers.error = BackendError("TensorBoard is not installed.", "Install it.")
    actions.ask(job_actions.TENSORBOARD, "job-1")
    message = find_only(TaskStatus, controller.dialog).message
    assert message.text() == "TensorBoard is not installed. Install it."
    assert not opened_urls
    controller.dialog.reject()


def test_closing_the_dialog_cancels_the_export_for_tensorboard(
    viewers, inspection, opened_urls, window
):
    class Later(SynchronousRunner):
        def run(self, queue_name, work, on_success, on_error):
            self.work = lambda: super(Later, self).run(queue_name, work, on_success, on_error)

    actions, runner = JobActions(), Later()
    controller = EventsController(viewers, inspection, runner, actions, window)
    actions.ask(job_actions.TENSORBOARD_WEIGHTS, "job-1")
    controller.dialog.reject()
    runner.work()
    assert (inspection.job_ids, viewers.job_ids, opened_urls) == (["job-1"], [], [])


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_serves_until_it_is_interrupted(
    viewers, inspection, as_json, monkeypatch, capsys
):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "pause", interrupt)
    queries = SimpleNamespace(find=lambda reference: f"{reference}-found")
    reaper = SimpleNamespace(reap=lambda _id: None, agent_nodes=lambda _id: ())
    services = SimpleNamespace(
        event_viewers=viewers, inspection=inspection, queries=queries, reaper=reaper
    )
    argv = ("job", "tensorboard", "j", "--weights", *(["--json"] if as_json else []))
    assert run_command(services, *argv) == 0
    assert viewers.job_ids == inspection.job_ids == ["j-found"]
    out = capsys.readouterr().out
    assert (json.loads(out)["url"] if as_json else out.splitlines()[0]) == URL
    assert (NO_GRAPH in out) is not as_json
