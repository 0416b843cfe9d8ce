"""Commands for the palette from the buttons and menus of the pages.

They are read from the widgets when the palette opens, with their text and only while enabled, so
nothing is listed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QMenu, QPushButton, QWidget

from widgets.common.buttons import Button, ChoiceRow, UnderlinedTabs
from widgets.jobs.actions.job_actions import KEYED_ACTIONS
from widgets.nodes.row.node_row import node_title
from widgets.shell.command_palette import PaletteEntry
from widgets.shell.pages import PAGE_KEYS, PAGES

if TYPE_CHECKING:
    from app.main.pages import Pages
    from app.shell.window_controller import FrameController
    from widgets.library.library_page import LibraryPage
    from widgets.shell.main_window import MainWindow


PRESS = "press"
_OPEN = ", the open "
_KEYS = {action.text: action.shortcut for action in KEYED_ACTIONS}


@dataclass(frozen=True)
class CommandScope:
    """A part of the window whose commands concern one object.

    Attributes:
        root: The widget; it may contain another scope.
        subject: The object of the commands, "" while there is none.
        show: Brings the widget into view.
        is_visible: Returns True if the widget is visible. Commands of hidden widgets are offered,
            too.
    """

    root: QWidget
    subject: Callable[[], str]
    show: Callable[[], object]
    is_visible: Callable[[], bool]


class PageCommands:
    """Find the commands on request, and trigger one by its key."""

    def __init__(self) -> None:
        self._scopes: list[CommandScope] = []
        self._commands: dict[str, tuple[CommandScope, QAbstractButton | QAction]] = {}

    def add(self, scope: CommandScope) -> None:
        self._scopes.append(scope)

    def collect(
        self, excluded_titles: Collection[str]
    ) -> tuple[list[PaletteEntry], list[PaletteEntry]]:
        """Return the commands that can be triggered now: of the visible page, and of others.

        Args:
            excluded_titles: Titles of commands that other sources offer.
        """
        self._commands.clear()
        visible_entries: list[PaletteEntry] = []
        hidden_entries: list[PaletteEntry] = []
        roots = {scope.root for scope in self._scopes}
        folded_titles = {title.casefold() for title in excluded_titles}
        for scope in self._scopes:
            subject = scope.subject()
            targets = visible_entries if scope.is_visible() else hidden_entries
            title_counts: Counter[str] = Counter()
            for control, title, icon in (
                _page_commands(scope.root, roots, subject) if subject else ()
            ):
                if not title or title.casefold() in folded_titles:
                    continue
                title_counts[title] += 1
                key, number = str(len(self._commands)), title_counts[title]
                self._commands[key] = (scope, control)
                # Each plot of a comparison has a button to remove it.
                label = title if number == 1 else f"{title} ({number})"
                remark = "" if title.endswith(subject) else subject
                shortcut = _KEYS.get(title, "") or control.shortcut().toString()
                targets.append(PaletteEntry(PRESS, key, label, remark, icon, shortcut))
        return visible_entries, hidden_entries

    def press(self, key: str) -> None:
        """Show the widget, then trigger it; does nothing if it no longer exists."""
        scope, control = self._commands[key]
        scope.show()
        if not shiboken6.isValid(control):
            return
        if isinstance(control, QAction):
            control.trigger()
        else:
            control.click()


def _page_commands(
    root: QWidget, roots: Collection[QWidget], subject: str
) -> Iterator[tuple[QAbstractButton | QAction, str, str]]:
    """Yield each command on ``subject`` with its text and icon, in the order of creation."""
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
            prefix = "" if name.startswith("More") else f"{name}: "
            for action in _actions_of(menu):
                yield action, prefix + _displayed_text(action.text()), ""
            continue
        yield (
            button,
            _title(button, subject),
            button.icon_name if isinstance(button, Button) else "",
        )


def _actions_of(menu: QMenu) -> Iterator[QAction]:
    """Return the actions of a menu that can be used, and those of the menus in it."""
    for action in menu.actions():
        inner_menu = action.menu()
        if isinstance(inner_menu, QMenu):
            yield from _actions_of(inner_menu)
        elif action.isEnabled() and not action.isSeparator():
            yield action


def _root_of(widget: QWidget, roots: Collection[QWidget]) -> QWidget | None:
    ancestor: QWidget | None = widget
    while ancestor is not None and ancestor not in roots:
        ancestor = ancestor.parentWidget()
    return ancestor


def _title(button: QAbstractButton, subject: str) -> str:
    """Return the text of a button; the text of a choice includes the name of its group."""
    group = button.parentWidget()
    if isinstance(group, UnderlinedTabs):
        return (
            ""
            if button.isChecked()
            else f"{group.tab_title(button)} of {subject.partition(_OPEN)[0]}"
        )
    if isinstance(group, ChoiceRow):
        return "" if button.isChecked() else f"{group.accessibleName()}: {button.accessibleName()}"
    if isinstance(button, QCheckBox):
        return f"{button.accessibleName()}: {'off' if button.isChecked() else 'on'}"
    return button.accessibleName()


def _displayed_text(text: str) -> str:
    """Return a menu's text as displayed: ``&`` marks a key, ``&&`` is an ampersand."""
    return text.replace("&&", "\0").replace("&", "").replace("\0", "&")


_TITLES = {page.key: page.title for page in PAGES}


def offer_pages(frame: FrameController, pages: Pages) -> None:
    """Register the commands of the pages: of the open object, and of the page around it."""
    window, jobs, nodes = pages.window, pages.jobs, pages.nodes

    def add(
        root: QWidget,
        page_key: str,
        subject: Callable[[], str],
        show: Callable[[], object] | None = None,
    ) -> None:
        def is_visible() -> bool:
            return window.page_key == page_key

        frame.page_commands.add(
            CommandScope(root, subject, show or partial(window.open_page, page_key), is_visible)
        )

    def open_job_title() -> str:
        view = jobs.open_view
        return f"{view.name}, the open job" if view is not None else ""

    def open_sweep_title() -> str:
        summary = jobs.model.summary(jobs.open_sweep_tag)
        return f"{summary.name}, the open sweep" if summary is not None else ""

    def open_node_title() -> str:
        return node_title(nodes.detail.node) if nodes.shows_node else ""

    add(jobs.detail, "jobs", open_job_title, lambda: pages.open_job(jobs.open_id))
    add(jobs.sweep, "jobs", open_sweep_title, lambda: pages.open_sweep(jobs.open_sweep_tag))
    add(jobs, "jobs", lambda: "Jobs")
    add(nodes.detail, "nodes", open_node_title)
    add(nodes, "nodes", lambda: "Nodes")
    add(pages.compare, "compare", lambda: "Compare")
    for kind, page in pages.library.items():
        page_key = PAGE_KEYS[kind]
        add(page.detail, page_key, partial(_shown_item_title, page))
        add(page, page_key, partial(str, _TITLES[page_key]))
    visible_pages: tuple[tuple[QWidget, str, str], ...] = (
        (pages.form, "new-job", "New job"),
        (pages.settings, "settings", "Settings"),
        (pages.help, "help", "Help"),
    )
    for widget, page_key, title in visible_pages:
        add(widget, page_key, partial(_title_if_visible, window, page_key, title))


def _shown_item_title(page: LibraryPage) -> str:
    return page.detail.title if page.shown_name else ""


def _title_if_visible(window: MainWindow, page_key: str, title: str) -> str:
    """Return the title of a form only while it is visible: its buttons act on the input there."""
    return title if window.page_key == page_key else ""
