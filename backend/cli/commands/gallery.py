"""The gallery: networks and loaders that are ready to use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import Word, command
from backend.cli.commands._library import imported
from backend.cli.parameters import count
from backend.cli.printing import Answer, Facts, Part, Table, in_bytes
from backend.records.base.program_name import COMMAND
from backend.records.library import depth_plan
from backend.records.library.gallery import GalleryEntry
from backend.services.context.container import Services

_Entry = Annotated[str, Word("NAME", "an entry of the gallery")]


@command("gallery list")
def list_entries(services: Services) -> Answer:
    """The networks and loaders of the gallery."""
    entries = services.gallery.list()
    rows = (
        (one.name, one.kind.value, one.card.title, one.card.task, _parameters(one))
        for one in entries
    )
    head = ("NAME", "KIND", "TITLE", "TASK", "PARAMETERS")
    return Answer(entries, Table(head, rows, "The gallery is empty."))


@command("gallery show")
def show(services: Services, entry: _Entry) -> Answer:
    """One entry: its source, its figures and its settings."""
    found = services.gallery.show(entry)
    return Answer(found, _described(found))


@command("gallery add")
def add(
    services: Services,
    progress: Progress,
    entry: _Entry,
    *,
    name: Annotated[str, "its name in the library; default: that of the entry"] = "",
    set: Annotated[
        tuple[str, ...], Word("KEY=VALUE", "a setting of the card; may be repeated")
    ] = (),
) -> Answer:
    """Add an entry to the library as code of your own."""
    given = {}
    for one in set:
        key, equals, value = one.partition("=")
        if not equals:
            raise BackendError(f"“{one}” is no setting.", "Write it as KEY=VALUE.")
        given[key.strip()] = value.strip()
    item = services.gallery.add(entry, given, name, progress)
    return Answer(item, imported(item))


@command("gallery plan")
def plan(
    *,
    side: Annotated[int, Word("Z", "the side of a picture", parse=count)],
    kernel: Annotated[int, Word("K", "the side of a filter", parse=count)],
    least: Annotated[str, Word("T", "the smallest c-value; default: 1/6")] = "1/6",
    as_printed: Annotated[
        bool, "with the limit of the source, which c-values of T / 2 fit"
    ] = False,
) -> Answer:
    """The deepest plain network for a side and a kernel."""
    try:
        found = depth_plan.plan_depth(
            side, kernel, depth_plan.c_value(least), as_printed=as_printed
        )
    except ValueError as error:
        raise BackendError(str(error)) from error
    rows = (
        (
            str(number),
            *map(str, (one.convolutions, one.side, one.receptive_field)),
            f"{one.c_value:.3f}",
        )
        for number, one in enumerate(found.stages, 1)
    )
    settings = " ".join(f"--set {key}={value}" for key, value in found.settings.items())
    return Answer(
        found,
        Table(("STAGE", "CONVOLUTIONS", "SIDE", "SEES", "C-VALUE"), rows),
        f"Convolutions: {found.depth}",
        f"To add it: {COMMAND} gallery add {depth_plan.NETWORK} {settings}",
    )


def _parameters(entry: GalleryEntry) -> str:
    return "" if entry.figures is None else f"{entry.figures.layers.parameters:,}"


def _described(entry: GalleryEntry) -> Iterator[Part]:
    card = entry.card
    facts = [("Title", card.title), ("Task", card.task), ("About", card.about)]
    facts += [("Source", card.source)] + ([("Note", card.note)] if card.note else [])
    if entry.figures is not None:
        layers, relative = entry.figures.layers, entry.figures.relative_complexity
        weights = layers.parameters * 4
        facts += [
            ("Parameters", f"{layers.parameters:,}"),
            ("Weights", f"{in_bytes(weights)} ({in_bytes(weights, is_binary=True)})"),
            ("Multiply-adds", f"{layers.multiply_adds:,}" if layers.multiply_adds else "unknown"),
            ("Complexity", f"{relative:.3g} times AlexNet's" if relative else "no convolutions"),
            ("Outputs of layers", f"{in_bytes(layers.activation_bytes)} a sample"),
        ]
    yield Facts(facts)
    if card.settings:
        yield ""
        rows = (
            (key, json.dumps(one.default).strip('"'), one.valid_text(), one.meaning)
            for key, one in card.settings.items()
        )
        yield Table(("SETTING", "DEFAULT", "VALID", "MEANS"), rows, "")
