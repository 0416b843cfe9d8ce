"""The place Compare: two to eight jobs, and the jobs of a sweep as parallel coordinates."""

from __future__ import annotations

from dataclasses import replace

from backend.records.jobs.comparison import ComparedUpdate, RunFigures
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.summary import JobQuery
from tests.pictures import lab
from tests.pictures.gallery import EVERY, LARGE, SMALL, SMALLEST, screen
from tests.pictures.stage import Stage
from tests.widgets.compare.compare_samples import MAP_METRIC, draft, eight_updates, three_updates
from tests.widgets.compare.sweep_samples import sweep
from tests.widgets.jobs.jobs_rig import rows_of
from widgets.compare.compare_page import ComparePage


def put_updates(stage: Stage, updates: tuple[ComparedUpdate, ...]) -> ComparePage:
    page = stage.compare
    page.set_jobs(tuple(update.view.id for update in updates))
    for update in updates:
        page.show_update(_with_best(update))
    return page


def _with_best(update: ComparedUpdate) -> ComparedUpdate:
    """With its best, as a job that has checkpoints."""
    figures = update.figures.metrics.get(MAP_METRIC)
    if figures is None:
        return update
    return replace(update, view=replace(update.view, best_metric=(MAP_METRIC, figures.highest)))


screen("compare", EVERY, ("light",))(lambda stage: put_updates(stage, three_updates()))
screen("compare-8")(lambda stage: put_updates(stage, eight_updates()))
screen("compare-1")(lambda stage: put_updates(stage, three_updates()[:1]))
screen("compare-draft")(lambda stage: put_updates(stage, (*three_updates()[:1], draft())))
screen("compare-reading")(
    lambda stage: stage.compare.set_jobs(tuple(update.view.id for update in three_updates()))
)


@screen("compare-gone")
def compare_gone(stage: Stage) -> None:
    page = put_updates(stage, three_updates()[:2])
    page.set_jobs((*page.ids, "id9"))
    page.show_read_error("id9", "The job id9 is in the trash.")


screen("compare-empty", (LARGE, SMALL, SMALLEST))(lambda stage: put_updates(stage, ()))


@screen("compare-picker")
def compare_picker(stage: Stage) -> None:
    page = put_updates(stage, three_updates()[:2])
    stage.settle()
    page.show_rows(JobQuery(), rows_of(*lab.JOBS))
    page.open_picker()
    page.show_rows(JobQuery(), rows_of(*lab.JOBS))
    stage.overlay = page._picker


def _parallel(stage: Stage, count: int) -> ComparePage:
    page = stage.compare
    jobs = sweep(count)
    page.set_jobs((jobs[0].id,))
    page.show_update(ComparedUpdate(jobs[0], HistoryUpdate(drop_from=0), RunFigures()))
    page.show_siblings(jobs)
    page.parallel.plot.highlight_job(page.parallel.coordinates.ranked()[1].job_id)
    stage.settle()
    bar = page._scroll.verticalScrollBar()
    bar.setValue(bar.maximum())
    return page


screen("parallel")(lambda stage: _parallel(stage, 6))


@screen("parallel-60", published=("light",))
def parallel_60(stage: Stage) -> None:
    page = _parallel(stage, 60)
    page.parallel.plot.set_brush(1, 0.45, 0.8)
    page.parallel.plot.set_brush(0, 0.0, 0.5)


screen("parallel-500")(lambda stage: _parallel(stage, 500))
