"""The tabs of the open job and the page of each; what happened comes first while it failed."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from widgets.common import formats
from widgets.common.buttons import UnderlinedTabs
from widgets.common.labels import plain_tip
from widgets.common.page_stack import Stack

_TABS = (
    ("curves", "Curves"),
    ("ranks", "Ranks"),
    ("checkpoints", "Checkpoints"),
    ("log", "Log"),
    ("settings", "Settings"),
    ("notes", "Notes"),
)
_FAILURE = ("failure", "What happened")


class JobTabs(Stack):
    """The page of the chosen tab.

    Signals:
        turned: The key of the tab whose page is shown now, whoever turned to it.

    Attributes:
        bar: The row of tabs. It has a place of its own: pages reach the edge, tabs do not.
    """

    turned = Signal(str)

    def __init__(self, **pages: QWidget) -> None:
        """The tabs, each page by the key of its tab, ``failure`` among them."""
        super().__init__()
        self._pages = pages
        self._shows_failure = False
        for page in self._pages.values():
            self.addWidget(page)
        self.bar = UnderlinedTabs(_TABS, "curves", name="Parts of the job")
        self.bar.chosen.connect(self._turn)
        for key, does in (("[", "Previous tab"), ("]", "Next tab"), ("Ctrl+L", "Log")):
            self.bar.add_tip(plain_tip(does, key))
        self.setCurrentWidget(self._pages["curves"])

    def key(self) -> str:
        """The key of the chosen tab."""
        return self.bar.key()

    def choose(self, key: str) -> None:
        """Turn to the page of this tab."""
        self.bar.choose(key)
        self._turn(key)

    def step(self, by: int) -> None:
        """Turn to the next page, or to the one before."""
        self.bar.step(by)

    def show_failed(self, has_failed: bool) -> None:
        """Whether there is a tab of what happened."""
        if has_failed == self._shows_failure:
            return
        self._shows_failure = has_failed
        kept = self.key()
        self.bar.set_tabs((_FAILURE, *_TABS) if has_failed else _TABS, kept)
        if self.key() != kept:
            self._turn(self.key())

    def show_counts(self, ranks: int, checkpoints: int) -> None:
        """How many there are, beside the names of their tabs."""
        self.bar.set_count("ranks", formats.count(ranks))
        self.bar.set_count("checkpoints", formats.count(checkpoints) if checkpoints else "")

    @Slot(str)
    def _turn(self, key: str) -> None:
        self.setCurrentWidget(self._pages[key])
        self.turned.emit(key)
