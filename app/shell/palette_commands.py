"""Targets of Ctrl+K beyond the frame: commands of the pages, and all objects by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.shell.command_search import MOST
from app.shell.page_commands import Spot
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.template import Template
from backend.records.library.item import Kind, LibraryItem
from widgets.common import formats
from widgets.nodes.row.node_row import node_title
from widgets.shell.command_palette import PaletteEntry
from widgets.shell.pages import PLACES, PLACES_OF_KINDS

if TYPE_CHECKING:
    from app.jobs.job_controller import JobController
    from app.jobs.study_controller import StudyController
    from app.main.pages import Pages
    from app.nodes.node_controller import NodeController
    from app.shell.window_controller import FrameController
    from widgets.library.library_page import LibraryPage
    from widgets.shell.main_window import MainWindow

_ICONS = {place.key: place.icon for place in PLACES}
_TITLES = {place.key: place.title for place in PLACES}


@dataclass(frozen=True)
class Things:
    """The sources of the present objects."""

    jobs: Callable[[str, int, Callable[[tuple[JobSummary, ...]], None]], None]
    """Takes a text and a limit; answers with the jobs and sweeps found."""
    nodes: Callable[[], Iterable[str]]
    items: Callable[[Kind], Iterable[LibraryItem]]
    templates: Callable[[Callable[[tuple[Template, ...]], None]], None]
    """Answers with all of them once they are read."""


def offer_acts(
    frame: FrameController,
    job_controller: JobController,
    nodes: NodeController,
    studies: StudyController,
) -> None:
    """Register commands that need no page."""
    act = frame.add_act
    # By key it does not discard a form that is being filled in.
    act("New job", "plus", job_controller.drafts.new_job, takes_key=False)
    act("New study…", "table", studies.choose)
    act("Train the example", "play", job_controller.train_example)
    act("Add a node", "plus", nodes.add)


def offer_pages(
    frame: FrameController,
    window: MainWindow,
    pages: Pages,
    open_job: Callable[[str], object],
    open_sweep: Callable[[str], object],
) -> None:
    """Register the commands of the pages: those of the open object, and of the page around it."""
    jobs, nodes = pages.jobs, pages.nodes

    def add(
        root: QWidget,
        place: str,
        words: Callable[[], str],
        show: Callable[[], object] | None = None,
    ) -> None:
        def is_here() -> bool:
            return window.place == place

        frame.page_acts.add(Spot(root, words, show or partial(window.go, place), is_here))

    def opened_job() -> str:
        view = jobs.open_view
        return f"{view.name}, the open job" if view is not None else ""

    def opened_sweep() -> str:
        line = jobs.model.line(jobs.open_sweep_tag)
        return f"{line.name}, the open sweep" if line is not None else ""

    def opened_node() -> str:
        return node_title(nodes.detail.node) if nodes.shows_one else ""

    add(jobs.detail, "jobs", opened_job, lambda: open_job(jobs.open_id))
    add(jobs.sweep, "jobs", opened_sweep, lambda: open_sweep(jobs.open_sweep_tag))
    add(jobs, "jobs", lambda: "Jobs")
    add(nodes.detail, "nodes", opened_node)
    add(nodes, "nodes", lambda: "Nodes")
    add(pages.compare, "compare", lambda: "Compare")
    for kind, page in pages.library.items():
        place = PLACES_OF_KINDS[kind]
        add(page.detail, place, partial(_open_in, page))
        add(page, place, partial(str, _TITLES[place]))
    only_when_seen: tuple[tuple[QWidget, str, str], ...] = (
        (pages.form, "new-job", "New job"),
        (pages.settings, "settings", "Settings"),
        (pages.help, "help", "Help"),
    )
    for part, place, title in only_when_seen:
        add(part, place, partial(_if_seen, window, place, title))


def offer_things(
    frame: FrameController,
    things: Things,
    *,
    open_job: Callable[[str], object],
    open_sweep: Callable[[str], object],
    open_node: Callable[[str], object],
    open_item: Callable[[Kind, str], object],
    begin_with: Callable[[str], object],
) -> None:
    """Register jobs, sweeps, nodes, library items and templates, each opened in its page."""

    def jobs(text: str, then: Callable[[tuple[PaletteEntry, ...]], None]) -> None:
        things.jobs(text, MOST, lambda lines: then(tuple(map(_job_or_sweep, lines))))

    def templates(_text: str, then: Callable[[tuple[PaletteEntry, ...]], None]) -> None:
        def found(all_of_them: tuple[Template, ...]) -> None:
            sound = (one.name for one in all_of_them if not one.fault)
            then(
                tuple(
                    PaletteEntry("template", name, name, "template for a new job", "stack-simple")
                    for name in sound
                )
            )

        things.templates(found)

    def nodes(_text: str) -> Iterator[PaletteEntry]:
        for name in things.nodes():
            yield PaletteEntry("node", name, name, "node", _ICONS["nodes"])

    def items(kind: Kind, _text: str) -> Iterator[PaletteEntry]:
        icon = _ICONS[PLACES_OF_KINDS[kind]]
        for name in dict.fromkeys(item.name for item in things.items(kind)):
            yield PaletteEntry(kind.value, name, name, kind.value, icon)

    frame.go_to.add_background_source("job", jobs, open_job)
    frame.go_to.add_opener("sweep", open_sweep)
    frame.go_to.add_background_source("template", templates, begin_with)
    frame.go_to.add_source("node", nodes, open_node)
    for kind in Kind:
        frame.go_to.add_source(kind.value, partial(items, kind), partial(open_item, kind))


def _open_in(page: LibraryPage) -> str:
    return page.detail.title if page.shown_name else ""


def _if_seen(window: MainWindow, place: str, title: str) -> str:
    """For a page whose buttons act on what is filled in there: offered only while it is visible."""
    return title if window.place == place else ""


def _job_or_sweep(line: JobSummary) -> PaletteEntry:
    kind, what = "job", line.state.word
    if line.sweep is not None:
        kind, what = "sweep", f"sweep of {formats.plural(len(line.sweep.ids), 'job')}"
    return PaletteEntry(kind, line.id, line.name, what, _ICONS["jobs"], words=line.called)
