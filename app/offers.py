"""What Ctrl+K reaches beyond the frame: acts on jobs and nodes, and every thing by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.go_to import MOST
from backend.records.job_line import JobLine
from backend.records.job_view import JobView
from backend.records.library import Kind, LibraryItem
from widgets.frame.palette import Target
from widgets.frame.places import PLACES, PLACES_OF_KINDS

if TYPE_CHECKING:
    from app.frame_controller import FrameController
    from app.job_controller import JobController
    from app.node_controller import NodeController
    from widgets.jobs.jobs_page import JobsPage

_ICONS = {place.key: place.icon for place in PLACES}


@dataclass(frozen=True)
class Things:
    """Where the things of now come from."""

    jobs: Callable[[str, int, Callable[[tuple[JobLine, ...]], None]], None]
    """Asked with a text and how many at most; answers when it has found them."""
    nodes: Callable[[], Iterable[str]]
    items: Callable[[Kind], Iterable[LibraryItem]]


def offer_acts(
    frame: FrameController, jobs: JobsPage, job_controller: JobController, nodes: NodeController
) -> None:
    """What can be done, to the open job too."""
    detail = jobs.detail

    def opened() -> JobView | None:
        return jobs.open_view

    def is_live() -> bool:
        view = opened()
        return view is not None and view.state.is_live

    act = frame.add_act
    act("New job", "plus", job_controller.drafts.new_job)
    act("Stop the open job", "stop", lambda: detail.stop_requested.emit(jobs.open_id), is_live)
    act(
        "Clone the open job",
        "copy",
        lambda: detail.clone_requested.emit(jobs.open_id),
        lambda: opened() is not None,
    )
    act("Train the example", "play", job_controller.train_example)
    act("Add a node", "plus", nodes.add)


def offer_things(
    frame: FrameController,
    things: Things,
    *,
    open_job: Callable[[str], object],
    open_node: Callable[[str], object],
    open_item: Callable[[Kind, str], object],
) -> None:
    """Jobs, nodes, datasets, models and loaders, each opened where it lives."""

    def jobs(text: str, then: Callable[[tuple[Target, ...]], None]) -> None:
        def found(lines: tuple[JobLine, ...]) -> None:
            icon = _ICONS["jobs"]
            then(tuple(Target("job", one.id, one.name, one.state.word, icon) for one in lines))

        things.jobs(text, MOST, found)

    def nodes(_text: str) -> Iterator[Target]:
        for name in things.nodes():
            yield Target("node", name, name, "node", _ICONS["nodes"])

    def items(kind: Kind, _text: str) -> Iterator[Target]:
        icon = _ICONS[PLACES_OF_KINDS[kind]]
        for name in dict.fromkeys(item.name for item in things.items(kind)):
            yield Target(kind.value, name, name, kind.value, icon)

    frame.go_to.add_far_source("job", jobs, open_job)
    frame.go_to.add_source("node", nodes, open_node)
    for kind in Kind:
        frame.go_to.add_source(kind.value, partial(items, kind), partial(open_item, kind))
