"""Gives a page of jobs its rows as the window does, without threads."""

from __future__ import annotations

from app.jobs.list_controller import ListController
from backend.records.jobs.summary import JobListing, summary_of
from tests.conftest import SynchronousRunner
from widgets.jobs.list.job_list_model import JobRows
from widgets.jobs.page.jobs_page import JobsPage


def show_jobs(page: JobsPage, views, lines=()):
    """Show these jobs, and no others; return the list controller. ``lines`` are summaries only."""
    finder = next((f for f in page.findChildren(ListController)), None)
    removed_ids = ()
    if finder is None:
        finder = ListController(SynchronousRunner(), page, page)
        finder.shown_ids = set()
    ids = {view.id for view in views} | {line.id for line in lines}
    removed_ids = tuple(finder.shown_ids - ids)
    finder.shown_ids = ids
    finder.take_listing(JobListing(tuple(views), tuple(lines), removed_ids, len(ids)))
    return finder


def rows_of(*views):
    """Return rows of all these jobs, in this order."""
    import numpy as np

    lines = [summary_of(view) for view in views]
    slots = {line.id: slot for slot, line in enumerate(lines)}
    return JobRows(lines, np.arange(len(lines), dtype=np.int32), slots.get, len(lines))
