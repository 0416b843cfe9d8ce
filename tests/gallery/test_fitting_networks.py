"""The gallery offers the networks that fit the task and the size of the data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.library.gallery import DataShape, GalleryEntry
from backend.records.library.item import Kind
from tests.gallery.figures import SERVICE

MODELS = SERVICE.list(Kind.MODEL)
sizes = st.dictionaries(
    st.sampled_from(["classes", "channels", "side", "features"]), st.integers(1, 4000)
)
shapes = st.builds(
    DataShape, st.sampled_from(["", "classification", "detection", "regression"]), sizes
)


def first(shape: DataShape) -> GalleryEntry:
    return min(MODELS, key=shape.sort_key)


@pytest.mark.parametrize(
    ("task", "data", "name"),
    [
        ("classification", {"classes": 4, "channels": 3, "side": 64}, "lenet-5"),
        ("classification", {"classes": 10, "channels": 1, "side": 28}, "lenet-5"),
        ("classification", {"classes": 10, "channels": 1}, "lenet-5"),
        ("classification", {"classes": 1000, "channels": 3, "side": 128}, "resnet-18"),
        ("classification", {"classes": 9, "channels": 3, "side": 1024}, "resnet-18"),
        ("classification", {"classes": 10, "channels": 1, "side": 8}, "mlp"),
        ("classification", {"classes": 3, "features": 13}, "mlp"),
        ("", {"features": 13}, "mlp"),
        ("regression", {"features": 13}, "mlp-numbers"),
        ("detection", {"classes": 80, "channels": 3, "side": 256}, "retinanet"),
        ("detection", {"channels": 3, "side": 256}, "retinanet"),
        ("", {}, "lenet-5"),
    ],
)
def test_the_first_network_is_made_for_the_data(task: str, data: dict[str, int], name: str) -> None:
    assert first(DataShape(task, data)).name == name


@given(shapes)
def test_what_is_said_to_fit_takes_the_settings_of_the_data(shape: DataShape) -> None:
    for entry in MODELS:
        settings = {key: str(value) for key, value in shape.settings(entry.card).items()}
        if not shape.misfit_reason(entry.card):
            entry.card.values(settings)
            assert shape.task in ("", entry.card.task)
    assert not shape.misfit_reason(first(shape).card) or all(
        shape.misfit_reason(e.card) for e in MODELS
    )


def test_each_misfit_has_its_reason() -> None:
    boxes = DataShape("detection", {"classes": 3, "channels": 3, "side": 256})
    table = DataShape("classification", {"classes": 3, "features": 13})
    large_shape = DataShape("classification", {"classes": 3, "channels": 3, "side": 300})
    small_shape = DataShape("classification", {"classes": 3, "channels": 2, "side": 32})
    reasons = [
        (boxes, "mlp", "Not for detection"),
        (table, "resnet-18", "For pictures, not for tables"),
        (table, "retinanet", "Not for classification"),
        (large_shape, "lenet-5", "Side 300 does not fit"),
        (small_shape, "resnet-18", "Channels 2 does not fit"),
        (table, "mlp", ""),
    ]
    for shape, name, reason in reasons:
        assert shape.misfit_reason(SERVICE.show(name).card) == reason
