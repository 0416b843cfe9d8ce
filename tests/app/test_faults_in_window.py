"""What a person sees when status files lie, the data root goes away, and two windows act at once.

Real services on a real data root. The wires are those of `Program`, without its frame.
"""

import json
import shutil
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest
from PySide6.QtWidgets import QWidget

from app.background import Background
from app.job_controller import JobController
from app.job_finder import JobFinder
from app.status_poller import StatusPoller
from backend.datastore import node_files
from backend.errors import BackendError
from backend.node import identity, sweep
from backend.progress import Progress
from backend.records.cluster import NodeAddress, NodeEntry, NodeInstallation
from backend.records.files import replace_json
from backend.records.layout import run_tag
from backend.records.library import Kind
from backend.records.state import JobState
from backend.records.status import RunStatus
from backend.services.job_list import JobList
from backend.services.workplace import open_services
from tests.conftest import Immediately
from tests.gui_stalls import elsewhere
from tests.integration.tiny import raw_job, write_sources
from widgets.cluster.nodes_page import NodesPage
from widgets.jobs.job_form import JobForm
from widgets.jobs.jobs_page import JobsPage

LONG_MS = 120_000
WHEN_ASKED_MS = 3_600_000
TRAINING = RunStatus(JobState.TRAINING, run=1, step=40, heartbeat=7, metrics={"loss": 0.5})


@dataclass
class Window:
    """The place Jobs of one desktop."""

    services: object
    page: JobsPage
    runner: object
    window: QWidget = field(default_factory=QWidget)
    is_cut_off: bool = False

    def __post_init__(self):
        jobs = self.services.jobs
        self.form = JobForm()
        self.poller = StatusPoller(
            self.reached(jobs.look), self.reached(JobList(jobs).look), self.runner, WHEN_ASKED_MS
        )
        self.finder = JobFinder(self.runner, self.page)
        self.controller = JobController(
            self.services, self.runner, self.poller, self.page, self.form, self.window
        )
        self.poller.all_listed.connect(self.finder.take)
        self.poller.updated.connect(self.page.show_update)
        self.poller.unreadable.connect(self.page.detail.show_doubt)
        self.poller.unlisted.connect(self.page.show_trouble)

    def reached(self, work):
        def reach(*args):
            if self.is_cut_off:
                raise BackendError("The data root's host does not answer.")
            return work(*args)

        return reach

    def look(self):
        self.poller.look_at_list()
        self.poller.look()

    @property
    def said(self):
        """What stands atop the open job, "" for nothing."""
        banner = self.page.detail._banner
        return banner.accessibleName() if banner.isVisibleTo(self.page.detail) else ""

    @property
    def word(self):
        return self.page.detail.header._badge._word.text()


@pytest.fixture
def open_window(qtbot):
    runners = []

    def open_it(services, runner=None):
        page = JobsPage()
        qtbot.addWidget(page)
        page.resize(1200, 800)
        page.show()
        if runner is None:
            runner = Background()
            runners.append(runner)
        window = Window(services, page, runner)
        qtbot.addWidget(window.form)
        qtbot.addWidget(window.window)
        return window

    yield open_it
    for runner in runners:
        runner.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A data root with the parts of the tiny job: bringing them takes longer than the tests."""
    folder = tmp_path_factory.mktemp("library")
    services = open_services(folder / "data", folder / "catalogue.sqlite")
    model, loader, dataset = write_sources(folder / "sources")
    services.library.import_item(Kind.MODEL, model, "tiny")
    services.library.import_item(Kind.LOADER, loader, "tiny")
    services.library.import_item(Kind.DATASET, dataset, "tiny")
    services.close()
    return folder / "data"


@pytest.fixture
def opened(library, tmp_path):
    """Opens the test's data root, again and again: each time another desktop."""
    made = []
    shutil.copytree(library, tmp_path / "data")

    def another():
        place = tmp_path / f"desktop-{len(made)}" / "catalogue.sqlite"
        made.append(open_services(tmp_path / "data", place))
        return made[-1]

    yield another
    for services in made:
        for view in services.jobs.list():
            sweep.end_tagged(run_tag(view.id, view.run), 0.0)
        services.close()


@pytest.fixture
def services(opened):
    return opened()


@pytest.fixture
def training(services):
    """The folder of a job that trains, by its records; its supervisor is this process."""
    view = services.jobs.create(raw_job())
    folder = services.data_root.job(view.id)
    folder.attempt(1).path.mkdir(parents=True)
    replace_json(folder.status, TRAINING.to_dict())
    replace_json(folder.attempt(1).supervisor, identity.own().to_dict())
    return folder


@pytest.fixture
def window(services, training, open_window):
    window = open_window(services, Immediately())
    window.look()
    window.page.open_job(training.job_id)
    window.look()
    assert (window.word, window.said) == ("Training", "")
    return window


BROKEN = {
    "empty": b"",
    "half": json.dumps(TRAINING.to_dict()).encode()[:70],
    "not JSON": b"\x00\xff\xfe<html>",
    "of a newer format": json.dumps({**TRAINING.to_dict(), "schema": 99}).encode(),
}


def test_f35_a_broken_status_leaves_the_job_training_in_the_window(window, training):
    for number, (what, content) in enumerate(BROKEN.items()):
        before = window.page.open_view.step
        training.status.write_bytes(content)
        window.look()
        assert window.word == "Training", what
        assert window.page.open_view.step == before, "the last good value"
        assert window.page.model.line(training.job_id).state is JobState.TRAINING
        assert window.page.detail.header.act.text() == "Stop"
        replace_json(training.status, replace(TRAINING, step=41 + number).to_dict())
        window.look()
        assert (window.page.open_view.step, window.said) == (41 + number, "")


def test_f09_a_window_without_network_doubts_and_catches_up_in_one_look(window, training):
    window.is_cut_off = True
    window.look()
    assert window.word == "Training"
    assert window.said == "The data root's host does not answer."
    assert window.page.model.line(training.job_id).state is JobState.TRAINING
    replace_json(training.status, replace(TRAINING, step=900, heartbeat=99).to_dict())
    window.is_cut_off = False
    window.look()
    assert (window.page.open_view.step, window.word, window.said) == (900, "Training", "")


def test_f34_a_data_root_that_goes_and_comes_back_is_no_failure_in_the_window(window, training):
    away = training.path.parent.rename(training.path.parent.with_name("away"))
    window.look()
    assert window.word == "Training"
    assert window.page.open_id == training.job_id
    assert window.said != ""
    away.rename(training.path.parent)
    replace_json(training.status, replace(TRAINING, step=60, heartbeat=8).to_dict())
    window.look()
    assert (window.page.open_view.step, window.word, window.said) == (60, "Training", "")


def test_f22_stop_in_two_windows_is_one_stop_and_no_error_in_either(
    services, opened, training, open_window, qtbot
):
    windows = [open_window(services), open_window(opened())]
    for window in windows:
        window.look()
        qtbot.waitUntil(lambda page=window.page: page.total == 1, timeout=LONG_MS)
        window.page.open_job(training.job_id)
        window.look()
        qtbot.waitUntil(lambda window=window: window.word == "Training", timeout=LONG_MS)
    for window in (*windows, *windows):
        window.page.detail.stop_requested.emit(training.job_id)
    for window in windows:
        qtbot.waitUntil(lambda window=window: window.word == "Stopping", timeout=LONG_MS)
        qtbot.waitUntil(lambda window=window: not window.page.detail._busy, timeout=LONG_MS)
        assert not window.page.detail.header.act.isEnabled(), "it is done already"
        assert window.page.detail._error == ("", "")
    assert training.lock.exists()


def test_f23_start_in_two_windows_is_one_run_that_both_show(services, opened, open_window, qtbot):
    view = services.jobs.create(raw_job(epochs=100_000))
    windows = [open_window(services), open_window(opened())]
    for window in windows:
        window.look()
        qtbot.waitUntil(lambda page=window.page: page.open_view is not None, timeout=LONG_MS)
        assert window.page.detail.header.act.text() == "Start"
    for window in windows:
        window.page.detail.header.act.click()
    for window in windows:
        qtbot.waitUntil(lambda page=window.page: page.open_view.state.is_live, timeout=LONG_MS)
        qtbot.waitUntil(lambda window=window: not window.page.detail._busy, timeout=LONG_MS)
        assert window.page.open_view.run == 1
        assert window.page.detail.header.act.text() in ("Stop", "Stopping…")
        assert window.page.detail._error == ("", "")
    attempts = services.data_root.job(view.id).attempt(1).path.parent
    assert [path.name for path in attempts.iterdir()] == ["1"]


def test_a_run_that_failed_before_a_checkpoint_is_started_over_from_its_page(
    services, training, open_window, qtbot
):
    replace_json(training.status, replace(TRAINING, state=JobState.ERROR).to_dict())
    window = open_window(services)
    window.look()
    qtbot.waitUntil(lambda: window.page.open_view is not None, timeout=LONG_MS)
    act = window.page.detail.header.act
    qtbot.waitUntil(lambda: act.text() == "Start over", timeout=LONG_MS)
    act.click()
    qtbot.waitUntil(lambda: window.page.open_view.run == 2, timeout=LONG_MS)
    assert window.page.detail._error == ("", "")
    assert (training.path / "runs" / "1" / "status.json").exists(), "the earlier run is kept"


def test_a_look_before_the_start_asks_for_what_the_page_would_do(
    services, training, open_window, monkeypatch
):
    replace_json(training.status, replace(TRAINING, state=JobState.ERROR).to_dict())
    window = open_window(services, Immediately())
    window.look()
    window.page.open_job(training.job_id)
    wishes = []
    starts = window.controller._starts
    monkeypatch.setattr(starts, "look", lambda wish, config: wishes.append(wish))
    window.page.detail.preflight_requested.emit(training.job_id)
    assert elsewhere(lambda: wishes[0].act((), Progress())).run == 2


INSTALLED = NodeInstallation("/python", "/mpirun", "5.0", "recipe", "/bundle", "/ssh")
HOSTILE = {
    "ten gigabytes": None,
    "not a number": b'{"heartbeat": NaN}',
    "deep": b'{"a":' * 100_000,
    "a name that paints": json.dumps({"name": "\x1b[31m<b>gpu1</b>", "heartbeat": 1}).encode(),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_f59_a_node_with_a_hostile_status_is_marked_and_its_words_are_plain_text(
    tmp_path, qtbot, content
):
    with closing(open_services(tmp_path / "data", tmp_path / "c.sqlite")) as services:
        show_hostile(services, qtbot, content)


def show_hostile(services, qtbot, content):
    root = services.data_root
    node_files.write_entry(root, NodeEntry("gpu1", NodeAddress("10.0.0.1"), installation=INSTALLED))
    with root.node("gpu1").status.open("wb") as file:
        if content is None:
            file.truncate(10 * 2**30)
        else:
            file.write(content)
    page = NodesPage()
    qtbot.addWidget(page)
    page.resize(1200, 800)
    page.show()
    page.show_nodes((services.nodes.list()[0], *services.nodes.far()), {})
    row = next(row for row in page.rack.rows_model.rows if row.name == "gpu1")
    assert row.condition.is_news
    assert not set(row.sentence) & {"\x1b", "\n"}
    assert "status that cannot be used" in row.sentence
