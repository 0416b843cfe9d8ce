"""The gallery: networks and loaders that are ready to use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.commands._library import import_parts
from backend.cli.parameters import parse_count
from backend.cli.printing import Answer, Part, Properties, Table, size_text
from backend.records.base.program_name import COMMAND
from backend.records.library import depth_plan
from backend.records.library.gallery import GalleryEntry
from backend.services.context.container import Services

_Entry = Annotated[str, ArgSpec("NAME", "an entry of the gallery")]


@command("gallery list")
def list_entries(services: Services) -> Answer:
    """The networks and loaders of the gallery."""
    entries = services.gallery.list()
    rows = (
        (entry.name, entry.kind.value, entry.card.title, entry.card.task, _parameters(entry))
        for entry in entries
    )
    head = ("NAME", "KIND", "TITLE", "TASK", "PARAMETERS")
    return Answer(entries, Table(head, rows, "The gallery is empty."))


@command("gallery show")
def show(services: Services, entry: _Entry) -> Answer:
    """One entry: its source, its figures and its settings."""
    gallery_entry = services.gallery.show(entry)
    return Answer(gallery_entry, _card_parts(gallery_entry))


@command("gallery add")
def add(
    services: Services,
    progress: Progress,
    entry: _Entry,
    *,
    name: Annotated[str, "its name in the library; default: that of the entry"] = "",
    set: Annotated[
        tuple[str, ...], ArgSpec("KEY=VALUE", "a setting of the card; may be repeated")
    ] = (),
) -> Answer:
    """Add an entry to the library as code of your own."""
    texts = {}
    for assignment in set:
        key, equals_sign, value = assignment.partition("=")
        if not equals_sign:
            raise BackendError(f"“{assignment}” is no setting.", "Write it as KEY=VALUE.")
        texts[key.strip()] = value.strip()
    item = services.gallery.add(entry, texts, name, progress)
    return Answer(item, import_parts(item))


@command("gallery plan")
def plan(
    *,
    side: Annotated[int, ArgSpec("Z", "the side of a picture", parse=parse_count)],
    kernel: Annotated[int, ArgSpec("K", "the side of a filter", parse=parse_count)],
    least: Annotated[str, ArgSpec("T", "the smallest c-value; default: 1/6")] = "1/6",
    as_printed: Annotated[
        bool, "with the limit of the source, which c-values of T / 2 fit"
    ] = False,
) -> Answer:
    """The deepest plain network for a side and a kernel."""
    try:
        depth_plan_found = depth_plan.plan_depth(
            side, kernel, depth_plan.c_value(least), as_printed=as_printed
        )
    except ValueError as error:
        raise BackendError(str(error)) from error
    rows = (
        (
            str(number),
            *map(str, (stage.convolutions, stage.side, stage.receptive_field)),
            f"{stage.c_value:.3f}",
        )
        for number, stage in enumerate(depth_plan_found.stages, 1)
    )
    settings = " ".join(f"--set {key}={value}" for key, value in depth_plan_found.settings.items())
    return Answer(
        depth_plan_found,
        Table(("STAGE", "CONVOLUTIONS", "SIDE", "SEES", "C-VALUE"), rows),
        f"Convolutions: {depth_plan_found.depth}",
        f"To add it: {COMMAND} gallery add {depth_plan.NETWORK} {settings}",
    )


def _parameters(entry: GalleryEntry) -> str:
    return "" if entry.figures is None else f"{entry.figures.layers.parameters:,}"


def _card_parts(entry: GalleryEntry) -> Iterator[Part]:
    card = entry.card
    properties = [("Title", card.title), ("Task", card.task), ("About", card.about)]
    properties += [("Source", card.source)] + ([("Note", card.note)] if card.note else [])
    if entry.figures is not None:
        layers, factor = entry.figures.layers, entry.figures.relative_complexity
        weights = layers.parameters * 4
        properties += [
            ("Parameters", f"{layers.parameters:,}"),
            ("Weights", f"{size_text(weights)} ({size_text(weights, is_binary=True)})"),
            ("Multiply-adds", f"{layers.multiply_adds:,}" if layers.multiply_adds else "unknown"),
            ("Complexity", f"{factor:.3g} times AlexNet's" if factor else "no convolutions"),
            ("Outputs of layers", f"{size_text(layers.activation_bytes)} a sample"),
        ]
    yield Properties(properties)
    if card.settings:
        yield ""
        rows = (
            (key, json.dumps(setting.default).strip('"'), setting.valid_text(), setting.meaning)
            for key, setting in card.settings.items()
        )
        yield Table(("SETTING", "DEFAULT", "VALID", "MEANS"), rows, "")
