"""Find the rows of the job lists off the GUI thread, and keep them up to date.

One index holds all jobs, and the functions of one queue read and change it. The lists hold numbers
into the index (`JobRows`). A list is queried again when the user asks for other rows, and when jobs
are added, removed or regrouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.jobs.summary import JobListing, JobQuery, JobSummary, summary_of
from backend.records.jobs.view import JobView
from backend.records.sweeps.summary import FoldState
from backend.services.jobs.index import JobIndex, JobQueryResult
from widgets.common.throttle import Throttle
from widgets.jobs.list.job_list_model import JobRows
from widgets.jobs.page.jobs_page import JobsPage

LEARN_INTERVAL_MS = 100
_QUEUE = "index"
Uses = Mapping[tuple[str, str], int]


class ListController(QObject):
    """Serve the lists of the page Jobs.

    Signals:
        count_changed: The number of jobs.
        uses_changed: The number of jobs by version: ``(key in the job file, NAME@VERSION)`` to
            number.
    """

    count_changed = Signal(int)
    uses_changed = Signal(object)

    def __init__(self, runner: Runner, page: JobsPage, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._page = page
        self._index = JobIndex()
        self._query_numbers: dict[str, int] = {}
        self._immediate_lists: set[str] = set()
        """Lists whose rows the user wants to move, until the newest question is answered."""
        self._seen_views: dict[str, JobView] = {}
        self._learn_throttle = Throttle(LEARN_INTERVAL_MS, self._learn_seen, self)
        self._has_sorted_names = False
        page.rows_requested.connect(self.find)
        page.queue_moved.connect(
            lambda is_immediate: self._find(page.queries, is_immediate=is_immediate)
        )
        page.sweeps.folds_changed.connect(lambda: self._find(page.queries, is_immediate=True))
        page.job_edited.connect(self._learn)
        page.job_updated.connect(self._learn_soon)
        page.job_removed.connect(self._forget)
        page.table.choices_requested.connect(self._read_choices)

    def take_listing(self, listing: JobListing) -> None:
        """Take a new listing of all jobs."""
        self._page.show_views(listing.views)
        self._update(listing.views, listing.summaries, listing.removed_ids, is_listing=True)

    @Slot(str, JobQuery)
    def find(self, list_name: str, query: JobQuery) -> None:
        """Find other rows for a list."""
        self._find({list_name: query}, is_immediate=True)

    def find_rows(self, query: JobQuery, on_result: Callable[[JobRows], None]) -> None:
        """Find the rows of a query for a list outside the page."""

        def show(result: JobQueryResult) -> None:
            on_result(self._rows(result))

        self._runner.run(_QUEUE, partial(self._index.find, query), show, _raise)

    def find_by_name(
        self, text: str, limit: int, on_result: Callable[[tuple[JobSummary, ...]], None]
    ) -> None:
        """Find the sweeps and jobs with these words in their name."""

        def find() -> tuple[JobSummary, ...]:
            return (*self._index.find_sweeps(text, limit), *self._index.find_by_name(text, limit))

        self._runner.run(_QUEUE, find, on_result, _raise)

    @Slot(JobView)
    def _learn(self, view: JobView) -> None:
        self._seen_views.pop(view.id, None)
        self._update((view,))

    @Slot(JobView)
    def _learn_soon(self, view: JobView) -> None:
        self._seen_views[view.id] = view
        self._learn_throttle.request()

    def _learn_seen(self) -> None:
        views, self._seen_views = tuple(self._seen_views.values()), {}
        self._update(views)

    @Slot(str)
    def _forget(self, job_id: str) -> None:
        self._seen_views.pop(job_id, None)
        self._update((), removed_ids=(job_id,))

    def _update(
        self,
        views: Iterable[JobView],
        summaries: Iterable[JobSummary] = (),
        removed_ids: Iterable[str] = (),
        *,
        is_listing: bool = False,
    ) -> None:
        # Summaries are made on the worker, too: for many new jobs at once they take 0.1 s.
        def update_index() -> tuple[tuple[int, ...], bool, Uses | None]:
            update = self._index.update((*summaries, *map(summary_of, views)), removed_ids)
            return (
                update.changed_slots,
                update.order_changed,
                self._index.uses() if update.jobs_added_or_removed else None,
            )

        self._runner.run(_QUEUE, update_index, partial(self._show_changes, is_listing), _raise)

    def _show_changes(
        self, is_listing: bool, update: tuple[tuple[int, ...], bool, Uses | None]
    ) -> None:
        changed_slots, order_changed, use_counts = update
        self._page.repaint_slots(changed_slots)
        if use_counts is not None:
            self.uses_changed.emit(use_counts)
        if order_changed or (is_listing and (changed_slots or not self._query_numbers)):
            self._find(self._page.queries)

    def _find(self, queries: Mapping[str, JobQuery], *, is_immediate: bool = False) -> None:
        queue_positions = self._page.model.queue_numbers()
        for list_name, query in queries.items():
            number = self._query_numbers[list_name] = self._query_numbers.get(list_name, 0) + 1
            if is_immediate:
                self._immediate_lists.add(list_name)
            folds = self._page.sweeps.folds(list_name)
            self._runner.run(
                _QUEUE,
                partial(self._query_index, list_name, number, query, queue_positions, folds),
                partial(self._show, list_name, number),
                _raise,
            )

    def _query_index(
        self,
        list_name: str,
        number: int,
        query: JobQuery,
        queue_positions: Mapping[str, int],
        folds: FoldState,
    ) -> JobQueryResult | None:
        """Query the index, on a worker. Of several waiting queries, only the last is answered."""
        if self._query_numbers[list_name] != number:
            return None
        return self._index.fold(self._index.find(query, queue_positions), query, folds)

    def _show(self, list_name: str, number: int, result: JobQueryResult | None) -> None:
        if result is None:
            return
        is_immediate = list_name in self._immediate_lists
        if number == self._query_numbers[list_name]:
            self._immediate_lists.discard(list_name)
        self._page.show_rows(list_name, self._rows(result), is_immediate=is_immediate)
        self.count_changed.emit(result.total_count)
        if not self._has_sorted_names:
            self._has_sorted_names = True
            self._runner.run(_QUEUE, self._index.sort_names, lambda _: None, _raise)

    def _rows(self, result: JobQueryResult) -> JobRows:
        return JobRows(
            result.summaries,
            result.order,
            self._index.slot,
            result.total_count,
            result.live_count,
            result.waiting_count,
            result.match_count,
            result.sweep_slots,
            result.empty_columns,
        )

    @Slot()
    def _read_choices(self) -> None:
        show = self._page.table.filter_panel.show_choices
        self._runner.run(_QUEUE, self._index.choices, show, _raise)


def _raise(error: BackendError) -> None:
    """Raise the error: the index is in memory, so a query cannot fail."""
    raise error
