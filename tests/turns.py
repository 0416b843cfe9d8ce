"""Pieces of work of a window, done one by one: all in one call would be a stall of its own."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QApplication, QWidget

from tests.waiting import wait_for
from widgets.common.chunked_work import ChunkedWork


def finish(turns: ChunkedWork) -> None:
    """Do the rest of them."""
    while not turns.is_done:
        turns.do_one()


def are_done(window: QWidget) -> bool:
    """Whether nothing is left of them, in the window or anything in it: a page is painted."""
    return all(turns.is_done for turns in window.findChildren(ChunkedWork))


def wait_in_loop(fact: Callable[[], object], what: str = "") -> None:
    """Wait for it while the window goes on."""

    def has_come() -> bool:
        QApplication.processEvents()
        return bool(fact())

    wait_for(has_come, what)
