"""The dialogs that write a job into one file, and import one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from backend.records.bundles.job_archive import NO_CHECKPOINT, SUFFIX, ImportedJob, WrittenBundle
from backend.records.jobs.checkpoint import Checkpoint
from widgets.common import formats
from widgets.common.buttons import Button, Switch
from widgets.common.dialog import ProgressDialog, TaskDialog
from widgets.common.fields import ComboBox, Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import col, row
from widgets.common.theme import S2, ColorRole
from widgets.jobs.checkpoints.export_dialog import checkpoint_reference, checkpoint_title, file_stem

_DESCRIPTION = (
    "Model, loader, settings, seed, versions and curves in one file. Another desktop verifies "
    "every byte and can train the job again."
)


@dataclass(frozen=True)
class BundleRequest:
    """A bundle to write; ``overwrite`` if the user confirmed replacing an existing file."""

    path: str
    checkpoint: str
    with_data: bool
    overwrite: bool


class BundleDialog(TaskDialog):
    """Asks for the contents of a job's bundle, and its path.

    Signals:
        bundle_requested: A `BundleRequest`.
    """

    bundle_requested = Signal(BundleRequest)

    def __init__(
        self,
        job_name: str,
        checkpoints: tuple[Checkpoint, ...],
        folder: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Bundle", parent)
        self._checkpoints = checkpoints
        newest_first = sorted(checkpoints, key=lambda c: (c.step, c.run), reverse=True)
        options = [(c.name, checkpoint_title(c)) for c in newest_first]
        checkpoint_name = next((c.name for c in newest_first if c.is_latest), NO_CHECKPOINT)
        self._checkpoint = ComboBox(
            [*options, (NO_CHECKPOINT, "None")], checkpoint_name, name="Checkpoint"
        )
        self._with_data = Switch("Include the dataset's files")
        hint = Label(
            "Without the files, only the dataset's hash is stored.", "small", "text2", wrap=True
        )
        self._path = LineEdit(str(PurePath(folder) / f"{file_stem(job_name)}{SUFFIX}"), name="To")
        self._path.textChanged.connect(self._handle_change)
        self._checkpoint.currentIndexChanged.connect(self._handle_change)
        self._with_data.toggled.connect(self._handle_change)
        self._confirmed_path = ""
        choose_button = Button("Choose…", icon="folder-open")
        choose_button.clicked.connect(self._choose_path)
        self._bundle_button = self.default_button("Bundle", self._request)
        self.fill(
            Label(_DESCRIPTION, "body", "text2", wrap=True),
            S2,
            Field("Checkpoint", self._checkpoint),
            col(self._with_data, hint, gap=4),
            col(Label("To", "small", "text2"), row((self._path, 1), choose_button), gap=4),
            self._status,
            S2,
            foot=(self._close, self._bundle_button),
        )
        self._update_state()

    def show_progress(self, share: float | None, text: str) -> None:
        super().show_progress(share, text)
        self._update_state()

    def show_done(self, bundle: WrittenBundle) -> None:
        text = f"Written to {bundle.path}, {formats.disk(bundle.bytes)}."
        if bundle.omitted_variables:
            text += f" The values of {', '.join(bundle.omitted_variables)} are not included."
        self.show_result("good", text, created_path=str(bundle.path))

    def show_result(self, color_role: ColorRole, text: str, *, created_path: str = "") -> None:
        super().show_result(color_role, text, created_path=created_path)
        self._update_state()

    @Slot()
    def _choose_path(self) -> None:
        # Qt asks here before an existing file is replaced.
        path, _ = QFileDialog.getSaveFileName(
            self, "Bundle to", self._path.text(), f"Bundles (*{SUFFIX})"
        )
        if path:
            self._confirmed_path = path
            self._path.setText(path)

    @Slot()
    def _handle_change(self) -> None:
        if not self.is_under_way:
            self._status.clear()
        self._update_state()

    @Slot()
    def _update_state(self) -> None:
        self._bundle_button.setEnabled(bool(self._path.text().strip()) and not self.is_under_way)

    @Slot()
    def _request(self) -> None:
        self.show_progress(None, "Starting…")
        path = self._path.text().strip()
        checkpoint = checkpoint_reference(self._checkpoints, self._checkpoint.key())
        with_data, overwrite = self._with_data.isChecked(), path == self._confirmed_path
        self.bundle_requested.emit(BundleRequest(path, checkpoint, with_data, overwrite))


class UnbundleDialog(ProgressDialog):
    """The progress of an import; closes itself on success if there is nothing to report."""

    def __init__(self, file_name: str, parent: QWidget | None = None) -> None:
        super().__init__("Import a bundle", file_name, parent)
        self.show_progress(None, "Reading the file…")

    def show_done(self, result: ImportedJob) -> None:
        if result.notes:
            self.show_result("text", "\n\n".join((result.origin, *result.notes)))
        else:
            self.accept()
