"""Windows of the whole program that leave nothing to the tests after them."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent

from app.main.bootstrap import Program

WINDOW_THAT_STARTS_A_JOB = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app.main.bootstrap import Program

app = QApplication(sys.argv[:1])
program = Program(app, Path(sys.argv[1]), Path(sys.argv[2]), None)
program.show()

def look():
    if program._services is not None:
        ready.stop()
        program._job_controller.start(sys.argv[3])

ready = QTimer()
ready.timeout.connect(look)
ready.start(50)
sys.exit(app.exec())
"""
"""A program of its own, which can be killed: data root, catalogue and job are its arguments."""


def end(*programs: Program) -> None:
    """Close them; what they marked for deletion goes at once."""
    for program in programs:
        program.close()
    # A `ThemeManager` that lives on would dress the windows of other tests.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
