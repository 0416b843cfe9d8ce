"""Every list has a picture of itself empty, while it is read, when it cannot be read, and huge."""

from __future__ import annotations

import pytest

from tests.pictures import screens  # noqa: F401 - fills the gallery
from tests.pictures.gallery import SCREENS

EMPTY, READING, FAILED, HUGE = "empty", "reading", "failed", "huge"
LISTS = {
    "jobs": ("first-start", "jobs-reading", "jobs-unreadable", "jobs-huge"),
    # One page stands for list and table until it is known what there is.
    "jobs as a table": (
        "jobs-table-no-match", "jobs-reading", "jobs-unreadable", "jobs-table-huge"
    ),
    "datasets": ("datasets-empty", "datasets-reading", "datasets-unreadable", "datasets-huge"),
    "models": ("models-empty", "models-reading", "models-unreadable", "models-huge"),
    "loaders": ("loaders-empty", "loaders-reading", "loaders-unreadable", "loaders-huge"),
    "checkpoints": (
        "checkpoints-empty", "checkpoints-reading", "checkpoints-unreadable", "checkpoints-huge"
    ),
    "a log": ("log-empty", "log-reading", "log-unreadable", "log-huge"),
    "samples": ("dataset-no-numbers", "dataset-reading", "dataset-refused", "dataset-classes-100"),
    "checks of a model": ("models-empty", "models-reading", "model-refused", "model"),
    "jobs compared": ("compare-empty", "compare-reading", "compare-gone", "compare-8"),
    # Notices, keys and what the palette finds are in memory: nothing is read, nothing can fail.
    "notices": ("notices-empty", "notices", "notices", "notices-huge"),
    "what the palette finds": ("palette-nothing", "palette", "palette", "palette"),
}  # fmt: skip
"""The screens of each list: empty, while it is read, when it cannot be read, huge."""


@pytest.mark.parametrize("state", [EMPTY, READING, FAILED, HUGE])
@pytest.mark.parametrize("name", LISTS)
def test_each_state_of_a_list_is_in_the_picture_set(name: str, state: str) -> None:
    screen = LISTS[name][(EMPTY, READING, FAILED, HUGE).index(state)]
    assert screen in SCREENS, f"{name}, {state}"
