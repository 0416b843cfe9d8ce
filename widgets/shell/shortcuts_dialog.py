"""The dialog of all keyboard shortcuts, by page."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from PySide6.QtWidgets import QGridLayout, QWidget

from widgets.common.cards import VerticalScrollArea
from widgets.common.dialog import Dialog
from widgets.common.labels import Label, native_key
from widgets.common.layout import STRETCH, col
from widgets.common.theme import S2, S3, S4
from widgets.shell.shortcuts import SHORTCUTS, Shortcut

_WIDTH, _HEIGHT = 460, 640


class ShortcutsDialog(Dialog):
    """All keyboard shortcuts, by page.

    Each row has a key and the action of the key.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Keyboard shortcuts", _WIDTH, parent, height=_HEIGHT)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(S4)
        self._grid.setVerticalSpacing(S2)
        self._grid.setColumnStretch(1, 1)
        body = QWidget()
        body.setLayout(col(self._grid, STRETCH, margins=(0, 0, S4, 0)))
        self.fill((VerticalScrollArea(body), 1), foot=(self.default_button("Close", self.accept),))
        for page_title, shortcuts in groupby(SHORTCUTS, key=lambda shortcut: shortcut.page_title):
            self._add_section(page_title or "Everywhere", shortcuts)

    def _add_section(self, page_title: str, shortcuts: Iterable[Shortcut]) -> None:
        grid = self._grid
        heading = Label(page_title, "strong")
        heading.setContentsMargins(0, S3 if grid.rowCount() > 1 else 0, 0, 0)
        grid.addWidget(heading, grid.rowCount(), 0, 1, 2)
        for shortcut in shortcuts:
            row = grid.rowCount()
            grid.addWidget(Label(native_key(shortcut.key), "mono", "text2"), row, 0)
            grid.addWidget(Label(shortcut.label), row, 1)
