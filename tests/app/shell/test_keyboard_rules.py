"""What holds wherever Tab leads: reading order, a ring, a name; and where each key is shown."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QImage, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QApplication, QScrollArea, QWidget

from tests.app.keyboard_window import ids, ids_and_program, program
from tests.app.pointer import Hands, hears, place_of
from tests.app.used_data_root import rows_of_all
from tests.asks import open_menu_entries
from tests.windows import find_button
from widgets.common import theme
from widgets.common.labels import Label
from widgets.jobs.actions import job_actions
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.page.jobs_page import JobsPage
from widgets.shell.shortcuts import SHORTCUTS

__all__ = ["ids", "ids_and_program", "program"]

PAGE_KEYS = (
    "jobs",
    "table",
    "compare",
    "datasets",
    "models",
    "loaders",
    "nodes",
    "new-job",
    "settings",
    "help",
)
TABS = ("curves", "ranks", "checkpoints", "log", "settings", "notes")
_MIN_RING_PIXELS = 12
"""Pixels; the shortest ring is that of a slider's knob."""


@pytest.fixture
def hands(program, qtbot):
    return Hands(qtbot, program.window)


def go(program, hands, ids, page_key):
    window = program.window
    if page_key == "table":
        program.jobs.show_table()
        hands.wait(
            lambda: program.jobs.table.model.rowCount() == rows_of_all(program.jobs.job_count)
        )
    elif page_key == "new-job":
        program._job_controllers.jobs.drafts.new_job()
        hands.wait(lambda: window.page_key == page_key)
    elif page_key == "compare":
        program._job_controllers.compare.compare((ids["slow"], ids["fast"]))
        hands.wait(lambda: len(program._pages.compare.table._heads) == 2)
    else:
        window.open_page(page_key)
    if page_key == "help":
        hands.wait(lambda: program._pages.help._model.rowCount() > 0)
    if page_key in TABS or page_key in ("jobs", "table"):
        hands.wait(lambda: program.jobs.open_view is not None)
    if page_key == "settings":
        # What is installed here, and what keys there are, comes late and pushes the rest down.
        hands.wait(lambda: program._pages.settings._checks.count() > 3)
        for queue_name in ("notice settings", "ssh settings"):
            wait_for_queue(program, hands, queue_name)
    window.side_bar._buttons["jobs"].setFocus()


def wait_for_queue(program, hands, queue_name):
    """Until what was begun in it before has come home."""
    done = []
    program._background.run(queue_name, lambda: True, done.append, done.append)
    hands.wait(lambda: done)


def find_stops(window):
    """All that Tab may lead to: of choices that exclude each other the chosen one alone."""
    stop_widgets = set()
    for widget in window.findChildren(QWidget):
        if not (widget.isVisible() and widget.isEnabled() and hears(widget)):
            continue
        if widget.focusProxy() is not None or not widget.accessibleName():
            continue
        is_choice = isinstance(widget, QAbstractButton) and widget.isCheckable()
        group = widget.group() if is_choice else None
        is_exclusive = is_choice and (widget.autoExclusive() or (group and group.exclusive()))
        if not is_exclusive or widget.isChecked():
            stop_widgets.add(widget)
    return stop_widgets


def is_ring_seen(qtbot, widget):
    """Whether its focus is visible once the page is painted."""
    try:
        # The button that cancels a trial is gone when that ends.
        qtbot.waitUntil(lambda: not widget.isVisible() or ring_pixels(widget) >= _MIN_RING_PIXELS)
    except qtbot.TimeoutError:
        return False
    return True


def ring_pixels(widget):
    """How many pixels of the focus's colour are on and right beside it."""
    # A page that scrolls to it, or gives it more room, does so in the next turn.
    QApplication.processEvents()
    window = widget.window()
    area = place_of(widget).adjusted(-3, -3, 3, 3).intersected(window.rect())
    image = window.grab(area).toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32)
    return int((pixels == theme.current().q("focus").rgb()).sum())


@pytest.mark.parametrize("page_key", PAGE_KEYS)
def test_tab_leads_to_everything_in_reading_order_and_shows_where_it_is(
    program, hands, ids, page_key, qtbot
):
    go(program, hands, ids, page_key)
    visited, unnamed_types = [], []
    expected = find_stops(program.window)
    widget = hands.focus()
    while widget not in visited:
        visited.append(widget)
        if not widget.accessibleName():
            unnamed_types.append(type(widget).__name__)
        if not is_empty_list(widget):
            assert is_ring_seen(qtbot, widget), (
                f"the focus of {widget_title(widget)} is not visible"
            )
        hands.press("Tab")
        widget = hands.focus()
    assert unnamed_types == [], "these have no name for those who hear it"
    # A button that could be pressed only later was not on the way.
    missed_stops = (expected & find_stops(program.window)) - set(visited)
    assert {widget_title(w) for w in missed_stops} == set()
    for area in program.window.findChildren(QScrollArea):
        area.verticalScrollBar().setValue(0)
    named_areas = [(widget_title(w), place_of(w)) for w in visited]
    backward_pairs = [(a, b) for a, b in itertools.pairwise(named_areas) if goes_back(a[1], b[1])]
    assert backward_pairs == [], "Tab goes back over the page"


def is_empty_list(widget):
    """Its ring is around a row, and it has none yet."""
    return isinstance(widget, QAbstractItemView) and not widget.model().rowCount()


def goes_back(previous_area: QRect, next_area: QRect) -> bool:
    """Whether one who reads down a column, and the columns from the left, would not go on there."""
    is_above = (
        next_area.bottom() <= previous_area.top() and next_area.left() < previous_area.right()
    )
    is_left = (
        next_area.right() <= previous_area.left() and next_area.top() < previous_area.center().y()
    )
    return is_above or is_left


def widget_title(widget):
    return f"{type(widget).__name__} “{widget.accessibleName()}”"


@pytest.mark.parametrize("tab", TABS)
def test_tab_leads_to_everything_on_each_tab_of_a_job(program, hands, ids, tab, qtbot):
    program.window.open_page("jobs")
    program.jobs.open_job(ids["slow"])
    hands.wait(lambda: program.jobs.open_view is not None and program.jobs.open_id == ids["slow"])
    program.jobs.detail.tabs.choose(tab)
    test_tab_leads_to_everything_in_reading_order_and_shows_where_it_is(
        program, hands, ids, "jobs", qtbot
    )


def test_every_key_stands_in_the_tool_tip_of_something(program, ids):
    tips = [widget.toolTip() for widget in program.window.findChildren(QWidget)]
    page: JobsPage = program.jobs
    menu = open_menu_entries(page.detail.header.menu_button)
    tips += [f"({action.shortcut().toString()})" for action in menu.values()]
    text = "\n".join(tips)
    native = QKeySequence.SequenceFormat.NativeText
    keys = {QKeySequence(key.key).toString(native) for key in SHORTCUTS if not key.with_focus}
    # Of a job that runs: the button says Stop then.
    keys -= {"Ctrl+."}
    assert {key for key in keys if f"({key})" not in text} == set()


def test_every_key_stands_in_the_sheet(program, hands):
    program.jobs.setFocus()
    hands.press("?")
    sheet = hands.focus().window()
    hands.wait(lambda: sheet.isVisible() and sheet is not program.window)

    def missing_labels():
        texts = {label.text() for label in sheet.findChildren(Label)}
        return {key.label for key in SHORTCUTS} - texts

    hands.wait(lambda: not missing_labels())
    hands.press("Esc")
    hands.wait(lambda: not sheet.isVisible())


@pytest.mark.parametrize("page_key", ["table", "compare", "nodes", "settings"])
def test_ctrl_n_makes_a_new_job_wherever_one_is(program, hands, ids, page_key):
    go(program, hands, ids, page_key)
    hands.press("Ctrl+N")
    hands.wait(lambda: program.window.page_key == "new-job")


def test_ctrl_n_keeps_the_contents_of_a_form_in_use(program, hands, ids):
    go(program, hands, ids, "new-job")
    drafts = program._job_controllers.jobs.drafts
    drafts.show_draft(JobDraft({**program.form.draft().raw, "name": "half written"}))
    hands.press("Ctrl+N")
    wait_for_queue(program, hands, "form")
    assert program.form.draft().raw["name"] == "half written"


def test_undo_restores_a_job_from_the_trash(program, hands, ids, qtbot):
    page: JobsPage = program.jobs
    toast, job_id = program.window.toast, ids["fast"]
    hands.wait(lambda: page.model.row_of(job_id) >= 0)
    page.detail.job_actions.ask(job_actions.TRASH, job_id)
    hands.wait(lambda: page.model.row_of(job_id) < 0 and find_button(toast, "Undo").isVisible())
    qtbot.mouseClick(find_button(toast, "Undo"), Qt.MouseButton.LeftButton)
    hands.wait(lambda: page.model.row_of(job_id) >= 0)
