"""The actions on a sweep: fold the sweep, or act on all its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu

from backend.records.jobs.summary import JobQuery, JobSummary
from backend.records.sweeps.summary import FoldState
from widgets.common.actions import fill_menu
from widgets.jobs.actions.job_actions import SWEEP_ACTIONS, JobActions, Selection

_MAX_FOLDS = 200


class SweepFolds(QObject):
    """Stores which sweeps are folded.

    Args:
        get_query: Returns the current query of the list with this name.

    Signals:
        folds_changed: The folds that the user chose, by tag. The rows of all lists change.
    """

    folds_changed = Signal(object)

    def __init__(self, get_query: Callable[[str], JobQuery], parent: QObject) -> None:
        super().__init__(parent)
        self._get_query = get_query
        self._stored_folds: dict[str, bool] = {}
        self._search_folds: dict[str, tuple[JobQuery, dict[str, bool]]] = {}

    def restore(self, stored_folds: Mapping[str, Any]) -> None:
        """Restore a value of `folds_changed`, from a file that may have been edited."""
        folds = {
            tag: is_folded for tag, is_folded in stored_folds.items() if isinstance(is_folded, bool)
        }
        self._stored_folds = dict(list(folds.items())[-_MAX_FOLDS:])

    def folds(self, list_name: str) -> FoldState:
        """Return the folding of the list with this name."""
        return FoldState(
            dict(self._stored_folds), self._folds_of_search(list_name, self._get_query(list_name))
        )

    def fold(self, list_name: str, tag: str, is_folded: bool) -> None:
        """Fold or unfold a sweep; during a search only for that search."""
        query = self._get_query(list_name)
        if query.is_search:
            self._search_folds[list_name] = (
                query,
                {**self._folds_of_search(list_name, query), tag: is_folded},
            )
        else:
            self._stored_folds.pop(tag, None)
            self._stored_folds[tag] = is_folded
            while len(self._stored_folds) > _MAX_FOLDS:
                del self._stored_folds[next(iter(self._stored_folds))]
        self.folds_changed.emit(dict(self._stored_folds))

    def add_actions(
        self,
        menu: QMenu,
        list_name: str,
        summary: JobSummary,
        actions: JobActions,
        *,
        is_open: bool,
    ) -> None:
        """Add the actions on the sweep of a row to the menu."""
        sweep = summary.sweep
        if sweep is None:
            return
        text = "Fold" if is_open else "Unfold"
        menu.addAction(text, partial(self.fold, list_name, summary.id, is_open))
        selection = Selection(len(sweep.ids), sweep.live, sweep.queued)
        fill_menu(menu, (SWEEP_ACTIONS,), selection, lambda action: actions.ask(action, sweep.ids))

    def _folds_of_search(self, list_name: str, query: JobQuery) -> dict[str, bool]:
        folded_query, search_folds = self._search_folds.get(list_name, (query, {}))
        return search_folds if folded_query == query else {}
