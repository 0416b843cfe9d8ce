"""The process of the window: its start-up before the first object, and its end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from app.main.bootstrap import Program
from app.runtime.settings import Settings, log_file, settings_file
from backend.base import log
from backend.base.errors import BackendError
from backend.records.base.program_name import COMMAND
from backend.records.base.remote_root import RemoteRoot
from widgets.common.theme_manager import SCALE_VARIABLE, scale_for

_log = logging.getLogger(__name__)

_HEARTBEAT_MS = 200
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def main(data_root: Path | RemoteRoot, catalogue: Path | None, demo_workers: int | None) -> int:
    """Open the window and run until it is closed; return the exit code.

    Raises:
        BackendError: No display is available.
    """
    if sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
        # Qt itself would abort the process with a message for programmers.
        raise BackendError(
            "No display is available to open the window on.",
            f"Use a subcommand ({COMMAND} --help), or start it on a computer with a screen.",
        )
    # Qt reads it once, when the application is made.
    os.environ.setdefault(
        SCALE_VARIABLE, scale_for(Settings(settings_file()).preferences.scale_percent)
    )
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Ringmaster")
    app.setDesktopFileName("ringmaster")
    log.to_file(log_file())
    program = Program(app, data_root, catalogue, demo_workers)
    ExceptHook(partial(_report_bug, program.window), log_file()).install()
    # Python handles Ctrl+C only between two of its own instructions: run some.
    signal.signal(signal.SIGINT, lambda *_: program.quit())
    heartbeat = QTimer()
    heartbeat.timeout.connect(_handle_signals)
    heartbeat.start(_HEARTBEAT_MS)
    program.show()
    code = app.exec()
    if not program.close():
        # At exit Python joins every thread; one that waits for a lost share would keep an invisible
        # process alive for as long. What it was writing is left as after a kill.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _report_bug(window: QWidget, text: str, log_path: Path) -> None:
    """Show the one dialog for bugs of this program."""
    box = QMessageBox(window)
    box.setWindowTitle("Error in Ringmaster")
    box.setText("Ringmaster itself had an error. Your jobs keep running.")
    box.setInformativeText(f"The details are in {log_path}.")
    box.setDetailedText(text)
    copy = box.addButton("Copy", QMessageBox.ButtonRole.ActionRole)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(text))
    box.addButton(QMessageBox.StandardButton.Close)
    box.exec()


def _handle_signals() -> None:
    """Let Python handle signals."""


class ExceptHook:
    """Replace ``sys.excepthook``; ``show_dialog`` shows the dialog, one at a time."""

    def __init__(self, show_dialog: Callable[[str, Path], None], log_path: Path) -> None:
        self._show_dialog = show_dialog
        self._log_path = log_path
        self._is_reporting = False

    def install(self) -> None:
        sys.excepthook = self

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        _log.error("A bug:\n%s", text)
        sys.stderr.write(text)
        if issubclass(kind, KeyboardInterrupt) or self._is_reporting:
            return
        self._is_reporting = True
        try:
            self._show_dialog(text, self._log_path)
        finally:
            self._is_reporting = False
