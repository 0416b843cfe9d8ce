"""Published tables: train their jobs, and compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from backend.base.progress import Progress
from backend.cli.command import ArgSpec, command
from backend.cli.parameters import parse_placements
from backend.cli.printing import Answer, Note, Part, Table
from backend.cli.session import Session
from backend.records.base.program_name import COMMAND
from backend.records.jobs.placement import Placement
from backend.records.jobs.view import JobView
from backend.records.studies.study import FormName, StartedStudy
from backend.records.studies.table import (
    Cell,
    StudyTable,
    interval_text,
    number_text,
    seed_difference_label,
    seed_difference_titles,
    spread_text,
)
from backend.records.sweeps.spec import sweep_name
from backend.services.context.container import Services

_Study = Annotated[str, ArgSpec("ID", "name of a started study, or the beginning of it")]


@command("study list")
def list_studies(services: Services) -> Answer:
    """The studies that can be started, and those that were."""
    gallery, started_studies = services.studies.list(), services.studies.started_studies()
    studies = [
        {
            "name": study.name,
            "title": study.title,
            "question": study.question,
            "source": study.source,
            "jobs": {form.value: size.jobs for form, size in study.sizes.items()},
            "minutes": {form.value: size.minutes for form, size in study.sizes.items()},
        }
        for study in gallery
    ]
    runs = [
        {"sweep": study.sweep, "form": study.form, "jobs": len(study.jobs)}
        for study in started_studies
    ]
    small_sizes = ((study, study.sizes[FormName.SMALL]) for study in gallery)
    rows = (
        (study.name, str(size.jobs), f"{size.minutes:g} min", study.question)
        for study, size in small_sizes
    )
    lines = ((study.sweep, study.form.value, str(len(study.jobs))) for study in started_studies)
    return Answer(
        {"studies": studies, "started": runs},
        Table(("NAME", "JOBS", "TAKES", "QUESTION"), rows, "There are no studies."),
        ("", Table(("STARTED", "FORM", "JOBS"), lines)) if started_studies else (),
    )


@command("study start")
def start(
    services: Services,
    progress: Progress,
    study: Annotated[str, ArgSpec("NAME|PATH", "a study of the gallery, or a study file")],
    *,
    full: Annotated[bool, "as published; default: minutes"] = False,
    on: Annotated[
        tuple[Placement, ...],
        ArgSpec(
            "NODE=N",
            "N processes or these GPUs of a node; may be repeated; default: this computer",
            parse=str,
            resolve=parse_placements,
        ),
    ] = (),
) -> Answer:
    """Queue the jobs of a study."""
    form = FormName.FULL if full else FormName.SMALL
    queued_sweep = services.studies.start(study, form, on, progress)
    name = sweep_name(queued_sweep.tag)
    line = f"{len(queued_sweep.jobs)} jobs of the study {name} are queued."
    table = Note(f"Its table: {COMMAND} study show {name}")
    return Answer({"sweep": name, "jobs": _short_json(queued_sweep.jobs)}, line, table)


@command("study show", reads_jobs=True)
def show(services: Services, study: _Study) -> Answer:
    """The table of a started study.

    --json prints sweep, form, title, question, source, note, seeds, remarks, measure {label, unit}
    and rows, each with name, series, place, jobs, n, mean, sd, interval (the 95 % interval of the
    mean), published, difference, best, busy, against and seed_difference {n, mean, sd, interval}:
    the difference from another row by seed, and also: a list of {label, unit, n, mean, sd,
    interval}.
    values has what each finished job gave: row, seed, job, busy, environment and a value by the
    name of its measure.
    """
    started_study = services.studies.find_started(study)
    table = services.studies.table(started_study)
    return Answer(_in_json(started_study, table), _table_parts(table))


def _table_parts(table: StudyTable) -> Iterator[Part]:
    yield Note(f"{table.title}. {table.question}")
    yield Note(f"Source: {table.source}")
    head = [
        f"{column.label} {column.unit}".strip().upper()
        for column in (table.value, *table.further_columns)
    ]
    seed_titles = [label.upper() for label in seed_difference_titles(table)]
    rows = (
        (
            row.label,
            f"{row.value.n} of {row.jobs}" if row.jobs else "not run",
            spread_text(row.value),
            interval_text(row.value),
            number_text(row.published),
            *[number_text(row.difference, "+")] * table.compares,
            *[seed_difference_label(row)] * len(seed_titles),
            *map(spread_text, row.further_cells),
        )
        for row in table.rows
    )
    titles = ("ROW", "JOBS", head[0], "95 % INTERVAL", "PUBLISHED")
    yield Table((*titles, *["DIFFERENCE"] * table.compares, *seed_titles, *head[1:]), rows)
    yield from map(Note, table.remarks)


@command("study stop", reads_jobs=True)
def stop(services: Services, study: _Study) -> Answer:
    """Stop the jobs of a study; waiting ones leave the queue."""
    return _views_answer(services.sweeps.stop(services.studies.find_started(study).sweep))


@command("study resume", reads_jobs=True)
def resume(services: Services, study: _Study) -> Answer:
    """Queue the jobs of a study that are not finished."""
    return _views_answer(services.sweeps.resume(services.studies.find_started(study).sweep))


@command("study export", reads_jobs=True)
def export(
    session: Session,
    study: _Study,
    *,
    output: Annotated[Path, ArgSpec("FILE.md|.csv|.png|.svg|.pdf")],
) -> Answer:
    """Write the table (.md), the values by seed (.csv) or the plot of a study to a file."""
    studies = session.services.studies
    path = studies.export(studies.find_started(study), output, draw_plot=session.draw)
    return Answer({"path": str(path), "bytes": path.stat().st_size}, f"Wrote {path}.")


def _views_answer(views: Iterable[JobView]) -> Answer:
    rows = [(view.id, view.state_label, view.name) for view in views]
    return Answer(_short_json(views), Table(("ID", "STATE", "NAME"), rows))


def _short_json(views: Iterable[JobView]) -> list[dict[str, Any]]:
    return [{"id": view.id, "name": view.name, "state": view.state} for view in views]


def _in_json(started_study: StartedStudy, table: StudyTable) -> dict[str, Any]:
    def cell(value: Cell) -> dict[str, Any]:
        return {"n": value.n, "mean": value.mean, "sd": value.sd, "interval": value.interval}

    return {
        "sweep": started_study.sweep,
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
                "place": row.plot_x,
                "jobs": row.jobs,
                **cell(row.value),
                "published": row.published,
                "difference": row.difference,
                "best": row.is_best,
                "busy": row.busy,
                "against": row.against,
                "seed_difference": cell(row.seed_difference),
                "also": [
                    {"label": column.label, "unit": column.unit, **cell(value)}
                    for column, value in zip(table.further_columns, row.further_cells, strict=True)
                ],
            }
            for row in table.rows
        ],
        "values": [
            {
                "row": job.row,
                "seed": job.seed,
                "job": job.job,
                "busy": job.busy,
                "environment": job.environment and job.environment.to_dict(),
                **{measure.value: value for measure, value in job.values.items()},
            }
            for job in table.jobs
        ],
    }
