"""Each key of the sheet, pressed in the real window: what it says is what happens."""

from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtWidgets import QApplication, QMenu

from tests.app import keys_everywhere, keys_of_jobs, keys_of_new_job, keys_of_plots
from tests.app.key_desk import PRESSED, Desk
from tests.app.keyboard_window import ids, ids_and_program, program
from widgets.frame.keys import KEYS

__all__ = ["ids", "ids_and_program", "program"]

PLACES = (keys_everywhere, keys_of_jobs, keys_of_new_job, keys_of_plots)
"""Each has what presses the keys of its own."""


@pytest.fixture
def desk(qtbot, program, ids, tmp_path):
    desk = Desk(qtbot, program, ids, tmp_path)
    yield desk
    program.jobs.list.ticks.clear()
    program.jobs.table.view.clearSelection()
    while (dialog := QApplication.activeModalWidget()) is not None:
        dialog.close()
    if isinstance(QApplication.activePopupWidget(), QMenu):
        QApplication.activePopupWidget().close()
    if program.window.isFullScreen():
        program.window.showNormal()
    program.window.resize(1440, 900)


def test_no_key_of_the_sheet_is_left_out():
    assert set(PRESSED) == {(key.where, key.does) for key in KEYS}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.where or 'everywhere'}: {key.key}")
def test_a_key_does_what_its_sheet_says(desk, key):
    PRESSED[key.where, key.does](desk, partial(desk.press, key.key))
