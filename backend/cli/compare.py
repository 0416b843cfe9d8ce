"""``job compare``: results of jobs, the settings that differ, and all curves as a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from backend.cli.printing import (
    OK,
    in_figures,
    in_time,
    print_json,
    print_line,
    print_note,
    print_table,
)
from backend.records.jobs.comparison import ComparedRow, RowKind
from backend.records.jobs.settings import value_words

if TYPE_CHECKING:
    from backend.services.context.container import Services


def add_arguments(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument("ids", nargs="+", metavar="ID", help="id, its beginning, or name of a job")
    leaf.add_argument("--all", action="store_true", help="also show equal settings")
    leaf.add_argument(
        "--csv",
        type=Path,
        default=None,
        metavar="FILE",
        help="instead, write every scalar of every step of one or more jobs",
    )


def compare(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    ids = [services.jobs.queries.find(text) for text in arguments.ids]
    if arguments.csv is not None:
        path = services.comparison.write_csv(list(dict.fromkeys(ids)), arguments.csv)
        if as_json:
            print_json({"path": str(path), "bytes": path.stat().st_size})
        else:
            print_line(f"Wrote {path}.")
        return OK
    found = services.comparison.compare(ids)
    if as_json:
        print_json(found)
        return OK
    settings = (*found.differing, *(found.equal if arguments.all else ()))
    print_table(
        ("", *(view.name for view in found.jobs)),
        (
            ("State", *(view.state.word for view in found.jobs)),
            *_lines(found.results),
            *_lines(settings),
        ),
        "",
    )
    if not found.differing:
        print_note("These jobs have the same settings.")
    if not arguments.all:
        print_note(f"{len(found.equal)} settings are equal; --all shows them.")
    return OK


def _lines(rows: Iterable[ComparedRow]) -> list[tuple[str, ...]]:
    return [(row.label, *_cells(row)) for row in rows]


def _cells(row: ComparedRow) -> Iterable[str]:
    for value, is_best in zip(row.values, row.best, strict=True):
        if value is None:
            text = "–"
        elif isinstance(value, str):
            text = value_words(row.key, value)
        else:
            text = in_time(value) if row.kind is RowKind.SECONDS else in_figures(value)
        yield f"{text} (best)" if is_best else text
