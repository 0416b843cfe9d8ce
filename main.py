"""Ringmaster: a subcommand runs on the command line; without one the window opens."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from backend.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from backend.records.base.remote_root import RemoteRoot
    from backend.records.studies.table import StudyTable


def open_window(
    data_root: Path | RemoteRoot, catalogue: Path | None, demo_workers: int | None
) -> int:
    """Open the window; with ``demo_workers``, start a job of the example in it."""
    # Imported late: the command line must not wait for Qt.
    from app.main.gui_main import main

    return main(data_root, catalogue, demo_workers)


def draw_study(table: StudyTable, suffix: str) -> bytes:
    """Draw the plot of a study for a file with this ending."""
    from PySide6.QtWidgets import QApplication

    from app.jobs.study_picture import draw

    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    _app = QApplication([])
    return draw(table, suffix)


if __name__ == "__main__":
    code = run(sys.argv[1:], open_window, draw_study)
    # Otherwise Python looks for garbage among all objects once more, which takes a quarter of the
    # time of `job list` (tests/benchmarks/command_line.py).
    gc.freeze()
    sys.exit(code)
