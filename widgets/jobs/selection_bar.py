"""What can be done with several jobs at once."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import Frame
from widgets.common.layout import STRETCH, row
from widgets.common.text import Label
from widgets.common.theme import S2, S3

MOST_COMPARED = 8
"""A plot has eight colours."""
_ALL_FROM_W = 900


class SelectionBar(Frame):
    """Says how many are chosen, and offers what fits them.

    Signals:
        compare_requested, tag_requested, clone_requested, stop_requested, export_requested,
        csv_requested, trash_requested, clear_requested: A button was pressed.
    """

    compare_requested = Signal()
    tag_requested = Signal()
    clone_requested = Signal()
    stop_requested = Signal()
    export_requested = Signal()
    csv_requested = Signal()
    trash_requested = Signal()
    clear_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("card", parent=parent)
        self._count = Label("", "strong")
        self._compare = self._button("Compare", "chart-line-up", self.compare_requested)
        self._tag = self._button("Tag…", "tag", self.tag_requested)
        self._clone = self._button("Clone", "copy", self.clone_requested)
        self._stop = self._button("Stop", "stop", self.stop_requested)
        self._export = self._button("Export…", "upload-simple", self.export_requested)
        self._csv = self._button("Save CSV…", "download-simple", self.csv_requested)
        self._trash = self._button("Move to trash…", "trash", self.trash_requested)
        self._more = IconButton("dots-three", "More that can be done")
        self._more.clicked.connect(self._show_more)
        clear = IconButton("x", "Choose none", key="")
        clear.clicked.connect(self.clear_requested)
        self._acts = (
            self._compare,
            self._tag,
            self._stop,
            self._export,
            self._clone,
            self._csv,
            self._trash,
        )
        self.setLayout(
            row(self._count, S2, *self._acts, self._more, STRETCH, clear, margins=(S3, S2, S2, S2))
        )

    def show_chosen(self, count: int, live: int) -> None:
        """How many are chosen, and how many of them are under way."""
        self._count.setText(f"{formats.plural(count, 'job')} chosen")
        several = 2 <= count <= MOST_COMPARED
        self._compare.setEnabled(several)
        self._compare.set_tip("" if several else f"Choose 2 to {MOST_COMPARED} jobs")
        self._csv.setEnabled(count <= MOST_COMPARED)
        self._csv.set_tip("" if count <= MOST_COMPARED else f"Choose up to {MOST_COMPARED} jobs")
        self._clone.setEnabled(count == 1)
        self._clone.set_tip("" if count == 1 else "Choose one job: the form holds one")
        self._stop.setEnabled(live > 0)
        self._stop.setText(f"Stop {formats.count(live)}" if live > 1 else "Stop")
        self._stop.set_tip("" if live else "None of them is running")
        ended = count - live
        self._trash.setEnabled(ended > 0 and live == 0)
        self._trash.set_tip("" if not live else "Stop those that are running first")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        narrow = self.width() < _ALL_FROM_W
        for button in (self._clone, self._csv, self._export):
            button.setVisible(not narrow)
        self._more.setVisible(narrow)

    @Slot()
    def _show_more(self) -> None:
        menu = QMenu(self)
        for button in (self._clone, self._csv, self._export):
            action = menu.addAction(button.text(), button.clicked.emit)
            action.setEnabled(button.isEnabled())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._more.mapToGlobal(self._more.rect().topLeft()))

    @staticmethod
    def _button(text: str, icon: str, wish: object) -> Button:
        button = Button(text, icon=icon)
        button.clicked.connect(wish)
        return button
