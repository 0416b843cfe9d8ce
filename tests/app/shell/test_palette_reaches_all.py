"""Ctrl+K reaches whatever can be pressed in the window, and every thing there is, by its name."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QPushButton, QTableView

from backend.records.jobs.state import JobState
from backend.records.library.item import PARTS, Kind
from tests.app.keyboard_window import ids, ids_and_program, program
from tests.app.used_data_root import QUEUED_NAMES, SWEEP, SWEEP_NAME
from tests.windows import find_only
from widgets.common.actions import Request
from widgets.common.buttons import ChoiceRow, UnderlinedTabs
from widgets.common.fields import LineEdit
from widgets.jobs.actions import job_actions
from widgets.jobs.detail.job_header import JobName
from widgets.library import item_actions
from widgets.nodes.page import node_actions
from widgets.shell.shortcuts import SHORTCUTS

__all__ = ["ids", "ids_and_program", "program"]

BY_ANOTHER_NAME = {
    "Jobs": "Jobs",
    "Compare": "Compare",
    "Datasets": "Datasets",
    "Models": "Models",
    "Loaders": "Loaders",
    "Nodes": "Nodes",
    "Notifications": "Notifications",
    "Settings": "Settings",
    "Dark": "Dark or light",
    "Light": "Dark or light",
    "Open the data root": "Open the data root",
}
"""Buttons of the side bar, and the command that does the same."""
KEYS_WITHOUT_AN_ACTION = {
    "Command palette": "it is the palette itself",
    "Search this page": "it puts the cursor into the field of the page that one was on",
    "Menu of the row or field": "it is about what has the focus, which the palette takes away",
}


def found_titles(program, query):
    """Titles of what is found for these words."""
    return {target.title for target in program.frame.command_search.find(query)}


def open_and_close_palette(program):
    program.frame.open_palette()
    program.frame.palette.dismiss()


def pressable(program):
    """The words of everything in the window that can be pressed now, found by walking it."""
    for button in program.window.findChildren(QAbstractButton):
        if not (button.isVisible() and button.isEnabled()):
            continue
        parent = button.parentWidget()
        if isinstance(parent, QLineEdit | QTableView):
            continue  # Qt's own: the cross in a field, the corner of a table
        if program.window.side_bar.isAncestorOf(button):
            yield BY_ANOTHER_NAME.get(side_bar_name(button), side_bar_name(button))
        elif isinstance(parent, ChoiceRow):
            if isinstance(parent, UnderlinedTabs) and not button.isChecked():
                yield f"{parent.tab_title(button)} of "
            elif not button.isChecked():
                yield f"{parent.accessibleName()}: {button.accessibleName()}"
        elif isinstance(button, QPushButton) and button.menu() is not None:
            button.menu().aboutToShow.emit()
            yield from (a.text().replace("&&", "&") for a in enabled_actions(button.menu()))
        else:
            yield button.accessibleName()


def side_bar_name(button):
    name = button.accessibleName()
    return "Notifications" if "new notification" in name else name


def enabled_actions(menu):
    return [
        action
        for action in menu.findChildren(QAction)
        if action.isEnabled() and not action.isSeparator() and action.menu() is None
    ]


def missing_titles(program):
    open_and_close_palette(program)
    titles = list(dict.fromkeys(pressable(program)))
    assert titles
    return [
        title
        for title in titles
        if not any(title in t for t in found_titles(program, title.replace("\xa0", " ")))
    ]


def open_job(program, qtbot, job_id):
    program._pages.open_job(job_id)
    qtbot.waitUntil(lambda: program.jobs.open_view is not None)
    qtbot.waitUntil(lambda: program.jobs.detail._checkpoints is not None)


@pytest.mark.parametrize("name", ["slow", "failed", QUEUED_NAMES[0]])
@pytest.mark.parametrize("tab", ["curves", "ranks", "checkpoints", "log", "settings", "notes"])
def test_the_palette_has_all_actions_of_a_job(qtbot, program, ids, name, tab):
    open_job(program, qtbot, ids[name])
    program.jobs.detail.tabs.choose(tab)
    assert missing_titles(program) == []


def test_the_palette_has_all_actions_of_a_sweep_and_of_chosen_rows(qtbot, program, ids):
    program._pages.open_sweep(SWEEP)
    qtbot.waitUntil(program.jobs.sweep.isVisible)
    assert missing_titles(program) == []
    program.jobs.show_table()
    view = program.jobs.table.view
    qtbot.waitUntil(lambda: view.model().rowCount() > 3)
    view.selectAll()
    try:
        assert missing_titles(program) == []
        program.window.resize(1000, 640)
        assert missing_titles(program) == []
    finally:
        program.window.resize(1440, 900)
        view.clearSelection()
        program.jobs.show_list()


def test_the_palette_has_all_actions_of_a_comparison(qtbot, program, ids):
    program._job_controllers.compare.compare((ids["slow"], ids["fast"]))
    qtbot.waitUntil(lambda: len(program._pages.compare.plots.panels()) == 2)
    assert missing_titles(program) == []


@pytest.mark.parametrize("kind", PARTS)
def test_the_palette_has_all_actions_of_a_library_item(qtbot, program, kind):
    page = program.library[kind]
    program._pages.open_item(kind, "digits")
    qtbot.waitUntil(lambda: page.shown_name == "digits")
    for tab in page.detail._pages_by_tab:
        if tab in find_only(UnderlinedTabs, page.detail)._keys:
            find_only(UnderlinedTabs, page.detail).choose(tab)
            page.detail._show_tab(tab)
            assert missing_titles(program) == [], tab


@pytest.mark.parametrize("page_key", ["nodes", "new-job", "settings", "help"])
def test_the_palette_has_all_actions_of_the_other_pages(qtbot, program, page_key):
    program.window.open_page(page_key)
    assert missing_titles(program) == []


def test_every_key_that_works_everywhere_has_an_act(program):
    action_titles = set(program.frame.command_search.action_titles)
    unreachable_labels = {
        key.label for key in SHORTCUTS if not key.page_title and not key.with_focus
    } - action_titles
    # Back and forward are offered by name, whether there is somewhere to go or not.
    assert unreachable_labels == set(KEYS_WITHOUT_AN_ACTION)


# What is found is done


def choose(program, query, remark=""):
    open_and_close_palette(program)
    targets = [t for t in program.frame.command_search.find(query) if remark in t.remark]
    assert targets, query
    program.frame.command_search.open(targets[0])
    return targets[0]


def test_a_job_is_queued_and_taken_out_from_another_place(qtbot, program, ids):
    open_job(program, qtbot, ids[QUEUED_NAMES[1]])
    program.window.open_page("datasets")
    target = choose(program, "remove from", "the open job")
    assert target.title.startswith("Remove from queue")
    assert program.window.page_key == "jobs"
    model = program.jobs.model
    qtbot.waitUntil(lambda: model.summary(ids[QUEUED_NAMES[1]]).state is JobState.CREATED)
    qtbot.waitUntil(lambda: "Queue" in found_titles_again(program, "queue"))
    choose(program, "queue", "the open job")
    qtbot.waitUntil(lambda: model.summary(ids[QUEUED_NAMES[1]]).state is JobState.QUEUED)


def found_titles_again(program, query):
    open_and_close_palette(program)
    return found_titles(program, query)


def test_a_tab_is_turned_to_and_a_name_is_edited(qtbot, program, ids):
    open_job(program, qtbot, ids["slow"])
    program.window.open_page("nodes")
    choose(program, "log of")
    assert program.jobs.detail.log.isVisible()
    choose(program, "rename", "the open job")
    name = find_only(JobName, program.jobs.detail.header)
    assert name.currentWidget() is find_only(LineEdit, name)


@pytest.mark.parametrize(
    ("table", "actions_of"),
    [
        (job_actions, lambda program: program.jobs.job_actions),
        (node_actions, lambda program: program.nodes.node_actions),
        *(
            (item_actions, lambda program, k=k: program.library[k].detail.item_actions)
            for k in Kind
        ),
    ],
)
def test_each_entry_of_a_table_has_its_own_name_and_an_answer(program, table, actions_of):
    requests = [r for r in vars(table).values() if isinstance(r, Request)]
    names = [r.id for r in requests]
    assert len(set(names)) == len(names)
    assert set(names) - set(actions_of(program)._handlers) == set()


def test_the_path_of_a_folder_is_copied(qtbot, program, ids):
    open_job(program, qtbot, ids["slow"])
    choose(program, "copy the folder", "the open job")
    path = program._services.data_root.job(ids["slow"]).path
    assert QGuiApplication.clipboard().text() == str(path)


def test_the_palette_offers_no_impossible_action(qtbot, program, ids):
    open_job(program, qtbot, ids["slow"])
    remarks = {t.title: t.remark for t in palette_for(program, "stop")}
    assert "Stop" not in remarks
    assert "Clone" in {t.title for t in palette_for(program, "clone")}


def palette_for(program, query):
    open_and_close_palette(program)
    return program.frame.command_search.find(query)


def all_targets(qtbot, program, query):
    """All that is found, what takes a moment too."""
    answers = []
    open_and_close_palette(program)
    program.frame.command_search.ask(
        query, lambda targets, is_all: answers.append((targets, is_all))
    )
    qtbot.waitUntil(lambda: answers[-1][1])
    return answers[-1][0]


def test_a_sweep_is_found_by_its_name_and_opened(qtbot, program):
    program.window.open_page("nodes")
    (sweep,) = [t for t in all_targets(qtbot, program, SWEEP_NAME) if t.kind == "sweep"]
    assert (sweep.title, sweep.remark) == (SWEEP_NAME, "sweep of 6 jobs")
    program.frame.command_search.open(sweep)
    assert program.window.page_key == "jobs"
    assert program.jobs.open_sweep_tag == SWEEP


def test_a_template_is_found_by_its_name_and_begins_a_new_job(qtbot, program, ids):
    raw = program._services.jobs.queries.show(ids["slow"]).config.to_dict()
    program._services.templates.save("nightly", {**raw, "name": "x"}, overwrite=True)
    (template,) = [t for t in all_targets(qtbot, program, "nightly") if t.kind == "template"]
    program.frame.command_search.open(template)
    qtbot.waitUntil(lambda: program.window.page_key == "new-job")
