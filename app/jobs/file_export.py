"""Save pictures of plots and tables of curves to files of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QWidget

from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.base.errors import BackendError
from backend.records.base.atomic_files import replace_bytes
from backend.services.jobs.comparison import ComparisonService

_FILTERS = {
    ".csv": "Table (*.csv)",
    ".png": "Picture (*.png)",
    ".svg": "Drawing (*.svg)",
    ".pdf": "Page (*.pdf)",
}


class FileExport(Controller):
    """Ask for a file name, write off the GUI thread, and report the outcome."""

    def __init__(
        self,
        comparison: ComparisonService,
        runner: Runner,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._window = window
        self._comparison = comparison

    @Slot(str, object)
    def save(self, suggested: str, content: bytes) -> None:
        """Save bytes that already exist."""

        def write(path: Path) -> Path:
            try:
                replace_bytes(path, content)
            except OSError as error:
                raise BackendError(
                    f"{path} cannot be written: {error.strerror or error}."
                ) from error
            return path

        self._write(suggested, write)

    def save_csv(self, name: str, job_ids: Sequence[str]) -> None:
        """Save all scalars of these jobs."""
        ids = tuple(job_ids)

        def write(path: Path) -> Path:
            return self._comparison.write_csv(ids, path, overwrite=True)

        if ids:
            self._write(f"{name}.csv", write)

    def _write(self, suggested: str, write: Callable[[Path], Path]) -> None:
        name_filter = _FILTERS[Path(suggested).suffix]
        safe_name = suggested.replace("/", " ").replace("\\", " ")
        # The dialog itself asks before it overwrites a file.
        chosen_path, _ = QFileDialog.getSaveFileName(self._window, "Save", safe_name, name_filter)
        if not chosen_path:
            return
        path = Path(chosen_path)
        self._runner.notify(f"Writing {path.name}…")
        self.serve(
            "save",
            lambda: write(path),
            lambda saved_path: self._runner.notify(f"Saved {saved_path.name}"),
        )


def show_in_folder(path: str) -> None:
    """Open the folder of a file in the file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(path).absolute().parent)))
