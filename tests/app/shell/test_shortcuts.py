"""Each key of the sheet, pressed in the real window: what it says is what happens."""

from __future__ import annotations

from functools import partial

import pytest
from PySide6.QtWidgets import QApplication, QMenu

from tests.app import keys_everywhere, keys_of_jobs, keys_of_new_job, keys_of_plots
from tests.app.key_desk import PRESSED, Desk
from tests.app.keyboard_window import ids, ids_and_program, program
from tests.windows import find_only
from widgets.common.fields import ComboBox
from widgets.jobs.actions import job_actions
from widgets.jobs.detail.job_tabs import JobTabs
from widgets.shell.shortcuts import SHORTCUTS

__all__ = ["ids", "ids_and_program", "program"]

KEY_MODULES = (keys_everywhere, keys_of_jobs, keys_of_new_job, keys_of_plots)
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
    assert set(PRESSED) == {(key.page_title, key.label) for key in SHORTCUTS}


@pytest.mark.parametrize(
    "key", SHORTCUTS, ids=lambda key: f"{key.page_title or 'everywhere'}: {key.key}"
)
def test_a_key_does_what_its_sheet_says(desk, key):
    PRESSED[key.page_title, key.label](desk, partial(desk.press, key.key))


def _of_pages():
    """The keys of each page, with the places on it that take a click and no focus."""
    areas = {"Jobs": ("plot", "card", "row", "head"), "Compare": ("plot", "card", "head")}
    return [
        pytest.param(key, area, id=f"{key.page_title}: {key.key} after a {area}")
        for key in SHORTCUTS
        if key.page_title and not key.with_focus
        for area in areas.get(key.page_title, ("head",))
        # It starts on the tab Ranks, which has none.
        if (key.key, area) != ("[", "plot")
    ]


@pytest.mark.parametrize(("key", "area"), _of_pages())
def test_a_key_of_a_page_works_wherever_the_mouse_clicked_before(desk, key, area):
    def press():
        desk.click(area)
        desk.press(key.key)

    PRESSED[key.page_title, key.label](desk, press)


@pytest.mark.parametrize("key", ["J", "L", "F", "S", "[", "Shift+L"])
def test_a_field_that_takes_letters_keeps_them_from_the_shortcuts(desk, key):
    detail = desk.open("slow")
    detail.tabs.choose("log")
    search, picker = desk.jobs.list.search, find_only(ComboBox, detail.log)
    for field in (search, picker):
        field.setFocus()
        desk.press(key)
        assert desk.hands.focus() is field
        assert desk.jobs.open_id == desk.ids["slow"]
        assert find_only(JobTabs, detail).key() == "log"
    assert search.text().upper() == key[-1]
    search.clear()


@pytest.mark.parametrize("open_layer", ["open_palette", "bell"])
def test_a_key_does_not_reach_the_page_below_a_layer(desk, open_layer):
    detail = desk.open("slow")
    frame = desk.program.frame
    stopped_ids = []
    detail.job_actions.add_handler(job_actions.STOP, stopped_ids.append)
    if open_layer == "bell":
        frame.bell.show()
    else:
        frame.open_palette()
    desk.press("Ctrl+.", "Esc")
    assert stopped_ids == []
    desk.press("Ctrl+.")
    assert stopped_ids == [desk.ids["slow"]]
