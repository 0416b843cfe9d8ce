"""Start jobs. If the preflight check fails, show the failures and fix them on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.library.package_controller import PackageController
from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.jobs.config import JobConfig
from backend.records.jobs.placement import Placement
from backend.records.jobs.view import JobView
from backend.records.nodes.entry import SetUp, StepState
from backend.records.nodes.preflight import (
    TrialResult,
    Preflight,
    PreflightFinding,
    placement_after,
)
from backend.services.context.container import Services
from backend.services.preflight.service import PreflightFailed
from widgets.common import formats
from widgets.common.dialog_holder import DialogHolder
from widgets.jobs.preflight.preflight_dialog import PreflightDialog
from widgets.nodes.provisioning.host_key_dialog import HostKeyDialog

NO_PLACE: tuple[Placement, ...] = ()
"""The placement in the job itself."""


@dataclass(frozen=True)
class StartRequest:
    """A start that the user requested; every call but ``act`` runs on the GUI thread.

    Attributes:
        job_id: "" for a job that is created only when it can start.
        act: Starts it, on a worker. With a placement the job runs there.
        show_busy: The step under way ("" when it is over).
        began: The job was started.
        refused: It cannot start, and no preflight dialog is open for it.
    """

    job_id: str
    act: Callable[[tuple[Placement, ...], Progress], JobView]
    show_busy: Callable[[str], None]
    began: Callable[[JobView], None]
    refused: Callable[[BackendError], None]

    @property
    def lane(self) -> str:
        return f"job {self.job_id}" if self.job_id else "create"


class StartController(Controller):
    """One preflight dialog at a time; another start closes it."""

    def __init__(
        self,
        services: Services,
        runner: Runner,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
        self._services = services
        self._preflights: dict[str, Progress] = {}
        self.talk: PreflightSession | None = None

    def start(self, request: StartRequest) -> None:
        """Check, and start at once if nothing prevents it."""
        progress = self._preflights[request.job_id] = self._runner.progress(
            lambda _share, what: request.show_busy(formats.with_ellipsis(what))
        )
        request.show_busy("Starting…")

        def over() -> None:
            if self._preflights.get(request.job_id) is progress:
                del self._preflights[request.job_id]
            request.show_busy("")

        def began(view: JobView) -> None:
            over()
            request.began(view)

        def refused(error: BackendError) -> None:
            over()
            if isinstance(error, PreflightFailed):
                self._open(request, error.config).show_found(error.preflight)
            elif not isinstance(error, Cancelled):
                request.refused(error)

        self._runner.run(request.lane, lambda: request.act(NO_PLACE, progress), began, refused)

    def cancel(self, job_id: str) -> None:
        """Cancel a start, if it has not begun."""
        if job_id in self._preflights:
            self._preflights[job_id].cancel()

    def check(self, request: StartRequest, config: JobConfig) -> None:
        """Check only, and show the result even if everything passes."""
        self._open(request, config).check_all()

    def _open(self, request: StartRequest, config: JobConfig) -> PreflightSession:
        if self.talk is not None:
            self.talk.dialog.reject()
        self.talk = PreflightSession(
            self._services, self._runner, request, config, self._window, self
        )
        self.talk.over.connect(self._forget)
        self.talk.dialog.open()
        return self.talk

    @Slot(object)
    def _forget(self, talk: PreflightSession) -> None:
        if self.talk is talk:
            self.talk = None


class PreflightSession(QObject):
    """One dialog about one start, from the first finding until the start or the closing.

    Signals:
        over: The dialog was closed; carries this session.
    """

    over = Signal(object)

    def __init__(
        self,
        services: Services,
        runner: Runner,
        request: StartRequest,
        config: JobConfig,
        window: QWidget,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._services = services
        self._runner = runner
        self._request = request
        self._config = config
        self._found: Preflight | None = None
        self._placement = NO_PLACE
        self._progress: Progress | None = None
        self._to_ask: set[str] = set()
        self._is_open = True
        self._asking: DialogHolder[HostKeyDialog] = DialogHolder()
        self.dialog = PreflightDialog(bool(request.job_id), window)
        self.dialog.fix_requested.connect(self._fix)
        self.dialog.fix_all_requested.connect(self._fix_all)
        self.dialog.check_again_requested.connect(self.check_all)
        self.dialog.start_requested.connect(self._start)
        self.dialog.start_on_requested.connect(self._start_on)
        self.dialog.canary_requested.connect(self._try)
        self.dialog.install_requested.connect(self._install)
        self.dialog.cancel_requested.connect(self._cancel)
        self.dialog.finished.connect(self._closed)

    def show_found(self, found: Preflight) -> None:
        self._found = found
        self.dialog.show_found(found, self._config.placement)

    # Checking.

    @Slot()
    def check_all(self) -> None:
        self._check({one.node for one in self._config.placement})

    def _check(self, nodes: set[str]) -> None:
        """Check these nodes; those requested during a check follow after it."""
        self._to_ask |= nodes
        if self._progress is None:
            self._check_now()

    def _check_now(self) -> None:
        asked, self._to_ask = sorted(self._to_ask), set()
        if not asked or not self._is_open:
            return
        before, config, job_id = self._found, self._config, self._request.job_id
        preflight = self._services.preflight
        progress = self._begin(f"Checking {', '.join(asked) if len(asked) < 4 else 'the nodes'}")

        def run_checks() -> Preflight:
            if before is None or set(before.nodes).issubset(asked):
                return preflight.run(config, job_id, cancelled=lambda: progress.is_cancelled)
            return preflight.check_again(
                config, before, asked, job_id, lambda: progress.is_cancelled
            )

        def found(outcome: Preflight) -> None:
            self._end()
            self.show_found(outcome)
            self._check_now()

        self._runner.run("preflight", run_checks, found, self._refused)

    # Fixing.

    @Slot(object)
    def _fix(self, finding: PreflightFinding) -> None:
        if finding.host_key is not None:
            ask = HostKeyDialog(finding.host_key, self.dialog)
            ask.trusted.connect(lambda _key: self._fix_all((finding,)))
            self._asking.open(ask)
        elif finding.fix.is_about_job:
            self._move(placement_after(self._config.placement, finding), finding)
        else:
            self._fix_all(self._repaired_with(finding))

    def _repaired_with(self, finding: PreflightFinding) -> tuple[PreflightFinding, ...]:
        """All findings that this fix resolves, so that the work is not repeated."""
        wrong = (*self._found.blocking_findings, *self._found.warnings) if self._found is not None else ()
        alike = [one for one in wrong if one.fix is finding.fix]
        if not finding.fix.is_about_all_nodes:
            alike = [one for one in alike if one.nodes == finding.nodes]
        return tuple(dict.fromkeys((finding, *alike)))

    def _move(self, placement: tuple[Placement, ...], finding: PreflightFinding) -> None:
        if not placement:
            self.dialog.show_not_repaired(
                finding, "No node would be left for the job.", "Choose other nodes for the job."
            )
            return
        self._placement = placement
        self._config = replace(self._config, placement=placement)
        self._check(set(finding.nodes))

    @Slot(object)
    def _fix_all(self, findings: Sequence[PreflightFinding]) -> None:
        wanted = tuple(findings)
        self.dialog.show_fixing(wanted)

        def report(_share: float | None, what: str) -> None:
            node, _, step = what.partition(": ")
            if self._is_open:
                there = [finding for finding in wanted if node in finding.nodes]
                self.dialog.show_fixing(there, formats.with_ellipsis(step))

        progress = self._runner.progress(report)
        nodes = {node for finding in wanted for node in finding.nodes}
        self._runner.run(
            f"fix {' '.join(sorted(nodes))}",
            lambda: self._services.preflight.fix_all(
                wanted, lambda set_up: progress.report(0, 0, _step_of(set_up))
            ),
            partial(self._repaired, wanted),
            lambda error: self._repaired(wanted, dict.fromkeys(wanted, error)),
        )

    def _repaired(
        self,
        wanted: tuple[PreflightFinding, ...],
        failed: Mapping[PreflightFinding, BackendError],
    ) -> None:
        if not self._is_open:
            for error in dict.fromkeys(failed.values()):
                self._runner.notify(error.with_remedy)
            return
        for finding, error in failed.items():
            self.dialog.show_not_repaired(finding, str(error), error.remedy)
        nodes = {node for one in wanted if one not in failed for node in one.nodes}
        if any(one.fix.is_about_all_nodes for one in wanted if one not in failed):
            nodes = {one.node for one in self._config.placement}
        if nodes:
            self._check(nodes)

    # Trying and starting.

    @Slot()
    def _try(self) -> None:
        # Not on the job's previous nodes: it may be about to resume elsewhere.
        placement = self._config.placement
        progress = self._begin("Training one batch")

        def tried(canary: TrialResult) -> None:
            self._end()
            self.dialog.show_canary(canary)

        self._runner.run(
            "canary",
            lambda: self._services.trial_runs.run(
                self._request.job_id,
                lambda state: progress.report(0, 0, f"Training one batch: {state.word.lower()}"),
                lambda: progress.is_cancelled,
                placement,
            ),
            tried,
            self._refused,
        )

    @Slot(str)
    def _install(self, module: str) -> None:
        """Install what the batch did not find on the nodes, and try it again."""
        self._packages = PackageController(self._services.packages, self._runner, self.dialog, self)
        self._packages.ask(module, [one.node for one in self._config.placement], self._try)

    @Slot(object)
    def _start_on(self, placement: tuple[Placement, ...]) -> None:
        self._placement = placement
        self._config = replace(self._config, placement=placement)
        self._start()

    @Slot()
    def _start(self) -> None:
        progress = self._begin("Starting")

        def began(view: JobView) -> None:
            self._end()
            self.dialog.accept()
            self._request.began(view)

        self._runner.run(
            self._request.lane,
            lambda: self._request.act(self._placement, progress),
            began,
            self._refused,
        )

    # Shared by both.

    def _begin(self, sentence: str) -> Progress:
        progress = self._progress = self._runner.progress(
            lambda share, what: self._report(progress, share, what)
        )
        self.dialog.show_busy(sentence)
        return progress

    def _report(self, progress: Progress, share: float | None, what: str) -> None:
        if progress is self._progress:
            self.dialog.show_busy(what, share)

    def _end(self) -> None:
        self._progress = None

    def _refused(self, error: BackendError) -> None:
        self._end()
        self._to_ask.clear()
        if isinstance(error, PreflightFailed):
            self.show_found(error.preflight)
        elif isinstance(error, Cancelled) and self._found is None:
            self.dialog.reject()
        elif isinstance(error, Cancelled):
            self.dialog.show_busy("")
        else:
            self.dialog.show_error(str(error), error.remedy)

    @Slot()
    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()

    @Slot(int)
    def _closed(self, result: int) -> None:
        self._cancel()
        self._is_open = False
        was_given_up = result == PreflightDialog.DialogCode.Rejected
        if was_given_up and self._found is not None and not self._found.succeeded:
            # Where Start was pressed the reason stays readable.
            self._request.refused(PreflightFailed(self._found, self._config))
        self.dialog.deleteLater()
        self.over.emit(self)


def _step_of(set_up: SetUp) -> str:
    """Return ``gpu12: Horovod``."""
    running = [step.title for step in set_up.steps if step.state is StepState.RUNNING]
    return f"{set_up.node}: {running[0] if running else 'Setting up'}"
