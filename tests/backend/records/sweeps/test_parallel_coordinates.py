"""Jobs as lines: an axis for what differs and one for the metric, and the best is marked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.sweeps.parallel_coordinates import (
    MOST_LINES,
    ParallelLine,
    jobs_in_brushes,
    parallel_plot,
)
from tests.widgets.compare.sweep_samples import ACCURACY, sweep


def test_the_plot_has_an_axis_for_each_difference_and_one_for_the_best_metric() -> None:
    plot = parallel_plot(sweep())
    assert [axis.label for axis in plot.axes] == [
        "Batch size, per process",
        "Learning rate",
        "Best validation accuracy",
    ]
    batch, rate, _ = plot.axes
    assert [(mark.position, mark.text) for mark in batch.marks] == [(0.0, "16"), (1.0, "32")]
    assert [mark.text for mark in rate.marks] == ["0.01", "0.03", "0.1"]
    (best,) = plot.best
    assert best.name == "digits batch=16 lr=0.03"
    assert best.positions[-1] == 1.0
    assert plot.ranked()[0] == best
    values = [line.value for line in plot.ranked()]
    assert values == sorted(values, reverse=True)


def test_the_lowest_is_the_best_of_a_loss() -> None:
    jobs = [
        replace(
            view,
            config=replace(
                view.config,
                checkpoint=replace(
                    view.config.checkpoint, best_metric="validation/loss", best_mode="min"
                ),
            ),
            best_metric=("validation/loss", number + 0.5),
        )
        for number, view in enumerate(sweep())
    ]
    (best,) = parallel_plot(jobs).best
    assert best.job_id == jobs[0].id


def test_jobs_without_a_result_have_no_place_there_and_are_never_the_best() -> None:
    first, *other_views = sweep()
    plot = parallel_plot([replace(first, best_metric=None), *other_views])
    assert plot.lines[0].positions[-1] is None
    assert plot.ranked()[-1].job_id == first.id
    none = parallel_plot([replace(view, best_metric=None) for view in sweep()])
    assert none.best == ()
    nan = parallel_plot([replace(first, best_metric=(ACCURACY, float("nan"))), *other_views])
    assert nan.lines[0].value is None


def test_rates_over_many_powers_of_ten_are_spaced_by_factors() -> None:
    rate = next(axis for axis in parallel_plot(sweep(60)).axes if axis.label == "Learning rate")
    assert rate.is_log


def test_nothing_is_drawn_of_no_jobs_and_no_more_than_500() -> None:
    assert parallel_plot(()).axes == ()
    assert len(parallel_plot(sweep(501)).lines) == MOST_LINES


@pytest.mark.parametrize("count", [6, 60])
def test_every_place_lies_on_its_axis(count: int) -> None:
    plot = parallel_plot(sweep(count))
    positions = [
        position for line in plot.lines for position in line.positions if position is not None
    ]
    assert min(positions) == 0.0
    assert max(positions) == 1.0


shares = st.floats(0, 1)
lines = st.lists(st.tuples(shares, shares, st.none() | shares), max_size=8).map(
    lambda rows: [ParallelLine(str(n), "", row, ()) for n, row in enumerate(rows)]
)
brushes = st.dictionaries(st.integers(0, 2), st.tuples(shares, shares), max_size=3)


@given(lines, brushes)
def test_several_brushes_select_jobs_that_pass_each_of_them(plot, brush_limits) -> None:
    selections = [jobs_in_brushes(plot, {axis: brush}) for axis, brush in brush_limits.items()]
    all_ids = {line.job_id for line in plot}
    assert jobs_in_brushes(plot, brush_limits) == all_ids.intersection(*selections)
    assert jobs_in_brushes(plot, {}) == all_ids
