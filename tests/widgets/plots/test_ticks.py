"""Ticks stand at round places, few enough to be read and enough to read by."""

from __future__ import annotations

import math
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from widgets.plots import ticks
from widgets.plots.curve_data import XAxis
from widgets.plots.plot_range import x_ticks


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(2, 8))
@example(501.0, 1299.0, 2)
@example(51.0, 141176470589.0, 2)
def test_ticks_are_few_round_and_inside(low: float, span: float, max_count: int) -> None:
    high = low + span
    if span < abs(low) * 1e-9:
        return
    positions = [position for position, _ in ticks.linear(low, high, max_count)]
    # Where 500 is too wide for three, 200 gives eight.
    assert 3 <= len(positions) <= max(max_count + 2, 8)
    assert all(low - span * 1e-6 <= position <= high + span * 1e-6 for position in positions)
    assert positions == sorted(set(positions))


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 3, ["0", "0.5", "1", "1.5", "2", "2.5", "3"]),
        (0, 12_480, ["0", "2k", "4k", "6k", "8k", "10k", "12k"]),
        (-0.31, 0.32, ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3"]),
    ],
)
def test_a_common_range_has_the_ticks_one_would_write(
    low: float, high: float, texts: list[str]
) -> None:
    assert [text for _, text in ticks.linear(low, high, 7)] == texts


@given(st.floats(-5, 1e7), st.floats(0.01, 1e7), st.integers(40, 1200), st.booleans())
@example(0.6, 0.4, 600, False)
@example(0.0, 3.0, 600, False)
@example(1e7, 0.03125, 40, False)
def test_steps_are_whole_on_their_axis(low: float, span: float, width: int, log: bool) -> None:
    low, high = low, low + span
    if log:
        low, high = math.log10(max(low, 1.0)), math.log10(max(low, 1.0) + span)
    for position, _ in x_ticks((low, high), width, XAxis.STEP, log=log):
        step = 10**position if log else position
        assert step == pytest.approx(round(step), abs=1e-5)


def test_a_small_plot_has_at_least_three_ticks() -> None:
    assert [text for _, text in ticks.linear(0, 94, 2)] == ["0", "20", "40", "60", "80"]
    assert [text for _, text in ticks.linear(0, 12_480, 2)] == ["0", "5k", "10k"]


def test_a_logarithmic_axis_is_marked_in_powers_of_ten_and_between_when_short() -> None:
    assert [text for _, text in ticks.logarithmic(-5, 0.1)] == [
        *("10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1")
    ]
    assert [text for _, text in ticks.logarithmic(-0.8, 0.5)] == ["0.2", "0.5", "1", "2"]
    assert len(ticks.logarithmic(math.log10(3.1), math.log10(3.9))) >= 2
    assert len(ticks.logarithmic(-30, 30)) <= 8


def test_a_small_plot_of_some_decades_has_no_figures_on_top_of_each_other() -> None:
    assert [text for _, text in ticks.logarithmic(-4.5, -1.2, 3)] == ["10⁻⁴", "0.001", "0.01"]
    for low, high in ((-4.5, -1.2), (-2.2, 0.3), (-0.4, 1.6), (-0.9, 1.9), (0, 6), (-9, 9)):
        assert 2 <= len(ticks.logarithmic(low, high, 3)) <= 6


def test_a_small_plot_of_an_hour_has_two_times_of_day() -> None:
    start = datetime(2026, 11, 21, 18, 2).astimezone().timestamp()
    assert len(ticks.clock(start, start + 70 * 60, 2)) >= 2


@pytest.mark.parametrize(
    ("high", "texts"),
    [
        (40, ["0", "10 s", "20 s", "30 s", "40 s"]),
        (3600 * 1.6, ["0", "30 min", "1:00 h", "1:30 h"]),
        (3600 * 10, ["0", "2 h", "4 h", "6 h", "8 h", "10 h"]),
        (86400 * 4, ["0", "1 d", "2 d", "3 d", "4 d"]),
    ],
)
def test_time_since_the_start_is_in_units_of_clocks(high: float, texts: list[str]) -> None:
    assert [text for _, text in ticks.elapsed(0, high)] == texts


def test_time_of_day_is_round_where_one_lives() -> None:
    start = datetime(2026, 11, 21, 22, 10).astimezone().timestamp()
    texts = [text for _, text in ticks.clock(start, start + 3 * 3600)]
    assert texts == ["22:30", "23:00", "23:30", "22 Nov", "00:30", "01:00"]
    days = [text for _, text in ticks.clock(start, start + 4.5 * 86400)]
    assert days == ["22 Nov", "23 Nov", "24 Nov", "25 Nov", "26 Nov"]


@given(st.floats(0, 4e9), st.floats(1e-3, 1e9))
def test_any_stretch_of_time_has_ticks_that_can_be_drawn(low: float, span: float) -> None:
    for make in (ticks.elapsed, ticks.clock):
        assert len(make(low, low + span)) <= 40
