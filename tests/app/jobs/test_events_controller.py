"""TensorBoard from the window and from the command line."""

import json
import signal
from argparse import Namespace
from types import SimpleNamespace

import pytest
from PySide6.QtGui import QDesktopServices

from app.jobs.events_controller import EventsController
from backend.base.errors import BackendError
from backend.cli import tensorboard
from backend.services.jobs.inspection import NO_GRAPH
from widgets.jobs.actions.job_actions import JobActions

URL = "http://127.0.0.1:6006/secret/"


class Viewers:
    def __init__(self):
        self.asked = []
        self.error = None

    def open(self, job_id, progress):
        self.asked.append(job_id)
        if self.error is not None:
            raise self.error
        return URL


class Inspection:
    def __init__(self):
        self.asked = []

    def write_events(self, job_id, progress):
        self.asked.append(job_id)
        return False


@pytest.fixture
def viewers():
    return Viewers()


@pytest.fixture
def inspection():
    return Inspection()


def test_s08_one_click_opens_the_events_of_a_job_in_the_browser(
    viewers, inspection, immediately, monkeypatch
):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    actions = JobActions()
    controller = EventsController(viewers, inspection, immediately, actions)
    actions.events_requested.emit("job-1", False)
    assert (viewers.asked, opened) == (["job-1"], [URL])
    viewers.error = BackendError("TensorBoard is not installed.", "Install it.")
    actions.events_requested.emit("job-1", False)
    assert immediately.heard[-1] == "TensorBoard is not installed. Install it."
    assert len(opened) == 1
    assert not inspection.asked
    viewers.error = None
    actions.events_requested.emit("job-1", True)
    assert inspection.asked == ["job-1"]
    assert immediately.heard[-1] == NO_GRAPH
    assert len(opened) == 2
    del controller


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_serves_until_it_is_interrupted(
    viewers, inspection, as_json, monkeypatch, capsys
):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "pause", interrupt)
    queries = SimpleNamespace(find=lambda reference: f"{reference}-found")
    services = SimpleNamespace(
        event_viewers=viewers, inspection=inspection, jobs=SimpleNamespace(queries=queries)
    )
    assert tensorboard.serve(services, Namespace(id="j", weights=True), as_json) == 0
    assert viewers.asked == inspection.asked == ["j-found"]
    out = capsys.readouterr().out
    assert (json.loads(out)["url"] if as_json else out.splitlines()[0]) == URL
    assert (NO_GRAPH in out) is not as_json
