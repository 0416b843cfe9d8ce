"""The bar with the actions on several jobs."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from widgets.common import formats
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import StyledFrame
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S1, S2, S3
from widgets.jobs.list.bulk_actions import many_acts

_ALL_FROM_W = 900
_BEHIND_MORE = ("clone", "csv", "export")
_BEHIND_MORE_STACKED = ("stop", "export", "clone", "csv", "trash")


class SelectionBar(StyledFrame):
    """Shows the number of selected jobs and their actions; in two lines below a list.

    Signals:
        act_requested: Key of the `ManyAct` whose button was pressed.

    Attributes:
        clear: The button that clears the selection.
    """

    act_requested = Signal(str)

    def __init__(self, *, stacked: bool = False, parent: QWidget | None = None) -> None:
        super().__init__("card", parent=parent)
        self._stacked = stacked
        self._behind_more = _BEHIND_MORE_STACKED if stacked else _BEHIND_MORE
        self._count = Label("", "strong")
        self._acts: dict[str, Button] = {}
        for act in many_acts(2, 0, 0):
            button = self._acts[act.key] = Button(act.text, icon=act.icon)
            button.clicked.connect(partial(self.act_requested.emit, act.key))
        self._more = IconButton("dots-three", "More actions")
        self._menu = QMenu(self._more)
        self._menu.aboutToShow.connect(self._fill_more)
        self._more.setMenu(self._menu)
        self.clear = IconButton("x", "Clear selection", key="")
        buttons = self._acts.values()
        margins = (S3, S2, S2, S2)
        if stacked:
            head, acts = row(self._count, STRETCH, self.clear), row(*buttons, self._more, STRETCH)
            self.setLayout(col(head, acts, gap=S1, margins=margins))
        else:
            self.setLayout(
                row(self._count, S2, *buttons, self._more, STRETCH, self.clear, margins=margins)
            )
        self._fit()

    def show_chosen(self, count: int, live: int, waiting: int) -> None:
        """Show how many jobs are selected, and how many of them run or wait."""
        self._count.setText(f"{formats.plural(count, 'job')} selected")
        for act in many_acts(count, live, waiting):
            button = self._acts[act.key]
            button.setText(act.text)
            button.setEnabled(not act.why_not)
            button.set_tip(act.why_not)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        narrow = self._stacked or self.width() < _ALL_FROM_W
        for key in self._behind_more:
            self._acts[key].setVisible(not narrow)
        self._more.setVisible(narrow)

    @Slot()
    def _fill_more(self) -> None:
        self._menu.clear()
        for button in (self._acts[key] for key in self._behind_more):
            action = self._menu.addAction(button.text(), button.clicked.emit)
            action.setEnabled(button.isEnabled())
