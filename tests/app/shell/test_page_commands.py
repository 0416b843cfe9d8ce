"""The palette offers what a page's buttons and menus can do now, in their words, and no more."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QMenu, QWidget

from app.shell.page_commands import CommandScope, PageCommands
from widgets.common.buttons import Button

SHOWN: list[str] = []


def spot(root, words="“digits”", is_here=True):
    return CommandScope(root, lambda: words, lambda: SHOWN.append(words), lambda: is_here)


def titles(targets):
    return [target.title for target in targets]


@pytest.fixture
def page(qtbot):
    widget = QWidget()
    qtbot.addWidget(widget)
    SHOWN.clear()
    return widget


@pytest.fixture
def menu(page):
    button = Button("More", parent=page)
    button.setAccessibleName("More about the job")
    made = QMenu(button)
    button.setMenu(made)
    return made


def test_the_enabled_actions_of_a_menu_are_offered_and_run(page, menu):
    done = []
    for text, is_able in (("Ex&port", True), ("Remove", False), ("R&&D", True)):
        action = menu.addAction(text, lambda text=text: done.append(text))
        action.setEnabled(is_able)
    menu.addSeparator()
    menu.addAction("For experts").setVisible(False)
    acts = PageCommands()
    acts.add(spot(page))
    here, elsewhere = acts.collect(())
    assert titles(here) == ["Export", "R&D"]
    assert elsewhere == []
    acts.press(here[0].key)
    assert done == ["Ex&port"]
    assert SHOWN == ["“digits”"], "what is done is seen being done"


def test_a_menu_filled_on_opening_is_read_with_its_entries(page, menu):
    menu.aboutToShow.connect(lambda: menu.addAction("Just made"))
    acts = PageCommands()
    acts.add(spot(page))
    assert titles(acts.collect(())[0]) == ["Just made"]


def test_disabled_hidden_and_repeated_buttons_are_not_offered(page):
    Button("Start", parent=page)
    Button("Stop", parent=page).setEnabled(False)
    Button("Kill", parent=page).hide()
    Button("New job", parent=page)
    acts = PageCommands()
    acts.add(spot(page))
    assert titles(acts.collect(["New Job"])[0]) == ["Start"]


def test_a_command_disabled_meanwhile_does_nothing(page, menu):
    done = []
    button = Button("Start", parent=page)
    button.clicked.connect(lambda: done.append("Start"))
    action = menu.addAction("Export", lambda: done.append("Export"))
    acts = PageCommands()
    acts.add(spot(page))
    keys = [target.key for target in acts.collect(())[0]]
    assert len(keys) == 2
    button.setEnabled(False)
    action.setEnabled(False)
    for key in keys:
        acts.press(key)
    assert done == []


def test_a_part_about_another_object_has_its_own_actions(page):
    part = QWidget(page)
    empty = QWidget(page)
    for root, text in ((page, "Start"), (part, "Refresh"), (part, "Refresh"), (empty, "Forget")):
        Button(text, parent=root)
    acts = PageCommands()
    acts.add(spot(page))
    acts.add(spot(part, "node3", is_here=False))
    acts.add(spot(empty, ""))
    here, elsewhere = acts.collect(())
    assert titles(here) == ["Start"]
    assert [(target.title, target.remark) for target in elsewhere] == [
        ("Refresh", "node3"),
        ("Refresh (2)", "node3"),
    ]
