"""Restore the window: page, open job, widths, columns, collapsed sweeps.

A change is remembered at once and written a second later, not when the window is closed, so a crash
loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from app.runtime.settings import Preferences
from widgets.common.panes import ListDetailSplitter
from widgets.shell.pages import PAGE_KEYS, PAGES

if TYPE_CHECKING:
    from app.main.pages import Pages
    from widgets.shell.main_window import MainWindow

_MIN_WIDTH, _MAX_WIDTH = 200, 2000
"""Limits in pixels, because the file may hold any number."""


def first_page(preferences: Preferences) -> str:
    """Return the key of the page that the window opens with."""
    page_keys = {page.key for page in PAGES}
    return preferences.place if preferences.place in page_keys else "jobs"


def restore_session(
    preferences: Preferences,
    window: MainWindow,
    pages: Pages,
    remember: Callable[..., None],
) -> None:
    """Restore everything, and remember changes from now on.

    Args:
        remember: Takes fields of `Preferences` by name.
    """
    from widgets.jobs.actions.job_actions import EXPORT_FORMAT

    jobs = pages.jobs
    jobs.table.view.restore(preferences.job_table)
    jobs.table.view.layout_changed.connect(lambda layout: remember(job_table=layout))
    jobs.sweeps.restore(preferences.sweep_folds)
    jobs.sweeps.folds_changed.connect(lambda folds: remember(sweep_folds=folds))
    jobs.sweep.restore_modes(preferences.metric_modes)
    jobs.sweep.modes_changed.connect(lambda modes: remember(metric_modes=modes))
    jobs.restore(preferences.open_job, as_table=preferences.jobs_as_table)
    jobs.job_opened.connect(lambda job_id: remember(open_job=job_id))
    jobs.sweep_opened.connect(lambda tag: remember(open_job=tag))
    jobs.view_changed.connect(lambda view: remember(jobs_as_table=view == "table"))
    jobs.detail.exporter.restore_kind(preferences.export_format)
    jobs.job_actions.add_handler(EXPORT_FORMAT, lambda kind: remember(export_format=kind))
    window.page_changed.connect(partial(_remember_page, remember))
    list_widths = {
        key: width
        for key, width in preferences.list_widths.items()
        if isinstance(width, int) and _MIN_WIDTH <= width <= _MAX_WIDTH
    }

    def remember_width(key: str, width: int) -> None:
        list_widths[key] = width
        remember(list_widths=dict(list_widths))

    splits: dict[str, ListDetailSplitter] = {"jobs": jobs.split}
    splits.update((PAGE_KEYS[kind], page.splitter) for kind, page in pages.library.items())
    for key, split in splits.items():
        split.restore(list_widths.get(key, 0))
        split.list_resized.connect(partial(remember_width, key))


def _remember_page(remember: Callable[..., None], key: str) -> None:
    if key in {page.key for page in PAGES}:
        remember(place=key)
