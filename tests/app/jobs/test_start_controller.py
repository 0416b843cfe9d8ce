"""A refused start opens a dialog: fix, check again what was fixed, start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.jobs.start_controller import PreflightSession, StartController, StartRequest
from app.runtime.background import Background
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import Placement
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import HostKey, SetUp, SetUpStep, StepState
from backend.records.nodes.preflight import Fix, Preflight, PreflightFinding
from backend.services.preflight.service import PreflightFailed
from backend.ssh.interface import HostKeyUnknown
from tests.backend.services.preflight.judging import unknown_key
from tests.conftest import Immediately
from tests.waiting import wait_for
from tests.widgets.jobs import preflight_samples as samples
from tests.widgets.jobs.detail.test_job_detail import CONFIG, CREATED
from tests.widgets.jobs.preflight.test_preflight_dialog import row_of, rows
from tests.widgets.jobs.preflight_samples import AGENT, BUSY, MPI, PLACEMENT
from tests.windows import button, says, texts
from widgets.jobs.preflight.preflight_dialog import PreflightDialog

LEFT = Qt.MouseButton.LeftButton
SETTING_UP = SetUp(
    "gpu12", (SetUpStep("Reach", StepState.DONE), SetUpStep("Horovod", StepState.RUNNING))
)
assert CONFIG is not None
JOB: JobConfig = replace(CONFIG, placement=PLACEMENT)


class Nodes:
    """What is wrong with the nodes; ``fix_all`` fixes all but what is in ``stubborn``."""

    def __init__(self, *wrong: PreflightFinding) -> None:
        self.wrong = list(wrong)
        self.stubborn: list[PreflightFinding] = []
        self.asked: list[tuple[str, ...]] = []
        self.steps: list[SetUp] = [SETTING_UP]
        self.repaired: list[tuple[PreflightFinding, ...]] = []

    def run(
        self, config: JobConfig, job_id: str = "", cancelled: Callable[[], bool] = bool
    ) -> Preflight:
        self.asked.append(tuple(one.node for one in config.placement))
        return self.found(config)

    def check_again(
        self,
        config: JobConfig,
        before: Preflight,
        nodes: Sequence[str],
        job_id: str = "",
        cancelled: Callable[[], bool] = bool,
    ) -> Preflight:
        self.asked.append(tuple(nodes))
        return self.found(config)

    def found(self, config: JobConfig) -> Preflight:
        there = {one.node for one in config.placement}
        gpus = {gpu for one in config.placement for gpu in one.gpus}
        wrong = [
            one for one in self.wrong if there.issuperset(one.nodes) and gpus.issuperset(one.gpus)
        ]
        return samples.found(*wrong, placement=config.placement)

    def fix_all(
        self, findings: Sequence[PreflightFinding], on_change: Callable[[SetUp], None]
    ) -> dict[PreflightFinding, BackendError]:
        for step in self.steps:
            on_change(step)
        self.repaired.append(tuple(findings))
        failed = {}
        for finding in findings:
            if finding in self.stubborn:
                failed[finding] = BackendError("It does not start.", "Set gpu12 up again.")
            else:
                self.wrong.remove(finding)
        return failed


class Requested:
    """A start that was asked for, and what became of it."""

    def __init__(self, nodes: Nodes, job_id: str = "a") -> None:
        self.nodes = nodes
        self.config = JOB
        self.started_on: list[tuple[Placement, ...]] = []
        self.began: list[JobView] = []
        self.refused: list[BackendError] = []
        self.busy: list[str] = []
        self.request = StartRequest(
            job_id, self._act, self.busy.append, self.began.append, self.refused.append
        )

    def _act(self, placement: tuple[Placement, ...], progress: Progress) -> JobView:
        progress.step(0, 0, "Checking 2 nodes")
        config = replace(JOB, placement=placement or PLACEMENT)
        found = self.nodes.found(config)
        if not found.succeeded:
            raise PreflightFailed(found, config)
        self.started_on.append(config.placement)
        return CREATED


@pytest.fixture
def made(
    immediately: Immediately, qtbot: QtBot
) -> Callable[..., tuple[StartController, Requested]]:
    def make(*wrong: PreflightFinding, canary: Any = None) -> tuple[StartController, Requested]:
        window = QWidget()
        qtbot.addWidget(window)
        window.resize(1440, 900)
        nodes = Nodes(*wrong)
        services = SimpleNamespace(preflight=nodes, trial_runs=canary)
        return StartController(services, immediately, window, window), Requested(nodes)  # type: ignore[arg-type]

    return make


def talk_of(controller: StartController) -> PreflightSession:
    assert controller.session is not None
    return controller.session


def dialog_of(controller: StartController) -> PreflightDialog:
    return talk_of(controller).dialog


Make = Callable[..., tuple[StartController, Requested]]


@pytest.mark.parametrize("agrees", [True, False])
def test_an_unknown_host_key_is_accepted_only_after_its_fingerprint_was_shown(
    made: Make, agrees: bool
) -> None:
    key = HostKey("10.0.4.12", 22, "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:new")
    error = HostKeyUnknown("First connection to 10.0.4.12.", "Compare it.", key)
    finding = unknown_key("gpu12", error)
    controller, requested = made(finding)
    controller.start(requested.request)
    assert not says(dialog_of(controller), "Fix all"), "no button accepts it along with others"
    row_of(dialog_of(controller), finding).button.click()
    asking = talk_of(controller)._key_dialog.dialog
    assert asking is not None
    assert asking.page.fingerprint.text() == "SHA256:new"
    assert requested.nodes.repaired == []
    (asking.page.trust if agrees else asking.page.default).click()
    assert requested.nodes.repaired == ([(finding,)] if agrees else [])


def test_a_job_that_passes_the_check_starts_without_a_dialog(made: Make) -> None:
    controller, requested = made()
    controller.start(requested.request)
    assert requested.began == [CREATED]
    assert controller.session is None
    assert requested.busy == ["Starting…", "Checking 2 nodes…", ""]


def test_a_refused_start_lists_all_findings_and_starts_once_they_are_fixed(
    made: Make, qtbot: QtBot
) -> None:
    controller, requested = made(MPI, AGENT)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    assert requested.refused == []
    assert [one.finding for one in rows(dialog)] == [MPI, AGENT]
    qtbot.mouseClick(row_of(dialog, MPI).button, LEFT)
    assert requested.nodes.asked == [("gpu12",)], "the other node was not touched"
    assert [one.finding for one in rows(dialog)] == [AGENT]
    qtbot.mouseClick(row_of(dialog, AGENT).button, LEFT)
    assert requested.began == []
    qtbot.mouseClick(button(dialog, "Start on 16 GPUs"), LEFT)
    assert requested.began == [CREATED]
    assert requested.started_on == [PLACEMENT]
    assert controller.session is None


def test_a_node_with_several_faults_is_set_up_once(made: Make, qtbot: QtBot) -> None:
    torch = PreflightFinding(
        "PyTorch", False, "It cannot be imported.", "", ("gpu12",), Fix.SET_UP_AGAIN
    )
    controller, requested = made(MPI, torch, AGENT)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, torch).button, LEFT)
    assert [one.finding for one in rows(dialog)] == [AGENT]
    assert requested.nodes.repaired == [(torch, MPI)]


def test_the_row_shows_the_progress_of_a_set_up(
    made: Make, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, requested = made(MPI)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    steps: list[tuple[PreflightFinding, str]] = []
    monkeypatch.setattr(dialog, "show_fixing", lambda some, step="": steps.append((some[0], step)))
    qtbot.mouseClick(row_of(dialog, MPI).button, LEFT)
    assert steps == [(MPI, ""), (MPI, "Horovod…")]


def test_leaving_out_a_gpu_changes_the_job_and_nothing_on_the_node(
    made: Make, qtbot: QtBot
) -> None:
    controller, requested = made(BUSY)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, BUSY).button, LEFT)
    assert "Start on 15 GPUs" in texts(dialog)
    qtbot.mouseClick(button(dialog, "Start on 15 GPUs"), LEFT)
    (placement,) = requested.started_on
    assert [len(one.gpus) for one in placement] == [8, 7]


def test_m06_the_smaller_set_is_started_with_one_press(made: Make, qtbot: QtBot) -> None:
    controller, requested = made(MPI)
    controller.start(requested.request)
    qtbot.mouseClick(button(dialog_of(controller), "Start on gpu09 only, 8 GPUs"), LEFT)
    assert requested.started_on == [PLACEMENT[:1]]
    assert requested.refused == []
    assert controller.session is None


def test_fix_all_keeps_unfixed_findings_and_checks_the_rest_again(made: Make, qtbot: QtBot) -> None:
    controller, requested = made(MPI, AGENT)
    requested.nodes.stubborn = [AGENT]
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(button(dialog, "Fix all 2"), LEFT)
    assert [one.finding for one in rows(dialog)] == [AGENT]
    assert requested.nodes.asked == [("gpu12",)]


def test_a_fault_after_the_first_check_is_shown_too(made: Make, qtbot: QtBot) -> None:
    controller, requested = made(MPI)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, MPI).button, LEFT)
    requested.nodes.wrong.append(AGENT)
    qtbot.mouseClick(button(dialog, "Start on 16 GPUs"), LEFT)
    assert requested.began == []
    assert [one.finding for one in rows(dialog)] == [AGENT]


def test_one_batch_is_tried_where_the_job_would_run(made: Make, qtbot: QtBot) -> None:
    tried: list[tuple[str, tuple[Placement, ...]]] = []

    def run(job_id: str, on_state: Any, cancelled: Any, placement: Any) -> Any:
        tried.append((job_id, placement))
        return samples.SOUND

    controller, requested = made(BUSY, canary=SimpleNamespace(run=run))
    controller.check(requested.request, replace(JOB, placement=PLACEMENT[:1]))
    qtbot.mouseClick(button(dialog_of(controller), "Try one batch"), LEFT)
    assert tried.pop() == ("a", PLACEMENT[:1]), "it is to go on elsewhere than before"
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, BUSY).button, LEFT)
    qtbot.mouseClick(button(dialog, "Try one batch"), LEFT)
    ((job_id, placement),) = tried
    assert job_id == "a"
    assert [one.slots for one in placement] == [8, 7]
    assert samples.SOUND.message in texts(dialog)


def test_a_package_that_a_batch_lacks_is_installed_on_the_nodes_and_the_batch_tried_again(
    made: Make, qtbot: QtBot
) -> None:
    lacks = replace(samples.BROKEN, traceback="…\nModuleNotFoundError: No module named 'PIL'")
    answers, installed = [lacks, samples.SOUND], []

    def install(package: str, nodes: list[str], progress: Progress) -> None:
        installed.append((package, nodes))

    controller, requested = made(canary=SimpleNamespace(run=lambda *_: answers.pop(0)))
    controller._services.packages = SimpleNamespace(install=install)  # type: ignore[misc, assignment]
    controller.check(requested.request, JOB)
    dialog = dialog_of(controller)
    assert not button(dialog, "Install …").isVisible()
    qtbot.mouseClick(button(dialog, "Try one batch"), LEFT)
    assert button(dialog, "Install Pillow…").text() == "Install Pillow…"
    qtbot.mouseClick(button(dialog, "Install Pillow…"), LEFT)
    assert controller.session is not None
    asked = controller.session._packages.dialog.dialog
    assert asked is not None
    qtbot.mouseClick(button(asked, "Install"), LEFT)
    assert installed == [("Pillow", ["gpu09", "gpu12"])]
    assert samples.SOUND.message in texts(dialog)
    assert not button(dialog, "Install …").isVisible()


def test_a_requested_check_shows_that_the_job_can_start(made: Make) -> None:
    controller, requested = made()
    controller.check(requested.request, JOB)
    assert "This job can start" in texts(dialog_of(controller))
    assert requested.nodes.asked == [("gpu09", "gpu12")]


def test_another_error_is_shown_where_start_was_pressed(made: Make) -> None:
    controller, requested = made()

    def refuse(placement: tuple[Placement, ...], progress: Progress) -> JobView:
        raise BackendError("The job a has run before.")

    request = StartRequest(
        "a", refuse, requested.busy.append, requested.began.append, requested.refused.append
    )
    controller.start(request)
    assert [str(error) for error in requested.refused] == ["The job a has run before."]
    assert controller.session is None


def test_a_cancelled_start_says_nothing(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    background = Background(parent=window)
    controller = StartController(SimpleNamespace(), background, window, window)  # type: ignore[arg-type]
    requested = Requested(Nodes())

    def check_nodes(placement: tuple[Placement, ...], progress: Progress) -> JobView:
        progress.report(0, 0, "Checking 2 nodes")
        wait_for(lambda: progress.is_cancelled)
        raise Cancelled

    request = StartRequest(
        "a", check_nodes, requested.busy.append, requested.began.append, requested.refused.append
    )
    controller.start(request)
    qtbot.waitUntil(lambda: "Checking 2 nodes…" in requested.busy)
    controller.cancel("a")
    qtbot.waitUntil(lambda: requested.busy[-1] == "")
    assert (requested.began, requested.refused, controller.session) == ([], [], None)
    background.close()


def test_closing_the_dialog_ends_the_check_and_lets_a_set_up_continue(
    made: Make, immediately: Immediately
) -> None:
    controller, requested = made(MPI)
    controller.start(requested.request)
    talk = talk_of(controller)
    talk.dialog.reject()
    assert controller.session is None
    assert [str(error) for error in requested.refused] == [MPI.message], "it stays to be read"
    talk._show_fix_results((MPI,), {MPI: BackendError("gpu12 did not answer.", "Check it.")})
    assert immediately.heard == ["gpu12 did not answer. Check it."]
    assert requested.nodes.asked == []
