"""The dialog that writes the report of jobs to one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from widgets.common.buttons import Switch
from widgets.common.dialog import TaskDialog
from widgets.common.fields import Field, LineEdit
from widgets.common.labels import Label
from widgets.common.layout import col
from widgets.common.theme import S2, ColorRole

_DESCRIPTION = (
    "Curves, samples over time, results, settings that differ, notes, hashes and how to repeat it, "
    "in one file: .html for any browser or a phone, .pdf for a printer."
)


@dataclass(frozen=True)
class ReportRequest:
    """A report to write to ``path``. ``samples`` are numbers of validation samples, or ""."""

    path: Path
    samples: str
    shows_places: bool


class ReportDialog(TaskDialog):
    """Asks for the content of a report, and its path.

    Signals:
        report_requested: A `ReportRequest`. The user agreed to replace an existing file.
    """

    report_requested = Signal(ReportRequest)

    def __init__(self, suggested_path: str, parent: QWidget | None = None) -> None:
        super().__init__("Report", parent)
        self._suggested_path = suggested_path
        self._samples = LineEdit(placeholder="None; or numbers: 0-9, 25", name="Samples")
        self._shows_places = Switch("Show paths and names of machines")
        hint = Label("Otherwise they are hidden; nodes have numbers.", "small", "text2")
        self._save_button = self.default_button("Save as…", self._request)
        self.fill(
            Label(_DESCRIPTION, "body", "text2", wrap=True),
            S2,
            Field("Validation samples and their predictions", self._samples),
            col(self._shows_places, hint, gap=4),
            self._status,
            S2,
            foot=(self._close, self._save_button),
        )

    def show_progress(self, share: float | None, text: str) -> None:
        super().show_progress(share, text)
        self._save_button.setEnabled(False)

    def show_result(self, color_role: ColorRole, text: str, *, created_path: str = "") -> None:
        super().show_result(color_role, text, created_path=created_path)
        self._save_button.setEnabled(True)

    def show_done(self, path: Path) -> None:
        self.show_result("good", f"Written to {path}.", created_path=str(path))

    @Slot()
    def _request(self) -> None:
        # Qt asks here before an existing file is replaced.
        path, _ = QFileDialog.getSaveFileName(
            self, "Save report", self._suggested_path, "Reports (*.html *.pdf)"
        )
        if path:
            self._suggested_path = path
            self.show_progress(None, "Starting…")
            samples, shows_places = self._samples.text().strip(), self._shows_places.isChecked()
            self.report_requested.emit(ReportRequest(Path(path), samples, shows_places))
