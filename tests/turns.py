"""Pieces of work of a window, done one by one: all in one call would be a stall of its own."""

from __future__ import annotations

from widgets.common.turns import Turns


def finish(turns: Turns) -> None:
    """Do the rest of them."""
    while not turns.is_done:
        turns.do_one()
