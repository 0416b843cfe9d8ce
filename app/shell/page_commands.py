"""What can be pressed on the pages, for the palette.

It is read off the buttons and menus themselves when the palette opens: what a page offers, with its
words and only while it can be done, and nothing is listed a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import shiboken6
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QPushButton, QWidget

from widgets.common.buttons import Button, ChoiceRow
from widgets.jobs.actions.primary_action import KEYS_OF_ACTS
from widgets.shell.command_palette import PaletteEntry

PRESS = "press"


@dataclass(frozen=True)
class Spot:
    """A part of the window whose acts are about one thing.

    Attributes:
        root: The part; another spot may lie in it.
        words: What the acts are about, "" while it is about nothing.
        show: Brings it before the eyes.
        is_here: Whether it is before them. What is not is offered all the same.
    """

    root: QWidget
    words: Callable[[], str]
    show: Callable[[], object]
    is_here: Callable[[], bool]


class PageActs:
    """Finds them when it is told to, and presses one by its key."""

    def __init__(self) -> None:
        self._spots: list[Spot] = []
        self._found: dict[str, tuple[Spot, QAbstractButton | QAction]] = {}

    def add(self, spot: Spot) -> None:
        self._spots.append(spot)

    def collect(self, leave_out: Collection[str]) -> tuple[list[PaletteEntry], list[PaletteEntry]]:
        """What can be pressed now: before the eyes, and elsewhere.

        Args:
            leave_out: Titles of acts that are offered anyway.
        """
        self._found.clear()
        here: list[PaletteEntry] = []
        elsewhere: list[PaletteEntry] = []
        roots = {spot.root for spot in self._spots}
        told = {title.casefold() for title in leave_out}
        for spot in self._spots:
            words = spot.words()
            targets = here if spot.is_here() else elsewhere
            seen: Counter[str] = Counter()
            for control, title, icon in _acts(spot.root, roots) if words else ():
                if not title or title.casefold() in told:
                    continue
                seen[title] += 1
                key, number = str(len(self._found)), seen[title]
                self._found[key] = (spot, control)
                # Each plot of a comparison has a button to take it away.
                shown = title if number == 1 else f"{title} ({number})"
                targets.append(
                    PaletteEntry(PRESS, key, shown, words, icon, _key_of(control, title))
                )
        return here, elsewhere

    def press(self, key: str) -> None:
        """Show where it is, then do it; what has gone meanwhile does nothing."""
        spot, control = self._found[key]
        spot.show()
        if not shiboken6.isValid(control):
            return
        if isinstance(control, QAction):
            control.trigger()
        else:
            control.click()


def _acts(
    root: QWidget, roots: Collection[QWidget]
) -> Iterator[tuple[QAbstractButton | QAction, str, str]]:
    """Each with its words and icon, in the order in which they were made."""
    for button in root.findChildren(QAbstractButton):
        if not (button.isVisibleTo(root) and button.isEnabledTo(root)):
            continue
        if _root_of(button, roots) is not root:
            continue
        menu = button.menu() if isinstance(button, QPushButton) else None
        if menu is not None:
            # Some are filled when they open.
            menu.aboutToShow.emit()
            name = button.accessibleName()
            before = "" if name.startswith("More") else f"{name}: "
            for action in menu.actions():
                if action.isEnabled() and not action.isSeparator():
                    yield action, before + _plain(action.text()), ""
            continue
        yield button, _title(button), button.icon_name if isinstance(button, Button) else ""


def _root_of(widget: QWidget, roots: Collection[QWidget]) -> QWidget | None:
    at: QWidget | None = widget
    while at is not None and at not in roots:
        at = at.parentWidget()
    return at


def _title(button: QAbstractButton) -> str:
    """What stands on it; of one of several choices with the name of what is chosen."""
    group = button.parentWidget()
    if isinstance(group, ChoiceRow):
        return "" if button.isChecked() else f"{group.accessibleName()}: {button.accessibleName()}"
    if isinstance(button, QCheckBox):
        return f"{button.accessibleName()}: {'off' if button.isChecked() else 'on'}"
    return button.accessibleName()


def _key_of(control: QAbstractButton | QAction, title: str) -> str:
    return KEYS_OF_ACTS.get(title, "") or control.shortcut().toString()


def _plain(text: str) -> str:
    """A menu's text as it is read: ``&`` marks a key there, ``&&`` is one."""
    return text.replace("&&", "\0").replace("&", "").replace("\0", "&")
