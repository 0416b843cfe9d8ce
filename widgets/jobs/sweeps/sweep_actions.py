"""The actions on a sweep: fold it, or act on all its jobs."""

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

_MOST_KEPT = 200


class SweepFolds(QObject):
    """Stores which sweeps are folded.

    Args:
        query_of: Returns the current query of the list with this name.

    Signals:
        folded: The sweeps that the user folded or unfolded, by tag. The rows of all lists change.
    """

    folded = Signal(object)

    def __init__(self, query_of: Callable[[str], JobQuery], parent: QObject) -> None:
        super().__init__(parent)
        self._query_of = query_of
        self._kept: dict[str, bool] = {}
        self._now: dict[str, tuple[JobQuery, dict[str, bool]]] = {}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore a value of `folded`, from a file that may have been edited."""
        folds = {tag: folded for tag, folded in kept.items() if isinstance(folded, bool)}
        self._kept = dict(list(folds.items())[-_MOST_KEPT:])

    def folds(self, list_name: str) -> FoldState:
        """Return the folding of the list with this name."""
        return FoldState(dict(self._kept), self._now_of(list_name, self._query_of(list_name)))

    def fold(self, list_name: str, tag: str, folded: bool) -> None:
        """Fold or unfold a sweep; during a search only for that search."""
        query = self._query_of(list_name)
        if query.is_search:
            self._now[list_name] = (query, {**self._now_of(list_name, query), tag: folded})
        else:
            self._kept.pop(tag, None)
            self._kept[tag] = folded
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        self.folded.emit(dict(self._kept))

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
        on = Selection(len(sweep.ids), sweep.live, sweep.queued)
        fill_menu(menu, (SWEEP_ACTIONS,), on, lambda one: actions.ask(one, sweep.ids))

    def _now_of(self, which: str, query: JobQuery) -> dict[str, bool]:
        asked, now = self._now.get(which, (query, {}))
        return now if asked == query else {}
