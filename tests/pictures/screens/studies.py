"""Studies: the gallery in its dialog, and a started one with its plot and its table."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from backend.records.studies.study import FormName, GalleryStudy, Study, read_study
from backend.records.studies.table import Cell, Column, StudyTable, TableRow
from tests.pictures.gallery import LARGE, SMALL, SMALLEST, screen
from tests.pictures.stage import Stage
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.sweep_samples import ALL_JOBS, LR
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.studies.study_dialog import StudyDialog
from widgets.jobs.sweeps.sweep_pane import JOBS

GALLERY = Path(__file__).parents[3] / "resources/gallery/studies"
THREE = (LARGE, SMALL, SMALLEST)


def study(name: str) -> Study:
    return read_study(tomllib.loads((GALLERY / name / "study.toml").read_text()))


def gallery() -> tuple[GalleryStudy, ...]:
    names = sorted(path.parent.name for path in GALLERY.glob("*/study.toml"))
    return tuple(GalleryStudy.from_study(name, study(name)) for name in names)


def _row(name: str, x: float, mean: float | None, published: float | None = None) -> TableRow:
    series, epoch = name.partition(",")[0], None if mean is None else 2.93 * (1 + mean / 100)
    cell = Cell() if mean is None else Cell(3, mean, abs(mean) / 4 + 0.08)
    epoch_cell = Cell() if epoch is None else Cell(3, epoch, 0.004)
    return TableRow(f"{name} nodes", series, x, 3, cell, published, (epoch_cell,))


def epoch_time() -> StudyTable:
    spec = study("epoch-time")
    rows = (
        _row("downpour, 4", 4, 0.0),
        _row("downpour, 8", 8, 0.7, 0.3),
        _row("downpour, 12", 12, 1.9, 0.8),
        _row("dc-asgd, 4", 4, 0.0),
        _row("dc-asgd, 8", 8, 1.1, 0.6),
        _row("dc-asgd, 12", 12, None, 1.4),
    )
    return StudyTable(
        *(spec.title, spec.question, spec.source, spec.small.note, FormName.SMALL),
        *(Column("Growth", "%"), (Column("Epoch time", "s"),), spec.x, rows, (1, 2, 3)),
        published_on=spec.published_on,
    )


def split() -> StudyTable:
    spec = study("split")
    names = [row.name for row in spec.rows]
    means = (3.2, 3.4, 3.1, 88.9, 90.1, 62.0)
    published_values = (row.published for row in spec.rows)
    rows = tuple(
        TableRow(name, "", 1, 3, Cell(3, mean, 0.6), figure, (Cell(3, 0.41, 0.02),))
        for name, mean, figure in zip(names, means, published_values, strict=True)
    )
    return StudyTable(
        *(spec.title, spec.question, spec.source, spec.small.note, FormName.SMALL),
        *(Column("Error", "%"), (Column("Epoch time", "s"),), "", rows, (1, 2, 3)),
        published_on=spec.published_on,
    )


def _pane(stage: Stage, table: StudyTable) -> JobsPage:
    page = stage.jobs
    show_jobs(page, ALL_JOBS)
    page.open_sweep(LR)
    page.sweep.show_study(LR, table)
    return page


screen("study-lines", THREE)(lambda stage: _pane(stage, epoch_time()))
screen("study-rows", THREE)(lambda stage: _pane(stage, split()))


@screen("study-begun")
def study_begun(stage: Stage) -> None:
    """No job is finished yet."""
    table = epoch_time()
    rows = tuple(replace(row, value=Cell(), further_cells=(Cell(),)) for row in table.rows)
    _pane(stage, replace(table, rows=rows))


@screen("study-jobs")
def study_jobs(stage: Stage) -> None:
    _pane(stage, split()).sweep._parts.choose(JOBS)
    stage.jobs.sweep._show_part()


@screen("new-study", THREE)
def new_study(stage: Stage) -> None:
    show_jobs(stage.jobs, ALL_JOBS)
    dialog = StudyDialog(stage.window)
    dialog.show_studies(gallery())
    stage.lay_over(dialog)


@screen("new-study-refused")
def new_study_refused(stage: Stage) -> None:
    show_jobs(stage.jobs, ALL_JOBS)
    dialog = StudyDialog(stage.window)
    dialog.show_studies(gallery())
    dialog.show_error(
        "/home/ann/mine.toml: study without a usable rows[1].published: it must be a number, not "
        "text. Change the study file."
    )
    stage.lay_over(dialog)
