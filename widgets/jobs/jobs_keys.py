"""The keys of the place Jobs, which act on what is open: a job, or a sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from widgets.curves.scale_button import LOG_X_KEY, LOG_Y_KEY

if TYPE_CHECKING:
    from widgets.jobs.jobs_page import JobsPage


def add_keys(page: JobsPage) -> None:
    """Make them; some hold in the table, too, where they act on the chosen rows."""
    detail = page.detail
    keys: tuple[tuple[str, Callable[[], object]], ...] = (
        ("J", lambda: page.list.step(1)),
        ("K", lambda: page.list.step(-1)),
        ("[", lambda: detail.step_tab(-1)),
        ("]", lambda: detail.step_tab(1)),
        (LOG_Y_KEY, detail.toggle_log_y),
        (LOG_X_KEY, detail.toggle_log_x),
        ("F", detail.fit),
        ("S", detail.focus_smoothing),
        ("Ctrl+L", detail.focus_log),
        ("Ctrl+E", partial(export, page)),
        ("Ctrl+.", partial(stop, page)),
        ("Ctrl+D", partial(clone, page)),
        ("Ctrl+F", page.list.search.setFocus),
    )
    for key, act in keys:
        _add(key, page.split, act)
    table = page.table
    in_table: tuple[tuple[str, Callable[[], object]], ...] = (
        ("Ctrl+L", partial(_log_of_row, page)),
        ("Ctrl+E", partial(_act_on_rows, page, "export")),
        ("Ctrl+.", partial(_act_on_rows, page, "stop")),
        ("Ctrl+D", partial(_act_on_rows, page, "clone")),
        ("Ctrl+F", table.search.setFocus),
    )
    for key, act in in_table:
        _add(key, table, act)


def export(page: JobsPage) -> None:
    """The open job, or all jobs of the open sweep."""
    if page.open_sweep_tag:
        page.sweep.act("export")
    else:
        page.detail.export()


def stop(page: JobsPage) -> None:
    """The open job, or all jobs of the open sweep."""
    if page.open_sweep_tag:
        page.sweep.act("stop")
    else:
        page.detail.stop_requested.emit(page.open_id)


def clone(page: JobsPage) -> None:
    """The open job; the form holds one."""
    if page.open_id:
        page.detail.clone_requested.emit(page.open_id)


def _act_on_rows(page: JobsPage, key: str) -> None:
    """All chosen rows, or the current one."""
    view = page.table.view
    ids = view.chosen() or view.current_ids()
    if ids:
        page.many.act(key, ids)


def _log_of_row(page: JobsPage) -> None:
    """Of the current row; a sweep has none."""
    ids = page.table.view.current_ids()
    if len(ids) == 1:
        page.open_then(ids[0], page.detail.focus_log)


def _add(key: str, widget: QWidget, act: Callable[[], object]) -> None:
    shortcut = QShortcut(QKeySequence(key), widget)
    shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    shortcut.activated.connect(act)
