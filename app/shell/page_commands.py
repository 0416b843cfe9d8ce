"""Commands for the palette from the buttons and menus of the pages.

They are read from the widgets when the palette opens, with their text and only while enabled, so
nothing is listed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import shiboken6
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QMenu, QPushButton, QWidget

from widgets.common.buttons import Button, ChoiceRow, UnderlinedTabs
from widgets.jobs.actions.job_actions import KEYED
from widgets.shell.command_palette import PaletteEntry

PRESS = "press"
_OPEN = ", the open "
_KEYS = {action.text: action.keys for action in KEYED}


@dataclass(frozen=True)
class Spot:
    """A part of the window whose commands concern one object.

    Attributes:
        root: The widget; it may contain another spot.
        words: The object of the commands, "" while there is none.
        show: Brings it into view.
        is_here: Returns True if it is visible. Hidden ones are offered all the same.
    """

    root: QWidget
    words: Callable[[], str]
    show: Callable[[], object]
    is_here: Callable[[], bool]


class PageActs:
    """Find the commands on request, and trigger one by its key."""

    def __init__(self) -> None:
        self._spots: list[Spot] = []
        self._found: dict[str, tuple[Spot, QAbstractButton | QAction]] = {}

    def add(self, spot: Spot) -> None:
        self._spots.append(spot)

    def collect(self, leave_out: Collection[str]) -> tuple[list[PaletteEntry], list[PaletteEntry]]:
        """Return the commands that can be triggered now: on the visible page, and on others.

        Args:
            leave_out: Titles of commands that are offered anyway.
        """
        self._found.clear()
        here: list[PaletteEntry] = []
        elsewhere: list[PaletteEntry] = []
        roots = {spot.root for spot in self._spots}
        listed = {title.casefold() for title in leave_out}
        for spot in self._spots:
            words = spot.words()
            targets = here if spot.is_here() else elsewhere
            seen: Counter[str] = Counter()
            for control, title, icon in _acts(spot.root, roots, words) if words else ():
                if not title or title.casefold() in listed:
                    continue
                seen[title] += 1
                key, number = str(len(self._found)), seen[title]
                self._found[key] = (spot, control)
                # Each plot of a comparison has a button to remove it.
                shown = title if number == 1 else f"{title} ({number})"
                aside = "" if title.endswith(words) else words
                targets.append(
                    PaletteEntry(PRESS, key, shown, aside, icon, _key_of(control, title))
                )
        return here, elsewhere

    def press(self, key: str) -> None:
        """Show the widget, then trigger it; does nothing if it no longer exists."""
        spot, control = self._found[key]
        spot.show()
        if not shiboken6.isValid(control):
            return
        if isinstance(control, QAction):
            control.trigger()
        else:
            control.click()


def _acts(
    root: QWidget, roots: Collection[QWidget], words: str
) -> Iterator[tuple[QAbstractButton | QAction, str, str]]:
    """Each command on ``words`` with its text and icon, in the order of creation."""
    for button in root.findChildren(QAbstractButton):
        if not (button.isVisibleTo(root) and button.isEnabledTo(root)):
            continue
        if _root_of(button, roots) is not root:
            continue
        menu = button.menu() if isinstance(button, QPushButton) else None
        if menu is not None:
            # Some menus are filled when they open.
            menu.aboutToShow.emit()
            name = button.accessibleName()
            before = "" if name.startswith("More") else f"{name}: "
            for action in _actions_of(menu):
                yield action, before + _plain(action.text()), ""
            continue
        yield button, _title(button, words), button.icon_name if isinstance(button, Button) else ""


def _actions_of(menu: QMenu) -> Iterator[QAction]:
    """Return the actions of a menu that can be used, and those of the menus in it."""
    for action in menu.actions():
        inner_menu = action.menu()
        if isinstance(inner_menu, QMenu):
            yield from _actions_of(inner_menu)
        elif action.isEnabled() and not action.isSeparator():
            yield action


def _root_of(widget: QWidget, roots: Collection[QWidget]) -> QWidget | None:
    at: QWidget | None = widget
    while at is not None and at not in roots:
        at = at.parentWidget()
    return at


def _title(button: QAbstractButton, words: str) -> str:
    """The text of a button; one of several choices includes the name of the group."""
    group = button.parentWidget()
    if isinstance(group, UnderlinedTabs):
        return (
            "" if button.isChecked() else f"{group.title_of(button)} of {words.partition(_OPEN)[0]}"
        )
    if isinstance(group, ChoiceRow):
        return "" if button.isChecked() else f"{group.accessibleName()}: {button.accessibleName()}"
    if isinstance(button, QCheckBox):
        return f"{button.accessibleName()}: {'off' if button.isChecked() else 'on'}"
    return button.accessibleName()


def _key_of(control: QAbstractButton | QAction, title: str) -> str:
    return _KEYS.get(title, "") or control.shortcut().toString()


def _plain(text: str) -> str:
    """A menu's text as displayed: ``&`` marks a key, ``&&`` is an ampersand."""
    return text.replace("&&", "\0").replace("&", "").replace("\0", "&")
