"""A history takes each step once and none backward, however a program counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.training.script_metrics import Point
from backend.training.script_steps import StepOrder

POINTS = st.lists(
    st.builds(
        Point,
        st.integers(0, 30),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from("abc"), st.floats(0, 1), min_size=1),
    )
)


def taken(*batches: list[Point]) -> list[Point]:
    order = StepOrder()
    return [one for batch in batches for one in order.take(batch)] + order.take((), is_over=True)


@pytest.mark.parametrize(
    ("batches", "steps"),
    [
        ([[(9, "a"), (9, "b")]], [(9, "ab")]),
        ([[(9, "a")], [(9, "b"), (10, "a")]], [(9, "ab"), (10, "a")]),
        ([[(9, "a")], [], [(9, "b")]], [(9, "a"), (10, "b")]),
        ([[(9, "a")], [(1, "b")]], [(9, "ab")]),
        ([[(3, "a"), (1, "b"), (2, "b")]], [(1, "b"), (2, "b"), (3, "a")]),
        ([[(0, "a")], []], [(0, "a")]),
        ([[]], []),
    ],
)
def test_the_points_of_a_step_are_one(
    batches: list[list[tuple[int, str]]], steps: list[tuple[int, str]]
) -> None:
    found = taken(*([Point(step, 0, {name: 1.0}) for step, name in one] for one in batches))
    assert [(one.step, "".join(sorted(one.metrics))) for one in found] == steps


@given(st.lists(POINTS, max_size=5))
def test_no_step_comes_twice_and_no_metric_is_lost(batches: list[list[Point]]) -> None:
    found = taken(*batches)
    steps = [one.step for one in found]
    assert steps == sorted(set(steps))
    names = {name for one in found for name in one.metrics}
    assert names == {name for batch in batches for one in batch for name in one.metrics}
