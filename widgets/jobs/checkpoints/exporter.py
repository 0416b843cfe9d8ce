"""Exports from the open job: the dialog, and the format used last."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.view import JobView
from widgets.common.dialog import DialogHolder
from widgets.jobs.actions.job_actions import EXPORT_FORMAT, JobActions
from widgets.jobs.checkpoints.export_dialog import DEFAULT_FORMAT, ExportDialog, is_format


class Exporter:
    """Opens the export dialog.

    Attributes:
        kind: The default format of the next export.
        dialog: The open dialog.
    """

    def __init__(self, actions: JobActions, window: QWidget) -> None:
        self._window = window
        self._actions = actions
        self._job_id = ""
        self.kind = DEFAULT_FORMAT
        self.dialog: DialogHolder[ExportDialog] = DialogHolder()
        actions.add_handler(EXPORT_FORMAT, self.restore_kind)

    def restore_kind(self, kind: str) -> None:
        """Restore the format of the last export; an unknown format is ignored."""
        if is_format(kind):
            self.kind = kind

    def open_dialog(
        self, view: JobView, checkpoints: Sequence[Checkpoint], checkpoint_name: str = ""
    ) -> None:
        """Open the dialog, with the checkpoint of this name selected."""
        home_folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
        self._job_id = view.id
        self.dialog.open(
            ExportDialog(
                self._actions,
                view,
                tuple(checkpoints),
                checkpoint_name,
                home_folder,
                self.kind,
                self._window,
            )
        )

    def show_checkpoints(self, job_id: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Update the open dialog: the run may save more checkpoints."""
        if self.dialog.dialog is not None and self._job_id == job_id:
            self.dialog.dialog.show_checkpoints(checkpoints)

    def show_progress(self, job_id: str, share: float | None, text: str) -> None:
        if self.dialog.dialog is not None and self._job_id == job_id:
            self.dialog.dialog.show_progress(share, text)

    def show_exported(self, job_id: str, path: str) -> None:
        if self.dialog.dialog is not None and self._job_id == job_id:
            self.dialog.dialog.show_exported(path)

    def show_error(self, message: str) -> bool:
        """Show in the open dialog why an export was refused; return whether a dialog is open."""
        dialog = self.dialog.dialog
        if dialog is None or not dialog.isVisible():
            return False
        dialog.show_error(message)
        return True
