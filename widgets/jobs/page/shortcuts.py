"""The keys of the page Jobs, which act on the open job or sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from widgets.plots.scale_button import LOG_X_KEY, LOG_Y_KEY

if TYPE_CHECKING:
    from widgets.jobs.page.jobs_page import JobsPage


def add_keys(page: JobsPage) -> None:
    """Add the shortcuts; each works while its part of the page is visible.

    They belong to the window: a click on a plot or a card takes the focus off the page's parts.
    """
    detail, table = page.detail, page.table
    keys: tuple[tuple[QWidget, str, Callable[[], object]], ...] = (
        (page.split, "J", lambda: page.list.step(1)),
        (page.split, "K", lambda: page.list.step(-1)),
        (page.split, "Ctrl+E", partial(export, page)),
        (page.split, "Ctrl+.", partial(stop, page)),
        (page.split, "Ctrl+D", partial(clone, page)),
        (page.split, "Ctrl+F", page.list.search.setFocus),
        (detail, "[", lambda: detail.step_tab(-1)),
        (detail, "]", lambda: detail.step_tab(1)),
        (detail, LOG_Y_KEY, detail.toggle_log_y),
        (detail, LOG_X_KEY, detail.toggle_log_x),
        (detail, "F", detail.fit),
        (detail, "S", detail.focus_smoothing),
        (detail, "Ctrl+L", detail.focus_log),
        (table, "Ctrl+L", partial(_log_of_row, page)),
        (table, "Ctrl+E", partial(_act_on_rows, page, "export")),
        (table, "Ctrl+.", partial(_act_on_rows, page, "stop")),
        (table, "Ctrl+D", partial(_act_on_rows, page, "clone")),
        (table, "Ctrl+F", table.search.setFocus),
    )
    for widget, key, act in keys:
        QShortcut(QKeySequence(key), widget, act)


def export(page: JobsPage) -> None:
    """Export the open job, or all jobs of the open sweep."""
    if page.open_sweep_tag:
        page.sweep.act("export")
    else:
        page.detail.export()


def stop(page: JobsPage) -> None:
    """Stop the open job, or all jobs of the open sweep."""
    if page.open_sweep_tag:
        page.sweep.act("stop")
    else:
        page.detail.stop_requested.emit(page.open_id)


def clone(page: JobsPage) -> None:
    """Clone the open job; not a sweep, since the form holds one job."""
    if page.open_id:
        page.detail.clone_requested.emit(page.open_id)


def _act_on_rows(page: JobsPage, key: str) -> None:
    """Act on all selected rows, or on the current one."""
    view = page.table.view
    ids = view.chosen() or view.current_ids()
    if ids:
        page.many.act(key, ids)


def _log_of_row(page: JobsPage) -> None:
    """Show the log of the current row; a sweep has none."""
    ids = page.table.view.current_ids()
    if len(ids) == 1:
        page.open_then(ids[0], page.detail.focus_log)
