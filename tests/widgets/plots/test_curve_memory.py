"""The memory cost of a million points, smoothed and shown."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from widgets.plots.curve_data import CurveData, XAxis
from widgets.plots.growable_array import GrowableArray

MILLION = 1_000_000


def bytes_of(thing: object, seen: set[int]) -> int:
    """What its arrays have allocated, those of its parts included; a view costs nothing."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes if thing.base is None else bytes_of(thing.base, seen)
    if isinstance(thing, memoryview):
        return bytes_of(thing.obj, seen)
    if isinstance(thing, mmap.mmap):
        return len(thing)
    parts = list(thing) if isinstance(thing, list | tuple) else []
    parts += list(getattr(thing, "__dict__", {}).values())
    parts += [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
    return sum(bytes_of(part, seen) for part in parts)


@pytest.mark.parametrize(("has_places", "bytes_each"), [(False, 13), (True, 30)])
def test_p10_a_point_costs_its_value_and_places_that_must_be_kept(
    has_places: bool, bytes_each: int
) -> None:
    """8 bytes for its value and each such place, 2 for the pyramids; and some for the whole."""
    curve, random = CurveData(0.9), np.random.default_rng(0)
    for first in range(0, MILLION, 10_000):
        steps = first + np.arange(10_000.0)
        places = steps + random.uniform(size=10_000)
        axes = (places / 1000, places) if has_places else ()
        curve.extend(steps, random.normal(size=10_000), *axes)
    for smoothed in (False, True):
        curve.columns(XAxis.STEP, 0, MILLION, 1000, smoothed=smoothed)
    taken = bytes_of(curve, set())
    assert 8 * MILLION < taken < bytes_each * MILLION


def test_many_numbers_are_in_no_heap_where_they_would_leave_a_hole() -> None:
    column = GrowableArray()
    column.extend(np.ones(5_000))
    base: object = column._blocks[0]
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview | mmap.mmap), "these are pages of its own"
