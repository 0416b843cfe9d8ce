"""Names of metrics: a user may call one anything, and none takes the place of another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.metric_names import OWN_NAMES, VALIDATION, headings, name_of_user_metric

OWN_METRICS = (*OWN_NAMES, "step", "epoch", f"{VALIDATION}loss", f"{VALIDATION}accuracy")
NAMES = st.lists(
    st.sampled_from((*OWN_METRICS, "user/", "user/user/", "x", "=1+1", "'=1+1")), max_size=4
)


@pytest.mark.parametrize("name", OWN_METRICS)
def test_a_users_metric_never_has_a_name_of_the_program(name: str) -> None:
    assert name_of_user_metric(name) == f"user/{name}"
    assert name_of_user_metric(f"user/{name}") == f"user/user/{name}"


@pytest.mark.parametrize("name", ["accuracy", "user/accuracy", "Loss", "validation", "", "=1+1"])
def test_a_free_name_stays(name: str) -> None:
    assert name_of_user_metric(name) == name


@given(NAMES.map("".join), NAMES.map("".join))
def test_two_names_never_become_one(name_a: str, name_b: str) -> None:
    assert (name_of_user_metric(name_a) == name_of_user_metric(name_b)) == (name_a == name_b)


@given(st.lists(NAMES.map("".join), unique=True))
def test_each_column_of_a_table_has_a_heading_of_its_own_and_none_is_a_formula(
    names: list[str],
) -> None:
    titles = headings(("step", "epoch"), names)
    assert len(set(titles)) == len(titles) == len(names) + 2
    assert not any(heading.startswith("=") for heading in titles)
