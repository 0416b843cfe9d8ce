"""Check the whole data root from the settings, and repair what the user confirms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.verify.finding import RepairResult, Verification, VerifyFinding
from widgets.common.dialog import DialogHolder
from widgets.shell.verify_section import RepairDialog, VerifySection

if TYPE_CHECKING:
    from backend.services.verify.service import VerifyService

_QUEUE = "check everything"


class VerifyController(Controller):
    """Check and repair the data root while it is open."""

    def __init__(
        self,
        service: VerifyService,
        runner: Runner,
        section: VerifySection,
        window: QWidget,
        parent: QObject,
    ) -> None:
        super().__init__(runner, window, parent)
        self._service = service
        self._section = section
        self._progress: Progress | None = None
        self._verification: Verification | None = None
        self._dialog: DialogHolder[RepairDialog] = DialogHolder()
        section.check_requested.connect(self._check)
        section.cancelled.connect(self._cancel)
        section.repair_requested.connect(self._confirm)

    @Slot(bool)
    def _check(self, hashes: bool) -> None:
        progress = self._start_progress("Reading jobs")
        verify = partial(self._service.verify, hashes=hashes, progress=progress)
        self._runner.run(_QUEUE, verify, self._show, self._show_error)

    @Slot()
    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()

    def _start_progress(self, step: str) -> Progress:
        self._section.show_progress(None, step)
        self._progress = self._runner.progress(self._section.show_progress)
        return self._progress

    def _show(self, verification: Verification) -> None:
        self._verification, self._progress = verification, None
        self._section.show_result(verification)

    def _show_error(self, error: BackendError) -> None:
        self._progress = None
        self._section.show_error("" if isinstance(error, Cancelled) else error.with_remedy)

    @Slot(object)
    def _confirm(self, findings: tuple[VerifyFinding, ...]) -> None:
        dialog = RepairDialog(findings, self._window)
        dialog.requested.connect(partial(self._repair, findings))
        self._dialog.open(dialog)

    def _repair(self, findings: tuple[VerifyFinding, ...]) -> None:
        verification = self._verification
        if verification is None:
            return
        hashes = verification.hashed_bytes is not None
        progress = self._start_progress("Repairing")

        def show_result(result: RepairResult) -> None:
            keys = {f.key for f in findings} - {f.key for f in result.remaining_findings}
            remaining_findings = tuple(f for f in verification.findings if f.key not in keys)
            self._show(replace(verification, findings=remaining_findings))
            self._runner.notify(result.message)

        def show_error(error: BackendError) -> None:
            self._show(verification)
            self._runner.notify(error.with_remedy)

        repair = partial(self._service.repair, findings, hashes=hashes, progress=progress)
        self._runner.run(_QUEUE, repair, show_result, show_error)
