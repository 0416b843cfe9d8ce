"""Start jobs. If the preflight check fails, show the failures and fix them on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.library.package_controller import PackageController
from app.runtime.background import Runner
from app.runtime.controller import Controller, LatestRequest
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import Placement
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import SetUp, StepState
from backend.records.nodes.preflight import (
    Fix,
    Preflight,
    PreflightFinding,
    TrialResult,
    fixed_placement,
)
from backend.services.context.container import Services
from backend.services.preflight.names import COMPUTE_NODE
from backend.services.preflight.service import PreflightFailed
from widgets.common import formats
from widgets.common.dialog import DialogHolder
from widgets.jobs.preflight.preflight_dialog import PreflightDialog
from widgets.nodes.provisioning.host_key_pages import HostKeyDialog

T = TypeVar("T")
NO_PLACEMENT: tuple[Placement, ...] = ()
"""The placement in the job itself."""


@dataclass(frozen=True)
class StartRequest:
    """A start that the user requested; every call but ``start`` runs on the GUI thread.

    Attributes:
        job_id: "" for a job that is created only when it can start.
        start: Starts the job, on a worker. With a placement the job runs there.
        show_busy: Shows the step under way ("" when the start is over).
        on_started: Called when the job was started.
        on_error: Called when the job cannot start and no preflight dialog is open for it.
    """

    job_id: str
    start: Callable[[tuple[Placement, ...], Progress], JobView]
    show_busy: Callable[[str], None]
    on_started: Callable[[JobView], None]
    on_error: Callable[[BackendError], None]

    @property
    def queue_name(self) -> str:
        return f"job {self.job_id}" if self.job_id else "create"


class StartController(Controller):
    """Start jobs, with at most one preflight dialog; another start closes the dialog."""

    def __init__(
        self,
        services: Services,
        runner: Runner,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._services = services
        self._window = window
        self._progresses: dict[str, Progress] = {}
        self.session: PreflightSession | None = None

    def start(self, request: StartRequest) -> None:
        """Check, and start at once if nothing prevents it."""
        progress = self._progresses[request.job_id] = self._runner.progress(
            lambda _share, step: request.show_busy(formats.with_ellipsis(step))
        )
        progress.can_ask = True
        request.show_busy("Starting…")

        def finish() -> None:
            if self._progresses.get(request.job_id) is progress:
                del self._progresses[request.job_id]
            request.show_busy("")

        def handle_start(view: JobView) -> None:
            finish()
            request.on_started(view)

        def handle_error(error: BackendError) -> None:
            finish()
            if isinstance(error, PreflightFailed):
                self._open(request, error.config).show_preflight(error.preflight)
            elif not isinstance(error, Cancelled):
                request.on_error(error)

        self._runner.run(
            request.queue_name,
            lambda: request.start(NO_PLACEMENT, progress),
            handle_start,
            handle_error,
        )

    def cancel(self, job_id: str) -> None:
        """Cancel a start, if it has not begun."""
        if job_id in self._progresses:
            self._progresses[job_id].cancel()

    def check(self, request: StartRequest, config: JobConfig) -> None:
        """Check only, and show the result even if everything passes."""
        self._open(request, config).check_all()

    def _open(self, request: StartRequest, config: JobConfig) -> PreflightSession:
        if self.session is not None:
            self.session.dialog.reject()
        self.session = PreflightSession(
            self._services, self._runner, request, config, self._window, self
        )
        self.session.closed.connect(self._forget_session)
        self.session.dialog.open()
        return self.session

    @Slot(object)
    def _forget_session(self, session: PreflightSession) -> None:
        if self.session is session:
            self.session = None


class PreflightSession(Controller):
    """The dialog about one start, from the first finding until the start or the closing.

    Signals:
        closed: The dialog was closed; carries this session.
    """

    closed = Signal(object)

    def __init__(
        self,
        services: Services,
        runner: Runner,
        request: StartRequest,
        config: JobConfig,
        window: QWidget,
        parent: QObject,
    ) -> None:
        super().__init__(runner, parent)
        self._services = services
        self._request = request
        self._config = config
        self._preflight: Preflight | None = None
        self._placement = NO_PLACEMENT
        self._work = LatestRequest(runner)
        self._pending_nodes: set[str] = set()
        self._is_open = True
        self._key_dialog: DialogHolder[HostKeyDialog] = DialogHolder()
        self.dialog = PreflightDialog(bool(request.job_id), window)
        self.dialog.fix_requested.connect(self._fix)
        self.dialog.fix_all_requested.connect(self._fix_all)
        self.dialog.check_again_requested.connect(self.check_all)
        self.dialog.start_requested.connect(self._start)
        self.dialog.start_on_requested.connect(self._start_on)
        self.dialog.trial_requested.connect(self._try_batch)
        self.dialog.install_requested.connect(self._install)
        self.dialog.cancel_requested.connect(self._work.cancel)
        self.dialog.finished.connect(self._finish)

    def show_preflight(self, preflight: Preflight) -> None:
        self._preflight = preflight
        self.dialog.show_preflight(preflight, self._config.placement)

    # Checking.

    @Slot()
    def check_all(self) -> None:
        self._check_nodes({p.node for p in self._config.placement})

    def _check_nodes(self, nodes: set[str]) -> None:
        """Check these nodes; those requested during a check follow after it."""
        self._pending_nodes |= nodes
        if not self._work.is_open:
            self._check_pending()

    def _check_pending(self) -> None:
        nodes, self._pending_nodes = sorted(self._pending_nodes), set()
        if not nodes or not self._is_open:
            return
        previous_preflight, config, job_id = self._preflight, self._config, self._request.job_id
        service = self._services.preflight

        def run_checks(progress: Progress) -> Preflight:
            if previous_preflight is None or set(previous_preflight.nodes).issubset(nodes):
                return service.run(config, job_id, is_cancelled=lambda: progress.is_cancelled)
            return service.check_again(
                config, previous_preflight, nodes, job_id, lambda: progress.is_cancelled
            )

        def show_outcome(outcome: Preflight) -> None:
            self.show_preflight(outcome)
            self._check_pending()

        step = f"Checking {', '.join(nodes) if len(nodes) < 4 else 'the nodes'}"
        self._run("preflight", step, run_checks, show_outcome)

    # Fixing.

    @Slot(object)
    def _fix(self, finding: PreflightFinding) -> None:
        if finding.host_key is not None:
            key_dialog = HostKeyDialog(finding.host_key, self.dialog)
            key_dialog.key_trusted.connect(lambda _key: self._fix_all((finding,)))
            self._key_dialog.open(key_dialog)
        elif finding.fix is Fix.CHECK_COMPUTE_NODE:
            self._check_compute_node()
        elif finding.fix.is_about_job:
            self._move_job(fixed_placement(self._config.placement, finding), finding)
        else:
            self._fix_all(self._findings_fixed_with(finding))

    def _check_compute_node(self) -> None:
        preflight, config = self._preflight, self._config
        assert preflight is not None, "its finding has the button"

        def show_outcome(outcome: Preflight) -> None:
            self.show_preflight(outcome)
            for finding in outcome.findings:
                if finding.ok and finding.check == COMPUTE_NODE:
                    self.dialog.show_trial(TrialResult(True, finding.message, outcome.took_s))

        def check(progress: Progress) -> Preflight:
            return self._services.compute_nodes.run(config, preflight, progress)

        self._run("compute node", "Checking a compute node", check, show_outcome)

    def _findings_fixed_with(self, finding: PreflightFinding) -> tuple[PreflightFinding, ...]:
        """All findings that this fix resolves, so that the work is not repeated."""
        findings = (
            (*self._preflight.blocking_findings, *self._preflight.warnings)
            if self._preflight is not None
            else ()
        )
        fixed_findings = [f for f in findings if f.fix is finding.fix]
        if not finding.fix.is_about_all_nodes:
            fixed_findings = [f for f in fixed_findings if f.nodes == finding.nodes]
        return tuple(dict.fromkeys((finding, *fixed_findings)))

    def _move_job(self, placement: tuple[Placement, ...], finding: PreflightFinding) -> None:
        if not placement:
            self.dialog.show_fix_error(
                finding, "No node would be left for the job.", "Choose other nodes for the job."
            )
            return
        self._placement = placement
        self._config = replace(self._config, placement=placement)
        self._check_nodes(set(finding.nodes))

    @Slot(object)
    def _fix_all(self, findings: Sequence[PreflightFinding]) -> None:
        chosen_findings = tuple(findings)
        self.dialog.show_fixing(chosen_findings)

        def report(_share: float | None, text: str) -> None:
            node, _, step = text.partition(": ")
            if self._is_open:
                node_findings = [finding for finding in chosen_findings if node in finding.nodes]
                self.dialog.show_fixing(node_findings, formats.with_ellipsis(step))

        progress = self._runner.progress(report)
        nodes = {node for finding in chosen_findings for node in finding.nodes}
        self._runner.run(
            f"fix {' '.join(sorted(nodes))}",
            lambda: self._services.preflight.fix_all(
                chosen_findings, lambda set_up: progress.report(0, 0, _step_of(set_up))
            ),
            partial(self._show_fix_results, chosen_findings),
            lambda error: self._show_fix_results(
                chosen_findings, dict.fromkeys(chosen_findings, error)
            ),
        )

    def _show_fix_results(
        self,
        findings: tuple[PreflightFinding, ...],
        errors: Mapping[PreflightFinding, BackendError],
    ) -> None:
        if not self._is_open:
            for error in dict.fromkeys(errors.values()):
                self._runner.notify(error.with_remedy)
            return
        for finding, error in errors.items():
            self.dialog.show_fix_error(finding, str(error), error.remedy)
        nodes = {node for f in findings if f not in errors for node in f.nodes}
        if any(f.fix.is_about_all_nodes for f in findings if f not in errors):
            nodes = {f.node for f in self._config.placement}
        if nodes:
            self._check_nodes(nodes)

    # Trying and starting.

    @Slot()
    def _try_batch(self) -> None:
        # Not on the job's previous nodes: it may be about to resume elsewhere.
        placement = self._config.placement

        def try_batch(progress: Progress) -> TrialResult:
            return self._services.trial_runs.run(
                self._request.job_id,
                lambda state: progress.report(0, 0, f"Training one batch: {state.label.lower()}"),
                lambda: progress.is_cancelled,
                placement,
            )

        self._run("canary", "Training one batch", try_batch, self.dialog.show_trial)

    @Slot(str)
    def _install(self, module: str) -> None:
        """Install the module that the batch did not find on the nodes, and try again."""
        self._packages = PackageController(self._services.packages, self._runner, self.dialog, self)
        self._packages.ask(module, [p.node for p in self._config.placement], self._try_batch)

    @Slot(object)
    def _start_on(self, placement: tuple[Placement, ...]) -> None:
        self._placement = placement
        self._config = replace(self._config, placement=placement)
        self._start()

    @Slot()
    def _start(self) -> None:
        def handle_start(view: JobView) -> None:
            self.dialog.accept()
            self._request.on_started(view)

        start = partial(self._request.start, self._placement)
        self._run(self._request.queue_name, "Starting", start, handle_start)

    # Shared by both.

    def _run(
        self, queue_name: str, step: str, work: Callable[[Progress], T], show: Callable[[T], object]
    ) -> None:
        def show_progress(share: float | None, label: str) -> None:
            self.dialog.show_busy(label, share)

        self.dialog.show_busy(step)
        self._work.run(queue_name, work, show, self._handle_error, show_progress)

    def _handle_error(self, error: BackendError) -> None:
        self._pending_nodes.clear()
        if isinstance(error, PreflightFailed):
            self.show_preflight(error.preflight)
        elif isinstance(error, Cancelled) and self._preflight is None:
            self.dialog.reject()
        elif isinstance(error, Cancelled):
            self.dialog.show_busy("")
        else:
            self.dialog.show_error(str(error), error.remedy)

    @Slot(int)
    def _finish(self, result: int) -> None:
        self._work.cancel()
        self._is_open = False
        was_rejected = result == PreflightDialog.DialogCode.Rejected
        if was_rejected and self._preflight is not None and not self._preflight.succeeded:
            # Where Start was pressed the reason stays readable.
            self._request.on_error(PreflightFailed(self._preflight, self._config))
        self.dialog.deleteLater()
        self.closed.emit(self)


def _step_of(set_up: SetUp) -> str:
    """Return ``gpu12: Horovod``."""
    running_steps = [step.title for step in set_up.steps if step.state is StepState.RUNNING]
    return f"{set_up.node}: {running_steps[0] if running_steps else 'Setting up'}"
