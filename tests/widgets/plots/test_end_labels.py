"""Names at the ends of curves: each at its point, none over another."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from widgets.plots.end_labels import spread_labels


@given(st.lists(st.floats(-50, 350), max_size=12))
def test_names_never_cover_each_other_and_keep_their_order(targets: list[float]) -> None:
    height, low, high = 16.0, 0.0, 300.0
    positions = spread_labels(targets, height, low, high)
    order = sorted(range(len(targets)), key=lambda i: targets[i])
    stacked = [positions[i] for i in order]
    assert all(b - a >= height - 1e-6 for a, b in itertools.pairwise(stacked))
    if len(targets) * height <= high - low:
        assert all(low <= position - height / 2 + 1e-6 for position in positions)
        assert all(position + height / 2 - 1e-6 <= high for position in positions)


@given(st.floats(10, 290))
def test_a_name_alone_stands_at_its_point(target: float) -> None:
    assert spread_labels([target], 16, 0, 300) == [min(max(target, 8), 292)]
