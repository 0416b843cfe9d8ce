"""Slow ranks: a rank is slow when it delays the others, and never by short noise."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.training.step_times import STEPS, SlowRanks

RANKS = st.integers(2, 8)
RANDOM = st.integers(0, 2**32).map(Random)


def ever_slow_ranks(steps: Sequence[Sequence[float]]) -> set[int]:
    """Every rank that was called slow at any flush, each of ten steps."""
    judge = SlowRanks()
    slow_ranks: set[int] = set()
    for first in range(0, len(steps), 10):
        judge.add_steps(steps[first : first + 10])
        slow_ranks |= set(judge.slow_ranks())
    return slow_ranks


@settings(max_examples=20)
@given(RANKS, RANDOM, st.integers(1, 80), st.sampled_from((27.0, 60.0, 900.0)))
def test_ranks_that_take_turns_at_being_the_slower_one_are_no_alarm(
    ranks: int, random: Random, turn: int, slow_ms: float
) -> None:
    steps: list[list[float]] = []
    slow_rank = 0
    while len(steps) < 3 * STEPS:
        slow_rank = (slow_rank + random.randrange(1, ranks)) % ranks
        step = [slow_ms if rank == slow_rank else 18.0 for rank in range(ranks)]
        steps += [step] * random.randint(1, turn)
    assert ever_slow_ranks(steps) == set()


@settings(max_examples=20)
@given(RANKS, RANDOM)
def test_18_and_27_ms_are_the_noise_of_one_computer(ranks: int, random: Random) -> None:
    noisy_steps = [[random.uniform(18, 27) for _ in range(ranks)] for _ in range(2 * STEPS)]
    assert ever_slow_ranks(noisy_steps) == set()
    lasting_steps = [[27.0, *[18.0] * (ranks - 1)]] * (2 * STEPS)
    assert ever_slow_ranks(lasting_steps) == set()


@settings(max_examples=20)
@given(RANKS, RANDOM, st.floats(12, 5000))
def test_a_gpu_at_half_its_clock_is_slow_from_100_steps_on(
    ranks: int, random: Random, step_ms: float
) -> None:
    slow_rank = random.randrange(ranks)
    steps = [
        [
            step_ms * random.uniform(0.97, 1.03) * (2 if rank == slow_rank else 1)
            for rank in range(ranks)
        ]
        for _ in range(STEPS)
    ]
    for number in random.sample(range(STEPS), 10):
        # Now and then all wait for a disk.
        steps[number] = [time + 10 * step_ms for time in steps[number]]
    assert ever_slow_ranks(steps[:-10]) == set()
    assert ever_slow_ranks(steps) == {slow_rank}


@pytest.mark.parametrize(
    ("times", "slow_ranks"),
    [
        ((100.0, 140.0), (1,)),
        ((100.0, 115.0), ()),
        ((1000.0, 1060.0), (1,)),
        ((1000.0, 1040.0), ()),
        ((100.0, 101.0, 99.0, 180.0), (3,)),
        ((200.0, 200.0, 100.0, 100.0), (0, 1)),
        ((100.0,), ()),
        ((0.0, 0.0), ()),
    ],
)
def test_a_rank_is_slow_by_50_ms_or_by_a_fifth_of_a_step(
    times: tuple[float, ...], slow_ranks: tuple[int, ...]
) -> None:
    judge = SlowRanks()
    judge.add_steps([times] * STEPS)
    assert judge.slow_ranks() == slow_ranks
    assert judge.step_ms() == times


def test_a_slow_rank_recovers_after_some_good_steps() -> None:
    judge = SlowRanks()
    judge.add_steps([(100.0, 200.0)] * STEPS)
    judge.add_steps([(100.0, 100.0)] * 11)
    assert judge.slow_ranks() == ()
