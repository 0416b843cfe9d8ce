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
from backend.records.verify.finding import Repaired, Verification, VerifyFinding
from widgets.common.dialog_holder import DialogHolder
from widgets.shell.verify_section import RepairDialog, VerifySection

if TYPE_CHECKING:
    from backend.services.verify.service import VerifyService

_LANE = "check everything"


class VerifyController(Controller):
    """One for as long as a data root is open."""

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
        self._found: Verification | None = None
        self._dialog: DialogHolder[RepairDialog] = DialogHolder()
        section.check_requested.connect(self._check)
        section.cancelled.connect(self._cancel)
        section.repair_requested.connect(self._confirm)

    @Slot(bool)
    def _check(self, hashes: bool) -> None:
        progress = self._begin("Reading jobs")
        verify = partial(self._service.verify, hashes=hashes, progress=progress)
        self._runner.run(_LANE, verify, self._show, self._refuse)

    @Slot()
    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()

    def _begin(self, what: str) -> Progress:
        self._section.show_progress(None, what)
        self._progress = self._runner.progress(self._section.show_progress)
        return self._progress

    def _show(self, found: Verification) -> None:
        self._found, self._progress = found, None
        self._section.show_result(found)

    def _refuse(self, error: BackendError) -> None:
        self._progress = None
        self._section.show_error("" if isinstance(error, Cancelled) else error.with_remedy)

    @Slot(object)
    def _confirm(self, findings: tuple[VerifyFinding, ...]) -> None:
        dialog = RepairDialog(findings, self._window)
        dialog.requested.connect(partial(self._repair, findings))
        self._dialog.open(dialog)

    def _repair(self, findings: tuple[VerifyFinding, ...]) -> None:
        found = self._found
        if found is None:
            return
        hashes = found.hashed_bytes is not None
        progress = self._begin("Repairing")

        def repaired(done: Repaired) -> None:
            keys = {one.key for one in findings} - {one.key for one in done.left}
            rest = tuple(one for one in found.findings if one.key not in keys)
            self._show(replace(found, findings=rest))
            self._runner.notify(done.sentence)

        def refused(error: BackendError) -> None:
            self._show(found)
            self._runner.notify(error.with_remedy)

        repair = partial(self._service.repair, findings, hashes=hashes, progress=progress)
        self._runner.run(_LANE, repair, repaired, refused)
