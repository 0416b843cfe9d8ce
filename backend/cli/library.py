"""``dataset|model|loader …``, ``rescan`` and ``mirror clear``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError
from backend.cli.common_options import progress_bar, trash_of
from backend.cli.printing import (
    OK,
    in_bytes,
    in_local_time,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_table,
)
from backend.records.base import number_format
from backend.records.base.schema import plain
from backend.records.base.validation import sanitize
from backend.records.library.item import unused_in_weights

if TYPE_CHECKING:
    from backend.records.library.item import Kind, LibraryItem
    from backend.services.context.container import Services

_GROUPS_SHOWN = 10


def import_item(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        item = services.library.import_item(
            _kind(arguments), arguments.path, arguments.name, progress=bar
        )
    if as_json:
        print_json(item)
    else:
        _print_imported(item)
    return OK


def import_project(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    project = services.library.inspect(arguments.path).project
    if project is None:
        raise BackendError(
            f"No model with its loader was found in {arguments.path}.",
            "It needs bks_model.py and bks_dataset.py at its top or in one of its folders.",
        )
    with progress_bar(as_json) as bar:
        items = services.library.import_project(arguments.path, project, arguments.name, bar)
    if as_json:
        print_json(items)
        return OK
    for item in items:
        _print_imported(item)
    if project.rest:
        print_line(f"Not imported: {', '.join(map(sanitize, project.rest))}.")
    return OK


def _print_imported(item: LibraryItem) -> None:
    print_line(
        f"Imported {item.kind.value} {item.reference}: {_files(item.files)}, "
        f"{in_bytes(item.bytes)}."
    )
    if item.left_out:
        print_line(item.left_out)


def give_weights(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        item = services.library.give_weights(arguments.reference, arguments.path, progress=bar)
    if as_json:
        print_json(item)
    else:
        print_line(f"New jobs of {item.reference} begin with these weights.")
        if unused := unused_in_weights(item.facts):
            print_line(unused)
    return OK


def list_items(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    items = services.library.list(_kind(arguments))
    if as_json:
        print_json(items)
        return OK
    print_table(
        ("NAME", "VERSION", "FILES", "SIZE", "CREATED", "SHA-256"),
        (
            (
                item.name,
                str(item.version),
                str(item.files),
                in_bytes(item.bytes),
                in_local_time(item.created),
                item.sha256[:12],
            )
            for item in items
        ),
        f"There are no {arguments.command}s yet.",
    )
    return OK


def show(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    item = services.library.show(_kind(arguments), arguments.reference)
    if as_json:
        print_json(item)
    else:
        _print_item(item)
    return OK


def _print_item(item: LibraryItem) -> None:
    print_facts(
        [
            ("Name", item.name),
            ("Version", str(item.version)),
            ("Files", str(item.files)),
            ("Size", in_bytes(item.bytes)),
            ("Created", in_local_time(item.created)),
            ("Source", item.source),
            ("SHA-256", item.sha256),
            *((name.replace("_", " ").capitalize(), _fact(v)) for name, v in item.facts.items()),
        ]
    )


def _fact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def show_changes(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    found = services.library.changes(_kind(arguments), arguments.reference, arguments.since)
    if as_json:
        print_json(found)
        return OK
    for how, paths in (
        ("changed", found.changed),
        ("new", found.added),
        ("gone", found.removed),
    ):
        for path in paths:
            print_line(f"{how}: {path}")
    print_line(found.text or f"{found.older} and {found.newer} have the same lines.")
    return OK


def remove_added(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    removed = services.library.remove_added(_kind(arguments), arguments.reference)
    if as_json:
        print_json(removed)
        return OK
    for path in removed:
        print_line(f"moved to the trash: {sanitize(path)}")
    if not removed:
        print_line(f"{arguments.reference} has exactly the files that were imported.")
    return OK


def remove(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    item = services.library.remove(_kind(arguments), arguments.reference)
    if as_json:
        print_json(item)
    else:
        print_line(f"Moved {item.kind.value} {item.reference} to {trash_of(services)}.")
    return OK


def preview(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        preview = services.library.preview(
            arguments.reference, arguments.loader, split=arguments.split, progress=bar
        )
    _print_record(preview, as_json)
    return OK


def scan(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        found = services.scans.scan(arguments.reference, arguments.loader, bar)
    if as_json:
        print_json(found)
        return OK
    validation = found.validation
    read = [("Training", found)] + ([("Validation", validation)] if validation else [])
    print_facts((name, f"{number_format.count(one.samples)} samples") for name, one in read)
    for finding in found.findings():
        print_line(finding.sentence)
        for group in finding.groups[:_GROUPS_SHOWN]:
            print_line("  " + ", ".join(f"{split} {index}" for split, index in group))
        if len(finding.groups) > _GROUPS_SHOWN:
            print_line("  …")
    if not found.findings():
        print_line("No findings.")
    return OK


def check_model(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        check = services.library.check_model(
            arguments.reference, dataset=arguments.dataset, loader=arguments.loader, progress=bar
        )
    _print_record(check, as_json)
    return OK


def model_layers(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        found = services.inspection.layers(
            arguments.reference,
            arguments.dataset,
            arguments.loader,
            batch_size=arguments.batch_size,
            progress=bar,
        )
    if as_json:
        print_json(found.layers)
        return OK
    print_table(
        ("NAME", "KIND", "OUTPUT", "PARAMETERS", "MULTIPLY-ADDS", "MEMORY", "TRAINED"),
        (
            *(
                (
                    layer.name,
                    layer.kind,
                    "-" if layer.output_shape is None else str(list(layer.output_shape)),
                    str(layer.parameters),
                    _number(layer.multiply_adds),
                    in_bytes(layer.activation_bytes),
                    ("trained" if layer.trained else "frozen") if layer.parameters else "-",
                )
                for layer in found.layers
            ),
            (
                *("(total)", "", "", str(found.parameters)),
                *(_number(found.multiply_adds), in_bytes(found.activation_bytes), ""),
            ),
        ),
        "",
    )
    for warning in found.warnings:
        print_note(warning)
    return OK


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def rescan(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    with progress_bar(as_json) as bar:
        report = services.library.rescan(progress=bar)
    _print_record(report, as_json)
    return OK


def clear_mirror(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    """Remove local copies of a data root over SSH."""
    freed = services.share.clear()
    if as_json:
        print_json({"bytes": freed})
    else:
        print_line(
            f"Freed {in_bytes(freed)} on this computer; {services.data_root.name} still has all "
            "of it."
        )
    return OK


def _print_record(record: object, as_json: bool) -> None:
    if as_json:
        print_json(record)
        return
    print_facts(
        (name.replace("_", " ").capitalize(), _fact(value))
        for name, value in plain(record, documents=True).items()
        if value not in (None, "", [], {})
    )


def _kind(arguments: argparse.Namespace) -> Kind:
    from backend.records.library.item import Kind

    return Kind(arguments.command)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
