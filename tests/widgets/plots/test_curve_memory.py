"""The memory cost of a million points, smoothed and shown."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.growable_array import GrowableArray

MILLION = 1_000_000


def bytes_of(value: object, counted_ids: set[int]) -> int:
    """Return the bytes of all arrays of a value and its parts; a view costs nothing."""
    if id(value) in counted_ids:
        return 0
    counted_ids.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else bytes_of(value.base, counted_ids)
    if isinstance(value, memoryview):
        return bytes_of(value.obj, counted_ids)
    if isinstance(value, mmap.mmap):
        return len(value)
    parts = list(value) if isinstance(value, list | tuple) else []
    parts += list(getattr(value, "__dict__", {}).values())
    parts += [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return sum(bytes_of(part, counted_ids) for part in parts)


@pytest.mark.parametrize(("has_places", "bytes_each"), [(False, 13), (True, 30)])
def test_p10_a_point_costs_its_value_and_places_that_must_be_kept(
    has_places: bool, bytes_each: int
) -> None:
    """8 bytes for its value and each such place, 2 for the pyramids; and some for the whole."""
    curve, random = CurveData(0.9), np.random.default_rng(0)
    for first in range(0, MILLION, 10_000):
        steps = first + np.arange(10_000.0)
        positions = steps + random.uniform(size=10_000)
        axes = (positions / 1000, positions) if has_places else ()
        curve.extend(steps, random.normal(size=10_000), *axes)
    for smoothed in (False, True):
        curve.columns(XAxis.STEP, 0, MILLION, 1000, is_smoothed=smoothed)
    used_bytes = bytes_of(curve, set())
    assert 8 * MILLION < used_bytes < bytes_each * MILLION


def test_many_numbers_are_in_no_heap_where_they_would_leave_a_hole() -> None:
    column = GrowableArray()
    column.extend(np.ones(5_000))
    base: object = column._blocks[0]
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview | mmap.mmap), "these are pages of its own"
