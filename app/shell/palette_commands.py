"""Targets of Ctrl+K beyond the frame: commands of the pages, and all objects by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.shell.command_search import MAX_RESULTS
from app.shell.page_commands import CommandScope
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.template import Template
from backend.records.library.item import Kind, LibraryItem
from widgets.common import formats
from widgets.nodes.row.node_row import node_title
from widgets.shell.command_palette import PaletteEntry
from widgets.shell.pages import PAGE_KEYS, PAGES

if TYPE_CHECKING:
    from app.jobs.job_controller import JobController
    from app.jobs.study_controller import StudyController
    from app.main.pages import Pages
    from app.nodes.node_controller import NodeController
    from app.shell.window_controller import FrameController
    from widgets.library.library_page import LibraryPage
    from widgets.shell.main_window import MainWindow

_ICONS = {page.key: page.icon for page in PAGES}
_TITLES = {page.key: page.title for page in PAGES}


@dataclass(frozen=True)
class ObjectSources:
    """The sources of the present objects."""

    jobs: Callable[[str, int, Callable[[tuple[JobSummary, ...]], None]], None]
    """The jobs and sweeps that match a text, up to a limit, for a callback."""
    nodes: Callable[[], Iterable[str]]
    items: Callable[[Kind], Iterable[LibraryItem]]
    templates: Callable[[Callable[[tuple[Template, ...]], None]], None]
    """All templates, for a callback, once they are read."""


def offer_commands(
    frame: FrameController,
    job_controller: JobController,
    nodes: NodeController,
    studies: StudyController,
) -> None:
    """Register commands that need no page."""
    add_command = frame.add_command
    # By key it does not discard a form that is being filled in.
    add_command("New job", "plus", job_controller.drafts.new_job, takes_key=False)
    add_command("New study…", "table", studies.choose)
    add_command("Train the example", "play", job_controller.train_example)
    add_command("Add a node", "plus", nodes.add)


def offer_pages(
    frame: FrameController,
    window: MainWindow,
    pages: Pages,
    open_job: Callable[[str], object],
    open_sweep: Callable[[str], object],
) -> None:
    """Register the commands of the pages: of the open object, and of the page around it."""
    jobs, nodes = pages.jobs, pages.nodes

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

    add(jobs.detail, "jobs", open_job_title, lambda: open_job(jobs.open_id))
    add(jobs.sweep, "jobs", open_sweep_title, lambda: open_sweep(jobs.open_sweep_tag))
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


def offer_objects(
    frame: FrameController,
    sources: ObjectSources,
    *,
    open_job: Callable[[str], object],
    open_sweep: Callable[[str], object],
    open_node: Callable[[str], object],
    open_item: Callable[[Kind, str], object],
    load_template: Callable[[str], object],
) -> None:
    """Register jobs, sweeps, nodes, library items and templates, each opened in its page."""

    def jobs(text: str, on_result: Callable[[tuple[PaletteEntry, ...]], None]) -> None:
        sources.jobs(
            text, MAX_RESULTS, lambda summaries: on_result(tuple(map(_job_entry, summaries)))
        )

    def templates(_text: str, on_result: Callable[[tuple[PaletteEntry, ...]], None]) -> None:
        def offer_templates(all_templates: tuple[Template, ...]) -> None:
            names = (template.name for template in all_templates if not template.error)
            on_result(
                tuple(
                    PaletteEntry("template", name, name, "template for a new job", "stack-simple")
                    for name in names
                )
            )

        sources.templates(offer_templates)

    def nodes(_text: str) -> Iterator[PaletteEntry]:
        for name in sources.nodes():
            yield PaletteEntry("node", name, name, "node", _ICONS["nodes"])

    def items(kind: Kind, _text: str) -> Iterator[PaletteEntry]:
        icon = _ICONS[PAGE_KEYS[kind]]
        for name in dict.fromkeys(item.name for item in sources.items(kind)):
            yield PaletteEntry(kind.value, name, name, kind.value, icon)

    frame.command_search.add_background_source("job", jobs, open_job)
    frame.command_search.add_opener("sweep", open_sweep)
    frame.command_search.add_background_source("template", templates, load_template)
    frame.command_search.add_source("node", nodes, open_node)
    for kind in Kind:
        frame.command_search.add_source(kind.value, partial(items, kind), partial(open_item, kind))


def _shown_item_title(page: LibraryPage) -> str:
    return page.detail.title if page.shown_name else ""


def _title_if_visible(window: MainWindow, page_key: str, title: str) -> str:
    """Return the title of a form only while it is visible: its buttons act on the input there."""
    return title if window.page_key == page_key else ""


def _job_entry(summary: JobSummary) -> PaletteEntry:
    kind, remark = "job", summary.state.label
    if summary.sweep is not None:
        kind, remark = "sweep", f"sweep of {formats.plural(len(summary.sweep.ids), 'job')}"
    return PaletteEntry(
        kind, summary.id, summary.name, remark, _ICONS["jobs"], search_terms=summary.name_and_tags
    )
