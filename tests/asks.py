"""The requests that widgets make of controllers, and the menus that offer them."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace


@contextmanager
def asks(actions, request):
    """Asserts that the request is made inside; yields its arguments, as `args`."""
    received = SimpleNamespace(args=None)

    def take(*args):
        received.args = list(args)

    actions.add_handler(request, take)
    yield received
    assert received.args is not None, f"{request.id} was not requested"


def menu_of(button):
    """The entries of its menu by their text, as they are when it opens."""
    button.menu().aboutToShow.emit()
    return entries_of(button.menu())


def entries_of(menu):
    """The entries of a menu and of the menus in it, by their text."""
    entries = {}
    for action in menu.actions():
        if action.menu() is not None:
            entries |= entries_of(action.menu())
        elif action.text():
            entries[action.text()] = action
    return entries
