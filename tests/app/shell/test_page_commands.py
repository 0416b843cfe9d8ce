"""The palette offers what a page's buttons and menus can do now, in their words, and no more."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QMenu, QWidget

from app.shell.page_commands import CommandScope, PageCommands
from widgets.common.buttons import Button

SHOWN_SUBJECTS: list[str] = []


def make_scope(root, subject="“digits”", is_visible=True):
    return CommandScope(
        root, lambda: subject, lambda: SHOWN_SUBJECTS.append(subject), lambda: is_visible
    )


def titles(targets):
    return [target.title for target in targets]


@pytest.fixture
def page(qtbot):
    widget = QWidget()
    qtbot.addWidget(widget)
    SHOWN_SUBJECTS.clear()
    return widget


@pytest.fixture
def menu(page):
    button = Button("More", parent=page)
    button.setAccessibleName("More about the job")
    menu = QMenu(button)
    button.setMenu(menu)
    return menu


def test_the_enabled_actions_of_a_menu_are_offered_and_run(page, menu):
    pressed_titles = []
    for text, is_enabled in (("Ex&port", True), ("Remove", False), ("R&&D", True)):
        action = menu.addAction(text, lambda text=text: pressed_titles.append(text))
        action.setEnabled(is_enabled)
    menu.addSeparator()
    menu.addAction("For experts").setVisible(False)
    commands = PageCommands()
    commands.add(make_scope(page))
    visible_entries, hidden_entries = commands.collect(())
    assert titles(visible_entries) == ["Export", "R&D"]
    assert hidden_entries == []
    commands.press(visible_entries[0].key)
    assert pressed_titles == ["Ex&port"]
    assert SHOWN_SUBJECTS == ["“digits”"], "what is done is seen being done"


def test_a_menu_filled_on_opening_is_read_with_its_entries(page, menu):
    menu.aboutToShow.connect(lambda: menu.addAction("Just made"))
    commands = PageCommands()
    commands.add(make_scope(page))
    assert titles(commands.collect(())[0]) == ["Just made"]


def test_disabled_hidden_and_repeated_buttons_are_not_offered(page):
    Button("Start", parent=page)
    Button("Stop", parent=page).setEnabled(False)
    Button("Kill", parent=page).hide()
    Button("New job", parent=page)
    commands = PageCommands()
    commands.add(make_scope(page))
    assert titles(commands.collect(["New Job"])[0]) == ["Start"]


def test_a_command_disabled_meanwhile_does_nothing(page, menu):
    pressed_titles = []
    button = Button("Start", parent=page)
    button.clicked.connect(lambda: pressed_titles.append("Start"))
    action = menu.addAction("Export", lambda: pressed_titles.append("Export"))
    commands = PageCommands()
    commands.add(make_scope(page))
    keys = [target.key for target in commands.collect(())[0]]
    assert len(keys) == 2
    button.setEnabled(False)
    action.setEnabled(False)
    for key in keys:
        commands.press(key)
    assert pressed_titles == []


def test_a_part_about_another_object_has_its_own_actions(page):
    part = QWidget(page)
    empty = QWidget(page)
    for root, text in ((page, "Start"), (part, "Refresh"), (part, "Refresh"), (empty, "Forget")):
        Button(text, parent=root)
    commands = PageCommands()
    commands.add(make_scope(page))
    commands.add(make_scope(part, "node3", is_visible=False))
    commands.add(make_scope(empty, ""))
    visible_entries, hidden_entries = commands.collect(())
    assert titles(visible_entries) == ["Start"]
    assert [(target.title, target.remark) for target in hidden_entries] == [
        ("Refresh", "node3"),
        ("Refresh (2)", "node3"),
    ]
