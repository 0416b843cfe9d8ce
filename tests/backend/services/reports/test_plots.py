"""A plot of a report: nothing that matters is thinned away, and its ticks are round."""

from __future__ import annotations

import math

import pytest

from backend.records.jobs.history import HistoryUpdate
from backend.records.reports.report import SCALE, Plot
from backend.services.reports.plots import curve_points, draw


def plot_of(*metrics: list[float], may_be_log: bool = False) -> Plot:
    curves = []
    for number, values in enumerate(metrics):
        history = HistoryUpdate(steps=range(1, len(values) + 1), metrics={"loss": values})
        curve = curve_points(history, "loss", f"job {number}", number, by_epoch=False)
        assert curve is not None
        curves.append(curve)
    return draw("Loss", "step", curves, may_be_log=may_be_log)


def test_a_spike_of_one_step_among_many_stays() -> None:
    values = [1.0] * 50_000
    values[31_415] = 9.0
    (curve,) = plot_of(values).curves
    assert len(curve.points) <= 402
    highest = min(y for _, y in curve.points)
    assert [x for x, y in curve.points if y == highest] == [round(SCALE * 31_416 / 50_000, 1)]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0, 10.0], ["0", "2", "4", "6", "8", "10"]),
        ([-0.3, 0.4], ["-0.2", "0", "0.2", "0.4"]),
        ([5.0, 5.0], ["0", "2", "4", "6", "8", "10"]),
        ([0.0], ["-1", "-0.5", "0", "0.5", "1"]),
        ([1e300, -1e300], ["-1e+150", "-5e+149", "0", "5e+149", "1e+150"]),
    ],
)
def test_ticks_are_round_and_on_the_plot(values: list[float], labels: list[str]) -> None:
    plot = plot_of(values)
    assert [text for _, text in plot.y_ticks] == labels
    points = [point for curve in plot.curves for point in curve.points]
    assert all(0 <= y <= SCALE for y in (*(y for y, _ in plot.y_ticks), *(y for _, y in points)))


def test_a_loss_over_decades_is_logarithmic_and_a_rate_that_ends_at_zero_is_not() -> None:
    falling = [10 ** (-step / 10) for step in range(40)]
    assert [text for _, text in plot_of(falling, may_be_log=True).y_ticks] == [
        "0.0001",
        "0.001",
        "0.01",
        "0.1",
        "1",
    ]
    assert plot_of(falling, may_be_log=True).title == "Loss, logarithmic"
    assert plot_of(falling).title == "Loss"
    one_low_value = [*([1.0] * 40), 1e-6]
    assert plot_of(one_low_value, may_be_log=True).title == "Loss"


def test_a_reading_has_the_value_of_each_curve_and_none_after_its_end() -> None:
    plot = plot_of([3.0, 2.0, 1.0], [0.5, math.nan])
    assert [(r.label, [text for text, _ in r.values]) for r in plot.readings] == [
        ("step 1", ["3", "0.5"]),
        ("step 2", ["2", ""]),
        ("step 3", ["1", ""]),
    ]
    assert plot.table.head == ("step", "job 0", "job 1")
    assert plot.table.rows[0] == ("step 1", "3", "0.5")


def test_a_metric_without_a_finite_value_has_no_curve() -> None:
    history = HistoryUpdate(steps=(1, 2), metrics={"loss": [math.nan, math.inf]})
    assert curve_points(history, "loss", "", 0, by_epoch=False) is None
    assert curve_points(history, "accuracy", "", 0, by_epoch=False) is None
