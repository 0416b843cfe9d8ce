"""Export a plot as it is displayed: as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu

from widgets.common.buttons import IconButton
from widgets.plots.image_export import PictureSource

_FORMATS = {"png": "PNG", "svg": "SVG", "pdf": "PDF"}


def add_export_actions(
    menu: QMenu, plot: Callable[[], PictureSource], save: Callable[[str, bytes], object]
) -> None:
    """Add an entry for each format; `save` gets a file name and the contents."""

    def save_picture(suffix: str) -> None:
        picture = plot().as_picture()
        content = {"png": picture.png, "svg": picture.svg, "pdf": picture.pdf}[suffix]()
        # A metric has a user's name: "validation/loss" is not a file name.
        name = picture.title.replace("/", " ").replace("\\", " ").strip() or "plot"
        save(f"{name}.{suffix}", content)

    for suffix, format_name in _FORMATS.items():
        menu.addAction(f"This plot as {format_name}…", partial(save_picture, suffix))


class PictureButton(IconButton):
    """The button next to a plot's title.

    Signals:
        saved: A file name, and its contents.
    """

    saved = Signal(str, object)

    def __init__(self, title: str, plot: Callable[[], PictureSource]) -> None:
        """Build the button of `plot`, which may change; its tool tip has `title`."""
        super().__init__("download-simple", f"Save the plot {title}")
        menu = QMenu(self)
        add_export_actions(menu, plot, self.saved.emit)
        self.setMenu(menu)
