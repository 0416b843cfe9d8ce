"""Numbers that grow in blocks, and those of an axis, answer as one array of them would."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.plots.growable_array import Floats, GrowableArray
from widgets.plots.monotonic_axis import MonotonicAxis

STEP = st.sampled_from([0.0, 1.0, 1.0, 1.0, 0.1, 7.0, 1e9])
RUN = st.tuples(STEP, st.integers(1, 40))
"""So many numbers, each at this distance from the one before it."""


def rising(untold: int, runs: list[tuple[float, int]], start: float) -> Floats:
    gaps = np.concatenate([np.full(count, gap) for gap, count in runs])
    return np.concatenate((np.full(untold, math.nan), start + np.cumsum(gaps)))


@settings(max_examples=200)
@given(
    st.integers(0, 20),
    st.lists(RUN, min_size=1, max_size=6),
    st.floats(-1e6, 1e6),
    st.integers(1, 30),
    st.lists(st.integers(0, 300), max_size=4),
)
def test_places_on_an_axis_are_those_of_one_array(
    nan_count: int, runs: list[tuple[float, int]], start: float, chunk_size: int, backs: list[int]
) -> None:
    positions = rising(nan_count, runs, start)
    axis, expected = MonotonicAxis(), np.empty(0)
    for chunk_start in range(0, len(positions), chunk_size):
        axis.extend(positions[chunk_start : chunk_start + chunk_size])
        expected = np.concatenate((expected, positions[chunk_start : chunk_start + chunk_size]))
        if backs:
            size = min(backs.pop(), axis.size)
            axis.shorten(size)
            # What went comes again, as in a run that is resumed.
            axis.extend(expected[size:])
    np.testing.assert_array_equal(axis.values, expected)
    assert axis.nan_count == nan_count
    assert axis.last_value == expected[-1]
    assert axis.first_value == expected[nan_count]
    every = np.arange(0, len(expected), 3)
    np.testing.assert_array_equal(axis.take(every), expected[every])
    np.testing.assert_array_equal(
        [axis.value_at(index) for index in every.tolist()], expected[every]
    )
    half_count = len(expected) // 2
    np.testing.assert_array_equal(axis.cut(half_count, len(expected)), expected[half_count:])
    np.testing.assert_array_equal(axis.cut(1, half_count), expected[1:half_count])
    for position in (
        *expected[nan_count:].tolist(),
        start - 1,
        expected[-1] + 1,
        expected[-1] - 0.05,
    ):
        for side in ("left", "right"):
            expected_index = nan_count + int(np.searchsorted(expected[nan_count:], position, side))
            assert axis.find(position, side) == expected_index


def test_even_and_missing_places_are_not_stored() -> None:
    axis = MonotonicAxis()
    axis.extend(np.full(1_000_000, math.nan))
    axis.extend(np.arange(1_000_000.0))
    assert axis._column.size == 0
    assert axis.find(5.0, "left") == 1_000_005


def test_the_largest_and_smallest_numbers_are_places() -> None:
    axis = MonotonicAxis()
    for position in (-1.5e308, 1.5e308):
        axis.extend(np.array([position]))
    assert axis.values.tolist() == [-1.5e308, 1.5e308]
    assert (axis.first_value, axis.find(0.0, "left")) == (-1.5e308, 1)


@pytest.mark.parametrize("chunk_size", [1000, 65_536, 200_000])
def test_a_column_of_many_blocks_is_one_array(chunk_size: int) -> None:
    expected = np.sort(np.random.default_rng(0).normal(size=200_000))
    column = GrowableArray()
    for start in range(0, len(expected), chunk_size):
        column.extend(expected[start : start + chunk_size])
    column.shorten(140_000)
    column.extend(expected[140_000:])
    np.testing.assert_array_equal(column.values, expected)
    np.testing.assert_array_equal(column.cut(65_000, 131_073), expected[65_000:131_073])
    np.testing.assert_array_equal(column.cut(65_536, 65_536), [])
    every = np.arange(0, 200_000, 77)
    np.testing.assert_array_equal(column.take(every), expected[every])
    for index in (0, 65_535, 65_536, 199_999):
        assert column.value_at(index) == expected[index]
        assert column.find(expected[index], "left") == index
        assert column.find(expected[index], "right") == index + 1
    assert (column.find(-10.0, "left"), column.find(10.0, "right")) == (0, 200_000)
    column.shorten(65_536)
    assert (column.last_value, column.find(10.0, "left")) == (expected[65_535], 65_536)
