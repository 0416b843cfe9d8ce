"""Sweeps: their rows in the list and in the table, a sweep open, several values in the form."""

from __future__ import annotations

import math
import random

from backend.records.base.validation import ConfigError
from backend.records.jobs.view import JobCheck
from backend.records.sweeps.search import Proposal, Search, SearchResult
from backend.records.sweeps.values import Axis, ValueRange
from tests.pictures.gallery import LARGE, SMALL, SMALLEST, screen
from tests.pictures.screens.new_job import RAW, filled_form, scroll_to, show_sweep
from tests.pictures.stage import Stage
from tests.widgets.jobs.jobs_rig import show_jobs
from tests.widgets.jobs.sweep_samples import ALL_JOBS, LONG, LR
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.multi_value_editor import MultiValueEditor
from widgets.jobs.page.jobs_page import LIST, TABLE, JobsPage

THREE = (LARGE, SMALL, SMALLEST)
RATE, BATCH = Axis("optimizer.lr", (0.01, 0.03, 0.1)), Axis("batch_size", (16, 32))


def _jobs(stage: Stage) -> JobsPage:
    page = stage.jobs
    show_jobs(page, ALL_JOBS)
    return page


def _table(stage: Stage) -> JobsPage:
    page = _jobs(stage)
    page.open_sweep(LR)
    page.show_table()
    page.table.view.selectRow(page.table.model.row_of(LR))
    return page


screen("sweep-rows", THREE)(lambda stage: _jobs(stage).open_sweep(LR))


@screen("sweep-rows-unfolded")
def sweep_rows_unfolded(stage: Stage) -> None:
    page = _jobs(stage)
    page.open_sweep(LR)
    page.sweeps.fold(LIST, LR, False)


screen("sweep-pane-long-names", THREE)(lambda stage: _jobs(stage).open_sweep(LONG))
screen("sweep-table", THREE)(_table)
screen("sweep-table-unfolded")(lambda stage: _table(stage).sweeps.fold(TABLE, LR, False))


@screen("sweep-table-search")
def sweep_table_search(stage: Stage) -> None:
    page = _table(stage)
    page.sweeps.fold(TABLE, LR, True)
    page.table.search.setText("lr=0.003")
    page.table.search._send_text()


def _seen_sweep(stage: Stage, form: JobForm) -> None:
    """Scrolled to what the form says of its sweep."""
    scroll_to(stage, form, form._sections.sweep)


@screen("sweep-drawn", THREE)
def sweep_drawn(stage: Stage) -> None:
    """Values drawn at random, from a list and from a range."""
    form = filled_form(stage)
    span = Axis("optimizer.lr", span=ValueRange(1e-3, 0.1, 0, "log"))
    form.show_draft(JobDraft(RAW, (BATCH, span), 12, 3))
    form.show_check(JobCheck(jobs=12, global_batch=256, learning_rate=0.04, steps_per_epoch=458))
    _seen_sweep(stage, form)


def _searching(stage: Stage) -> JobForm:
    form = filled_form(stage)
    span = Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 0, "log"))
    search = Search("validation/AP", "higher", 30, 2)
    form.show_draft(JobDraft(RAW, (BATCH, span), search=search))
    form.show_check(JobCheck(jobs=30, global_batch=256, learning_rate=0.04, steps_per_epoch=458))
    return form


@screen("sweep-search", THREE)
def sweep_search(stage: Stage) -> None:
    """A search: a sampler proposes the values of 30 trials."""
    _seen_sweep(stage, _searching(stage))


@screen("sweep-search-faults", (SMALLEST,))
def sweep_search_faults(stage: Stage) -> None:
    form = _searching(stage)
    errors = (
        ConfigError("sweep.search.trials", "sweep.search.trials: must be 1 to 500, not 900."),
        ConfigError("sweep.search.goal", "sweep.search.goal: names no metric."),
    )
    form.show_check(JobCheck(errors=errors, jobs=900))
    _seen_sweep(stage, form)


@screen("sweep-faults")
def sweep_faults(stage: Stage) -> None:
    form = filled_form(stage)
    form.show_draft(JobDraft(RAW, (RATE, Axis("batch_size", (16, 32, 0))), 900, 3))
    errors = (
        ConfigError("batch_size", "batch_size: “0” must be between 1 and 10\u202f000\u202f000."),
        ConfigError("sweep.random", "sweep.random: draws 1 to 200 jobs, not 900."),
    )
    form.show_check(JobCheck(errors=errors, jobs=900))
    _seen_sweep(stage, form)


@screen("sweep-half-made", THREE)
def sweep_half_made(stage: Stage) -> None:
    form = show_sweep(stage)
    form.show_incomplete_sweep(
        ("Cancelled: 3 of 6 jobs were made, 0 of them are queued."), "sweep:coco-k3pf"
    )


def _popover(stage: Stage, path: str) -> MultiValueEditor:
    form = filled_form(stage)
    scroll_to(stage, form, form._fields.field(path))
    form._fields.swept_fields.open(path)
    popover = form._fields.swept_fields.popover
    assert popover is not None
    return popover


screen("sweep-popover-ticks")(lambda stage: _popover(stage, "optimizer.name"))


@screen("sweep-popover-range", THREE)
def sweep_popover_range(stage: Stage) -> None:
    popover = _popover(stage, "epochs")
    popover._kinds.choose("range")
    popover._show_page("range")
    popover._high_edit.setText("5")


def search_result(count: int) -> SearchResult:
    """A search of 30 trials: rates near 0.02 are best, others are given up or diverge."""
    draw = random.Random(4)
    trials = []
    for number in range(1, count + 1):
        rate = float(f"{10 ** draw.uniform(-4, -1):.4g}")
        batch = draw.choice((16, 32))
        value = 0.42 - abs(math.log10(rate / 0.02)) * 0.12 + number * 0.001 - (batch == 16) * 0.02
        state = "complete" if number < 6 or value > 0.36 else "pruned"
        reason = "" if state == "complete" else "below the median at epoch 4"
        values = {"optimizer.lr": rate, "batch_size": batch}
        trials.append(Proposal(f"job-{number}", number, values, state, value, reason))
    search = Search("validation/AP", "higher", 30, 2)
    span = Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 0, "log"))
    shares = {"optimizer.lr": 0.83, "batch_size": 0.17} if count else {}
    return SearchResult(search, (span, BATCH), tuple(trials), shares)


def _search_pane(stage: Stage, count: int) -> JobsPage:
    page = _jobs(stage)
    page.open_sweep(LR)
    page.sweep.show_search(LR, search_result(count))
    return page


screen("search-history", THREE)(lambda stage: _search_pane(stage, 27))
screen("search-begun")(lambda stage: _search_pane(stage, 0))


@screen("search-slice", THREE)
def search_slice(stage: Stage) -> None:
    _search_pane(stage, 27).sweep.search._axes.choose("optimizer.lr")


@screen("search-contour", THREE)
def search_contour(stage: Stage) -> None:
    """The goal over two settings, between the trials interpolated."""
    view = _search_pane(stage, 27).sweep.search
    view._axes.choose("optimizer.lr")
    view._second_axes.choose("batch_size")
