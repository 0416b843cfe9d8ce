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
from backend.services.preflight.compute_node import unchecked_finding
from backend.services.preflight.service import PreflightFailed
from backend.ssh.interface import HostKeyUnknown
from tests.backend.services.preflight.judging import unknown_key
from tests.conftest import SynchronousRunner
from tests.waiting import wait_for
from tests.widgets.jobs import preflight_samples as samples
from tests.widgets.jobs.detail.test_job_detail import CONFIG, CREATED
from tests.widgets.jobs.preflight.test_preflight_dialog import row_of, rows
from tests.widgets.jobs.preflight_samples import AGENT, BUSY, MPI, PLACEMENT, RESERVED
from tests.windows import find_button, shows_text, visible_texts
from widgets.jobs.preflight.preflight_dialog import PreflightDialog

LEFT_BUTTON = Qt.MouseButton.LeftButton
SETTING_UP = SetUp(
    "gpu12", (SetUpStep("Reach", StepState.DONE), SetUpStep("Horovod", StepState.RUNNING))
)
assert CONFIG is not None
JOB: JobConfig = replace(CONFIG, placement=PLACEMENT)


class Nodes:
    """What is wrong with the nodes; ``fix_all`` fixes all but what is in ``stubborn``."""

    def __init__(self, *findings: PreflightFinding) -> None:
        self.findings = list(findings)
        self.stubborn: list[PreflightFinding] = []
        self.checked_nodes: list[tuple[str, ...]] = []
        self.steps: list[SetUp] = [SETTING_UP]
        self.fixed_findings: list[tuple[PreflightFinding, ...]] = []

    def run(
        self, config: JobConfig, job_id: str = "", is_cancelled: Callable[[], bool] = bool
    ) -> Preflight:
        self.checked_nodes.append(tuple(p.node for p in config.placement))
        return self.preflight_of(config)

    def check_again(
        self,
        config: JobConfig,
        previous_preflight: Preflight,
        nodes: Sequence[str],
        job_id: str = "",
        is_cancelled: Callable[[], bool] = bool,
    ) -> Preflight:
        self.checked_nodes.append(tuple(nodes))
        return self.preflight_of(config)

    def preflight_of(self, config: JobConfig) -> Preflight:
        placement_nodes = {p.node for p in config.placement}
        gpus = {gpu for p in config.placement for gpu in p.gpus}
        findings = [
            p
            for p in self.findings
            if placement_nodes.issuperset(p.nodes) and gpus.issuperset(p.gpus)
        ]
        return samples.preflight(*findings, placement=config.placement)

    def fix_all(
        self, findings: Sequence[PreflightFinding], on_change: Callable[[SetUp], None]
    ) -> dict[PreflightFinding, BackendError]:
        for step in self.steps:
            on_change(step)
        self.fixed_findings.append(tuple(findings))
        failed = {}
        for finding in findings:
            if finding in self.stubborn:
                failed[finding] = BackendError("It does not start.", "Set gpu12 up again.")
            else:
                self.findings.remove(finding)
        return failed


class RequestedStart:
    """A start that was asked for, and what became of it."""

    def __init__(self, nodes: Nodes, job_id: str = "a") -> None:
        self.nodes = nodes
        self.config = JOB
        self.started_on: list[tuple[Placement, ...]] = []
        self.started_views: list[JobView] = []
        self.errors: list[BackendError] = []
        self.steps: list[str] = []
        self.request = StartRequest(
            job_id, self._start, self.steps.append, self.started_views.append, self.errors.append
        )

    def _start(self, placement: tuple[Placement, ...], progress: Progress) -> JobView:
        progress.step(0, 0, "Checking 2 nodes")
        config = replace(JOB, placement=placement or PLACEMENT)
        preflight = self.nodes.preflight_of(config)
        if not preflight.succeeded or (preflight.warnings and progress.can_ask):
            raise PreflightFailed(preflight, config)
        self.started_on.append(config.placement)
        return CREATED


@pytest.fixture
def make_controller(
    immediately: SynchronousRunner, qtbot: QtBot
) -> Callable[..., tuple[StartController, RequestedStart]]:
    def make_controller(
        *findings: PreflightFinding, trial_runs: Any = None
    ) -> tuple[StartController, RequestedStart]:
        window = QWidget()
        qtbot.addWidget(window)
        window.resize(1440, 900)
        nodes = Nodes(*findings)
        services = SimpleNamespace(preflight=nodes, trial_runs=trial_runs)
        return StartController(services, immediately, window, window), RequestedStart(nodes)  # type: ignore[arg-type]

    return make_controller


def session_of(controller: StartController) -> PreflightSession:
    assert controller.session is not None
    return controller.session


def dialog_of(controller: StartController) -> PreflightDialog:
    return session_of(controller).dialog


Make = Callable[..., tuple[StartController, RequestedStart]]


@pytest.mark.parametrize("agrees", [True, False])
def test_an_unknown_host_key_is_accepted_only_after_its_fingerprint_was_shown(
    make_controller: Make, agrees: bool
) -> None:
    key = HostKey("10.0.4.12", 22, "ssh-ed25519", "ssh-ed25519 AAAA", "SHA256:new")
    error = HostKeyUnknown("First connection to 10.0.4.12.", "Compare it.", key)
    finding = unknown_key("gpu12", error)
    controller, requested = make_controller(finding)
    controller.start(requested.request)
    assert not shows_text(dialog_of(controller), "Fix all"), (
        "no button accepts it along with others"
    )
    row_of(dialog_of(controller), finding).button.click()
    key_dialog = session_of(controller)._key_dialog.dialog
    assert key_dialog is not None
    assert key_dialog.page.fingerprint.text() == "SHA256:new"
    assert requested.nodes.fixed_findings == []
    (key_dialog.page.trust if agrees else key_dialog.page.default).click()
    assert requested.nodes.fixed_findings == ([(finding,)] if agrees else [])


def test_a_job_that_passes_the_check_starts_without_a_dialog(make_controller: Make) -> None:
    controller, requested = make_controller()
    controller.start(requested.request)
    assert requested.started_views == [CREATED]
    assert controller.session is None
    assert requested.steps == ["Starting…", "Checking 2 nodes…", ""]


def test_a_start_into_a_reservation_shows_the_warning_first_and_can_go_on(
    make_controller: Make, qtbot: QtBot
) -> None:
    controller, requested = make_controller(RESERVED)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    assert requested.started_views == []
    assert shows_text(dialog, RESERVED.message)
    qtbot.mouseClick(find_button(dialog, "Start on 16 GPUs"), LEFT_BUTTON)
    assert requested.started_views == [CREATED]


def test_a_refused_start_lists_all_findings_and_starts_once_they_are_fixed(
    make_controller: Make, qtbot: QtBot
) -> None:
    controller, requested = make_controller(MPI, AGENT)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    assert requested.errors == []
    assert [r.finding for r in rows(dialog)] == [MPI, AGENT]
    qtbot.mouseClick(row_of(dialog, MPI).button, LEFT_BUTTON)
    assert requested.nodes.checked_nodes == [("gpu12",)], "the other node was not touched"
    assert [r.finding for r in rows(dialog)] == [AGENT]
    qtbot.mouseClick(row_of(dialog, AGENT).button, LEFT_BUTTON)
    assert requested.started_views == []
    qtbot.mouseClick(find_button(dialog, "Start on 16 GPUs"), LEFT_BUTTON)
    assert requested.started_views == [CREATED]
    assert requested.started_on == [PLACEMENT]
    assert controller.session is None


def test_a_node_with_several_faults_is_set_up_once(make_controller: Make, qtbot: QtBot) -> None:
    torch = PreflightFinding(
        "PyTorch", False, "It cannot be imported.", "", ("gpu12",), Fix.SET_UP_AGAIN
    )
    controller, requested = make_controller(MPI, torch, AGENT)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, torch).button, LEFT_BUTTON)
    assert [r.finding for r in rows(dialog)] == [AGENT]
    assert requested.nodes.fixed_findings == [(torch, MPI)]


def test_the_row_shows_the_progress_of_a_set_up(
    make_controller: Make, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, requested = make_controller(MPI)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    steps: list[tuple[PreflightFinding, str]] = []
    monkeypatch.setattr(
        dialog, "show_fixing", lambda findings, step="": steps.append((findings[0], step))
    )
    qtbot.mouseClick(row_of(dialog, MPI).button, LEFT_BUTTON)
    assert steps == [(MPI, ""), (MPI, "Horovod…")]


def test_leaving_out_a_gpu_changes_the_job_and_nothing_on_the_node(
    make_controller: Make, qtbot: QtBot
) -> None:
    controller, requested = make_controller(BUSY)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, BUSY).button, LEFT_BUTTON)
    assert "Start on 15 GPUs" in visible_texts(dialog)
    qtbot.mouseClick(find_button(dialog, "Start on 15 GPUs"), LEFT_BUTTON)
    (placement,) = requested.started_on
    assert [len(p.gpus) for p in placement] == [8, 7]


def test_m06_the_smaller_set_is_started_with_one_press(make_controller: Make, qtbot: QtBot) -> None:
    controller, requested = make_controller(MPI)
    controller.start(requested.request)
    qtbot.mouseClick(find_button(dialog_of(controller), "Start on gpu09 only, 8 GPUs"), LEFT_BUTTON)
    assert requested.started_on == [PLACEMENT[:1]]
    assert requested.errors == []
    assert controller.session is None


def test_fix_all_keeps_unfixed_findings_and_checks_the_rest_again(
    make_controller: Make, qtbot: QtBot
) -> None:
    controller, requested = make_controller(MPI, AGENT)
    requested.nodes.stubborn = [AGENT]
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(find_button(dialog, "Fix all 2"), LEFT_BUTTON)
    assert [r.finding for r in rows(dialog)] == [AGENT]
    assert requested.nodes.checked_nodes == [("gpu12",)]


def test_a_fault_after_the_first_check_is_shown_too(make_controller: Make, qtbot: QtBot) -> None:
    controller, requested = make_controller(MPI)
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, MPI).button, LEFT_BUTTON)
    requested.nodes.findings.append(AGENT)
    qtbot.mouseClick(find_button(dialog, "Start on 16 GPUs"), LEFT_BUTTON)
    assert requested.started_views == []
    assert [r.finding for r in rows(dialog)] == [AGENT]


def test_one_batch_is_tried_where_the_job_would_run(make_controller: Make, qtbot: QtBot) -> None:
    trials: list[tuple[str, tuple[Placement, ...]]] = []

    def run(job_id: str, on_state: Any, is_cancelled: Any, placement: Any) -> Any:
        trials.append((job_id, placement))
        return samples.SOUND

    controller, requested = make_controller(BUSY, trial_runs=SimpleNamespace(run=run))
    controller.check(requested.request, replace(JOB, placement=PLACEMENT[:1]))
    qtbot.mouseClick(find_button(dialog_of(controller), "Try one batch"), LEFT_BUTTON)
    assert trials.pop() == ("a", PLACEMENT[:1]), "it is to go on elsewhere than before"
    controller.start(requested.request)
    dialog = dialog_of(controller)
    qtbot.mouseClick(row_of(dialog, BUSY).button, LEFT_BUTTON)
    qtbot.mouseClick(find_button(dialog, "Try one batch"), LEFT_BUTTON)
    ((job_id, placement),) = trials
    assert job_id == "a"
    assert [p.process_count for p in placement] == [8, 7]
    assert samples.SOUND.message in visible_texts(dialog)


def test_a_compute_node_is_checked_in_a_job_only_at_the_press_of_its_button(
    make_controller: Make, qtbot: QtBot
) -> None:
    warning = unchecked_finding("gpu12")
    proof = replace(warning, ok=True, message="sn1 starts Python.", is_warning=False, fix=Fix.NONE)
    submitted_configs: list[JobConfig] = []

    def run(config: JobConfig, preflight: Preflight, progress: Progress) -> Preflight:
        submitted_configs.append(config)
        return replace(preflight, findings=(proof,))

    controller, requested = make_controller(warning)
    controller._services.compute_nodes = SimpleNamespace(run=run)  # type: ignore[misc, assignment]
    controller.check(requested.request, JOB)
    dialog = dialog_of(controller)
    assert submitted_configs == []
    assert not shows_text(dialog, "Fix all")
    qtbot.mouseClick(find_button(dialog, "Check in a job"), LEFT_BUTTON)
    assert submitted_configs == [JOB]
    assert proof.message in visible_texts(dialog)
    assert rows(dialog) == []


def test_a_package_that_a_batch_lacks_is_installed_on_the_nodes_and_the_batch_tried_again(
    make_controller: Make, qtbot: QtBot
) -> None:
    failed_trial = replace(
        samples.BROKEN, traceback="…\nModuleNotFoundError: No module named 'PIL'"
    )
    answers, installed = [failed_trial, samples.SOUND], []

    def install(package: str, nodes: list[str], progress: Progress) -> None:
        installed.append((package, nodes))

    controller, requested = make_controller(
        trial_runs=SimpleNamespace(run=lambda *_: answers.pop(0))
    )
    controller._services.packages = SimpleNamespace(install=install)  # type: ignore[misc, assignment]
    controller.check(requested.request, JOB)
    dialog = dialog_of(controller)
    assert not find_button(dialog, "Install …").isVisible()
    qtbot.mouseClick(find_button(dialog, "Try one batch"), LEFT_BUTTON)
    assert find_button(dialog, "Install Pillow…").text() == "Install Pillow…"
    qtbot.mouseClick(find_button(dialog, "Install Pillow…"), LEFT_BUTTON)
    assert controller.session is not None
    install_dialog = controller.session._packages.dialog
    assert install_dialog is not None
    qtbot.mouseClick(find_button(install_dialog, "Install"), LEFT_BUTTON)
    assert installed == [("Pillow", ["gpu09", "gpu12"])]
    assert samples.SOUND.message in visible_texts(dialog)
    assert not find_button(dialog, "Install …").isVisible()


def test_a_requested_check_shows_that_the_job_can_start(make_controller: Make) -> None:
    controller, requested = make_controller()
    controller.check(requested.request, JOB)
    assert "This job can start" in visible_texts(dialog_of(controller))
    assert requested.nodes.checked_nodes == [("gpu09", "gpu12")]


def test_another_error_is_shown_where_start_was_pressed(make_controller: Make) -> None:
    controller, requested = make_controller()

    def refuse(placement: tuple[Placement, ...], progress: Progress) -> JobView:
        raise BackendError("The job a has run before.")

    request = StartRequest(
        "a", refuse, requested.steps.append, requested.started_views.append, requested.errors.append
    )
    controller.start(request)
    assert [str(error) for error in requested.errors] == ["The job a has run before."]
    assert controller.session is None


def test_a_cancelled_start_says_nothing(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    background = Background(parent=window)
    controller = StartController(SimpleNamespace(), background, window, window)  # type: ignore[arg-type]
    requested = RequestedStart(Nodes())

    def check_nodes(placement: tuple[Placement, ...], progress: Progress) -> JobView:
        progress.report(0, 0, "Checking 2 nodes")
        wait_for(lambda: progress.is_cancelled)
        raise Cancelled

    request = StartRequest(
        "a",
        check_nodes,
        requested.steps.append,
        requested.started_views.append,
        requested.errors.append,
    )
    controller.start(request)
    qtbot.waitUntil(lambda: "Checking 2 nodes…" in requested.steps)
    controller.cancel("a")
    qtbot.waitUntil(lambda: requested.steps[-1] == "")
    assert (requested.started_views, requested.errors, controller.session) == ([], [], None)
    background.close()


def test_closing_the_dialog_ends_the_check_and_lets_a_set_up_continue(
    make_controller: Make, immediately: SynchronousRunner
) -> None:
    controller, requested = make_controller(MPI)
    controller.start(requested.request)
    session = session_of(controller)
    session.dialog.reject()
    assert controller.session is None
    assert [str(error) for error in requested.errors] == [MPI.message], "it stays to be read"
    session._show_fix_results((MPI,), {MPI: BackendError("gpu12 did not answer.", "Check it.")})
    assert immediately.notifications == ["gpu12 did not answer. Check it."]
    assert requested.nodes.checked_nodes == []
