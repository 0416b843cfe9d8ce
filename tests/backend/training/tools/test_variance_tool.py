"""The variances by depth: deep plain networks against theory, and models as users write them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from backend.records.library.variance import DepthVariance, LayerVariance
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.variance import compute_variance, variance
from backend.training.user_code import UserCodeError

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"
DEPTH, WIDTH, SAMPLES = 12, 128, 16
HEAD = """
import torch
from torch import nn

class UserModel(nn.Module):
    def loss(self, output, target):
        return sum(one.float().mean() for one in torch.utils._pytree.tree_leaves(output))
"""


class SigmoidStar(nn.Module):
    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return 4 * torch.sigmoid(data) - 2


class Plain(nn.Module):
    """Linear layers of one width, each with an activation behind it, and n Var(w) = ``gain``."""

    def __init__(self, activation: Callable[[], nn.Module], gain: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential()
        for _ in range(DEPTH):
            layer = nn.Linear(WIDTH, WIDTH)
            nn.init.normal_(layer.weight, std=math.sqrt(gain / WIDTH))
            nn.init.zeros_(layer.bias)
            self.layers.extend((layer, activation()))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(data))

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target)


def measure(activation: Callable[[], nn.Module], gain: float) -> DepthVariance:
    model = Plain(activation, gain)
    data = torch.randn(SAMPLES, WIDTH) / 4  # so small that the slope is that at 0
    return compute_variance(model, data, torch.randint(10, (SAMPLES,)))


def growth(result: DepthVariance, quantity: str, layers: int = DEPTH) -> float:
    """The mean factor from layer to layer, without the head, whose gradient is that of the loss."""
    first, last = (getattr(result.layers[n], quantity) for n in (0, layers - 1))
    return (last / first) ** (1 / (layers - 1))


@pytest.mark.parametrize(
    ("activation", "gain", "factor"),
    [
        (nn.Sigmoid, 1.0, 16.0),
        (nn.Sigmoid, 1 / 3, 48.0),
        (nn.Tanh, 1.0, 1.0),
        (SigmoidStar, 1.0, 1.0),
        (nn.ReLU, 2.0, 1.0),
        (nn.ReLU, 1 / 3, 6.0),
        (nn.Identity, 1 / 3, 3.0),
        (nn.Identity, 4.0, 1 / 4),
    ],
)
def test_gradients_shrink_by_the_square_of_the_slope_and_the_variance_of_the_weights(
    activation: Callable[[], nn.Module], gain: float, factor: float
) -> None:
    """1 / (f′(0)² n Var(w)) a layer; ReLU has slope 1 for one half of its inputs."""
    result = measure(activation, gain)
    assert len(result.layers) == DEPTH + 1
    assert growth(result, "gradient") == pytest.approx(factor, rel=0.35)
    if activation is not nn.ReLU:
        # ReLU has a mean, which grows at the cost of the variance between samples.
        # Behind some layers of sigmoid it is below the rounding error.
        assert 1 / growth(result, "activation", 6) == pytest.approx(factor, rel=0.35)


@pytest.mark.parametrize(
    ("activation", "gain", "message_start", "names_sigmoid"),
    [
        (nn.Sigmoid, 1.0, "The variance of the gradients shrinks about 1", True),
        (nn.Sigmoid, 1 / 3, "The variance of the gradients shrinks about 5", True),
        (nn.Tanh, 1.0, "Variances change about ", False),
        (nn.ReLU, 2.0, "Variances change about ", False),
        (SigmoidStar, 1.0, "Variances change about ", False),
        (SigmoidStar, 1 / 3, "The variance of the gradients shrinks about 3", False),
        (nn.ReLU, 1 / 3, "The variance of the gradients shrinks about 6", False),
        (nn.Identity, 4.0, "The variance of the gradients grows about 4", False),
    ],
)
def test_the_sentence_says_what_was_measured(
    activation: Callable[[], nn.Module], gain: float, message_start: str, names_sigmoid: bool
) -> None:
    result = measure(activation, gain)
    is_well, message = result.judge()
    assert message.startswith(message_start)
    assert ("slope 1/4" in message) == names_sigmoid
    assert is_well == message_start.startswith("Variances")


def test_a_sigmoid_at_the_end_is_not_the_reason() -> None:
    model = Plain(nn.Tanh, 1 / 4)
    model.head = nn.Sequential(nn.Linear(WIDTH, 10), nn.Sigmoid())
    result = compute_variance(model, torch.randn(SAMPLES, WIDTH), torch.randint(10, (SAMPLES,)))
    is_well, message = result.judge()
    assert (result.sigmoids, is_well) == (1, False)
    assert "sigmoid" not in message


def rows(*values: tuple[float | None, float | None]) -> DepthVariance:
    return DepthVariance(
        tuple(LayerVariance(f"layer{n}", "Linear", *value) for n, value in enumerate(values))
    )


@pytest.mark.parametrize(
    ("result", "part"),
    [
        (rows(), "Fewer than 3 layers"),
        (rows((1, 1), (1, 1)), "Fewer than 3 layers"),
        (rows((1, 1), (1, 1), (1, 1)), "change about 1 times"),
        (rows((1, 1), (1, 1e-6), (1, 1), (1, 1)), "change about 1 times"),
        (rows((1, 1e-300), (1, 1e-150), (1, 1)), "shrinks about 1"),
        (rows((1, 1e-300), (1, 1), (1, 1e300)), "shrinks about "),
        (rows((1, 0), (1, 0), (1, 1e-9), (1, 1e-6), (1, 1e-3)), "shrinks about 1\u202f000 times"),
        (rows((1, None), (1, None), (1, 1), (1, 1)), "change about 1 times"),
        (rows((1, None), (1, None), (1, None)), "No layer gets a gradient"),
        (rows((1, 0), (1, 0), (1, 1)), "The gradient of 2 of 3 layers is zero"),
        (rows((None, 1), (None, 1), (None, 1)), "change about 1 times"),
        (
            rows((1, 1), (1e-3, 1), (1e-6, 1)),
            "outputs between samples shrinks about 1\u202f000 times",
        ),
        (rows((1, 1), (1e3, 1), (1e6, 1)), "outputs between samples grows about 1\u202f000 times"),
        (rows((0, 1), (0, 1), (0, 1)), "change about 1 times"),
    ],
)
def test_any_variances_are_one_judgement(result: DepthVariance, part: str) -> None:
    assert part in result.judge()[1]
    assert DepthVariance.from_dict(result.to_dict()) == result


MeasureVariance = Callable[..., DepthVariance]


@pytest.fixture
def measure_variance(tmp_path: Path) -> MeasureVariance:
    """The variances of a model with this body of ``UserModel``, on the digits or on ``item``."""

    def variances_of(body: str, item: str = "", samples: int = 8) -> DepthVariance:
        model, loader = tmp_path / "model", GALLERY / "loader"
        model.mkdir()
        (model / "bks_model.py").write_text(HEAD + body)
        if item:
            loader = tmp_path / "loader"
            loader.mkdir()
            (loader / "bks_dataset.py").write_text(
                f"""import torch
class UserDataset:
    def __init__(self, folder): ...
    def __len__(self): return {samples}
    def __getitem__(self, index): return {item}
"""
            )
        full_request = {
            "model": model,
            "loader": loader,
            "dataset": GALLERY / "dataset",
            "batch_size": 8,
        }
        with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
            raw = variance(full_request, report)
        assert DepthVariance.from_dict(raw).to_dict() == raw
        return DepthVariance.from_dict(raw)

    return variances_of


CHAIN = """
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(64, 64) for _ in range(3))
        {more}

    def forward(self, data):
        {forward}
        return self.c(self.b(self.a(data.flatten(1))))
"""


def test_frozen_layers_have_no_gradient_and_the_others_do(
    measure_variance: MeasureVariance,
) -> None:
    result = measure_variance(CHAIN.format(more="self.a.requires_grad_(False)", forward=""))
    assert [layer.gradient is None for layer in result.layers] == [True, False, False]
    assert result.judge()[0]


def test_a_layer_used_twice_is_two_points(measure_variance: MeasureVariance) -> None:
    result = measure_variance(CHAIN.format(more="self.c = self.a", forward=""))
    assert [layer.name for layer in result.layers] == ["a", "b", "a, call 2"]
    assert all(layer.gradient is not None for layer in result.layers)


@pytest.mark.parametrize(
    ("init_code", "forward", "broken_marks", "first"),
    [
        ("nn.init.constant_(self.b.weight, float('nan'))", "", "goo", "output of b"),
        ("nn.init.constant_(self.c.bias, float('inf'))", "", "  o", "output of c"),
        ("", "data = data / 0", "ooo", "output of a"),
        ("self.c.register_full_backward_hook(Bad.hook)", "", "gg ", "gradient of b"),
    ],
)
def test_the_first_value_that_is_not_a_number_is_named(
    measure_variance: MeasureVariance, init_code: str, forward: str, broken_marks: str, first: str
) -> None:
    bad = """
class Bad:
    @staticmethod
    def hook(module, inputs, outputs):
        return tuple(one * float("nan") for one in inputs)
"""
    result = measure_variance(CHAIN.format(more=init_code, forward=forward) + bad)
    assert "".join(layer.broken_part[:1] or " " for layer in result.layers) == broken_marks
    is_well, message = result.judge()
    assert not is_well
    assert message.startswith(f"The {first} is the first that is infinite or not a number.")


def test_a_model_without_parameters_has_activations_only(measure_variance: MeasureVariance) -> None:
    result = measure_variance("""
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Flatten(), nn.ReLU(), nn.Softmax(1)

    def forward(self, data):
        return self.c(self.b(self.a(data)))
""")
    assert [layer.name for layer in result.layers] == ["a", "b", "c"]
    assert all(layer.activation and layer.gradient is None for layer in result.layers)
    assert "does not depend on any parameter" in result.warnings[0]
    assert result.judge() == (False, "No layer gets a gradient, so that none learns.")


def test_integers_are_an_input_like_others(measure_variance: MeasureVariance) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.words, self.memory = nn.Embedding(10, 4), nn.LSTM(4, 4, batch_first=True)
        self.end = nn.Linear(4, 2)

    def forward(self, data):
        return self.end(self.memory(self.words(data["ids"]))[0].mean(1))
"""
    result = measure_variance(
        body, item='{"ids": torch.arange(index % 7, index % 7 + 3), "name": "a"}, 0'
    )
    assert [layer.name for layer in result.layers] == ["words", "memory", "end"]
    assert all(layer.activation and layer.gradient for layer in result.layers)


def test_one_sample_has_no_variance_between_samples(measure_variance: MeasureVariance) -> None:
    result = measure_variance(
        CHAIN.format(more="", forward=""), item="torch.rand(64), 0", samples=1
    )
    assert all(layer.activation is None and layer.gradient is not None for layer in result.layers)
    assert "One sample" in result.warnings[0]


@pytest.mark.parametrize(
    ("init_code", "forward"),
    [
        ("self.b = torch.nn.Sequential(self.b, nn.ReLU(inplace=True))", ""),
        ("self.b = torch.jit.script(self.b)", ""),
        ("self.never = nn.Linear(2, 2)", ""),
        ("", "data = UserModel.checkpoint(self.a, data.flatten(1), use_reentrant=False)"),
        ("self.a.weight.data.zero_()", ""),
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is")
def test_models_as_users_write_them_are_measured(
    measure_variance: MeasureVariance, init_code: str, forward: str
) -> None:
    body = CHAIN.format(more=init_code, forward=forward)
    result = measure_variance("    from torch.utils.checkpoint import checkpoint\n" + body)
    assert "c" in [layer.name for layer in result.layers]
    assert result.judge()[1]
    assert not result.warnings


def test_a_forward_that_raises_is_one_sentence(measure_variance: MeasureVariance) -> None:
    with pytest.raises(UserCodeError, match="The model's forward raised RuntimeError"):
        measure_variance(CHAIN.format(more="", forward="data = data[:, :, :3]"))
