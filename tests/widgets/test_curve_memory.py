"""What a million points cost, smoothed and looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_MILLION = """
import gc, sys
import numpy as np
from app.memory import keep_heaps_small
from tests.app.test_freed_memory import resident_bytes
from widgets.curves.curve_data import CurveData, XAxis

assert keep_heaps_small()

def fed(count):
    curve, random = CurveData(0.9), np.random.default_rng(0)
    for first in range(0, count, 10_000):
        steps = first + np.arange(10_000.0)
        places = steps + random.uniform(size=10_000)
        told = (places / 1000, places) if sys.argv[1] == "told" else ()
        curve.extend(steps, random.normal(size=10_000), *told)
    for smoothed in (False, True):
        curve.columns(XAxis.STEP, 0, count, 1000, smoothed=smoothed)
    return curve

fed(10_000)
before = resident_bytes()
curve = fed(1_000_000)
gc.collect()
print(resident_bytes() - before)
"""


@pytest.mark.parametrize(("axes", "bytes_each"), [("untold", 13), ("told", 30)])
def test_p10_a_point_costs_its_value_and_places_that_must_be_kept(
    axes: str, bytes_each: int
) -> None:
    """8 bytes for its value and each such place, 2 for the pyramids; and some for the whole."""
    command = [sys.executable, "-c", _MILLION, axes]
    told = subprocess.run(
        command, cwd=Path(__file__).parents[2], check=True, stdout=subprocess.PIPE
    )
    assert int(told.stdout) < 1_000_000 * bytes_each
