"""The bar with the actions on several jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtGui import QResizeEvent

from widgets.common import formats
from widgets.common.actions import MoreButton, fill_menu
from widgets.common.buttons import Button, IconButton
from widgets.common.cards import StyledFrame
from widgets.common.labels import Label
from widgets.common.layout import STRETCH, col, row
from widgets.common.theme import S1, S2, S3
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import BULK_ACTIONS, BulkAction, JobActions, JobIds, Selection

_ALL_FROM_W = 900
_BEHIND_MORE = (job_actions.CLONE_ALL, job_actions.CSV_ALL, job_actions.EXPORT_ALL)
_BEHIND_MORE_STACKED = BULK_ACTIONS[2:]


class SelectionBar(StyledFrame):
    """Shows the number of selected jobs and their actions; in two lines below a list.

    Args:
        chosen: Returns the selected jobs.

    Attributes:
        clear: The button that clears the selection.
    """

    def __init__(
        self, actions: JobActions, selected_ids: Callable[[], JobIds], *, stacked: bool = False
    ) -> None:
        super().__init__("card")
        self._actions, self._selected_ids = actions, selected_ids
        self._stacked = stacked
        self._behind_more = _BEHIND_MORE_STACKED if stacked else _BEHIND_MORE
        self._count = Label("", "strong")
        self._on = Selection(2, 0, 0)
        self._acts = {action: Button(action.text, icon=action.icon) for action in BULK_ACTIONS}
        for action, button in self._acts.items():
            button.clicked.connect(partial(self._ask, action))
        self._more = MoreButton(
            lambda menu: fill_menu(menu, (self._behind_more,), self._on, self._ask), "More actions"
        )
        self.clear_button = IconButton("x", "Clear selection", key="")
        buttons = self._acts.values()
        margins = (S3, S2, S2, S2)
        if stacked:
            head, acts = (
                row(self._count, STRETCH, self.clear_button),
                row(*buttons, self._more, STRETCH),
            )
            self.setLayout(col(head, acts, gap=S1, margins=margins))
        else:
            self.setLayout(
                row(
                    self._count,
                    S2,
                    *buttons,
                    self._more,
                    STRETCH,
                    self.clear_button,
                    margins=margins,
                )
            )
        self._fit()

    def show_selection(self, count: int, live_count: int, waiting_count: int) -> None:
        """Show how many jobs are selected, and how many of them run or wait."""
        self._count.setText(f"{formats.plural(count, 'job')} selected")
        self._on = Selection(count, live_count, waiting_count)
        for action, button in self._acts.items():
            action.show_on(button, self._on)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        narrow = self._stacked or self.width() < _ALL_FROM_W
        for action in self._behind_more:
            self._acts[action].setVisible(not narrow)
        self._more.setVisible(narrow)

    def _ask(self, action: BulkAction) -> None:
        self._actions.ask(action, self._selected_ids())
