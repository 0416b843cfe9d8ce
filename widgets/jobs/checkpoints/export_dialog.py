"""The dialog that exports a checkpoint: as weights, as ONNX, or as a folder for PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from PySide6.QtCore import QStandardPaths, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from backend.records.base.layout import position_text
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.view import JobView
from widgets.common import formats
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.dialog import Dialog, DialogHolder, TaskStatus
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import S2, ColorRole
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import EXPORT_FORMAT, JobActions

_FORMATS = {
    "zip": ("Zip", "Model source, weights, curves, and a load.py that needs only PyTorch."),
    "pt": ("PyTorch", "The state dict only, for torch.load with weights_only=True."),
    "safetensors": ("Safetensors", "The weights in a file that cannot hold code."),
    "onnx": ("ONNX", "The network for other runtimes."),
}
_SCRIPT_FORMATS = {
    "zip": ("Zip", "The file or folder as the script wrote it, in a zip."),
    "pt": ("File", "The file as the script wrote it."),
}
DEFAULT_FORMAT = "zip"
_WIDTH = 540


def is_format(key: str) -> bool:
    return key in _FORMATS


def format_title(key: str) -> str:
    return _FORMATS[key][0]


def export_name(job_name: str, key: str) -> str:
    """Return the default name of an exported file."""
    return f"{file_stem(job_name)}.{key}"


def file_stem(job_name: str) -> str:
    """Return a job's name as a file name: ``a, b/1`` is ``a b-1``."""
    stem = "".join(c if c.isalnum() or c in " -_" else "-" for c in job_name)
    return re.sub(r"(?<=\w)-+(?= )", "", stem).strip() or "job"


class ExportDialog(Dialog):
    """Asks for the checkpoint, the format and the path."""

    def __init__(
        self,
        actions: JobActions,
        view: JobView,
        checkpoints: tuple[Checkpoint, ...],
        checkpoint_name: str = "",
        folder: str = "",
        kind: str = DEFAULT_FORMAT,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Export", _WIDTH, parent)
        self._actions = actions
        self._job_id = view.id
        self._is_exporting = False
        self._checkpoints: tuple[Checkpoint, ...] = ()
        self._checkpoint = ComboBox(name="Checkpoint")
        self._formats = _SCRIPT_FORMATS if view.config.script else _FORMATS
        kind = kind if kind in self._formats else DEFAULT_FORMAT
        kinds = [(key, title) for key, (title, _) in self._formats.items()]
        self._format = SegmentedControl(kinds, kind, name="As")
        self._format.key_chosen.connect(self._apply_format)
        self._format_note = Label(self._formats[kind][1], "small", "text2", wrap=True)
        self._path = LineEdit(str(PurePath(folder) / export_name(view.name, kind)), name="To")
        self._path.textChanged.connect(self._clear_status)
        self._checkpoint.currentIndexChanged.connect(self._clear_status)
        choose_button = Button("Choose…", icon="folder-open")
        choose_button.clicked.connect(self._choose_path)
        self._status = TaskStatus("Exporting")
        self._status.cancelled.connect(lambda: actions.ask(job_actions.CANCEL_EXPORT))
        self._status.folder_requested.connect(lambda path: actions.ask(job_actions.SHOW_FILE, path))
        self._export_button = self.default_button("Export", self._request_export)
        self.fill(
            S2,
            Field("Checkpoint", self._checkpoint),
            self._format,
            self._format_note,
            col(Label("To", "small", "text2"), row((self._path, 1), choose_button), gap=4),
            self._status,
            S2,
            foot=(self.close_button(), self._export_button),
        )
        self.show_checkpoints(checkpoints, checkpoint_name)

    def show_checkpoints(
        self, checkpoints: tuple[Checkpoint, ...], checkpoint_name: str = ""
    ) -> None:
        """Update the checkpoints. "Best" and "latest" stay selected and mean the newest ones.

        A selected checkpoint that no longer exists is replaced by the best.
        """
        if self._is_exporting or self._checkpoint.view().isVisible():
            return
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        best_name = next((c.name for c in newest_first if c.is_best), "")
        latest_name = next((c.name for c in newest_first if c.is_latest), "")
        previous_checkpoint = next(
            (c for c in self._checkpoints if c.name == self._checkpoint.key()), None
        )
        if previous_checkpoint is None:
            selected_name = checkpoint_name or best_name
        elif previous_checkpoint.is_best:
            selected_name = best_name
        else:
            selected_name = (
                latest_name if previous_checkpoint.is_latest else previous_checkpoint.name
            )
        self._checkpoints = checkpoints
        names = {c.name for c in checkpoints}
        self._checkpoint.set_options(
            [(c.name, checkpoint_title(c)) for c in newest_first],
            selected_name if selected_name in names else best_name,
        )
        self._update_button()

    def show_progress(self, share: float | None, text: str) -> None:
        self._is_exporting = True
        self._status.show_progress(share, text)
        self._update_button()

    def show_exported(self, path: PurePath) -> None:
        self._finish("good", f"Exported to {path}", path=str(path))

    def show_error(self, message: str) -> None:
        self._finish("bad", message)

    def reject(self) -> None:
        if self._is_exporting:
            self._actions.ask(job_actions.CANCEL_EXPORT)
        super().reject()

    def _finish(self, color_role: ColorRole, text: str, *, path: str = "") -> None:
        self._is_exporting = False
        self._status.show_result(color_role, text, created_path=path)
        self._update_button()

    @Slot(str)
    def _apply_format(self, key: str) -> None:
        self._format_note.setText(self._formats[key][1])
        self._clear_status()
        path = PurePath(self._path.text())
        if path.suffix.lstrip(".") in _FORMATS:
            self._path.setText(str(path.with_suffix(f".{key}")))

    @Slot()
    def _choose_path(self) -> None:
        # The service refuses to overwrite, so Qt does not need to ask.
        path, _ = QFileDialog.getSaveFileName(
            self,
            "Export to",
            self._path.text(),
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if path:
            self._path.setText(path)

    @Slot()
    def _clear_status(self) -> None:
        if not self._is_exporting:
            self._status.clear()
        self._update_button()

    @Slot()
    def _update_button(self) -> None:
        is_ready = bool(self._checkpoint.key() and self._path.text().strip())
        self._export_button.setEnabled(is_ready and not self._is_exporting)

    @Slot()
    def _request_export(self) -> None:
        self.show_progress(None, "Starting…")
        path, kind = self._path.text().strip(), self._format.key()
        checkpoint = checkpoint_reference(self._checkpoints, self._checkpoint.key())
        self._actions.ask(job_actions.EXPORT_FORMAT, kind)
        self._actions.ask(job_actions.EXPORT_TO, self._job_id, checkpoint, kind, path)


def checkpoint_reference(checkpoints: Iterable[Checkpoint], name: str) -> str:
    """Return "best" or "latest" for these: a live run may delete the one that is shown."""
    checkpoint = next((c for c in checkpoints if c.name == name), None)
    if checkpoint is not None and checkpoint.is_best:
        return "best"
    return "latest" if checkpoint is not None and checkpoint.is_latest else name


def checkpoint_label(checkpoint: Checkpoint) -> str:
    """Return "Epoch 3, step 540", and the name that a script gave it."""
    label = formats.checkpoint(checkpoint.name)
    if not checkpoint.file:
        return label
    position = position_text(checkpoint.epoch, checkpoint.step, formats.count)
    return f"{PurePath(checkpoint.file).name} ({position})"


def checkpoint_title(checkpoint: Checkpoint) -> str:
    label = checkpoint_label(checkpoint)
    return f"{label} ({checkpoint.marks})" if checkpoint.marks else label


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

    def show_error(self, message: str) -> bool:
        """Show in the open dialog why an export was refused; return whether a dialog is open."""
        dialog = self.dialog.dialog
        if dialog is None or not dialog.isVisible():
            return False
        dialog.show_error(message)
        return True
