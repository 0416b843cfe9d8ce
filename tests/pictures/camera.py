"""Draws screens: one after the other, each on a window of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.pictures import screens  # noqa: F401 - fills the gallery
from tests.pictures.gallery import Screen, Size
from tests.pictures.stage import Stage


@contextmanager
def open_screen(screen: Screen, size: Size) -> Iterator[Stage]:
    """The screen as the user sees it, in the current theme."""
    stage = Stage(size)
    try:
        screen.draw(stage)
        stage.settle()
        yield stage
    finally:
        stage.close()
