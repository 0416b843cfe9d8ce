"""Prepare a session in the form, and open one that runs in the browser."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QWidget

from app.jobs.form_controller import FormController
from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.base.progress import Progress
from backend.services.jobs.sessions import SessionService
from widgets.common.dialog import ProgressDialog
from widgets.jobs.actions.job_actions import COPY_SSH, OPEN_SESSION, JobActions
from widgets.jobs.form.job_fields import JobDraft


class SessionController(DialogController[ProgressDialog]):
    """The connections of opened sessions end with the services; the sessions stay."""

    def __init__(
        self,
        sessions: SessionService,
        runner: Runner,
        actions: JobActions,
        drafts: FormController,
        window: QWidget,
    ) -> None:
        super().__init__(runner, window)
        self._sessions = sessions
        self._drafts = drafts
        actions.add_handler(OPEN_SESSION, self._open)
        actions.add_handler(COPY_SSH, self._copy_ssh)

    def prepare(self, node: str) -> None:
        """Show the form with a session on a node, and with a free GPU of it if there is one."""

        def read() -> dict[str, Any]:
            try:
                return self._sessions.job_file(node)
            except BackendError as error:
                swallowed(error)
                return self._sessions.job_file(node, "0")

        self.serve("form", read, lambda raw: self._drafts.show_draft(JobDraft(raw)))

    def _copy_ssh(self, job_id: str) -> None:
        def copy(commands: tuple[str, str]) -> None:
            QGuiApplication.clipboard().setText(commands[0])
            self._runner.notify(
                " Then: ".join(filter(None, (f"Copied: {commands[0]}", commands[1])))
            )

        self.serve(f"session {job_id}", partial(self._sessions.ssh_command, job_id), copy)

    def _open(self, job_id: str) -> None:
        dialog = ProgressDialog("Session", parent=self._window)
        dialog.cancel_requested.connect(self.cancel_task)
        self.open(dialog)
        dialog.show_progress(None, "Connecting")

        def work(progress: Progress) -> Path:
            return self._sessions.open(job_id, progress)

        def show(page: Path) -> None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(page)))
            dialog.accept()

        self.run_task(dialog, f"session {job_id}", work, show, dialog.show_progress)
