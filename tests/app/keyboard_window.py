"""A window that has been in use, for tests with only a keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QListView, QMenu
from pytestqt.qtbot import QtBot

from backend.records.base.layout import DataRoot
from tests.app.pointer import Hands
from tests.app.used_data_root import move_in, rows_of_all
from tests.keepers import end_keeper
from tests.programs import open_program
from tests.windows import find_only

_CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture(scope="module")
def ids_and_program(qapp, request, tmp_path_factory):
    """One window for all flows: each begins where one lands who just opened it."""
    folder = tmp_path_factory.mktemp("keys")
    paths = (folder / "root", folder / "catalogue.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        ids = move_in(*paths)
        bot = QtBot(request)
        with open_program(qapp, bot, *paths) as program:
            bot.waitUntil(lambda: program.jobs.job_count == len(ids) + 1)
            bot.waitUntil(lambda: is_in_front(program.window))
            yield ids, program
        end_keeper(DataRoot(paths[0]))


@pytest.fixture
def ids(ids_and_program):
    return ids_and_program[0]


@pytest.fixture
def program(ids_and_program, qtbot):
    """Jobs, as a list, with the focus in it: a window that was just opened."""
    program = ids_and_program[1]
    while (dialog := QApplication.activeModalWidget()) is not None:
        dialog.close()
    qtbot.waitUntil(lambda: is_in_front(program.window))
    program.frame.palette.dismiss()
    program.jobs.show_list()
    program.window.open_page("jobs")
    program.jobs.setFocus()
    return program


def is_in_front(window):
    """Asks again: the offscreen platform drops a request that comes before the window."""
    window.activateWindow()
    return window.isActiveWindow()


@pytest.fixture
def hands(program, qtbot):
    return Hands(qtbot, program.window)


def rows(view):
    model = view.model()
    return [model.index(row, 1).data() for row in range(model.rowCount())]


def open_job(hands, program, name):
    """By its name, as everything can be opened."""
    hands.press("Ctrl+K")
    hands.write(name)
    list_view = find_only(QListView, program.frame.palette)
    hands.wait(lambda: list_view.currentIndex().data() == name)
    hands.press("Return")


def go(hands, program, key, page_key):
    """A button that is pressed by its key is seen to go down, which takes a tenth of a second."""
    hands.press(key)
    hands.wait(lambda: program.window.page_key == page_key)


def choose(hands, text):
    """In the menu that is open."""
    menu = hands.focus()
    assert isinstance(menu, QMenu), f"no menu is open, but {menu}"
    for _ in menu.actions():
        hands.press("Down")
        if menu.activeAction() is not None and menu.activeAction().text() == text:
            hands.press("Return")
            return
    raise AssertionError([action.text() for action in menu.actions()])


@pytest.fixture
def table(hands, program):
    hands.tab_to("Show as a full-width table")
    hands.press("Space")
    view = program.jobs.table.view
    hands.wait(lambda: len(rows(view)) == rows_of_all(program.jobs.job_count))
    # A poll that began before a job was renamed back shows its other name for a moment.
    hands.wait(lambda: {"fast", "slow"} <= set(rows(view)))
    assert hands.focus() is view
    yield view
    program.jobs.table.clear()
    view.clearSelection()
    hands.wait(lambda: len(rows(view)) == rows_of_all(program.jobs.job_count))
    program.jobs.show_list()


def answer_file_dialog(path):
    """When the system asks for a place, write this one; the key that led there returns then.

    Call it before that key is pressed. A list of completions takes the first Return.
    """
    timer = QTimer()

    def answer():
        dialog = QApplication.activeModalWidget()
        if not isinstance(dialog, QFileDialog):
            if answer.has_begun:
                timer.stop()
            return
        answer.has_begun = True
        edit = dialog.focusWidget()
        if not isinstance(edit, QLineEdit):
            # As the letter that is underlined before the field.
            edit = dialog.findChild(QLineEdit)
            edit.setFocus()
        if edit.text() != str(path):
            QTest.keyClick(edit, Qt.Key.Key_A, _CTRL)
            QTest.keyClicks(edit, str(path))
        QTest.keyClick(edit, Qt.Key.Key_Return)

    answer.has_begun = False
    timer.timeout.connect(answer)
    timer.start(50)
    return timer
