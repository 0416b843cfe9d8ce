"""The soak in small: the real window, files by the real writers, a person who uses it."""

from __future__ import annotations

import random

import pytest

from tests.benchmarks.soak import slope_of, soak

SECONDS = 12.0
NODES, JOBS, ENDED = 8, 4, 6


@pytest.mark.slow
def test_a_window_in_use_sees_every_node_and_job_and_leaves_no_file_open():
    told = soak(SECONDS, NODES, JOBS, life_s=60.0, ended=ENDED)
    assert told["nodes"] == NODES + 1, "this computer is one more"
    assert told["jobs"] >= JOBS + ENDED
    assert told["acts"] >= 10
    samples = told["memory"]
    assert samples[-1][2] <= 50, "files stay open"
    assert samples[-1][3] <= 60, "threads are never ended"


def test_a_leak_is_a_slope_and_noise_is_none():
    noise = random.Random(1)
    seconds = [5.0 * number for number in range(300)]
    still = [200 + noise.gauss(0, 1) for _ in seconds]
    leaking = [value + at / 3600 * 20 for at, value in zip(seconds, still, strict=True)]
    assert slope_of(seconds, still).is_zero
    found = slope_of(seconds, leaking)
    assert not found.is_zero
    assert abs(found.per_hour - 20) < found.error + 1


def test_memory_that_goes_in_steps_has_a_wide_error():
    """Each sample is like the one before it: 300 of them tell less than 300 that are not."""
    noise = random.Random(2)
    seconds = [5.0 * number for number in range(300)]
    level, steps = 200.0, []
    for _ in seconds:
        level = 200 + 0.95 * (level - 200) + noise.gauss(0, 0.3)
        steps.append(level)
    plain = slope_of(seconds, [200 + noise.gauss(0, 1) for _ in seconds])
    assert slope_of(seconds, steps).error > 3 * plain.error
