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

_ALL_BUTTONS_FROM_W = 900
_MENU_ACTIONS = (job_actions.CLONE_ALL, job_actions.CSV_ALL, job_actions.EXPORT_ALL)
_STACKED_MENU_ACTIONS = BULK_ACTIONS[2:]


class SelectionBar(StyledFrame):
    """Shows the number of selected jobs and their actions; in two lines below a list.

    Args:
        selected_ids: Returns the ids of the selected jobs.

    Attributes:
        clear_button: The button that clears the selection.
    """

    def __init__(
        self, actions: JobActions, selected_ids: Callable[[], JobIds], *, is_stacked: bool = False
    ) -> None:
        super().__init__("card")
        self._actions, self._selected_ids = actions, selected_ids
        self._is_stacked = is_stacked
        self._menu_actions = _STACKED_MENU_ACTIONS if is_stacked else _MENU_ACTIONS
        self._count_label = Label("", "strong")
        self._selection = Selection(2, 0, 0)
        self._buttons = {action: Button(action.text, icon=action.icon) for action in BULK_ACTIONS}
        for action, button in self._buttons.items():
            button.clicked.connect(partial(self._ask, action))
        self._menu_button = MoreButton(
            lambda menu: fill_menu(menu, (self._menu_actions,), self._selection, self._ask),
            "More actions",
        )
        self.clear_button = IconButton("x", "Clear selection", key="")
        buttons = self._buttons.values()
        margins = (S3, S2, S2, S2)
        if is_stacked:
            count_row = row(self._count_label, STRETCH, self.clear_button)
            buttons_row = row(*buttons, self._menu_button, STRETCH)
            self.setLayout(col(count_row, buttons_row, gap=S1, margins=margins))
        else:
            self.setLayout(
                row(
                    self._count_label,
                    S2,
                    *buttons,
                    self._menu_button,
                    STRETCH,
                    self.clear_button,
                    margins=margins,
                )
            )
        self._fit_buttons()

    def show_selection(self, count: int, live_count: int, queued_count: int) -> None:
        """Show the number of selected jobs, and their actions; some jobs may be live or queued."""
        self._count_label.setText(f"{formats.plural(count, 'job')} selected")
        self._selection = Selection(count, live_count, queued_count)
        for action, button in self._buttons.items():
            action.show_on(button, self._selection)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_buttons()

    def _fit_buttons(self) -> None:
        is_narrow = self._is_stacked or self.width() < _ALL_BUTTONS_FROM_W
        for action in self._menu_actions:
            self._buttons[action].setVisible(not is_narrow)
        self._menu_button.setVisible(is_narrow)

    def _ask(self, action: BulkAction) -> None:
        self._actions.ask(action, self._selected_ids())
