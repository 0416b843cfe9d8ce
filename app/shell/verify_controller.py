"""Check the whole data root from the settings, and repair what the user confirms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController, LatestRequest
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.verify.finding import RepairResult, Verification, VerifyFinding
from widgets.common.dialog import Question
from widgets.shell.verify_section import VerifySection, repair_question

if TYPE_CHECKING:
    from backend.services.verify.service import VerifyService

_QUEUE = "check everything"


class VerifyController(DialogController[Question]):
    """Check and repair the data root while it is open."""

    def __init__(
        self, service: VerifyService, runner: Runner, section: VerifySection, window: QWidget
    ) -> None:
        super().__init__(runner, window)
        self._service = service
        self._section = section
        self._request = LatestRequest(runner)
        self._verification: Verification | None = None
        section.check_requested.connect(self._check)
        section.cancelled.connect(self._request.cancel)
        section.repair_requested.connect(self._confirm)

    @Slot(bool)
    def _check(self, hashes: bool) -> None:
        def verify(progress: Progress) -> Verification:
            return self._service.verify(hashes=hashes, progress=progress)

        def show_error(error: BackendError) -> None:
            self._section.show_error("" if isinstance(error, Cancelled) else error.with_remedy)

        self._section.show_progress(None, "Reading jobs")
        self._request.run(_QUEUE, verify, self._show, show_error, self._section.show_progress)

    def _show(self, verification: Verification) -> None:
        self._verification = verification
        self._section.show_result(verification)

    @Slot(object)
    def _confirm(self, findings: tuple[VerifyFinding, ...]) -> None:
        self.open(repair_question(findings, partial(self._repair, findings), self._window))

    def _repair(self, findings: tuple[VerifyFinding, ...]) -> None:
        verification = self._verification
        if verification is None:
            return
        hashes = verification.hashed_bytes is not None

        def repair(progress: Progress) -> RepairResult:
            return self._service.repair(findings, hashes=hashes, progress=progress)

        def show_result(result: RepairResult) -> None:
            keys = {f.key for f in findings} - {f.key for f in result.remaining_findings}
            remaining_findings = tuple(f for f in verification.findings if f.key not in keys)
            self._show(replace(verification, findings=remaining_findings))
            self._runner.notify(result.message)

        def show_error(error: BackendError) -> None:
            self._show(verification)
            self._runner.notify(error.with_remedy)

        self._section.show_progress(None, "Repairing")
        self._request.run(_QUEUE, repair, show_result, show_error, self._section.show_progress)
