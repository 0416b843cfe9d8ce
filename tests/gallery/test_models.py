"""The networks of the gallery: built as their sources publish them, and able to learn."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from backend.base.errors import BackendError
from backend.records.base.atomic_files import read_json
from backend.records.library.gallery import CardSetting, GalleryEntry
from backend.records.library.item import Kind
from backend.services.library.gallery import FIGURES, GALLERY
from backend.training.model_parts import ModelParts
from tests.gallery.figures import (
    SERVICE,
    build,
    complexity,
    figures,
    reference_complexity,
    sample_of,
)

META = torch.device("meta")
"""No memory and no computation: only shapes."""
MODELS = SERVICE.list(Kind.MODEL)
each_model = pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
each_classifier = pytest.mark.parametrize(
    "entry",
    [entry for entry in MODELS if entry.card.task == "classification"],
    ids=lambda entry: entry.name,
)


def build_on_meta(name: str, **settings: object) -> Any:
    with META:
        return build(name, **settings).eval()


def shapes_of(name: str, modules: str, **settings: object) -> list[tuple[int, ...]]:
    """Return the shapes of the outputs of modules, named with blanks between, without samples."""
    model, shapes = build_on_meta(name, **settings), []
    for module_name in modules.split():
        model.get_submodule(module_name).register_forward_hook(
            lambda _module, _inputs, output: shapes.append(tuple(output.shape[1:]))
        )
    with META:
        model(sample_of(SERVICE.show(name), **settings))
    return shapes


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def squares(*sizes: tuple[int, int]) -> list[tuple[int, ...]]:
    """Return shapes of channels and side."""
    return [(channels, side, side) for channels, side in sizes]


@pytest.mark.parametrize(
    ("name", "count", "mib", "relative"),
    [
        # The published 60 M and 1; the published 212 MB contradict the 60 M.
        ("alexnet", 60_965_224, 232.6, 1.0),
        ("vgg-19", 143_667_240, 548.0, 29.3),
        # GoogLeNet is published as 3.07.
        ("inception-bn", 11_285_224, 43.0, 3.05),
        # Published: 1.54 M and 1.56 M, which the published table contradicts, and 7.9 MB.
        ("tinynet-a", 2_045_208, 7.8, 0.42),
        ("tinynet-b", 2_051_352, 7.8, 0.46),
        ("tiny-cifar-10", 1_651_114, 6.3, 0.31),
        # Published: 12 and 6, which the published tables contradict.
        ("ndsb-net-1", 6_400_601, 24.4, 2.25),
        ("ndsb-net-2", 8_760_409, 33.4, 3.68),
        ("resnet-18", 11_689_512, 44.6, 2.72),
        ("resnet-50", 25_557_032, 97.5, 6.14),
        ("lenet-5", 431_080, 1.6, 0.0028),
        ("mlp", 784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10, 0.2, 0.0),
    ],
)
def test_parameters_size_and_complexity(name: str, count: int, mib: float, relative: float) -> None:
    model_figures = SERVICE.show(name).figures
    assert model_figures is not None
    assert model_figures.layers.parameters == count
    assert round(count * 4 / 2**20, 1) == mib
    assert model_figures.relative_complexity == pytest.approx(relative, rel=0.02)


@pytest.mark.parametrize(("name", "published"), [("tinynet-a", 0.40), ("tinynet-b", 0.42)])
def test_the_published_complexity_fits_that_of_an_alexnet_with_groups(
    name: str, published: float
) -> None:
    with META:
        measured_complexity = complexity(build(name), sample_of(SERVICE.show(name)))
        ungrouped_complexity = complexity(
            build("alexnet", groups=1), sample_of(SERVICE.show("alexnet"))
        )
    assert measured_complexity / reference_complexity() == pytest.approx(published, rel=0.10)
    assert measured_complexity / ungrouped_complexity < 0.75 * published


@pytest.mark.parametrize(
    ("name", "kernel", "side", "relative"),
    [("tinynet-a", 7, 61, 0.413), ("tinynet-b", 9, 62, 0.442)],
)
def test_the_complexity_by_the_printed_side_of_the_first_convolution(
    name: str, kernel: int, side: int, relative: float
) -> None:
    with META:
        measured_complexity = complexity(build(name), sample_of(SERVICE.show(name)))
    measured_complexity -= 3 * kernel**2 * 64 * (side**2 - 56**2)
    assert measured_complexity / reference_complexity() == pytest.approx(relative, abs=5e-4)
    assert f"and {relative} with the side of 56" in SERVICE.show(name).card.note


def test_the_layers_of_alexnet() -> None:
    convolutions = "features.0 features.4 features.8 features.10 features.12 features.14"
    assert shapes_of("alexnet", convolutions) == squares(
        (96, 55), (256, 27), (384, 13), (384, 13), (256, 13), (256, 6)
    )
    assert parameters(build_on_meta("alexnet", groups=1)) == 62_378_344


def test_the_layers_of_vgg() -> None:
    pools = "features.4 features.9 features.18 features.27 features.36"
    assert shapes_of("vgg-19", pools) == squares(
        (64, 112), (128, 56), (256, 28), (512, 14), (512, 7)
    )


def test_the_modules_of_inception_bn() -> None:
    names = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
    modules = "first " + " ".join(f"features.{name}" for name in names)
    at28 = ((192, 28), (256, 28), (320, 28))
    at14 = ((576, 14), (576, 14), (576, 14), (608, 14), (608, 14))
    at7 = ((1056, 7), (1024, 7), (1024, 7))
    assert shapes_of("inception-bn", modules) == squares(*at28, *at14, *at7)
    pools = [
        type(module.paths[-1][0]).__name__ for module in build_on_meta("inception-bn").features
    ]
    average, largest = "AvgPool2d", "MaxPool2d"
    assert pools == [average] * 2 + [largest] + [average] * 4 + [largest, average, largest]


@pytest.mark.parametrize("name", ["tinynet-a", "tinynet-b", "tiny-cifar-10"])
def test_the_modules_of_tinynet(name: str) -> None:
    modules = " ".join(f"features.{number}" for number in range(10))
    assert shapes_of(name, f"first {modules}") == squares(
        *((96, 28), (64, 28), (80, 28)),
        *((160, 14), (160, 14), (160, 14), (160, 14), (144, 14)),
        *((240, 7), (336, 7), (336, 7)),
    )


@pytest.mark.parametrize(
    ("name", "later_shapes"),
    [
        ("ndsb-net-1", [(512, 16), (512, 8), (512, 8), (512, 8)]),
        ("ndsb-net-2", [(512, 18), (512, 18), (512, 6), (512, 6), (512, 6)]),
    ],
)
def test_the_layers_of_ndsb(name: str, later_shapes: list[tuple[int, int]]) -> None:
    side = SERVICE.show(name).card.settings["side"].default
    assert side == {"ndsb-net-1": 128, "ndsb-net-2": 144}[name]
    half, quarter, eighth = side // 2, side // 4, side // 8
    first = [(16, side), (16, half), (32, half), (32, half), (64, half), (64, half), (128, half)]
    first += [(128, quarter), (256, quarter), (256, eighth)]
    layers = " ".join(f"features.{number}" for number in range(len(first + later_shapes)))
    assert shapes_of(name, layers) == squares(*first, *later_shapes)


def test_the_halves_of_the_small_caffenet() -> None:
    assert shapes_of("caffenet-small", "front back") == [(64, 8, 8), (10,)]
    parts = ModelParts(build("caffenet-small"), ["front"], 2, torch.zeros(1, 3, 32, 32))
    assert len(parts) == 2, "the strategy consensus can cut it there"


VARIANTS = {
    "A": "3", "B": "3 3", "B-stacked": "3 3-3", "C": "3 5", "D": "1-3", "E": "3 1", "F": "3",
    "G": "3 average", "H": "3 max", "I": "3 average-1", "J": "1-3 1-3-3",
    "K": "1 1-3 1-3-3 average-1",
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_paths_of_a_module_variant(variant: str) -> None:
    names = {nn.AvgPool2d: "average", nn.MaxPool2d: "max"}

    def steps(path: nn.Module) -> Iterator[str]:
        for layer in path.modules():
            if isinstance(layer, nn.Conv2d):
                yield str(layer.kernel_size[0])
            elif type(layer) in names:
                yield names[type(layer)]

    model = build_on_meta("inception-variants", variant=variant, filters=32)
    first = model.features[1]
    assert " ".join("-".join(steps(path)) for path in first.paths) == VARIANTS[variant]
    outputs = {"A": 32, "D": 32, "I": 48, "K": 112}.get(variant, 64)
    assert shapes_of("inception-variants", "features.1", variant=variant) == squares((outputs, 32))


@pytest.fixture(scope="module")
def torchvision() -> Any:
    """Its networks. Its wheel for CUDA does not load beside torch for CPUs: see pyproject.toml."""
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None
    assert spec.origin is not None
    try:
        torch.ops.load_library(Path(spec.origin).with_name("_C.so"))
    except OSError:
        boxes = "Tensor dets, Tensor scores"
        torch.library.define("torchvision::nms", f"({boxes}, float iou) -> Tensor")
        torch.library.define("torchvision::qnms", f"({boxes}, float iou) -> Tensor")
    import torchvision

    return torchvision


@pytest.mark.parametrize(
    ("name", "torchvision_name", "settings"),
    [
        ("alexnet", "alexnet", {"groups": 1, "widths": "2014"}),
        ("vgg-19", "vgg19", {}),
        ("resnet-18", "resnet18", {}),
        ("resnet-50", "resnet50", {}),
    ],
)
def test_parameters_and_outputs_are_those_of_torchvision(
    torchvision: Any, name: str, torchvision_name: str, settings: dict[str, object]
) -> None:
    with META:
        torchvision_model = getattr(torchvision.models, torchvision_name)().eval()
        data = sample_of(SERVICE.show(name), **settings)
    gallery_model = build_on_meta(name, **settings)
    gallery_state, torchvision_state = gallery_model.state_dict(), torchvision_model.state_dict()
    if name == "alexnet":
        assert [weight.shape for weight in gallery_state.values()] == [
            weight.shape for weight in torchvision_state.values()
        ]
    else:  # Also by the same names: its weights can be loaded.
        assert {key: weight.shape for key, weight in gallery_state.items()} == {
            key: weight.shape for key, weight in torchvision_state.items()
        }
    assert gallery_model(data).shape == torchvision_model(data).shape


@pytest.mark.parametrize("depth", [18, 50])
def test_a_resnet_gives_the_outputs_of_that_of_torchvision(torchvision: Any, depth: int) -> None:
    torch.manual_seed(1)
    torchvision_model = getattr(torchvision.models, f"resnet{depth}")(num_classes=3).eval()
    gallery_model = build(f"resnet-{depth}", classes=3).eval()
    gallery_model.load_state_dict(torchvision_model.state_dict())
    data = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(gallery_model(data), torchvision_model(data), atol=1e-5)


@each_model
def test_the_figures_are_those_measured(entry: GalleryEntry) -> None:
    stored_figures = read_json(GALLERY / entry.kind.folder / entry.name / FIGURES)
    command = "python -m tests.gallery.figures"
    assert figures(entry, reference_complexity()).to_dict() == stored_figures, (
        f"to measure it: {command}"
    )


def smallest(entry: GalleryEntry) -> dict[str, object]:
    """Return the settings of the least side or number of features, and two classes."""
    settings = entry.card.settings
    minimums = {key: settings[key].minimum for key in ("side", "features") if key in settings}
    return {"classes": 2, **{key: int(value or 1) for key, value in minimums.items()}}


@each_classifier
def test_a_training_step_on_the_smallest_input(entry: GalleryEntry) -> None:
    torch.manual_seed(1)
    settings = smallest(entry)
    model = build(entry.name, **settings).train()
    data = torch.randn_like(sample_of(entry, 2, **settings))
    target = torch.tensor([0, 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    output = model(data)
    assert output.shape == (2, 2)
    loss = model.loss(output, target)  # type: ignore[operator]
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name  # noqa: PT018
    accuracy = model.metrics(output, target)["accuracy"]  # type: ignore[operator]
    assert accuracy.item() in (0.0, 0.5, 1.0)


def _values(setting: CardSetting) -> Iterator[object]:
    yield from setting.choices
    yield from (True, False) if isinstance(setting.default, bool) else ()
    for limit in (setting.minimum, setting.maximum):
        if limit is not None:
            yield type(setting.default)(limit)


@each_classifier
def test_every_choice_of_every_setting_builds_and_both_limits_do(entry: GalleryEntry) -> None:
    for key, setting in entry.card.settings.items():
        for value in _values(setting):
            settings = {**smallest(entry), key: value}
            model = build_on_meta(entry.name, **settings)
            with META:
                output = model(sample_of(entry, 2, **settings))
            assert output.shape == (2, settings["classes"]), f"{key} = {value}"


@each_classifier
def test_no_classes_and_a_side_that_the_network_cannot_take_are_refused(
    entry: GalleryEntry, tmp_path: Path
) -> None:
    key = "side" if "side" in entry.card.settings else "features"
    setting = entry.card.settings[key]
    assert setting.minimum is not None
    assert setting.maximum is not None
    too_small, too_large = int(setting.minimum) - 1, int(setting.maximum) + 1
    faulty_settings = [("classes", "0"), ("classes", "1"), ("classes", "-3"), ("classes", "")]
    for name, text in [
        *faulty_settings,
        (key, str(too_small)),
        (key, str(too_large)),
        (key, "0"),
        (key, "28.5"),
    ]:
        with pytest.raises(BackendError, match=f"{name} must be a whole number from"):
            SERVICE.write(entry.name, {name: text}, tmp_path / "code")
        assert not (tmp_path / "code").exists()


def activation(**settings: object) -> nn.Module:
    model = build("tiny-cifar-10", **settings)
    return model.get_submodule("first")[-1]  # type: ignore[index,no-any-return]


@pytest.mark.parametrize(
    ("settings", "inputs", "outputs"),
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
    settings: dict[str, object], inputs: tuple[float, ...], outputs: tuple[float, ...]
) -> None:
    act = activation(**settings).eval()
    assert act(torch.tensor(inputs)).tolist() == pytest.approx(outputs, abs=1e-6)


def test_the_slope_of_rrelu_is_drawn_in_training_from_an_eighth_to_a_third() -> None:
    slopes = -activation(activation="rrelu").train()(-torch.ones(1000))
    assert 1 / 8 <= slopes.min() < 0.14
    assert 0.32 < slopes.max() <= 1 / 3


def test_rrelu_is_that_of_torch_in_evaluation_and_can_be_exported(tmp_path: Path) -> None:
    act, inputs = activation(activation="rrelu").eval(), torch.linspace(-3, 3, 64).reshape(1, 64)
    assert torch.allclose(act(inputs), nn.RReLU().eval()(inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own deprecations
        program = torch.onnx.export(act, (inputs,), dynamo=True, verbose=False)
    assert program is not None
    assert "LeakyRelu" in {node.op_type for node in program.model.graph}


def test_sigmoid_star_has_slope_1_at_0_where_sigmoid_has_a_quarter() -> None:
    for name, slope in (("sigmoid", 0.25), ("sigmoid-star", 1.0), ("tanh", 1.0)):
        value = torch.zeros(1, requires_grad=True)
        activation(activation=name)(value).backward()
        assert value.grad is not None
        assert value.grad.item() == pytest.approx(slope)


@pytest.mark.parametrize(
    ("name", "activation", "deviation"),
    [
        # √(2 / inputs) of Kaiming's rule, √(2 / (inputs + outputs)) of Xavier's.
        ("tiny-cifar-10", "relu", (2 / 27) ** 0.5),
        ("tiny-cifar-10", "leaky", (2 / 27) ** 0.5),
        ("tiny-cifar-10", "sigmoid", (2 / (27 + 96 * 9)) ** 0.5),
        ("tiny-cifar-10", "tanh", (2 / (27 + 96 * 9)) ** 0.5),
        ("tiny-cifar-10", "sigmoid-star", (2 / (27 + 96 * 9)) ** 0.5),
        ("inception-bn", "relu", (2 / (147 + 64 * 49)) ** 0.5),
    ],
)
def test_the_first_weights_suit_the_activation(
    name: str, activation: str, deviation: float
) -> None:
    torch.manual_seed(1)
    model = build(name, activation=activation, batch_norm=False)
    weight = next(parameter for parameter in model.parameters() if parameter.ndim == 4)
    assert weight.std().item() == pytest.approx(deviation, rel=0.06)
    assert not any(
        parameter.any() for key, parameter in model.named_parameters() if key.endswith("bias")
    )
