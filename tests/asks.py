"""The requests that widgets make of controllers, and the menus that offer them."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace


@contextmanager
def expect_request(actions, request):
    """Asserts that the request is made inside; yields its arguments, as `args`."""
    call = SimpleNamespace(args=None)

    def record_call(*args):
        call.args = list(args)

    actions.add_handler(request, record_call)
    yield call
    assert call.args is not None, f"{request.id} was not requested"


def open_menu_entries(button):
    """The entries of its menu by their text, as they are when it opens."""
    button.menu().aboutToShow.emit()
    return menu_entries(button.menu())


def menu_entries(menu):
    """The entries of a menu and of the menus in it, by their text."""
    entries = {}
    for action in menu.actions():
        if action.menu() is not None:
            entries |= menu_entries(action.menu())
        elif action.text():
            entries[action.text()] = action
    return entries
