"""What the user sees when status files lie, the data root goes away, and two windows act at once.

The real window on a real data root; another desktop beside it makes the jobs.
"""

import errno
import json
import math
import re
import shutil
from contextlib import ExitStack
from dataclasses import replace

import pytest

from app.runtime import stale_data
from backend.base.progress import Progress
from backend.datastore.jobs import run_status
from backend.node.system import process_cleanup, process_identity
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import run_tag
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.library.item import Kind
from backend.records.nodes import health
from backend.records.nodes.reading import Presence
from backend.services.context.container import open_services
from tests.app.unreadable_folder import ShutFolder
from tests.backend.services.access_cases import start_job
from tests.cluster.windows import open_program
from tests.integration.tiny import raw_job, write_sources
from tests.windows import find_only
from widgets.common.banner import Banner
from widgets.common.state_badge import StateBadge
from widgets.jobs.actions import job_actions

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
TRAINING = RunStatus(JobState.TRAINING, run=1, step=40, heartbeat=7, metrics={"loss": 0.5})
NO_UPDATES = re.compile(r"No news since \d\d:\d\d")
PRESSES = 2


class WatchedWindow:
    """One window, as its user sees it."""

    def __init__(self, program, qtbot):
        self.program = program
        self._qtbot = qtbot

    def wait(self, condition):
        self._qtbot.waitUntil(lambda: bool(condition()))

    def open(self, job_id):
        jobs = self.program.jobs
        self.wait(lambda: jobs.model.summary(job_id) is not None)
        jobs.open_job(job_id)
        self.wait(lambda: jobs.open_view is not None and jobs.detail._checkpoints is not None)
        # What the list says of it is there before the job itself was read for the first time.
        self.wait(lambda: job_id in self.program._job_controllers.poller._cursors)

    def stand_still(self):
        """It reads only on request."""
        poller = self.program._job_controllers.poller
        poller.stop()
        self.wait(lambda: not poller._poll_starts_s and poller._list_started_s is None)

    def refresh(self):
        """Poll everything once."""
        self.program._job_controllers.poller.poll_list()
        self.program._job_controllers.poller.poll()

    @property
    def word(self):
        return find_only(StateBadge, self.program.jobs.detail.header)._word.text()

    @property
    def act(self):
        return self.program.jobs.detail.header.main_button

    @property
    def banner_text(self):
        """What stands atop the open job, "" for nothing."""
        banner = find_only(Banner, self.program.jobs.detail)
        return banner.accessibleName() if banner.isVisibleTo(self.program.jobs.detail) else ""

    @property
    def step(self):
        return self.program.jobs.open_view.step

    @property
    def failure(self):
        """What the side bar says, "" for nothing."""
        line = self.program.window.side_bar._failure
        return line.text() if line.isVisible() else ""

    @property
    def figure_tone(self):
        """Of the percent of the job in the side bar."""
        return self.program.window.side_bar._jobs[0]._percent.color_role()

    @property
    def presences(self):
        return [state.presence for state in self.program.nodes._states.values()]


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
def services(library, tmp_path):
    """Another desktop's."""
    shutil.copytree(library, tmp_path / "data")
    services = open_services(tmp_path / "data", tmp_path / "other" / "catalogue.sqlite")
    yield services
    for view in services.jobs.queries.list():
        process_cleanup.end_tagged(run_tag(view.id, view.run), 0.0)
    services.close()


@pytest.fixture
def open_window(qapp, qtbot, tmp_path, monkeypatch):
    """Opens windows, each of a desktop of its own."""
    # A run's heart beats when a test says so, which may take long on a busy machine.
    monkeypatch.setattr(run_status, "DOUBT_AFTER_S", math.inf)
    with ExitStack() as stack:
        number = iter(range(9))

        def open_it(root=tmp_path / "data"):
            folder = tmp_path / f"desktop-{next(number)}"
            return WatchedWindow(
                stack.enter_context(open_program(qapp, root, folder, monkeypatch, qtbot)), qtbot
            )

        yield open_it


@pytest.fixture
def training(services):
    """The folder of a job that trains, by its records; its supervisor is this process."""
    view = services.jobs.create(raw_job())
    folder = services.data_root.job(view.id)
    folder.attempt(1).path.mkdir(parents=True)
    replace_json(folder.status, TRAINING.to_dict())
    replace_json(folder.attempt(1).supervisor, process_identity.own_process().to_dict())
    return folder


@pytest.fixture
def window(open_window, training):
    window = open_window()
    window.open(training.job_id)
    assert (window.word, window.banner_text, window.failure) == ("Training", "", "")
    return window


BROKEN = {
    "empty": b"",
    "half": json.dumps(TRAINING.to_dict()).encode()[:70],
    "not JSON": b"\x00\xff\xfe<html>",
    "of a newer format": json.dumps({**TRAINING.to_dict(), "schema": 99}).encode(),
}


def test_f35_a_broken_status_leaves_the_job_training_in_the_window(window, training):
    for number, (name, content) in enumerate(BROKEN.items()):
        previous_step = window.step
        training.status.write_bytes(content)
        window.wait(lambda: "tatus.json cannot be read" in window.banner_text)
        assert window.word == "Training", name
        assert window.step == previous_step, "the last good value"
        assert window.program.jobs.model.summary(training.job_id).state is JobState.TRAINING
        assert window.act.text() == "Stop"
        replace_json(training.status, replace(TRAINING, step=41 + number).to_dict())
        window.wait(lambda number=number: (window.step, window.banner_text) == (41 + number, ""))


@pytest.mark.usefixtures("uncounted")
def test_f09_a_window_without_network_says_since_when_and_catches_up_in_one_poll(
    remote_site, beat, open_window, tmp_path, monkeypatch
):
    desktop = remote_site.desktop()
    remote_site.stock(desktop)
    beat(remote_site)
    view, run = start_job(remote_site, desktop)
    run.train(5)
    # The user of the window has accepted the host's key.
    key = remote_site.sshd.fingerprint
    catalogue = tmp_path / "desktop-0" / "catalogue.sqlite"
    open_services(
        remote_site.address, catalogue, accept=lambda host_key: host_key.fingerprint == key
    ).close()
    window = open_window(remote_site.address)
    window.open(view.id)
    window.wait(lambda: window.presences == [Presence.ONLINE] * 2)
    assert (window.word, window.step, window.banner_text, window.failure) == ("Training", 6, "", "")
    assert window.figure_tone == "text"

    remote_site.wire.cut()
    window.wait(lambda: NO_UPDATES.match(window.banner_text))
    window.wait(lambda: window.failure)
    assert "SSH server" in window.failure or "connect" in window.failure
    assert window.figure_tone == "text3"
    assert (window.word, window.step) == ("Training", 6)
    with monkeypatch.context() as hurried:
        hurried.setattr(health, "_SHORTEST_S", 0.3)
        window.wait(lambda: window.presences == [Presence.ONLINE, Presence.OFFLINE])
    assert window.program.jobs.model.summary(view.id).state is JobState.TRAINING
    window.stand_still()
    run.train(500)

    remote_site.wire.repair()
    # Until its host is found; the poll that finds it, of the job or of the list, brings everything.
    while window.banner_text:
        assert window.step in (6, 506)
        window.refresh()
        window.wait(lambda: not window.program._job_controllers.poller._poll_starts_s)
    assert (window.step, window.word) == (506, "Training")
    curve = window.program.jobs.detail.curves.curve("loss")
    assert len(curve) == 506
    # The list may have been asked for just before.
    while window.failure:
        window.refresh()
        window.wait(lambda: window.program._job_controllers.poller._list_started_s is None)
    assert window.figure_tone == "text"


def test_f34_a_data_root_that_goes_and_comes_back_is_no_failure_in_the_window(window, training):
    jobs = training.path.parent
    moved_folder = jobs.rename(jobs.with_name("away"))
    window.wait(lambda: NO_UPDATES.match(window.banner_text))
    window.wait(lambda: "is missing" in window.failure)
    assert (window.word, window.figure_tone) == ("Training", "text3")
    assert window.program.jobs.open_id == training.job_id
    assert window.program.jobs.job_count == 1
    assert window.program.jobs.list.isVisible(), "its rows are there, and no first start"
    moved_folder.rename(jobs)
    replace_json(training.status, replace(TRAINING, step=60, heartbeat=8).to_dict())
    window.wait(lambda: (window.step, window.banner_text, window.failure) == (60, "", ""))
    assert (window.word, window.figure_tone) == ("Training", "text")


@pytest.mark.slow
def test_f34_a_data_root_that_is_not_connected_is_no_bug_of_the_window(
    window, training, tmp_path, monkeypatch
):
    folder = ShutFolder(tmp_path / "data", monkeypatch)
    folder.refuse(errno.ENOTCONN)
    window.wait(lambda: window.banner_text)
    window.wait(lambda: window.failure)
    assert "not connected" in window.failure
    assert (window.word, window.figure_tone) == ("Training", "text3")
    assert window.program.jobs.open_id == training.job_id
    folder.open_up()
    replace_json(training.status, replace(TRAINING, step=60, heartbeat=8).to_dict())
    window.wait(lambda: (window.step, window.banner_text, window.failure) == (60, "", ""))


def test_f34_a_data_root_that_hangs_holds_nothing_up_and_the_window_says_since_when(
    window, training, tmp_path, monkeypatch
):
    # As after half a minute.
    monkeypatch.setattr(stale_data, "HANGS_S", 1.0)
    folder = ShutFolder(tmp_path / "data", monkeypatch)
    folder.hang()
    try:
        window.wait(lambda: NO_UPDATES.match(window.banner_text))
        window.wait(lambda: "does not respond: no news since" in window.failure)
        assert (window.word, window.figure_tone) == ("Training", "text3")
        # Nothing of these places asks the folder on the GUI thread, where it would hang.
        for page_key in ("compare", "datasets", "models", "nodes", "new-job", "jobs"):
            window.program.window.open_page(page_key)
            window.program.window.repaint()
        window.act.click()
        window.wait(lambda: folder.waiting_count > 2)
        assert folder.on_gui_thread == []
    finally:
        folder.open_up()
    # What was pressed meanwhile is done now.
    window.wait(lambda: (window.word, window.failure) == ("Stopping", ""))
    window.wait(lambda: window.banner_text.startswith("Stop requested by "))
    assert training.stop_request.exists()


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(JobState.STARTING, marks=pytest.mark.slow),
        JobState.TRAINING,
        pytest.param(JobState.SAVING, marks=pytest.mark.slow),
    ],
)
def test_f22_stop_again_and_again_in_two_windows_is_one_stop_and_no_error_in_either(
    training, open_window, state
):
    replace_json(training.status, replace(TRAINING, state=state).to_dict())
    windows = [open_window(), open_window()]
    for window in windows:
        window.open(training.job_id)
        assert (window.word, window.act.text()) == (state.label, "Stop")
    for window in windows * PRESSES:
        window.program.jobs.detail.job_actions.ask(job_actions.STOP, training.job_id)
    for window in windows:
        window.wait(lambda window=window: window.word == "Stopping")
        window.wait(lambda window=window: not window.program.jobs.detail._busy_label)
        assert not window.act.isEnabled(), "it is done already"
        assert window.program.jobs.detail._error == ("", "")
    assert json.loads(training.stop_request.read_text())["run"] == 1
    assert len(list(training.path.glob("job.lock*"))) == 1


@pytest.mark.slow
def test_f22_stop_after_the_end_stops_nothing_and_shows_the_end(training, open_window):
    windows = [open_window(), open_window()]
    for window in windows:
        window.open(training.job_id)
        window.stand_still()
    replace_json(training.attempt(1).exit, RunExit(1, JobState.FINISHED, "").to_dict())
    replace_json(training.status, replace(TRAINING, state=JobState.FINISHED, step=80).to_dict())
    for window in windows:
        assert window.act.text() == "Stop", "it does not know yet"
    for window in windows * PRESSES:
        window.program.jobs.detail.job_actions.ask(job_actions.STOP, training.job_id)
    for window in windows:
        window.wait(lambda window=window: window.word == "Finished")
        window.wait(lambda window=window: not window.program.jobs.detail._busy_label)
        assert (window.step, window.program.jobs.detail._error) == (80, ("", ""))
    assert not training.stop_request.exists()


def test_f23_start_in_two_windows_is_one_run_that_both_show(services, open_window):
    view = services.jobs.create(raw_job(epochs=100_000))
    windows = [open_window(), open_window()]
    for window in windows:
        window.open(view.id)
        assert window.act.text() == "Start"
    for window in windows:
        window.act.click()
    for window in windows:
        jobs = window.program.jobs
        window.wait(lambda jobs=jobs: jobs.open_view.state.is_live)
        window.wait(lambda jobs=jobs: not jobs.detail._busy_label)
        assert jobs.open_view.run == 1
        assert window.act.text() in ("Stop", "Stopping…")
        assert jobs.detail._error == ("", "")
    attempts = services.data_root.job(view.id).attempt(1).path.parent
    assert [path.name for path in attempts.iterdir()] == ["1"]


def test_a_run_that_failed_before_a_checkpoint_is_started_over_from_its_page(training, open_window):
    replace_json(training.status, replace(TRAINING, state=JobState.ERROR).to_dict())
    window = open_window()
    window.open(training.job_id)
    window.wait(lambda: window.act.text() == "Start over")
    window.act.click()
    window.wait(lambda: window.program.jobs.open_view.run == 2)
    assert window.program.jobs.detail._error == ("", "")
    assert (training.path / "runs" / "1" / "status.json").exists(), "the earlier run is kept"


def test_a_preflight_check_requests_the_same_start_as_the_page(training, open_window, monkeypatch):
    replace_json(training.status, replace(TRAINING, state=JobState.ERROR).to_dict())
    window = open_window()
    window.open(training.job_id)
    requests = []
    starts = window.program._job_controllers.jobs._start_controller
    monkeypatch.setattr(starts, "check", lambda request, config: requests.append(request))
    window.program.jobs.detail.job_actions.ask(job_actions.PREFLIGHT, training.job_id)
    assert requests[0].start((), Progress()).run == 2
