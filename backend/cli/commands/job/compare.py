"""``job compare``: results of jobs, the settings that differ, and all curves as a table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from backend.cli.command import ArgSpec, command
from backend.cli.parameters import JobIds
from backend.cli.printing import Answer, Note, Table, duration_text, number_text
from backend.records.jobs.comparison import ComparedRow, RowKind
from backend.records.jobs.settings import value_label
from backend.services.context.container import Services


@command("job compare", reads_jobs=True)
def compare(
    services: Services,
    ids: JobIds,
    *,
    all: Annotated[bool, "also show equal settings"] = False,
    csv: Annotated[
        Path | None,
        ArgSpec("FILE", "instead, write every scalar of every step of one or more jobs"),
    ] = None,
) -> Answer:
    """Results of jobs, and the settings that differ."""
    if csv is not None:
        path = services.comparison.write_csv(list(dict.fromkeys(ids)), csv)
        return Answer({"path": str(path), "bytes": path.stat().st_size}, f"Wrote {path}.")
    comparison = services.comparison.compare(ids)
    settings = (*comparison.differing, *(comparison.equal if all else ()))
    states = ("State", *(view.state.label for view in comparison.jobs))
    names = ("", *(view.name for view in comparison.jobs))
    table = Table(names, (states, *_lines(comparison.results), *_lines(settings)))
    notes = []
    if not comparison.differing:
        notes.append(Note("These jobs have the same settings."))
    if not all:
        notes.append(Note(f"{len(comparison.equal)} settings are equal; --all shows them."))
    return Answer(comparison, table, notes)


def _lines(rows: Iterable[ComparedRow]) -> list[tuple[str, ...]]:
    return [(row.label, *_cells(row)) for row in rows]


def _cells(row: ComparedRow) -> Iterable[str]:
    for value, is_best in zip(row.values, row.best, strict=True):
        if value is None:
            text = "–"
        elif isinstance(value, str):
            text = value_label(row.key, value)
        else:
            text = duration_text(value) if row.kind is RowKind.SECONDS else number_text(value)
        yield f"{text} (best)" if is_best else text
