"""``study list|start|show|stop|resume|export``: published tables, trained and compared."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.cli.common_options import SubcommandGroup, placement_of, progress_bar
from backend.cli.printing import OK, print_json, print_line, print_note, print_table
from backend.records.base.program_name import COMMAND
from backend.records.studies.study import FormName, StartedStudy
from backend.records.studies.table import Cell, StudyTable, figure, interval, spread
from backend.records.sweeps.spec import sweep_name

if TYPE_CHECKING:
    from backend.services.context.container import Services

_ID = "name of a started study, or the beginning of it"


def add_words(words: SubcommandGroup) -> None:
    words.leaf("list", "the studies that can be started, and those that were")
    leaf = words.leaf("start", "queue the jobs of a study")
    leaf.add_argument("study", metavar="NAME|PATH", help="a study of the gallery, or a study file")
    leaf.add_argument("--full", action="store_true", help="as published; default: minutes")
    leaf.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NODE=N",
        help="N processes or these GPUs of a node; may be repeated; default: this computer",
    )
    leaf = words.leaf("show", "the table of a started study")
    leaf.add_argument("study", metavar="ID", help=_ID)
    leaf.description = (
        "The table of a started study. --json prints sweep, form, title, question, source, note, "
        "seeds, remarks, measure {label, unit} and rows, each with name, series, place, jobs, n, "
        "mean, sd, interval (the 95 % interval of the mean), published, difference, best, busy, "
        "and also: a list of {label, unit, n, mean, sd, interval}."
    )
    leaf = words.leaf("stop", "stop the jobs of a study; waiting ones leave the queue")
    leaf.add_argument("study", metavar="ID", help=_ID)
    leaf = words.leaf("resume", "queue the jobs of a study that are not finished")
    leaf.add_argument("study", metavar="ID", help=_ID)
    leaf = words.leaf("export", "write the table or the plot of a started study to a file")
    leaf.add_argument("study", metavar="ID", help=_ID)
    leaf.add_argument("--output", required=True, type=Path, metavar="FILE.md|.csv|.png|.svg|.pdf")


def list_studies(services: Services, _: argparse.Namespace, as_json: bool) -> int:
    gallery, started = services.studies.list(), services.studies.started()
    if as_json:
        studies: list[dict[str, Any]] = [
            {
                "name": one.name,
                "title": one.title,
                "question": one.question,
                "source": one.source,
                "jobs": {form.value: size.jobs for form, size in one.sizes.items()},
                "minutes": {form.value: size.minutes for form, size in one.sizes.items()},
            }
            for one in gallery
        ]
        shown = [{"sweep": one.sweep, "form": one.form, "jobs": len(one.jobs)} for one in started]
        print_json({"studies": studies, "started": shown})
        return OK
    small = ((one, one.sizes[FormName.SMALL]) for one in gallery)
    rows = (
        (one.name, str(size.jobs), f"{size.minutes:g} min", one.question) for one, size in small
    )
    print_table(("NAME", "JOBS", "TAKES", "QUESTION"), rows, "There are no studies.")
    if started:
        print_line()
        lines = ((one.sweep, one.form.value, str(len(one.jobs))) for one in started)
        print_table(("STARTED", "FORM", "JOBS"), lines, "")
    return OK


def start(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    form = FormName.FULL if arguments.full else FormName.SMALL
    places = placement_of(arguments)
    with progress_bar(as_json) as bar:
        made = services.studies.start(arguments.study, form, places, bar)
    name = sweep_name(made.tag)
    if as_json:
        jobs = [{"id": one.id, "name": one.name, "state": one.state} for one in made.jobs]
        print_json({"sweep": name, "jobs": jobs})
    else:
        print_line(f"{len(made.jobs)} jobs of the study {name} are queued.")
        print_note(f"Its table: {COMMAND} study show {name}")
    return OK


def show(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    started = services.studies.named(arguments.study)
    table = services.studies.table(started)
    if as_json:
        print_json(_in_json(started, table))
        return OK
    print_note(f"{table.title}. {table.question}")
    print_note(f"Source: {table.source}")
    head = [
        f"{column.label} {column.unit}".strip().upper() for column in (table.value, *table.also)
    ]
    rows = (
        (
            row.label,
            f"{row.value.n} of {row.jobs}" if row.jobs else "not run",
            spread(row.value),
            interval(row.value),
            figure(row.published),
            *[figure(row.difference, "+")] * table.compares,
            *map(spread, row.also),
        )
        for row in table.rows
    )
    titles = ("ROW", "JOBS", head[0], "95 % INTERVAL", "PUBLISHED")
    print_table((*titles, *["DIFFERENCE"] * table.compares, *head[1:]), rows, "")
    for remark in table.remarks:
        print_note(remark)
    return OK


def stop(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    started = services.studies.named(arguments.study)
    return _print_jobs(services.sweeps.stop(started.sweep), as_json)


def resume(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    started = services.studies.named(arguments.study)
    return _print_jobs(services.sweeps.resume(started.sweep), as_json)


def export(services: Services, arguments: argparse.Namespace, as_json: bool) -> int:
    started = services.studies.named(arguments.study)
    path = services.studies.export(started, arguments.output, draw=arguments.draw)
    if as_json:
        print_json({"path": str(path), "bytes": path.stat().st_size})
    else:
        print_line(f"Wrote {path}.")
    return OK


def _print_jobs(views: Any, as_json: bool) -> int:
    if as_json:
        print_json([{"id": one.id, "name": one.name, "state": one.state} for one in views])
    else:
        print_table(("ID", "STATE", "NAME"), ((v.id, v.state.word, v.name) for v in views), "")
    return OK


def _in_json(started: StartedStudy, table: StudyTable) -> dict[str, Any]:
    def cell(value: Cell) -> dict[str, Any]:
        return {"n": value.n, "mean": value.mean, "sd": value.sd, "interval": value.interval}

    return {
        "sweep": started.sweep,
        "form": table.form,
        "title": table.title,
        "question": table.question,
        "source": table.source,
        "note": table.note,
        "seeds": table.seeds,
        "remarks": table.remarks,
        "measure": {"label": table.value.label, "unit": table.value.unit},
        "rows": [
            {
                "name": row.name,
                "series": row.series,
                "place": row.place,
                "jobs": row.jobs,
                **cell(row.value),
                "published": row.published,
                "difference": row.difference,
                "best": row.is_best,
                "busy": row.busy,
                "also": [
                    {"label": column.label, "unit": column.unit, **cell(value)}
                    for column, value in zip(table.also, row.also, strict=True)
                ],
            }
            for row in table.rows
        ],
    }
