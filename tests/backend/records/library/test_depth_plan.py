"""The depth planner against all plans by brute force, and as properties of random plans."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.library.depth_plan import (
    LEAST_C,
    MOST_KERNEL,
    MOST_SIDE,
    DepthPlan,
    c_value,
    plan_depth,
)

MOST_USED = 26
"""The brute force takes all plans whose weighted sum is at most this."""
VALUES = tuple(Fraction(text) for text in ("1", "3/4", "0.6", "1/2", "1/3", "0.3", "1/6"))


def is_feasible(
    plan: tuple[int, ...], side: int, kernel: int, least_c: Fraction, *, as_printed: bool
) -> bool:
    """Both conditions of the source, written as they are printed."""
    sums = [sum(a * 2**i for i, a in enumerate(plan[:stage])) for stage in range(1, len(plan) + 1)]
    right = Fraction(kernel) / (least_c * (kernel - 1))
    return all(
        partial_sum <= Fraction(2) ** (stage - (not as_printed)) * right
        for stage, partial_sum in enumerate(sums, 1)
    ) and sums[-1] <= Fraction(side, kernel - 1)


def all_plans(
    side: int,
    kernel: int,
    least_c: Fraction,
    *,
    as_printed: bool,
    first_stages: tuple[int, ...] = (),
) -> Iterator[tuple[int, ...]]:
    """Every feasible plan that begins so: each stage has at least one convolution."""
    for convolutions in count(1):
        plan = (*first_stages, convolutions)
        if not is_feasible(plan, side, kernel, least_c, as_printed=as_printed):
            return
        yield plan
        yield from all_plans(side, kernel, least_c, as_printed=as_printed, first_stages=plan)


def stages_of(plan: DepthPlan) -> tuple[int, ...]:
    return tuple(stage.convolutions for stage in plan.stages)


@pytest.mark.parametrize("as_printed", [False, True])
@pytest.mark.parametrize("kernel", [2, 3, 4, 5, 7])
def test_no_plan_is_deeper(kernel: int, as_printed: bool) -> None:
    sides = [kernel, *range(kernel + 1, MOST_USED * (kernel - 1), max(kernel - 2, 2))]
    for side in sides:
        for least_c in VALUES:
            stages = stages_of(plan_depth(side, kernel, least_c, as_printed=as_printed))
            plans = list(all_plans(side, kernel, least_c, as_printed=as_printed))
            deepest = max(map(sum, plans))
            assert sum(stages) == deepest, (side, least_c)
            assert stages == max(plan for plan in plans if sum(plan) == deepest)


@given(
    kernel=st.integers(2, MOST_KERNEL),
    convolutions=st.integers(0, MOST_SIDE - MOST_KERNEL),
    least_c=st.fractions(Fraction(1, 100), 1, max_denominator=1000),
    as_printed=st.booleans(),
)
def test_a_plan_is_feasible_and_no_neighbour_is_deeper(
    kernel: int, convolutions: int, least_c: Fraction, as_printed: bool
) -> None:
    side = kernel + convolutions
    plan = plan_depth(side, kernel, least_c, as_printed=as_printed)
    stages = stages_of(plan)
    assert (plan.depth, plan.least_c) == (sum(stages), float(least_c))
    assert min(stages) > 0
    assert is_feasible(stages, side, kernel, least_c, as_printed=as_printed)
    assert plan.stages[-1].receptive_field <= side
    lowest = float(least_c) * (0.5 if as_printed else 1) - 1e-9
    assert all(stage.c_value >= lowest for stage in plan.stages)
    # Neighbours: one convolution more, and two more in exchange for one of another stage.
    positions = range(len(stages) + 1)
    changes = [{index: 1} for index in positions]
    changes += [
        {index: 2, other_index: -1}
        for index in positions
        for other_index in positions
        if index != other_index
    ]
    for change in changes:
        changed = [a + change.get(i, 0) for i, a in enumerate((*stages, 0))]
        neighbour = tuple(changed if changed[-1] else changed[:-1])
        if min(neighbour) > 0:
            assert not is_feasible(neighbour, side, kernel, least_c, as_printed=as_printed)


@pytest.mark.parametrize("as_printed", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_relaxed_optimum_of_the_source_is_met_where_it_is_whole(
    m: int, as_printed: bool
) -> None:
    """For k = 3 and t = 1/4: a₁ = k / ((k−1) t) = 6 of the right side, the others half of it.

    As printed, the right side gives twice as many: the two formulas of the source disagree.
    """
    side = 2 ** (m - 1) * 3 * 4 * (2 if as_printed else 1)
    first = 12 if as_printed else 6
    stages = plan_depth(side, 3, Fraction(1, 4), as_printed=as_printed)
    assert stages_of(stages) == (first, *(first // 2,) * (m - 1))


def test_the_figures_of_a_plan_are_those_of_its_last_convolutions() -> None:
    plan = plan_depth(128, 3)
    assert plan.text == "9-4-4-3"
    assert [stage.side for stage in plan.stages] == [128, 64, 32, 16]
    assert [stage.receptive_field for stage in plan.stages] == [18, 34, 66, 114]
    assert plan.stages[0].c_value == pytest.approx(3 / 18)
    assert plan.settings == {"side": "128", "kernel": "3", "stages": "9-4-4-3"}


@pytest.mark.parametrize(
    ("side", "kernel", "least_c", "message"),
    [
        (32, 1, "1/6", "A kernel of 1 sees no neighbours and sets no limit: take 2 or more."),
        (32, 0, "1/6", "A kernel of 0"),
        (32, -3, "1/6", "A kernel of -3"),
        (4, 5, "1/6", "A side of 4 is smaller than the kernel of 5"),
        (8193, 3, "1/6", "A side of 8193 is too large: take 8192 or less."),
        (8192, 100, "1/6", "A kernel of 100 is too large"),
        (32, 3, "0", "must be from 1/100 to 1, not 0."),
        (32, 3, "-1/6", "must be from 1/100 to 1, not -1/6."),
        (32, 3, "1.5", "must be from 1/100 to 1, not 3/2."),
        (32, 3, "1/1000", "must be from 1/100 to 1"),
        (32, 3, "1/0", "“1/0” is no number such as 1/6 or 0.2."),
        (32, 3, "nan", "“nan” is no number"),
        (32, 3, "", "“” is no number"),
    ],
)
def test_the_refusal_of_a_plan_is_one_sentence(
    side: int, kernel: int, least_c: str, message: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        plan_depth(side, kernel, c_value(least_c))
    assert message in str(caught.value)


def test_the_default_c_value_is_that_of_the_source() -> None:
    assert Fraction(1, 6) == LEAST_C
