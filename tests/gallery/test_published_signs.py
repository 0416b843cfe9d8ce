"""The comparisons of the studies whose sign held with every seed: see ``docs/studies``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from backend.services.library.gallery import GALLERY
from backend.training.user_code import load_loader
from tests.gallery.figures import SERVICE, build

FILES = GALLERY / "digits/dataset"
BATCH = 16


def digits(folder: Path, **settings: object) -> tuple[Any, Any]:
    """Return the built-in digits for training and for validation."""
    SERVICE.write("digits-resized", {key: str(x) for key, x in settings.items()}, folder)
    loader = load_loader(folder)
    return tuple(x.user_dataset for x in (loader.training(FILES), loader.validation(FILES)))  # type: ignore[return-value]


def gradients(activation: str) -> tuple[float, float]:
    """Return the sizes of the gradients of the first and the last convolution, untrained."""
    torch.manual_seed(1)
    model: Any = build("plain-deep", activation=activation)
    model.loss(model(torch.rand(32, 1, 8, 8)), torch.arange(32) % 10).backward()
    weight_gradients = [
        module.weight.grad for module in model.modules() if isinstance(module, torch.nn.Conv2d)
    ]
    return float(weight_gradients[0].norm()), float(weight_gradients[-1].norm())


def error(folder: Path, name: str, epochs: int, **settings: object) -> float:
    """Return the validation error in percent after some epochs of 719 digits."""
    training, validation = digits(folder / "loader", validation_share=0.6)
    torch.manual_seed(1)
    model: Any = build(name, channels=1, side=8, **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(epochs):
        for batch in torch.randperm(len(training)).split(BATCH)[:-1]:
            optimizer.zero_grad()
            model.loss(model(training.pictures[batch]), training.digits[batch]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = model.metrics(model(validation.pictures), validation.digits)["accuracy"]
    return 100 * (1 - float(right))


@pytest.mark.parametrize(("side", "share"), [(8, 0.2), (8, 0.6), (28, 0.2), (17, 0.01)])
def test_the_digits_have_any_size_and_no_picture_is_in_both_sets(
    tmp_path: Path, side: int, share: float
) -> None:
    training, validation = digits(tmp_path / "code", side=side, validation_share=share)
    assert (len(training) + len(validation), len(validation)) == (1797, int(1797 * share))
    picture, digit = training[0]
    assert (picture.shape, digit.dtype) == ((1, side, side), torch.int64)
    assert 0 <= picture.min() < picture.max() <= 1
    picture_sets = [
        {pixels.numpy().tobytes() for pixels in data.pictures} for data in (training, validation)
    ]
    assert picture_sets[0].isdisjoint(picture_sets[1])


def test_the_gradient_of_sigmoid_is_lost_on_its_way_through_a_deep_network() -> None:
    first, last = gradients("sigmoid")
    assert first < 1e-6 * last
    for activation in ("sigmoid-star", "tanh", "relu", "rrelu"):
        first, last = gradients(activation)
        assert first > 0.01 * last, activation


def test_two_paths_of_n_filters_are_one_path_of_2n() -> None:
    outputs = []
    for variant in "BF":
        torch.manual_seed(1)
        model = build("inception-variants", variant=variant, filters=8, channels=1, side=8)
        outputs.append(model(torch.linspace(0, 1, 256).reshape(4, 1, 8, 8)))
    assert torch.allclose(*outputs, atol=1e-5)


@pytest.mark.slow
def test_sigmoid_star_trains_a_deep_network_and_sigmoid_does_not(tmp_path: Path) -> None:
    assert error(tmp_path / "a", "plain-deep", 2, activation="sigmoid") > 80
    assert error(tmp_path / "b", "plain-deep", 5, activation="sigmoid-star") < 50


@pytest.mark.slow
def test_batch_norm_lets_sigmoid_train(tmp_path: Path) -> None:
    settings = {"activation": "sigmoid"}
    assert error(tmp_path / "without", "tiny-cifar-10", 2, **settings, batch_norm=False) > 80
    assert error(tmp_path / "with", "tiny-cifar-10", 2, **settings, batch_norm=True) < 40


@pytest.mark.slow
def test_a_reduction_before_the_only_path_makes_a_small_network_worse(tmp_path: Path) -> None:
    plain_error, reduced_error = (
        error(tmp_path / variant, "inception-variants", 4, variant=variant, filters=8)
        for variant in "AD"
    )
    assert reduced_error > 1.5 * plain_error
