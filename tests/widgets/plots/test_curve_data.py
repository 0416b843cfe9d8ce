"""Points of a curve: what a plot shows of them, whatever they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.plots import ticks
from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.growable_array import Floats
from widgets.plots.plot_range import robust_range

NAN = math.nan
VALUE = st.floats(-1e6, 1e6) | st.just(NAN)
VALUES = st.lists(VALUE, min_size=1, max_size=600)


def curve(values: Floats | list[float], smoothing: float = 0.0) -> CurveData:
    data = CurveData(smoothing)
    data.extend(np.arange(len(values), dtype=float), values)
    return data


def smoothed_one_by_one(values: list[float], weight: float) -> list[float]:
    total = norm = 0.0
    result = []
    for value in values:
        if math.isnan(value):
            result.append(NAN)
            continue
        total = weight * total + (1 - weight) * value
        norm = weight * norm + (1 - weight)
        result.append(total / norm)
    return result


# Smoothing


@given(VALUES, st.sampled_from([0.1, 0.6, 0.9, 0.99, 0.999]), st.integers(1, 50))
def test_smoothing_in_pieces_is_smoothing_at_once(
    values: list[float], weight: float, chunk_size: int
) -> None:
    data = CurveData(weight)
    for start in range(0, len(values), chunk_size):
        part = values[start : start + chunk_size]
        data.extend(np.arange(start, start + len(part), dtype=float), part)
    expected = smoothed_one_by_one(values, weight)
    np.testing.assert_allclose(data.smoothed, expected, rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(np.isnan(data.smoothed), np.isnan(values))


@given(st.floats(-1e300, 1e300), st.sampled_from([0.6, 0.97, 0.999]), st.integers(1, 2000))
def test_a_constant_is_smoothed_to_itself_to_the_last_bit(
    value: float, weight: float, count: int
) -> None:
    assert (curve(np.full(count, value), weight).smoothed == value).all()


def test_the_first_point_is_not_pulled_to_zero() -> None:
    assert curve([3.0, 3.0, 2.0], 0.9).smoothed[0] == 3.0


def test_one_huge_value_is_forgotten_in_time() -> None:
    values = np.ones(1000)
    values[10] = 1e30
    smoothed = curve(values, 0.6).smoothed
    assert smoothed[10] > 1e29
    assert smoothed[-1] == pytest.approx(1.0)


def test_another_smoothing_leaves_the_points_alone() -> None:
    data = curve([1.0, 2.0, NAN, 4.0], 0.5)
    data.set_smoothing(0.0)
    np.testing.assert_array_equal(data.smoothed, data.raw)
    data.set_smoothing(0.5)
    np.testing.assert_allclose(
        data.smoothed, smoothed_one_by_one([1.0, 2.0, NAN, 4.0], 0.5), equal_nan=True
    )


@pytest.mark.parametrize("weight", [-0.1, 1.0, NAN])
def test_a_weight_that_never_forgets_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="smoothing"):
        CurveData(weight)


# Runs that go on


def test_a_resumed_run_replaces_the_points_from_its_first_step_on() -> None:
    data = CurveData(0.6)
    data.extend([0, 1, 2, 3, 4], [5.0, 4.0, 3.0, 9.0, 9.0])
    data.extend([3, 4, 5], [2.0, 1.0, 0.5])
    assert data.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.raw.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 0.5]
    expected = smoothed_one_by_one([5.0, 4.0, 3.0, 2.0, 1.0, 0.5], 0.6)
    np.testing.assert_allclose(data.smoothed, expected)


@given(st.lists(st.tuples(st.integers(0, 60), VALUE), max_size=200), st.integers(1, 40))
def test_the_last_value_of_each_step_counts(
    points: list[tuple[int, float]], chunk_size: int
) -> None:
    expected: dict[int, float] = {}
    for step, value in points:
        expected = {old: previous_value for old, previous_value in expected.items() if old < step}
        expected[step] = value
    data = CurveData(0.6)
    for start in range(0, len(points), chunk_size):
        part = points[start : start + chunk_size]
        data.extend([float(step) for step, _ in part], [value for _, value in part])
    assert data.steps.tolist() == sorted(expected)
    np.testing.assert_array_equal(data.raw, [expected[step] for step in sorted(expected)])
    np.testing.assert_allclose(
        data.smoothed, smoothed_one_by_one(data.raw.tolist(), 0.6), rtol=1e-9, atol=1e-6
    )


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(1, 900), st.floats(0, 1)), min_size=2, max_size=12))
def test_points_survive_every_growth_and_every_going_back(plan: list[tuple[int, float]]) -> None:
    data, expected = CurveData(0.6), list[float]()
    for count, back in plan:
        first = int(len(expected) * (1 - back / 2))
        del expected[first:]
        for i in range(count):
            value = float(len(expected) + count)
            data.append(first + i, value)
            expected.append(value)
    assert data.raw.tolist() == expected
    assert data.steps.tolist() == list(range(len(expected)))
    np.testing.assert_allclose(data.smoothed, smoothed_one_by_one(expected, 0.6))


@given(VALUES, st.sampled_from([0.6, 0.9, 0.99, 0.999]), st.integers(0, 200))
def test_the_average_continues_from_the_step_of_a_resume(
    values: list[float], weight: float, first: int
) -> None:
    data = curve(values, weight)
    data.extend(np.arange(first, first + 3, dtype=float), [1.0, 2.0, 3.0])
    expected = smoothed_one_by_one([*values[:first], 1.0, 2.0, 3.0], weight)
    np.testing.assert_allclose(data.smoothed, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("back", [9_999, 8_000, 4_096, 4_095, 1])
def test_a_long_curve_that_goes_back_is_smoothed_as_if_it_had_not(back: int) -> None:
    random = np.random.default_rng(0)
    first_values, later_values = random.normal(size=10_000), random.normal(5.0, size=3_000)
    first_values[::7] = NAN
    data = curve(first_values, 0.99)
    data.extend(np.arange(back, back + len(later_values), dtype=float), later_values)
    values = [*first_values[:back], *later_values]
    np.testing.assert_allclose(data.smoothed, smoothed_one_by_one(values, 0.99), rtol=1e-9)
    new_curve = curve(values, 0.99)
    for smoothed in (False, True):
        columns = data.columns(XAxis.STEP, 0, back + 3_000, 100, is_smoothed=smoothed)
        expected = new_curve.columns(XAxis.STEP, 0, back + 3_000, 100, is_smoothed=smoothed)
        np.testing.assert_allclose(columns, expected, rtol=1e-9)


def test_a_few_points_survive_the_coming_of_many() -> None:
    data = CurveData()
    for start, end in ((0, 200), (200, 5000), (5000, 5001), (5001, 90_000)):
        data.extend(np.arange(start, end, dtype=float), np.arange(start, end, dtype=float))
    assert (data.raw == np.arange(90_000)).all()


def test_an_axis_stands_still_where_a_place_is_missing_or_runs_backwards() -> None:
    data = CurveData()
    data.extend([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0], times_s=[NAN, 100.0, 90.0, 110.0])
    data.append(4, 1.0)
    np.testing.assert_array_equal(data.times_s, [NAN, 100.0, 100.0, 110.0, 110.0])
    assert data.x_range(XAxis.TIME) == (0.0, 10.0)
    assert data.x_range(XAxis.CLOCK) == (100.0, 110.0)
    assert data.x_range(XAxis.EPOCH) is None


def test_an_axis_that_begins_late_has_the_points_since_then() -> None:
    data = CurveData()
    data.extend(np.arange(1000.0), np.ones(1000), times_s=[NAN] * 700 + list(range(300)))
    x, _ = data.columns(XAxis.TIME, 100, 200, 500)
    assert x.tolist() == list(range(99, 202))
    sample = data.nearest_point(XAxis.TIME, 150)
    assert sample is not None
    assert sample.step == 850


def test_an_invalid_point_is_refused() -> None:
    data = CurveData()
    with pytest.raises(ValueError, match="step"):
        data.append(NAN, 1.0)
    with pytest.raises(ValueError, match="2 steps and 1 values"):
        data.extend([1, 2], [1.0])
    assert len(data) == 0


# What a plot shows


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40_000),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 300),
    st.randoms(use_true_random=False),
)
def test_no_value_in_view_is_missed_however_narrow_the_plot(
    count: int, start: float, end: float, width: int, random: object
) -> None:
    values = np.random.default_rng(count).normal(size=count)
    values[::7] = NAN
    data = curve(values)
    low, high = sorted((start * count, end * count))
    x, y = data.columns(XAxis.STEP, low, high + 1, width)
    assert len(x) == len(y) <= 2 * width + 7
    assert (np.diff(x) >= 0).all()
    steps = np.arange(count)
    # A block of the pyramid may reach over the edge of the view, by less than a pixel.
    inside = values[(steps >= low) & (steps <= high + 1)]
    if (~np.isnan(inside)).any():
        assert np.nanmin(y) <= np.nanmin(inside)
        assert np.nanmax(y) >= np.nanmax(inside)


def test_a_spike_one_point_wide_in_a_million_is_seen_at_its_place() -> None:
    values = np.zeros(1_000_000)
    values[765_432] = 5.0
    x, y = curve(values).columns(XAxis.STEP, 0, 999_999, 1000)
    assert y.max() == 5.0
    assert abs(x[y.argmax()] - 765_432) <= 1000


def test_a_gap_stays_a_gap_at_every_zoom() -> None:
    values = np.sin(np.arange(100_000) / 1000)
    values[40_000:60_000] = NAN
    data = curve(values)
    for width in (50, 500, 5000, 100_000):
        x, y = data.columns(XAxis.STEP, 0, 99_999, width)
        inner = (x > 40_000 + 100_000 / width) & (x < 60_000 - 100_000 / width)
        assert inner.any()
        assert np.isnan(y[inner]).all()
        assert not np.isnan(y[~inner & ((x < 39_999) | (x > 60_000))]).any()


def test_few_points_are_shown_as_they_are_with_a_neighbour_on_either_side() -> None:
    data = curve(np.arange(100.0))
    x, y = data.columns(XAxis.STEP, 10, 20, 500)
    assert x.tolist() == list(range(9, 22))
    assert y.tolist() == x.tolist()


def test_the_first_and_the_last_point_are_where_they_are() -> None:
    values = np.random.default_rng(0).normal(size=50_001)
    x, y = curve(values).columns(XAxis.STEP, 0, 50_000, 300)
    assert (x[0], x[-1]) == (0, 50_000)
    assert y[-1] == values[-1]
    assert values[0] >= y[:2].min()


def test_nothing_to_show_is_nothing() -> None:
    empty = CurveData()
    for data, x0, x1, width in (
        (empty, 0, 1, 10),
        (curve([1.0]), 5, 5, 10),
        (curve([1.0]), 0, 1, 0),
    ):
        x, y = data.columns(XAxis.STEP, x0, x1, width)
        assert len(x) == len(y) == 0
    assert empty.nearest_point(XAxis.STEP, 0) is None
    assert empty.last_point() is None
    assert empty.x_range(XAxis.STEP) is None


# Reading a value


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=80, unique=True), st.floats(0, 1000))
def test_the_pointer_reads_the_nearest_point(steps: list[float], x: float) -> None:
    steps.sort()
    data = CurveData()
    data.extend(steps, list(range(len(steps))))
    sample = data.nearest_point(XAxis.STEP, x)
    if x < steps[0] or x > steps[-1]:
        assert sample is None
    else:
        assert sample is not None
        assert abs(sample.step - x) == min(abs(step - x) for step in steps)


def test_the_pointer_reads_on_every_axis() -> None:
    data = CurveData()
    data.extend([0, 10, 20], [3.0, 2.0, 1.0], [0.0, 1.0, 2.0], [1000.0, 1060.0, 1120.0])
    for axis, x in ((XAxis.STEP, 11), (XAxis.EPOCH, 1.1), (XAxis.TIME, 61), (XAxis.CLOCK, 1061)):
        sample = data.nearest_point(axis, x)
        assert sample is not None
        assert (sample.step, sample.epoch, sample.raw) == (10, 1.0, 2.0)


def test_the_last_value_is_the_last_finite_one() -> None:
    values = np.full(5000, NAN)
    values[17] = 2.0
    last = curve(values).last_point()
    assert last is not None
    assert (last.index, last.raw) == (17, 2.0)


# What is in view upwards and downwards


def y_range(*series: list[float] | Floats, log: bool = False) -> tuple[float, float]:
    value_range = robust_range([(np.asarray(values, float), True) for values in series], log=log)
    assert value_range is not None
    return value_range


@pytest.mark.parametrize("bad", [1e30, -1e30, 1e300, math.inf, -math.inf, NAN])
def test_one_absurd_value_does_not_blank_the_plot(bad: float) -> None:
    values = np.random.default_rng(0).normal(1.0, 0.1, 500)
    values[250] = bad
    low, high = y_range(values)
    assert 0 < low < 1 < high < 2


@pytest.mark.parametrize("bad", [1e30, math.inf])
def test_a_run_that_diverges_at_once_does_not_blank_the_others(bad: float) -> None:
    well = np.random.default_rng(0).normal(1.0, 0.1, 500)
    _, high = y_range(well, [1.0, 50.0, bad, bad])
    assert 1 < high < 100


def test_the_high_start_of_a_loss_is_never_hidden() -> None:
    steps = np.arange(100_000)
    values = 0.4 + 400 * np.exp(-steps / 50) + np.random.default_rng(0).normal(0, 0.01, 100_000)
    _, y = curve(values).columns(XAxis.STEP, 0, 99_999, 800)
    _, high = y_range(y)
    assert high >= 400


def smooth_curve(point_count: int, start: float, end: float) -> Floats:
    """A decline with noise of 2 % of its height."""
    declining = end + (start - end) * np.exp(-np.linspace(0, 5, point_count))
    noise = np.random.default_rng(point_count).normal(0, 0.02 * abs(start - end), point_count)
    return declining + noise


@given(
    point_count=st.integers(12, 800),
    start=st.floats(1.0, 20.0),
    factor=st.floats(30, 1e12),
    sign=st.sampled_from([-1, 1]),
    position=st.floats(0.02, 1.0),
)
def test_one_spike_does_not_flatten_a_curve(
    point_count: int, start: float, factor: float, sign: int, position: float
) -> None:
    values = smooth_curve(point_count, start, 0.1)
    spiky = values.copy()
    spiky[max(round(position * (point_count - 1)), 1)] = sign * factor * start
    low, high = y_range(spiky)
    assert np.ptp(values) >= 0.3 * (high - low)


@pytest.mark.parametrize(
    "validation",
    [
        [43.0, 11600.0, 900.0, 20.0, 5.0, 2.0, 1.9, 1.5, 1.4, 1.35],
        [2.0, 1.5, 1.3, 1.2, 1.1, 4000.0, 1.0, 1.0],
        [2.0, 1.5, 1.3, 1.2, -1e9],
    ],
)
def test_a_spike_of_the_validation_does_not_flatten_the_training(validation: list[float]) -> None:
    _, high = y_range(smooth_curve(600, 2.5, 0.5), validation)
    assert high < 50


@pytest.mark.parametrize(
    "level",
    [
        [0.1] * 96 + [0.01] * 4,
        [2.0 + 0.01 * (n % 3) for n in range(96)] + [0.5] * 4,
        [1.0] * 60 + [900.0] * 60,
        [0.01] * 30 + [5.0] * 30,
        [2.3, 1.0, 0.99, 0.98, 0.5],
        [1.0, 1.1, 1.4, 1.9, 2.5, 3.0],
        [0.0, 0.0, 0.0, 0.0, 0.9],
    ],
)
def test_a_curve_that_reaches_another_level_is_shown_whole(level: list[float]) -> None:
    low, high = y_range(level)
    assert low <= min(level)
    assert high >= max(level)


def test_a_flat_line_has_room_above_and_below() -> None:
    for value in (0.0, 5.0, -3.0, 1e300, 1e-300):
        low, high = y_range([value] * 10)
        assert low < value < high


@pytest.mark.parametrize("value", [0.18, 1.0, 1234.5, 5e6])
@pytest.mark.parametrize("share", [1e-12, 1e-8, 1e-5])
def test_figures_of_an_axis_differ_however_little_the_values_do(value: float, share: float) -> None:
    bottom, top = y_range([value, value * (1 + share)])
    assert bottom <= value
    assert value * (1 + share) <= top
    figures = [figure for _, figure in ticks.linear(bottom, top)]
    assert len(set(figures)) == len(figures)


def test_a_logarithmic_view_leaves_out_values_without_a_logarithm() -> None:
    low, high = y_range([0.0, -1.0, 10.0, 1000.0], log=True)
    assert (low, high) == (1.0, 3.0)
    assert robust_range([(np.array([0.0, -1.0]), True)], log=True) is None
    assert robust_range([]) is None


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=50), st.booleans())
def test_every_range_is_one_that_can_be_drawn(values: list[float], log: bool) -> None:
    value_range = robust_range([(np.asarray(values, float), True)], log=log)
    if value_range is not None:
        low, high = value_range
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert low < high
