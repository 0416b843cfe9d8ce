"""Exports from the open job: the dialog, and the format used last."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QStandardPaths, Signal
from PySide6.QtWidgets import QWidget

from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.view import JobView
from widgets.common.dialog_holder import DialogHolder
from widgets.jobs.checkpoints.export_dialog import USUAL_FORMAT, ExportDialog, is_format


class ExportActs(QObject):
    """Opens the export dialog and forwards its requests.

    Signals:
        export_requested: Job id, checkpoint, format, path.
        export_cancelled: Cancel the export that is under way.
        kind_chosen: The format of an export, to be stored for the next one.
        folder_requested: Path of the exported file, to be shown in the file manager.

    Attributes:
        kind: The format that the next export begins with.
        dialog: The dialog, while it is open.
    """

    export_requested = Signal(str, str, str, str)
    export_cancelled = Signal()
    kind_chosen = Signal(str)
    folder_requested = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._job_id = ""
        self.kind = USUAL_FORMAT
        self.dialog: DialogHolder[ExportDialog] = DialogHolder()

    def restore_kind(self, kind: str) -> None:
        """Restore the format that `kind_chosen` gave; an unknown one is ignored."""
        if is_format(kind):
            self.kind = kind

    def ask(self, view: JobView, checkpoints: tuple[Checkpoint, ...], chosen: str = "") -> None:
        """Open the dialog, with the checkpoint of this name selected."""
        home = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.HomeLocation)
        dialog = ExportDialog(view.name, checkpoints, chosen, home, self.kind, self._window)
        dialog.export_requested.connect(partial(self._wish, view.id))
        dialog.export_cancelled.connect(self.export_cancelled)
        dialog.folder_requested.connect(self.folder_requested)
        self._job_id = view.id
        self.dialog.open(dialog)

    def show_checkpoints(self, job_id: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        """Update the dialog: the run may save checkpoints while it is open."""
        if self.dialog.now is not None and self._job_id == job_id:
            self.dialog.now.show_checkpoints(checkpoints)

    def show_progress(self, share: float | None, text: str) -> None:
        if self.dialog.now is not None:
            self.dialog.now.show_progress(share, text)

    def show_done(self, path: str) -> None:
        if self.dialog.now is not None:
            self.dialog.now.show_done(path)

    def take_error(self, sentence: str) -> bool:
        """Show in the open dialog why an export was refused; return whether it is open."""
        dialog = self.dialog.now
        if dialog is None or not dialog.isVisible():
            return False
        dialog.show_error(sentence)
        return True

    def _wish(self, job_id: str, checkpoint: str, kind: str, path: str) -> None:
        self.restore_kind(kind)
        self.kind_chosen.emit(kind)
        self.export_requested.emit(job_id, checkpoint, kind, path)
