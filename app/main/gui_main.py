"""The process of the window: what has to be true before the first object, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from app.main.bootstrap import Program
from app.runtime.excepthook import ExceptHook
from app.runtime.paths import log_file, settings_file
from app.runtime.settings import Settings
from backend.base import log
from backend.base.errors import BackendError
from backend.records.base.program_name import COMMAND
from backend.records.base.remote_root import RemoteRoot
from widgets.common.ui_scale import SCALE_VARIABLE, scale_for

_HEARTBEAT_MS = 200
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def main(data_root: Path | RemoteRoot, catalogue: Path | None, demo_workers: int | None) -> int:
    """Open the window and stay until it is closed; returns the exit code.

    Raises:
        BackendError: There is no display to open it on.
    """
    if sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        # Qt itself would abort the process, with words for programmers.
        raise BackendError(
            "There is no display here to open the window on.",
            f"Use a subcommand ({COMMAND} --help), or start it where a screen is.",
        )
    # Qt reads it when the application is made, and never again.
    os.environ.setdefault(
        SCALE_VARIABLE, scale_for(Settings(settings_file()).preferences.scale_percent)
    )
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Ringmaster")
    app.setDesktopFileName("ringmaster")
    log.to_file(log_file())
    program = Program(app, data_root, catalogue, demo_workers)
    ExceptHook(partial(_tell_bug, program.window), log_file()).install()
    # Python sees Ctrl+C only between two of its own instructions: give it some.
    signal.signal(signal.SIGINT, lambda *_: program.end())
    heartbeat = QTimer()
    heartbeat.timeout.connect(_nothing)
    heartbeat.start(_HEARTBEAT_MS)
    program.show()
    code = app.exec()
    if not program.close():
        # Python joins every thread before it ends; one that stands in a share that is away would
        # keep a process that nobody sees for as long. What it was writing is as after a kill.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _tell_bug(window: QWidget, text: str, log_path: Path) -> None:
    """The one dialog for what is our fault."""
    box = QMessageBox(window)
    box.setWindowTitle("A fault in Ringmaster")
    box.setText("Something in Ringmaster itself went wrong. Your jobs go on.")
    box.setInformativeText(f"The details are in {log_path}.")
    box.setDetailedText(text)
    copy = box.addButton("Copy", QMessageBox.ButtonRole.ActionRole)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(text))
    box.addButton(QMessageBox.StandardButton.Close)
    box.exec()


def _nothing() -> None:
    """Python's turn."""
