"""Sessions from the window: prepared in the form, opened in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.jobs.session_controller import SessionController
from app.main.bootstrap import Program
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.script import SESSION
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.view import JobView
from tests.app.jobs.test_own_model import Mouse
from tests.app.library.test_gallery_in_window import program  # noqa: F401 - a fixture
from tests.conftest import SynchronousRunner
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions, JobSubject
from widgets.jobs.detail.header_texts import stop_cost_message
from widgets.jobs.detail.job_header import JobHeader
from widgets.nodes.page import node_actions
from widgets.nodes.page.node_actions import NodeActionState
from widgets.nodes.row.node_row import Condition

JOB_FILE = {
    "name": "session on gpu1",
    "script": f"{SESSION}@1",
    "entry": "session.py",
    "placement": [{"node": "gpu1", "processes": 1}],
}


class Sessions:
    """A service on a node of whose GPUs none is free."""

    def __init__(self) -> None:
        self.error: BackendError | None = None

    def job_file(self, node: str, gpus: str = "") -> dict[str, Any]:
        if gpus != "0":
            raise BackendError(f"{node} has 0 free of 2 GPUs, not 1.")
        return JOB_FILE

    def ssh_command(self, job_id: str) -> tuple[str, str]:
        return f"ssh {job_id}", "export CUDA_VISIBLE_DEVICES=GPU-a"

    def open(self, job_id: str, progress: Progress) -> Path:
        progress.step(0, 0, "Starting JupyterLab")
        if self.error is not None:
            raise self.error
        return Path(f"/home/user/{job_id}.html")


class Drafts:
    def __init__(self) -> None:
        self.raws: list[Any] = []

    def show_draft(self, draft: Any) -> None:
        self.raws.append(draft.raw)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def opened_urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    return urls


@pytest.fixture
def controller(
    qtbot: QtBot, immediately: SynchronousRunner, sessions: Any
) -> tuple[SessionController, JobActions, Drafts]:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    actions, drafts = JobActions(), Drafts()
    any_drafts: Any = drafts
    return (
        SessionController(sessions, immediately, actions, any_drafts, window),
        actions,
        drafts,
    )


def test_one_click_opens_a_session_in_the_browser(
    controller: tuple[SessionController, JobActions, Drafts],
    sessions: Sessions,
    opened_urls: list[str],
) -> None:
    opener, actions, _ = controller
    actions.ask(job_actions.OPEN_SESSION, "j1")
    assert opened_urls == ["file:///home/user/j1.html"]
    assert opener.dialog is None
    sessions.error = BackendError("The session j1 does not run: gpu1 was restarted.")
    actions.ask(job_actions.OPEN_SESSION, "j1")
    assert len(opened_urls) == 1
    assert opener.dialog is not None


def test_the_command_of_ssh_is_copied_and_the_gpus_are_named(
    controller: tuple[SessionController, JobActions, Drafts], immediately: SynchronousRunner
) -> None:
    controller[1].ask(job_actions.COPY_SSH, "j1")
    assert QGuiApplication.clipboard().text() == "ssh j1"
    message = "Copied: ssh j1 Then: export CUDA_VISIBLE_DEVICES=GPU-a"
    assert immediately.notifications == [message]


def test_a_session_on_a_busy_node_is_prepared_without_a_gpu(
    controller: tuple[SessionController, JobActions, Drafts],
) -> None:
    opener, _, drafts = controller
    opener.prepare("gpu1")
    assert drafts.raws == [JOB_FILE]


def view_of(script: str, state: JobState) -> JobView:
    config = parse_job({**JOB_FILE, "script": script}).config
    assert config is not None
    return JobView("j1", "session", config, "", RunStatus(state, run=1))


@pytest.mark.parametrize(
    ("script", "state", "texts"),
    [
        (f"{SESSION}@1", JobState.TRAINING, ("Running", "Open session", "Stop")),
        (f"{SESSION}@1", JobState.STARTING, ("Starting", "Stop", "")),
        (f"{SESSION}@1", JobState.CREATED, ("Draft", "Start", "Queue")),
        (f"{SESSION}@1", JobState.FINISHED, ("Finished", "Export…", "")),
        ("mine@1", JobState.TRAINING, ("Training", "Stop", "")),
    ],
)
def test_the_header_of_a_running_session_opens_it_first(
    qtbot: QtBot, script: str, state: JobState, texts: tuple[str, str, str]
) -> None:
    header = JobHeader(JobActions())
    qtbot.addWidget(header)
    view = view_of(script, state)
    header.show_view(view, JobSubject(view))
    button = header._second_button
    second = "" if button.isHidden() else button.text()
    assert (header._badge._word.text(), header.main_button.text(), second) == texts


def test_the_cost_of_a_stop_is_that_of_a_session() -> None:
    view = view_of(f"{SESSION}@1", JobState.TRAINING)
    assert stop_cost_message(view, ()).startswith("Stopping ends its kernels")


def test_a_row_of_the_list_knows_a_session() -> None:
    summaries = [
        JobSummary("j1", "", JobState.TRAINING, pins=(("script", reference),))
        for reference in (f"{SESSION}@2", "mine@2")
    ]
    offers = [job_actions.OPEN_SESSION.is_offered(JobSubject(summary)) for summary in summaries]
    assert offers == [True, False]


@pytest.mark.parametrize(
    ("state", "is_offered", "is_enabled"),
    [
        (NodeActionState(), True, True),
        (NodeActionState(Condition.NEW, is_added=True), False, True),
        (NodeActionState(is_added=True, is_login_node=True), False, True),
        (NodeActionState(Condition.OUT_OF_SERVICE, is_added=True), True, False),
    ],
)
def test_a_node_that_runs_jobs_offers_sessions(
    state: NodeActionState, is_offered: bool, is_enabled: bool
) -> None:
    action = node_actions.SESSION
    assert action.is_offered(state) is is_offered
    assert action.is_enabled(state) is is_enabled


def test_from_a_node_to_its_session_in_two_clicks(
    program: Program,  # noqa: F811
    qtbot: QtBot,
) -> None:
    mouse = Mouse(qtbot, program)
    program.window.open_page("nodes")
    mouse.click("Session…", program.window)
    qtbot.waitUntil(lambda: program.form._result.text() == "Ready to start")
    assert program.form.draft().raw["arguments"] == ["--hours", "8", "--idle-min", "30"]
    previous_count = program.jobs.job_count
    mouse.click("Start", program.form)
    qtbot.waitUntil(
        lambda: program.jobs.job_count > previous_count and program.window.page_key == "jobs"
    )
    view = program.jobs.open_view
    assert view is not None
    assert view.is_session
    assert view.nodes == (THIS_COMPUTER,)
