"""A window in which somebody has worked, for those who have only a keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.bootstrap import Program
from tests.app.lived_in import move_in, move_out
from tests.programs import end
from widgets.common.look import ThemeChoice

LONG_MS = 240_000


@pytest.fixture(scope="module")
def ids_and_program(qapp, request, tmp_path_factory):
    """One window for all flows: each begins where one lands who just opened it."""
    folder = tmp_path_factory.mktemp("keys")
    places = (folder / "root", folder / "catalogue.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        ids = move_in(*places)
        program = Program(qapp, *places, None)
        program._look.choose(ThemeChoice.LIGHT)
        program.window.resize(1440, 900)
        bot = QtBot(request)
        program.show()
        bot.waitUntil(lambda: program.is_built and program._services is not None, timeout=LONG_MS)
        bot.waitUntil(lambda: program.jobs.total == len(ids) + 1, timeout=LONG_MS)
        bot.waitUntil(lambda: is_in_front(program.window), timeout=LONG_MS)
        yield ids, program
        program.window.close()
        end(program)
        move_out(*places)


@pytest.fixture
def ids(ids_and_program):
    return ids_and_program[0]


@pytest.fixture
def program(ids_and_program, qtbot):
    """Jobs, as a list, with the focus in it: a window that was just opened."""
    program = ids_and_program[1]
    while (dialog := QApplication.activeModalWidget()) is not None:
        dialog.close()
    qtbot.waitUntil(lambda: is_in_front(program.window), timeout=LONG_MS)
    program.frame.palette.close_again()
    program.jobs.show_list()
    program.window.go("jobs")
    program.jobs.setFocus()
    return program


def is_in_front(window):
    """Asked for again: the offscreen platform forgets a wish that comes before the window."""
    window.activateWindow()
    return window.isActiveWindow()
