"""The tabs of the open job and their pages; "What happened" comes first for a failed job."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from widgets.common import formats
from widgets.common.buttons import UnderlinedTabs
from widgets.common.labels import plain_tip
from widgets.common.panes import PageStack

_TABS = (
    ("curves", "Curves"),
    ("ranks", "Ranks"),
    ("checkpoints", "Checkpoints"),
    ("log", "Log"),
    ("settings", "Settings"),
    ("notes", "Notes"),
)
_FAILURE = ("failure", "What happened")


class JobTabs(PageStack):
    """The page of the chosen tab.

    Signals:
        tab_changed: The key of the new tab, whatever caused the change.

    Attributes:
        bar: The tab bar, placed separately: pages reach the edge, tabs do not.
    """

    tab_changed = Signal(str)

    def __init__(self, **pages: QWidget) -> None:
        """Create the tabs from pages by their keys; ``failure`` must be among the keys."""
        super().__init__()
        self._pages = pages
        self._shows_failure = False
        for page in self._pages.values():
            self.addWidget(page)
        self.bar = UnderlinedTabs(_TABS, "curves", name="Parts of the job")
        self.bar.key_chosen.connect(self._show_page)
        for key, label in (("[", "Previous tab"), ("]", "Next tab"), ("Ctrl+L", "Log")):
            self.bar.add_tip(plain_tip(label, key))
        self.setCurrentWidget(self._pages["curves"])

    def key(self) -> str:
        """Return the key of the selected tab."""
        return self.bar.key()

    def choose(self, key: str) -> None:
        """Show the page of this tab."""
        self.bar.choose(key)
        self._show_page(key)

    def step(self, offset: int) -> None:
        """Show the next page, or the previous one."""
        self.bar.step(offset)

    def show_failure_tab(self, is_visible: bool) -> None:
        """Show or hide the tab "What happened"."""
        if is_visible == self._shows_failure:
            return
        self._shows_failure = is_visible
        selected_key = self.key()
        self.bar.set_tabs((_FAILURE, *_TABS) if is_visible else _TABS, selected_key)
        if self.key() != selected_key:
            self._show_page(self.key())

    def show_counts(self, rank_count: int, checkpoint_count: int) -> None:
        """Show the number of ranks and checkpoints in their tabs."""
        self.bar.set_count("ranks", formats.count(rank_count))
        self.bar.set_count(
            "checkpoints", formats.count(checkpoint_count) if checkpoint_count else ""
        )

    @Slot(str)
    def _show_page(self, key: str) -> None:
        self.setCurrentWidget(self._pages[key])
        self.tab_changed.emit(key)
