"""Which screens there are: a name, sizes, and the function that draws it.

A screen is drawn by a function that gets a `Stage` and leaves it as the picture shall be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.pictures.stage import Stage

Size = tuple[int, int]
LARGE, SMALL, SMALLEST, WIDE = (1440, 900), (1000, 640), (900, 600), (2560, 1440)
LARGE_SMALL = (LARGE, SMALL)
USUAL_SIZES = (*LARGE_SMALL, SMALLEST)
EVERY = (LARGE, SMALL, SMALLEST, WIDE)


@dataclass(frozen=True)
class Screen:
    """A state of the window. ``published``: themes in which the documents show the picture."""

    name: str
    draw: Callable[[Stage], object]
    sizes: tuple[Size, ...] = USUAL_SIZES
    published: tuple[str, ...] = ()

    def picture(self, size: Size, theme: str) -> str:
        """Return the name of a picture: ``jobs-light``, ``jobs-1000x640-light``."""
        suffix = "" if size == LARGE else f"-{size[0]}x{size[1]}"
        return f"{self.name}{suffix}-{theme}"


SCREENS: dict[str, Screen] = {}
BOTH_THEMES = ("light", "dark")


def screen(
    name: str, sizes: tuple[Size, ...] = USUAL_SIZES, published: tuple[str, ...] = ()
) -> Callable[[Callable[[Stage], object]], Callable[[Stage], object]]:
    """Put a function into the gallery: as a decorator, or `screen(name)(draw)`.

    Args:
        published: Themes in which the picture stands in ``docs/pictures`` too.
    """

    def take(draw: Callable[[Stage], object]) -> Callable[[Stage], object]:
        if name in SCREENS:
            raise ValueError(f"Two screens are called {name}")
        SCREENS[name] = Screen(name, draw, sizes, published)
        return draw

    return take


def published() -> Iterator[str]:
    """Names of the pictures that the documents may show and that are drawn by a screen."""
    for screen in SCREENS.values():
        for theme in screen.published:
            yield screen.picture(screen.sizes[0], theme)
