"""The context menu of a row: for its job, all selected jobs, or its sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtWidgets import QMenu

from backend.records.jobs.summary import JobSummary
from widgets.jobs.actions.job_menu import add_acts, add_main_act
from widgets.jobs.list.job_list_model import JOB_ROLE, OPEN_ROLE, QUEUE_ROLE

if TYPE_CHECKING:
    from widgets.jobs.page.jobs_page import JobsPage

LIST, TABLE = "list", "table"


def open_menu(page: JobsPage, which: str, index: QModelIndex, at: QPoint) -> None:
    """Open the menu of a row of the list or the table."""
    line: JobSummary | None = index.data(JOB_ROLE)
    if line is None:
        return
    menu = QMenu(page)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    chosen = page.table.view.chosen() if which == TABLE else page.model.ticked()
    if len(chosen) > 1 and line.id in chosen:
        page.many.fill(menu, chosen, page.model.live_of(chosen))
    elif line.sweep is not None:
        page.sweeps.fill(menu, which, line, is_open=index.data(OPEN_ROLE))
    else:
        _fill(menu, page, which, index, line)
    menu.popup(at)


def _fill(menu: QMenu, page: JobsPage, which: str, index: QModelIndex, line: JobSummary) -> None:
    """Add the actions of the job's header; the page is opened for those that need it."""
    detail = page.detail
    is_known = line.id == page.open_id and detail.has_checkpoints is not None
    # The checkpoints of a job in the list are not known; a job without steps has none.
    has_checkpoints = detail.has_checkpoints if is_known else line.progress > 0

    def on_page(act: Callable[[], object]) -> Callable[[], object]:
        return partial(page.open_then, line.id, act)

    if which == TABLE:
        page.table.fill_menu(menu, index)
        menu.addSeparator()
    add_main_act(menu, line, detail, on_page, has_checkpoints)
    detail.queue.fill(menu, line, index.data(QUEUE_ROLE), has_checkpoints=has_checkpoints)
    menu.addSeparator()
    add_acts(
        menu,
        line,
        detail,
        export=on_page(detail.export),
        elsewhere=on_page(detail.open_elsewhere),
        # In the table the name is edited in place.
        rename=None if which == TABLE else on_page(detail.header.rename),
        on_page=on_page,
        has_checkpoints=has_checkpoints,
    )
