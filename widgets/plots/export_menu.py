"""Taking a plot along as it is seen: as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu

from widgets.common.buttons import IconButton
from widgets.plots.image_export import Pictured

_FORMATS = {"png": "PNG", "svg": "SVG", "pdf": "PDF"}


def add_pictures(
    menu: QMenu, plot: Callable[[], Pictured], save: Callable[[str, bytes], object]
) -> None:
    """An entry for each format; `save` gets a file name and what is to be in the file."""

    def take(ending: str) -> None:
        picture = plot().as_picture()
        made = {"png": picture.png, "svg": picture.svg, "pdf": picture.pdf}[ending]()
        # A metric is the user's: "validation/loss" is no name of a file.
        name = picture.title.replace("/", " ").replace("\\", " ").strip() or "plot"
        save(f"{name}.{ending}", made)

    for ending, words in _FORMATS.items():
        menu.addAction(f"This plot as {words}…", partial(take, ending))


class PictureButton(IconButton):
    """The button beside a plot's title.

    Signals:
        saved: A file name, and the bytes to put there.
    """

    saved = Signal(str, object)

    def __init__(self, title: str, plot: Callable[[], Pictured]) -> None:
        """The button of `plot`, which may be another one each time; it says `title`."""
        super().__init__("download-simple", f"Save the plot {title}")
        menu = QMenu(self)
        add_pictures(menu, plot, self.saved.emit)
        self.setMenu(menu)
