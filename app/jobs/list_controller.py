"""Find the rows of the job lists off the GUI thread, and keep them up to date.

One index holds all jobs, and one lane reads and changes it. The lists hold numbers into it
(`JobRows`). A list is queried again when the user asks for other rows, and when jobs are added,
removed or regrouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Signal, Slot

from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.jobs.summary import JobListing, JobQuery, JobSummary, line_of
from backend.records.jobs.view import JobView
from backend.records.sweeps.summary import Folds
from backend.services.jobs.index import JobIndex, JobQueryResult
from widgets.common.throttle import Throttle
from widgets.jobs.list.job_rows import JobRows
from widgets.jobs.page.jobs_page import JobsPage

LEARN_INTERVAL_MS = 100
_LANE = "index"
Uses = Mapping[tuple[str, str], int]


class ListController(QObject):
    """Serve the lists of the page Jobs.

    Signals:
        counted: The number of jobs.
        used: The number of jobs by version: ``(key in the job file, NAME@VERSION)`` to number.
    """

    counted = Signal(int)
    used = Signal(object)

    def __init__(self, runner: Runner, page: JobsPage, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._page = page
        self._index = JobIndex()
        self._asked: dict[str, int] = {}
        self._at_once: set[str] = set()
        """Lists whose rows the user wants to move, until the newest question is answered."""
        self._seen: dict[str, JobView] = {}
        self._learning = Throttle(LEARN_INTERVAL_MS, self._learn_seen, self)
        self._is_warm = False
        page.rows_requested.connect(self.find)
        page.queue_moved.connect(lambda at_once: self._find(page.queries, at_once=at_once))
        page.sweeps.folded.connect(lambda: self._find(page.queries, at_once=True))
        page.known.connect(self._learn)
        page.seen.connect(self._learn_soon)
        page.forgotten.connect(self._forget)
        page.table.choices_requested.connect(self._choose)

    def take(self, listing: JobListing) -> None:
        """Take a new listing of all jobs."""
        self._page.show_views(listing.views)
        self._update(listing.views, listing.lines, listing.gone, is_listing=True)

    @Slot(str, JobQuery)
    def find(self, which: str, query: JobQuery) -> None:
        """Find other rows for a list."""
        self._find({which: query}, at_once=True)

    def rows(self, query: JobQuery, then: Callable[[JobRows], None]) -> None:
        """Find the rows of a query for a list outside the page."""

        def show(found: JobQueryResult) -> None:
            then(self._rows(found))

        self._runner.run(_LANE, partial(self._index.find, query), show, _never)

    def named(self, text: str, most: int, then: Callable[[tuple[JobSummary, ...]], None]) -> None:
        """Find the sweeps and jobs with these words in their name."""

        def find() -> tuple[JobSummary, ...]:
            return (*self._index.find_sweeps(text, most), *self._index.find_by_name(text, most))

        self._runner.run(_LANE, find, then, _never)

    @Slot(JobView)
    def _learn(self, view: JobView) -> None:
        self._seen.pop(view.id, None)
        self._update((view,))

    @Slot(JobView)
    def _learn_soon(self, view: JobView) -> None:
        self._seen[view.id] = view
        self._learning.request()

    def _learn_seen(self) -> None:
        views, self._seen = tuple(self._seen.values()), {}
        self._update(views)

    @Slot(str)
    def _forget(self, job_id: str) -> None:
        self._seen.pop(job_id, None)
        self._update((), gone=(job_id,))

    def _update(
        self,
        views: Iterable[JobView],
        lines: Iterable[JobSummary] = (),
        gone: Iterable[str] = (),
        *,
        is_listing: bool = False,
    ) -> None:
        # Summaries are made on the lane, too: for many new jobs at once they take 0.1 s.
        def take() -> tuple[tuple[int, ...], bool, Uses | None]:
            update = self._index.update((*lines, *map(line_of, views)), gone)
            return update.changed, update.order_changed, self._index.uses() if update.jobs_added_or_removed else None

        self._runner.run(_LANE, take, partial(self._updated, is_listing), _never)

    def _updated(self, is_listing: bool, update: tuple[tuple[int, ...], bool, Uses | None]) -> None:
        changed, moved, uses = update
        self._page.show_lines(changed)
        if uses is not None:
            self.used.emit(uses)
        if moved or (is_listing and (changed or not self._asked)):
            self._find(self._page.queries)

    def _find(self, queries: Mapping[str, JobQuery], *, at_once: bool = False) -> None:
        places = self._page.model.queue_places()
        for which, query in queries.items():
            number = self._asked[which] = self._asked.get(which, 0) + 1
            if at_once:
                self._at_once.add(which)
            folds = self._page.sweeps.folds(which)
            self._runner.run(
                _LANE,
                partial(self._found, which, number, query, places, folds),
                partial(self._show, which, number),
                _never,
            )

    def _found(
        self,
        which: str,
        number: int,
        query: JobQuery,
        places: Mapping[str, int],
        folds: Folds,
    ) -> JobQueryResult | None:
        """Runs on the lane. Of several questions that waited, only the last is answered."""
        if self._asked[which] != number:
            return None
        return self._index.fold(self._index.find(query, places), query, folds)

    def _show(self, which: str, number: int, found: JobQueryResult | None) -> None:
        if found is None:
            return
        at_once = which in self._at_once
        if number == self._asked[which]:
            self._at_once.discard(which)
        self._page.show_rows(which, self._rows(found), at_once=at_once)
        self.counted.emit(found.total_count)
        if not self._is_warm:
            self._is_warm = True
            self._runner.run(_LANE, self._index.sort_names, lambda _: None, _never)

    def _rows(self, found: JobQueryResult) -> JobRows:
        return JobRows(
            found.summaries,
            found.order,
            self._index.slot,
            found.total_count,
            found.live_count,
            found.waiting_count,
            found.match_count,
            found.sweep_slots,
            found.empty,
        )

    @Slot()
    def _choose(self) -> None:
        self._runner.run(_LANE, self._index.choices, self._page.table.show_choices, _never)


def _never(error: BackendError) -> None:
    """Ignore the error: the index is in memory, so a query cannot fail."""
    raise error
