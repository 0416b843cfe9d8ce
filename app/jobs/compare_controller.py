"""Keep the list of compared jobs, and refresh it while the Compare page is visible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QAction

from app.jobs.file_export import FileExport
from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.base.errors import BackendError
from backend.records.jobs.comparison import MOST_JOBS, ComparedUpdate, too_many_message
from backend.records.jobs.summary import JobListing, JobQuery
from backend.records.jobs.view import JobView
from backend.records.sweeps.spec import sweep_of
from backend.services.jobs.comparison import ComparisonService
from widgets.common import formats
from widgets.compare.compare_page import ComparePage
from widgets.jobs.list.job_list_model import JobRows

POLL_INTERVAL_MS = 1000
FindRows = Callable[[JobQuery, Callable[[JobRows], None]], None]
"""Query the index of all jobs; the answer arrives later."""


@dataclass(eq=False)
class _ComparedJob:
    """A compared job. A job that was removed and added again gets a new object."""

    job_id: str
    view: JobView | None = None
    cursor: object = None
    is_being_read: bool = False


class CompareController(Controller):
    """Serve the page Compare.

    Attributes:
        csv_action: The command that saves the curves of all compared jobs.

    Signals:
        page_requested: Show the page Compare.
    """

    page_requested = Signal()

    def __init__(
        self,
        comparison: ComparisonService,
        runner: Runner,
        page: ComparePage,
        file_export: FileExport,
        find_rows: FindRows,
        parent: QObject | None = None,
        interval_ms: int = POLL_INTERVAL_MS,
    ) -> None:
        super().__init__(runner, parent)
        self._comparison = comparison
        self._page = page
        self._file_export = file_export
        self._find_rows = find_rows
        self._siblings: dict[str, JobView] = {}
        self._sweeps: set[str] = set()
        self._compared_jobs: dict[str, _ComparedJob] = {}
        self.csv_action = QAction("Save all compared curves as CSV…", self)
        self.csv_action.setData("download-simple")
        self.csv_action.setEnabled(False)
        self.csv_action.triggered.connect(self.save_csv)
        self._timer = QTimer(self, interval=interval_ms)
        self._timer.timeout.connect(self.refresh)
        page.add_requested.connect(self.add)
        page.remove_requested.connect(self.remove)
        page.jobs_dropped.connect(self.add_dropped)
        page.csv_requested.connect(self.save_csv)
        page.save_requested.connect(file_export.save)
        page.rows_requested.connect(lambda query: find_rows(query, partial(page.show_rows, query)))

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
            self._set_jobs(ids[:MOST_JOBS])
        if ids:
            self.page_requested.emit()

    @Slot(str)
    def add(self, job_id: str) -> None:
        if job_id in self._compared_jobs:
            return
        refusal = too_many_message(self._compared_jobs, (job_id,))
        if refusal:
            self._runner.notify(refusal)
            return
        self._set_jobs((*self._compared_jobs, job_id))

    @Slot(object)
    def add_dropped(self, job_ids: Sequence[str]) -> None:
        """Add dropped jobs to the comparison: all of them, or none."""
        new_ids = tuple(
            job_id for job_id in dict.fromkeys(job_ids) if job_id not in self._compared_jobs
        )
        refusal = too_many_message(self._compared_jobs, new_ids)
        if not refusal and new_ids:
            self._set_jobs((*self._compared_jobs, *new_ids))
        total = formats.plural(len(self._compared_jobs), "job")
        verb = "is" if len(self._compared_jobs) == 1 else "are"
        self._runner.notify(refusal or f"{total} {verb} compared{'' if new_ids else ' already'}")

    @Slot(str)
    def remove(self, job_id: str) -> None:
        self._set_jobs(tuple(i for i in self._compared_jobs if i != job_id))

    @Slot()
    def save_csv(self) -> None:
        self._file_export.save_csv("curves", tuple(self._compared_jobs))

    # -- updates

    @Slot(JobListing)
    def see_listing(self, listing: JobListing) -> None:
        """Take the changes in the list of all jobs."""
        for job_id in listing.removed_ids:
            job = self._compared_jobs.get(job_id)
            if job is not None and job.view is not None:
                message = "is no longer in the list of jobs; its curves stay until you remove it."
                self._page.show_read_error(job_id, f"“{job.view.name}” {message}")
        for view in listing.views:
            job = self._compared_jobs.get(view.id)
            state = view.state, view.run, view.name
            compared_view = None if job is None else job.view
            if job is not None and (
                compared_view is None
                or state != (compared_view.state, compared_view.run, compared_view.name)
            ):
                self._poll(job)
        self._see_siblings(listing)

    @Slot()
    def refresh(self) -> None:
        """Refresh the live jobs while the page is visible."""
        if self._page.isVisible():
            for job in self._compared_jobs.values():
                if job.view is None or job.view.state.is_live:
                    self._poll(job)

    def _set_jobs(self, job_ids: tuple[str, ...]) -> None:
        self._compared_jobs = {
            job_id: self._compared_jobs.get(job_id, _ComparedJob(job_id)) for job_id in job_ids
        }
        self.csv_action.setEnabled(bool(job_ids))
        self._page.set_jobs(job_ids)
        self._find_siblings()
        for job in self._compared_jobs.values():
            if job.view is None:
                self._poll(job)

    # -- the sweeps of the compared jobs

    def _find_siblings(self) -> None:
        """Read all jobs of the compared sweeps, once for each sweep."""
        views = (job.view for job in self._compared_jobs.values())
        sweeps = {sweep_of(view.tags) for view in views if view is not None} - {""}
        if sweeps == self._sweeps:
            return
        new_sweeps, self._sweeps = sweeps - self._sweeps, sweeps
        self._show_siblings({})
        for tag in new_sweeps:
            self._find_rows(JobQuery(tag=tag), self._read_siblings)

    def _read_siblings(self, rows: JobRows) -> None:
        ids = [rows.summaries[slot].id for slot in rows.order.tolist()]
        self.serve(
            "compare sweep",
            partial(self._comparison.views, ids),
            lambda views: self._show_siblings({view.id: view for view in views}),
        )

    def _see_siblings(self, listing: JobListing) -> None:
        changed_views = {
            view.id: view for view in listing.views if sweep_of(view.tags) in self._sweeps
        }
        removed_ids = self._siblings.keys() & set(listing.removed_ids)
        for job_id in removed_ids:
            del self._siblings[job_id]
        if changed_views or removed_ids:
            self._show_siblings(changed_views)

    def _show_siblings(self, changed_views: dict[str, JobView]) -> None:
        views = {**self._siblings, **changed_views}
        self._siblings = {
            key: view for key, view in views.items() if sweep_of(view.tags) in self._sweeps
        }
        self._page.show_siblings(tuple(self._siblings.values()))

    def _poll(self, job: _ComparedJob) -> None:
        if job.is_being_read:
            return
        job.is_being_read = True
        self._runner.run(
            f"compare {job.job_id}",
            partial(self._comparison.poll, job.job_id, job.cursor),
            partial(self._take_update, job),
            partial(self._handle_error, job),
        )

    def _take_update(self, job: _ComparedJob, update: ComparedUpdate) -> None:
        job.is_being_read = False
        if self._compared_jobs.get(job.job_id) is job:
            job.view, job.cursor = update.view, update.cursor
            self._page.show_update(update)
            self._find_siblings()

    def _handle_error(self, job: _ComparedJob, error: BackendError) -> None:
        job.is_being_read = False
        if self._compared_jobs.get(job.job_id) is not job:
            return
        if job.view is None:
            # It was never read: there is nothing to keep.
            self.remove(job.job_id)
            self._runner.notify(error.with_remedy)
        else:
            self._page.show_read_error(job.job_id, str(error))
