"""Windows of the whole program that leave nothing to the tests after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import keyring
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.base.remote_root import RemoteRoot
from backend.services.context.container import Services
from tests.waiting import LIMIT_MS
from widgets.common.theme_manager import ThemeChoice

WINDOW_THAT_STARTS_A_JOB = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app.main.bootstrap import Program

app = QApplication(sys.argv[:1])
program = Program(app, Path(sys.argv[1]), Path(sys.argv[2]), None)
program.show()

def start():
    if program._services is not None:
        ready.stop()
        program._job_controllers.jobs.start(sys.argv[3])

ready = QTimer()
ready.timeout.connect(start)
ready.start(50)
sys.exit(app.exec())
"""
"""A program of its own, which can be killed: data root, catalogue and job are its arguments."""


def has_nodes(program: Program) -> bool:
    """Whether the services are open and the nodes are listed."""
    return program.node_names != ()


@contextmanager
def open_program(
    app: QApplication,
    bot: QtBot,
    root: Path | RemoteRoot,
    catalogue: Path,
    is_ready: Callable[[Program], bool] = has_nodes,
    timeout_ms: int = LIMIT_MS,
) -> Iterator[Program]:
    """Open the window in the light theme and wait until it is ready; the block's end closes it.

    Set XDG_CONFIG_HOME before.
    """
    # The first search for a keyring reads the environment, which pytest changes between two tests:
    # a thread of a window that stays open failed with KeyError: 'PYTEST_CURRENT_TEST'.
    keyring.get_keyring()
    program = Program(app, root, catalogue, None)
    program._themes.choose(ThemeChoice.LIGHT)
    program.window.resize(1440, 900)
    program.show()
    try:
        bot.waitUntil(lambda: program.is_built and is_ready(program), timeout=timeout_ms)
        yield program
    finally:
        close_program(program)


def services_of(program: Program) -> Services:
    """Return the services that the window works with."""
    assert program._services is not None, "the data root is not open yet"
    return program._services


def close_program(program: Program) -> None:
    """Close it and delete its window at once.

    A `ThemeManager` that lives on would dress the windows of other tests. Each window that lives on
    has 3,000 widgets, and the next style sheet is applied to them, too: a second per window.
    """
    program.window.close()
    program.close()
    program.window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
