"""Keep the list of compared jobs, and refresh it while the Compare page is visible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QAction

from app.jobs.file_export import FileExport
from app.runtime.background import Runner
from backend.base.errors import BackendError
from backend.records.jobs.comparison import MOST_JOBS, ComparedUpdate, too_many
from backend.records.jobs.summary import JobListing, JobQuery
from backend.records.jobs.view import JobView
from backend.records.sweeps.spec import sweep_of
from backend.services.jobs.comparison import ComparisonService
from widgets.common import formats
from widgets.compare.compare_page import ComparePage
from widgets.jobs.list.job_rows import JobRows

POLL_INTERVAL_MS = 1000
Find = Callable[[JobQuery, Callable[[JobRows], None]], None]
"""Query the index of all jobs; the answer arrives later."""


@dataclass(eq=False)
class _Followed:
    """A compared job. A job that was removed and added again gets a new object."""

    job_id: str
    view: JobView | None = None
    cursor: object = None
    is_being_read: bool = False


class CompareController(QObject):
    """Serve the page Compare.

    Attributes:
        csv_action: The command that saves the curves of all compared jobs.

    Signals:
        place_requested: Show the page Compare.
    """

    place_requested = Signal()

    def __init__(
        self,
        comparison: ComparisonService,
        runner: Runner,
        page: ComparePage,
        take_away: FileExport,
        find: Find,
        parent: QObject | None = None,
        interval_ms: int = POLL_INTERVAL_MS,
    ) -> None:
        super().__init__(parent)
        self._comparison = comparison
        self._runner = runner
        self._page = page
        self._take_away = take_away
        self._find = find
        self._siblings: dict[str, JobView] = {}
        self._sweeps: set[str] = set()
        self._followed: dict[str, _Followed] = {}
        self.csv_action = QAction("Save all compared curves as CSV…", self)
        self.csv_action.setData("download-simple")
        self.csv_action.setEnabled(False)
        self.csv_action.triggered.connect(self.save_csv)
        self._timer = QTimer(self)
        self._timer.setInterval(interval_ms)
        self._timer.timeout.connect(self.refresh)
        page.add_requested.connect(self.add)
        page.remove_requested.connect(self.remove)
        page.jobs_dropped.connect(self.drop)
        page.csv_requested.connect(self.save_csv)
        page.save_requested.connect(take_away.save)
        page.rows_requested.connect(lambda query: find(query, partial(page.show_rows, query)))

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    # -- user actions

    @Slot(object)
    def compare(self, job_ids: Sequence[str]) -> None:
        """Compare exactly these jobs; a single job is added to those already compared."""
        ids = tuple(dict.fromkeys(job_ids))
        if len(ids) == 1:
            self.add(ids[0])
        elif ids:
            if len(ids) > MOST_JOBS:
                self._runner.notify(
                    f"At most {MOST_JOBS} jobs can be compared: the first {MOST_JOBS} are shown"
                )
            self._follow(ids[:MOST_JOBS])
        if ids:
            self.place_requested.emit()

    @Slot(str)
    def add(self, job_id: str) -> None:
        if job_id in self._followed:
            return
        refusal = too_many(self._followed, (job_id,))
        if refusal:
            self._runner.notify(refusal)
            return
        self._follow((*self._followed, job_id))

    @Slot(object)
    def drop(self, job_ids: Sequence[str]) -> None:
        """Add dropped jobs to the comparison: all of them, or none."""
        new = tuple(each for each in dict.fromkeys(job_ids) if each not in self._followed)
        refusal = too_many(self._followed, new)
        if not refusal and new:
            self._follow((*self._followed, *new))
        total = formats.plural(len(self._followed), "job")
        verb = "is" if len(self._followed) == 1 else "are"
        self._runner.notify(refusal or f"{total} {verb} compared{'' if new else ' already'}")

    @Slot(str)
    def remove(self, job_id: str) -> None:
        self._follow(tuple(each for each in self._followed if each != job_id))

    @Slot()
    def save_csv(self) -> None:
        self._take_away.save_csv("curves", tuple(self._followed))

    # -- updates

    @Slot(JobListing)
    def see(self, listing: JobListing) -> None:
        """Take the changes in the list of all jobs."""
        for job_id in listing.gone:
            followed = self._followed.get(job_id)
            if followed is not None and followed.view is not None:
                self._page.show_gone(job_id, _gone(followed.view.name))
        for view in listing.views:
            followed = self._followed.get(view.id)
            if followed is not None and _moved(followed.view, view):
                self._poll(followed)
        self._see_siblings(listing)

    @Slot()
    def refresh(self) -> None:
        """Refresh the live jobs while the page is visible."""
        if self._page.isVisible():
            for followed in self._followed.values():
                if followed.view is None or followed.view.state.is_live:
                    self._poll(followed)

    def _follow(self, ids: tuple[str, ...]) -> None:
        self._followed = {each: self._followed.get(each, _Followed(each)) for each in ids}
        self.csv_action.setEnabled(bool(ids))
        self._page.set_jobs(ids)
        self._find_siblings()
        for followed in self._followed.values():
            if followed.view is None:
                self._poll(followed)

    # -- the sweeps that they belong to

    def _find_siblings(self) -> None:
        """Read all jobs of the compared sweeps, once for each sweep."""
        views = (followed.view for followed in self._followed.values())
        wanted = {sweep_of(view.tags) for view in views if view is not None} - {""}
        if wanted == self._sweeps:
            return
        new, self._sweeps = wanted - self._sweeps, wanted
        self._show_siblings({})
        for tag in new:
            self._find(JobQuery(tag=tag), self._read_siblings)

    def _read_siblings(self, rows: JobRows) -> None:
        ids = [rows.lines[slot].id for slot in rows.order.tolist()]
        self._runner.run(
            "compare sweep",
            partial(self._comparison.views, ids),
            lambda views: self._show_siblings({view.id: view for view in views}),
            lambda error: self._runner.notify(error.with_remedy),
        )

    def _see_siblings(self, listing: JobListing) -> None:
        fresh = {view.id: view for view in listing.views if sweep_of(view.tags) in self._sweeps}
        gone = self._siblings.keys() & set(listing.gone)
        for job_id in gone:
            del self._siblings[job_id]
        if fresh or gone:
            self._show_siblings(fresh)

    def _show_siblings(self, fresh: dict[str, JobView]) -> None:
        known = {**self._siblings, **fresh}
        self._siblings = {
            key: view for key, view in known.items() if sweep_of(view.tags) in self._sweeps
        }
        self._page.show_siblings(tuple(self._siblings.values()))

    def _poll(self, followed: _Followed) -> None:
        if followed.is_being_read:
            return
        followed.is_being_read = True
        self._runner.run(
            f"compare {followed.job_id}",
            partial(self._comparison.poll, followed.job_id, followed.cursor),
            partial(self._take_read, followed),
            partial(self._missed, followed),
        )

    def _take_read(self, followed: _Followed, update: ComparedUpdate) -> None:
        followed.is_being_read = False
        if self._followed.get(followed.job_id) is followed:
            followed.view, followed.cursor = update.view, update.cursor
            self._page.show_update(update)
            self._find_siblings()

    def _missed(self, followed: _Followed, error: BackendError) -> None:
        followed.is_being_read = False
        if self._followed.get(followed.job_id) is not followed:
            return
        if followed.view is None:
            # It was never read: there is nothing to keep.
            self.remove(followed.job_id)
            self._runner.notify(error.with_remedy)
        else:
            self._page.show_gone(followed.job_id, str(error))


def _moved(seen: JobView | None, view: JobView) -> bool:
    return seen is None or (view.state, view.run, view.name) != (seen.state, seen.run, seen.name)


def _gone(name: str) -> str:
    return f"“{name}” is no longer in the list of jobs; its curves stay until you remove it."
