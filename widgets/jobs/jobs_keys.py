"""The keys of the place Jobs, which act on what is open: a job, or a sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

if TYPE_CHECKING:
    from widgets.jobs.jobs_page import JobsPage


def add_keys(page: JobsPage) -> None:
    """Make them; they hold while the list and what is open are seen, Ctrl+F in the table too."""
    detail = page.detail
    keys: tuple[tuple[str, Callable[[], object]], ...] = (
        ("J", lambda: page.list.step(1)),
        ("K", lambda: page.list.step(-1)),
        ("[", lambda: detail.step_tab(-1)),
        ("]", lambda: detail.step_tab(1)),
        ("L", detail.toggle_log_y),
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
    _add("Ctrl+F", page.table, page.table.search.setFocus)


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


def _add(key: str, widget: QWidget, act: Callable[[], object]) -> None:
    shortcut = QShortcut(QKeySequence(key), widget)
    shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    shortcut.activated.connect(act)
