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

    actions.on(request, take)
    yield received
    assert received.args is not None, f"{request.id} was not requested"


def menu_of(button):
    """The entries of its menu by their text, as they are when it opens."""
    button.menu().aboutToShow.emit()
    actions = button.menu().actions()
    inner = [action for entry in actions if entry.menu() for action in entry.menu().actions()]
    return {action.text(): action for action in (*actions, *inner) if action.text()}
