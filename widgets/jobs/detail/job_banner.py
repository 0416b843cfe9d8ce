"""The banner above an open job: its finding, or that an earlier run is shown."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.jobs.detail.warning import JobFinding


class JobBanner(Banner):
    """Hidden while there is nothing to report.

    Signals:
        newest_wished: The user returns from an earlier run to the newest.
        node_wished: The name of the node that the finding is about.
    """

    newest_wished = Signal()
    node_wished = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._acts_for: tuple[bool, str] = (False, "")
        self.hide()

    def show_finding(self, found: JobFinding | None, *, is_earlier: bool) -> None:
        """Show a finding; ``is_earlier``: the page shows an earlier run."""
        acts_for = (is_earlier, found.node if found is not None else "")
        if acts_for != self._acts_for:
            self._acts_for = acts_for
            self.set_actions(self._actions_for(*acts_for))
        if found is not None:
            self.set_finding(found.family, found.sentence, found.more, icon=found.icon)
        self.setVisible(found is not None)

    def _actions_for(self, is_earlier: bool, node: str) -> list[Button]:
        if is_earlier:
            return [self._way_back()]
        if not node:
            return []
        button = Button("Show node")
        button.clicked.connect(lambda: self.node_wished.emit(node))
        return [button]

    def _way_back(self) -> Button:
        button = Button("Show newest run")
        button.clicked.connect(self.newest_wished)
        return button
