"""Taking a plot along as it is seen: as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget

from widgets.common.buttons import IconButton
from widgets.curves.curve_panel import CurvePanel

_FORMATS = {"png": "PNG", "svg": "SVG", "pdf": "PDF"}


def add_pictures(menu: QMenu, panel: CurvePanel, save: Callable[[str, bytes], object]) -> None:
    """An entry for each format; `save` gets a file name and what is to be in the file."""

    def take(ending: str) -> None:
        made = {"png": panel.png, "svg": panel.svg, "pdf": panel.pdf}[ending]()
        # A metric is the user's: "validation/loss" is no name of a file.
        name = panel.title.replace("/", " ").replace("\\", " ").strip() or "plot"
        save(f"{name}.{ending}", made)

    for ending, words in _FORMATS.items():
        menu.addAction(f"This plot as {words}…", partial(take, ending))


class PictureButton(IconButton):
    """The button beside a plot's title.

    Signals:
        saved: A file name, and the bytes to put there.
    """

    saved = Signal(str, object)

    def __init__(self, panel: CurvePanel, parent: QWidget | None = None) -> None:
        super().__init__("download-simple", f"Save the plot {panel.title}", parent=parent)
        menu = QMenu(self)
        add_pictures(menu, panel, self.saved.emit)
        self.setMenu(menu)
