"""The frame by keyboard: go to anything, settings that apply at once, every key in its sheet."""

import os

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.qtbot import QtBot

from app.bootstrap import Program
from app.frame_controller import scale_for
from app.settings import Settings
from widgets.common import theme
from widgets.common.look import ThemeChoice
from widgets.common.text import Label
from widgets.frame.keys import KEYS


@pytest.fixture(scope="module")
def program(qapp, request, tmp_path_factory):
    """One window for all: none of these tests needs a fresh one."""
    folder = tmp_path_factory.mktemp("frame")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        program = Program(qapp, folder / "root", folder / "catalogue.sqlite", None)
        program._look.choose(ThemeChoice.LIGHT)
        program.show()
        QtBot(request).waitUntil(lambda: program._node_names != (), timeout=60_000)
        yield program
        program.window.close()
        program.close()
    # A `Look` that lives on would dress the windows of other tests.
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def type_into_palette(qtbot, program, text):
    program.frame.open_palette()
    palette = program.frame.palette
    qtbot.keyClicks(palette._field, text)
    return palette


def test_ctrl_k_goes_to_a_place_by_a_few_letters_and_enter(qtbot, program):
    palette = type_into_palette(qtbot, program, "load")
    qtbot.keyClick(palette._field, Qt.Key.Key_Return)
    assert program.window.place == "loaders"
    assert not palette.isVisible()


def test_ctrl_k_opens_a_node_by_its_name(qtbot, program):
    palette = type_into_palette(qtbot, program, "this-comp")
    qtbot.keyClick(palette._field, Qt.Key.Key_Return)
    assert program.window.place == "nodes"


def test_ctrl_k_walks_by_arrows_and_escape_leaves_all_as_it_was(qtbot, program):
    here = program.window.place
    palette = type_into_palette(qtbot, program, "")
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up):
        qtbot.keyClick(palette._field, key)
    assert palette._list.currentIndex().row() == 1
    qtbot.keyClick(palette._field, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert program.window.place == here


def test_what_nothing_is_called_is_said(qtbot, program):
    palette = type_into_palette(qtbot, program, "qqqq <b>")
    qtbot.waitUntil(palette._nothing.isVisible)
    assert palette._nothing.text() == "Nothing is called “qqqq <b>”."
    assert palette._nothing.textFormat() is Qt.TextFormat.PlainText


def test_a_choice_in_the_settings_applies_at_once_and_is_remembered(qtbot, program):
    program.frame.open_settings()
    page = program._pages.settings
    assert program.window.place == "settings"
    page._theme.chosen.emit("dark")
    assert theme.current().name == "dark"
    page._motion.click()
    assert theme.motion_reduced()
    page._finished.click()
    page._scale.chosen.emit("125")
    assert page._restart_line.isVisible()
    program._settings.save()
    kept = Settings(program._settings._path).preferences
    assert (kept.theme, kept.reduced_motion, kept.tell_finished) == ("dark", True, False)
    assert kept.scale_percent == 125
    assert scale_for(kept.scale_percent) == "1.25"


def test_the_settings_name_where_things_are_and_what_is_installed(qtbot, program):
    page = program._pages.settings
    program.frame.check()
    qtbot.waitUntil(lambda: page._checks.count() > 3, timeout=120_000)
    texts = {label.text() for label in page.findChildren(Label)}
    assert str(program._services.catalogue.path) in texts
    assert os.fspath(program._data_root) in texts


def test_the_sheet_of_keys_is_what_the_window_has_and_nothing_else(program):
    window = program.window
    window.ensurePolished()
    has = {shortcut.key() for shortcut in window.findChildren(QShortcut)}
    has |= {
        button.shortcut()
        for button in window.findChildren(QAbstractButton)
        if not button.shortcut().isEmpty()
    }
    # Esc closes what is open wherever one is, as everywhere.
    has -= {QKeySequence("Esc")}
    told = {QKeySequence(key.key) for key in KEYS}
    assert {key.toString() for key in has - told} == set(), "keys that no sheet tells"
    assert {key.toString() for key in told - has} == set(), "keys that do nothing"
