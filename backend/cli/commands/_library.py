"""The commands that datasets, models and loaders have alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.cli.command import Function, Word, command
from backend.cli.printing import Answer, Facts, Part, Table, in_bytes, in_local_time
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import json_value
from backend.records.base.validation import sanitize
from backend.records.library.gallery import Suggestion
from backend.records.library.item import Kind, LibraryItem
from backend.services.context.container import Services

Reference = Annotated[str, Word("NAME", "name of the {group}, or NAME@VERSION")]
Loader = Annotated[str, Word("NAME", "NAME or NAME@VERSION")]
Source = Annotated[Path, Word("PATH")]
_EACH: list[tuple[str, Function]] = []


def for_kind(group: str) -> None:
    """Register the commands of this module for a kind."""
    for word, function in _EACH:
        command(f"{group} {word}")(function)


def _each(word: str) -> Callable[[Function], Function]:
    def keep(function: Function) -> Function:
        _EACH.append((word, function))
        return function

    return keep


@_each("import")
def import_item(
    services: Services, progress: Progress, group: str, path: Source, *, name: str
) -> Answer:
    """Import a folder, archive or file as a {group}, or as its next version."""
    item = services.library.import_item(Kind(group), path, name, progress=progress)
    if item.kind is not Kind.DATASET:
        return Answer(item, imported(item))
    found = None
    with suppress(BackendError):  # It was imported, even if the data root is lost now.
        found = services.gallery.suggest(item.reference)
    answer = {**json_value(item, documents=True), "suggestion": found}
    return Answer(answer, imported(item), [] if found is None else [_suggested(found)])


def _suggested(found: Suggestion) -> str:
    settings = "".join(f" --set {key}={value}" for key, value in found.settings.items())
    return f"{found.message} To use its loader: {COMMAND} gallery add {found.entry}{settings}"


def imported(item: LibraryItem) -> Iterator[Part]:
    files = "1 file" if item.files == 1 else f"{item.files} files"
    yield f"Imported {item.kind.value} {item.reference}: {files}, {in_bytes(item.bytes)}."
    if item.import_message:
        yield item.import_message


@_each("list")
def list_items(services: Services, group: str) -> Answer:
    """Every version of every {group}."""
    items = services.library.list(Kind(group))
    rows = (
        (
            item.name,
            str(item.version),
            str(item.files),
            in_bytes(item.bytes),
            in_local_time(item.created),
            item.sha256[:12],
        )
        for item in items
    )
    head = ("NAME", "VERSION", "FILES", "SIZE", "CREATED", "SHA-256")
    return Answer(items, Table(head, rows, f"There are no {group}s yet."))


@_each("show")
def show(services: Services, group: str, reference: Reference) -> Answer:
    """One {group}."""
    item = services.library.show(Kind(group), reference)
    facts = [
        ("Name", item.name),
        ("Version", str(item.version)),
        ("Files", str(item.files)),
        ("Size", in_bytes(item.bytes)),
        ("Created", in_local_time(item.created)),
        ("Source", item.source),
        ("SHA-256", item.sha256),
    ]
    return Answer(item, Facts([*facts, *_named(item.details)]))


@_each("changes")
def changes(
    services: Services,
    group: str,
    reference: Reference,
    *,
    since: Annotated[str, Word("NAME@N", "default: the version before")] = "",
) -> Answer:
    """Differences between two versions of a {group}."""
    found = services.library.changes(Kind(group), reference, since)
    changed = [f"changed: {path}" for path in found.changed]
    changed += [f"new: {path}" for path in found.added]
    changed += [f"gone: {path}" for path in found.removed]
    same = f"{found.older} and {found.newer} have the same lines."
    return Answer(found, changed, found.text or same)


@_each("remove")
def remove(services: Services, group: str, reference: Reference) -> Answer:
    """Move one {group} to the trash of the data root."""
    item = services.library.remove(Kind(group), reference)
    return Answer(item, f"Moved {item.kind.value} {item.reference} to {services.trash}.")


@_each("remove-added")
def remove_added(services: Services, group: str, reference: Reference) -> Answer:
    """Move files that were added after the import to the trash."""
    removed = services.library.remove_added(Kind(group), reference)
    lines = [f"moved to the trash: {sanitize(path)}" for path in removed]
    return Answer(removed, lines or f"{reference} has exactly the files that were imported.")


def record(found: object) -> Answer:
    """Return a record, as text with the names of its fields."""
    values = {
        key: one
        for key, one in json_value(found, documents=True).items()
        if one not in (None, "", [], {})
    }
    return Answer(found, Facts(_named(values)))


def _named(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, default=str)
        yield name.replace("_", " ").capitalize(), value
