"""The commands that datasets, models and loaders have alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.cli.command import ArgSpec, Function, command
from backend.cli.printing import Answer, Part, Properties, Table, local_time_text, size_text
from backend.records.base.program_name import COMMAND
from backend.records.base.schema import json_value
from backend.records.base.validation import sanitize
from backend.records.library.gallery import Suggestion
from backend.records.library.item import Kind, LibraryItem
from backend.services.context.container import Services

Reference = Annotated[str, ArgSpec("NAME", "name of the {group}, or NAME@VERSION")]
Loader = Annotated[str, ArgSpec("NAME", "NAME or NAME@VERSION")]
Source = Annotated[Path, ArgSpec("PATH")]
_KIND_COMMANDS: list[tuple[str, Function]] = []


def for_kind(group: str) -> None:
    """Register the commands of this module for a kind."""
    for word, function in _KIND_COMMANDS:
        command(f"{group} {word}")(function)


def _kind_command(word: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        _KIND_COMMANDS.append((word, function))
        return function

    return register


@_kind_command("import")
def import_item(
    services: Services, progress: Progress, group: str, path: Source, *, name: str
) -> Answer:
    """Import a folder, archive or file as a {group}, or as its next version."""
    item = services.library.import_item(Kind(group), path, name, progress=progress)
    if item.kind is not Kind.DATASET:
        return Answer(item, import_parts(item))
    suggestion = None
    with suppress(BackendError):  # It was imported, even if the data root is lost now.
        suggestion = services.gallery.suggest(item.reference)
    document = {**json_value(item, documents=True), "suggestion": suggestion}
    return Answer(
        document, import_parts(item), [] if suggestion is None else [_suggestion_text(suggestion)]
    )


def _suggestion_text(suggestion: Suggestion) -> str:
    if not suggestion.entry:
        return f"{suggestion.message} To import a loader: {COMMAND} loader import PATH"
    values = {**suggestion.settings, **suggestion.open_settings}
    settings = "".join(f" --set {key}={value}" for key, value in values.items())
    command_line = f"{COMMAND} gallery add {suggestion.entry}{settings}"
    return f"{suggestion.message} To use its loader: {command_line}"


def import_parts(item: LibraryItem) -> Iterator[Part]:
    files = "1 file" if item.files == 1 else f"{item.files} files"
    yield f"Imported {item.kind.value} {item.reference}: {files}, {size_text(item.bytes)}."
    if item.import_message:
        yield item.import_message


@_kind_command("list")
def list_items(services: Services, group: str) -> Answer:
    """Every version of every {group}."""
    items = services.library.list(Kind(group))
    rows = (
        (
            item.name,
            str(item.version),
            str(item.files),
            size_text(item.bytes),
            local_time_text(item.created),
            item.sha256[:12],
        )
        for item in items
    )
    head = ("NAME", "VERSION", "FILES", "SIZE", "CREATED", "SHA-256")
    return Answer(items, Table(head, rows, f"There are no {group}s yet."))


@_kind_command("show")
def show(services: Services, group: str, reference: Reference) -> Answer:
    """One {group}."""
    item = services.library.show(Kind(group), reference)
    properties = [
        ("Name", item.name),
        ("Version", str(item.version)),
        ("Files", str(item.files)),
        ("Size", size_text(item.bytes)),
        ("Created", local_time_text(item.created)),
        ("Source", item.source),
        ("SHA-256", item.sha256),
    ]
    return Answer(item, Properties([*properties, *_properties(item.details)]))


@_kind_command("changes")
def changes(
    services: Services,
    group: str,
    reference: Reference,
    *,
    since: Annotated[str, ArgSpec("NAME@N", "default: the version before")] = "",
) -> Answer:
    """Differences between two versions of a {group}."""
    version_changes = services.library.changes(Kind(group), reference, since)
    lines = [f"changed: {path}" for path in version_changes.changed_paths]
    lines += [f"new: {path}" for path in version_changes.added_paths]
    lines += [f"gone: {path}" for path in version_changes.removed_paths]
    equal_text = (
        f"{version_changes.older_version} and {version_changes.newer_version} have the same lines."
    )
    return Answer(version_changes, lines, version_changes.text or equal_text)


@_kind_command("remove")
def remove(services: Services, group: str, reference: Reference) -> Answer:
    """Move one {group} to the trash of the data root."""
    item = services.library.remove(Kind(group), reference)
    return Answer(item, f"Moved {item.kind.value} {item.reference} to {services.trash}.")


@_kind_command("remove-added")
def remove_added(services: Services, group: str, reference: Reference) -> Answer:
    """Move files that were added after the import to the trash."""
    removed_files = services.library.remove_added(Kind(group), reference)
    lines = [f"moved to the trash: {sanitize(path)}" for path in removed_files]
    return Answer(removed_files, lines or f"{reference} has exactly the files that were imported.")


def record_answer(value: object) -> Answer:
    """Return a record, as text with the names of its fields."""
    values = {
        key: field_value
        for key, field_value in json_value(value, documents=True).items()
        if field_value not in (None, "", [], {})
    }
    return Answer(value, Properties(_properties(values)))


def _properties(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, default=str)
        yield name.replace("_", " ").capitalize(), value
