"""The commands of the pages for Ctrl+K."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.shell.page_commands import CommandScope
from widgets.nodes.row.node_row import node_title
from widgets.shell.pages import PAGE_KEYS, PAGES

if TYPE_CHECKING:
    from app.main.pages import Pages
    from app.shell.window_controller import FrameController
    from widgets.library.library_page import LibraryPage
    from widgets.shell.main_window import MainWindow

_TITLES = {page.key: page.title for page in PAGES}


def offer_pages(frame: FrameController, pages: Pages) -> None:
    """Register the commands of the pages: of the open object, and of the page around it."""
    window, jobs, nodes = pages.window, pages.jobs, pages.nodes

    def add(
        root: QWidget,
        page_key: str,
        subject: Callable[[], str],
        show: Callable[[], object] | None = None,
    ) -> None:
        def is_visible() -> bool:
            return window.page_key == page_key

        frame.page_commands.add(
            CommandScope(root, subject, show or partial(window.open_page, page_key), is_visible)
        )

    def open_job_title() -> str:
        view = jobs.open_view
        return f"{view.name}, the open job" if view is not None else ""

    def open_sweep_title() -> str:
        summary = jobs.model.summary(jobs.open_sweep_tag)
        return f"{summary.name}, the open sweep" if summary is not None else ""

    def open_node_title() -> str:
        return node_title(nodes.detail.node) if nodes.shows_node else ""

    add(jobs.detail, "jobs", open_job_title, lambda: pages.open_job(jobs.open_id))
    add(jobs.sweep, "jobs", open_sweep_title, lambda: pages.open_sweep(jobs.open_sweep_tag))
    add(jobs, "jobs", lambda: "Jobs")
    add(nodes.detail, "nodes", open_node_title)
    add(nodes, "nodes", lambda: "Nodes")
    add(pages.compare, "compare", lambda: "Compare")
    for kind, page in pages.library.items():
        page_key = PAGE_KEYS[kind]
        add(page.detail, page_key, partial(_shown_item_title, page))
        add(page, page_key, partial(str, _TITLES[page_key]))
    visible_pages: tuple[tuple[QWidget, str, str], ...] = (
        (pages.form, "new-job", "New job"),
        (pages.settings, "settings", "Settings"),
        (pages.help, "help", "Help"),
    )
    for widget, page_key, title in visible_pages:
        add(widget, page_key, partial(_title_if_visible, window, page_key, title))


def _shown_item_title(page: LibraryPage) -> str:
    return page.detail.title if page.shown_name else ""


def _title_if_visible(window: MainWindow, page_key: str, title: str) -> str:
    """Return the title of a form only while it is visible: its buttons act on the input there."""
    return title if window.page_key == page_key else ""
