"""The networks of the gallery: built as their sources publish them, and able to learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from backend.training.user_code import load_model
from tests.gallery.figures import gallery_here

GALLERY = gallery_here()
Build = Callable[..., nn.Module]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def build(name: str, **settings: object) -> nn.Module:
        """Return the model of an entry, on the device of the context."""
        folder = tmp_path / "-".join([name, *map(str, settings.values())])
        GALLERY.write(name, {key: str(value) for key, value in settings.items()}, folder)
        return load_model(folder)

    return build


@pytest.mark.parametrize(
    ("settings", "at", "is_"),
    [
        ({"activation": "relu"}, (-1.0, 0.0, 2.0), (0.0, 0.0, 2.0)),
        ({"activation": "leaky"}, (-7.5, 0.0, 2.0), (-1.0, 0.0, 2.0)),
        ({"activation": "leaky", "a": 100}, (-100.0, 2.0), (-1.0, 2.0)),
        ({"activation": "prelu"}, (-4.0, 0.0, 2.0), (-1.0, 0.0, 2.0)),
        # The mean of 1/8 and 1/3.
        ({"activation": "rrelu"}, (-48.0, 0.0, 2.0), (-11.0, 0.0, 2.0)),
        ({"activation": "sigmoid"}, (-40.0, 0.0, 40.0), (0.0, 0.5, 1.0)),
        ({"activation": "tanh"}, (-20.0, 0.0, 20.0), (-1.0, 0.0, 1.0)),
        ({"activation": "sigmoid-star"}, (-40.0, 0.0, 40.0), (-2.0, 0.0, 2.0)),
        ({"activation": "none"}, (-3.0, 0.0, 2.0), (-3.0, 0.0, 2.0)),
    ],
)
def test_an_activation_in_evaluation(
    build: Build, settings: dict[str, object], at: tuple[float, ...], is_: tuple[float, ...]
) -> None:
    model = build("tiny-cifar-10", **settings).eval()
    act = model.get_submodule("first")[-1]  # type: ignore[index]
    assert act(torch.tensor(at)).tolist() == pytest.approx(is_, abs=1e-6)


def test_the_slope_of_rrelu_is_drawn_in_training_from_an_eighth_to_a_third(build: Build) -> None:
    act = build("tiny-cifar-10", activation="rrelu").train().get_submodule("first")[-1]  # type: ignore[index]
    slopes = -act(-torch.ones(1000))
    assert 1 / 8 <= slopes.min() < 0.14
    assert 0.32 < slopes.max() <= 1 / 3


def test_sigmoid_star_has_slope_1_at_0_where_sigmoid_has_a_quarter(build: Build) -> None:
    for name, slope in (("sigmoid", 0.25), ("sigmoid-star", 1.0), ("tanh", 1.0)):
        act = build("tiny-cifar-10", activation=name).get_submodule("first")[-1]  # type: ignore[index]
        at = torch.zeros(1, requires_grad=True)
        act(at).backward()
        assert at.grad is not None
        assert at.grad.item() == pytest.approx(slope)
