"""The soak in small: the real window, files by the real writers, a user who works in it."""

from __future__ import annotations

import math
import random

import pytest

from tests.benchmarks.soak import least_of_each_minute, slope_of, soak

SECONDS = 12.0
NODES, JOBS, ENDED_JOBS = 8, 4, 6
WARM_ACTS = 30


@pytest.mark.slow
def test_a_window_in_use_sees_every_node_and_job_and_leaves_no_file_open():
    result = soak(SECONDS, NODES, JOBS, life_s=20.0, ended_jobs=ENDED_JOBS, warm_acts=WARM_ACTS)
    assert result["nodes"] == NODES + 1, "this computer is one more"
    assert abs(result["jobs"] - JOBS - ENDED_JOBS) <= 1, "a job that ends is followed by another"
    assert result["acts"] >= 10
    samples = result["memory"]
    assert samples[-1][2] <= 50, "files stay open"
    assert samples[-1][3] <= 60, "threads are never ended"


def test_a_leak_is_a_slope_and_noise_is_none():
    noise = random.Random(1)
    seconds = [5.0 * number for number in range(300)]
    flat_values = [200 + noise.gauss(0, 1) for _ in seconds]
    leaking_values = [
        value + time_s / 3600 * 20 for time_s, value in zip(seconds, flat_values, strict=True)
    ]
    assert slope_of(seconds, flat_values).is_zero
    slope = slope_of(seconds, leaking_values)
    assert not slope.is_zero
    assert abs(slope.per_hour - 20) < slope.error + 1


def test_memory_that_goes_in_steps_has_a_wide_error():
    """Each sample is like the one before it: 300 of them say less than 300 that are not."""
    noise = random.Random(2)
    seconds = [5.0 * number for number in range(300)]
    level, steps = 200.0, []
    for _ in seconds:
        level = 200 + 0.95 * (level - 200) + noise.gauss(0, 0.3)
        steps.append(level)
    plain = slope_of(seconds, [200 + noise.gauss(0, 1) for _ in seconds])
    assert slope_of(seconds, steps).error > 3 * plain.error


@pytest.mark.parametrize(
    ("leak_mb_per_hour", "min_count", "max_count"), [(0.0, 0, 15), (15.0, 95, 100)]
)
def test_noise_within_a_minute_makes_no_slope_and_hides_none(
    leak_mb_per_hour, min_count, max_count
):
    slope_count = 0
    for number in range(100):
        noise = random.Random(number)
        seconds = [5.0 * sample for sample in range(360)]
        likeness, level, values = math.exp(-5 / 60), noise.gauss(0, 1.2), []
        for at_s in seconds:
            level = likeness * level + math.sqrt(1 - likeness**2) * noise.gauss(0, 1.2)
            leaked = leak_mb_per_hour * at_s / 3600
            values.append(250 + level + abs(noise.gauss(0, 1.2)) + leaked)
        slope_count += not slope_of(*least_of_each_minute(seconds, values)).is_zero
    assert min_count <= slope_count <= max_count


def test_an_incomplete_minute_has_no_minimum():
    seconds, values = [2.0, 30.0, 59.0, 61.0, 119.0, 121.0], [3.0, 1.0, 2.0, 4.0, 5.0, 9.0]
    assert least_of_each_minute(seconds, values) == ([30.0, 90.0], [1.0, 4.0])
