"""Actions and requests of the user, each declared once; widgets ask, controllers answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QMenu

from widgets.common.buttons import Button, IconButton

P = ParamSpec("P")
Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Request(Generic[P]):
    """A request of the user; P has the types of its arguments, and `id` is its identity."""

    id: str


def always(_subject: object) -> bool:
    return True


def never(_subject: object) -> bool:
    return False


@dataclass(frozen=True)
class Action(Request[P], Generic[P, Subject]):
    """A request that buttons and menus offer; the subject decides if it is possible.

    Attributes:
        shortcut: The key; ``shortcut_label`` describes it in the dialog of all shortcuts.
        disabled_tip: The tip while the action is disabled, in place of ``tip``.
        make_title: Returns the text where it depends on the subject.
        is_offered: Menus show the action.
        is_enabled: The action is possible.
        needs_page: The action needs the page of its subject, which is opened first.
        is_primary: The button is highlighted.
    """

    text: str = field(compare=False)
    icon: str = field(default="", compare=False)
    shortcut: str = field(default="", compare=False)
    shortcut_label: str = field(default="", compare=False)
    tip: str = field(default="", compare=False)
    disabled_tip: str = field(default="", compare=False)
    make_title: Callable[[Subject], str] | None = field(default=None, compare=False)
    is_offered: Callable[[Subject], bool] = field(default=always, compare=False)
    is_enabled: Callable[[Subject], bool] = field(default=always, compare=False)
    needs_page: bool = field(default=False, compare=False)
    is_primary: bool = field(default=False, compare=False)

    def title(self, subject: Subject) -> str:
        return self.text if self.make_title is None else self.make_title(subject)

    def show_on(self, button: Button, subject: Subject) -> None:
        """Show the action on a button, as it is for the subject."""
        is_able = self.is_enabled(subject)
        button.setText(self.title(subject))
        button.set_tip(self.tip if is_able else self.disabled_tip or self.tip)
        button.set_icon(self.icon)
        button.setEnabled(is_able)


class Requests:
    """Passes each request to its handlers, in the order in which they were added."""

    def __init__(self) -> None:
        self._handlers: defaultdict[str, list[Callable[..., object]]] = defaultdict(list)

    def add_handler(self, request: Request[P], handler: Callable[P, object]) -> None:
        self._handlers[request.id].append(handler)

    def ask(self, request: Request[P], *args: P.args, **kwargs: P.kwargs) -> None:
        for handler in self._handlers[request.id]:
            handler(*args, **kwargs)


def fill_menu(
    menu: QMenu,
    groups: Iterable[Iterable[Action[Any, Subject]]],
    subject: Subject,
    trigger: Callable[[Action[Any, Subject]], object],
    *,
    with_shortcuts: bool = False,
) -> None:
    """Add the actions that are offered, and a separator before each group."""
    for group in groups:
        if menu.actions():
            menu.addSeparator()
        for action in group:
            if action.is_offered(subject):
                menu_action = menu.addAction(action.title(subject), partial(trigger, action))
                menu_action.setEnabled(action.is_enabled(subject))
                # Only displayed next to the text; the page handles the key.
                menu_action.setShortcut(action.shortcut if with_shortcuts else "")
                menu_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)


class MoreButton(IconButton):
    """A button with a menu.

    Args:
        fill: Fills the empty menu, each time it opens.
    """

    def __init__(self, fill: Callable[[QMenu], object], tip: str = "More") -> None:
        super().__init__("dots-three", tip)
        self._fill = fill
        self._actions = QMenu(self)
        self._actions.aboutToShow.connect(self._fill_menu)
        self.setMenu(self._actions)

    @Slot()
    def _fill_menu(self) -> None:
        self._actions.clear()
        # Clearing deletes the actions, and leaves the menus in it as its children.
        for inner_menu in self._actions.findChildren(QMenu):
            inner_menu.setParent(None)
            inner_menu.deleteLater()
        self._fill(self._actions)
