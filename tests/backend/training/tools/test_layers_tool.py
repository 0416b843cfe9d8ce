"""Lists of the layers of models as users write them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.records.library.layers import Layer, ModelLayers
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.check_model import check_model
from backend.training.tools.layers import layers
from backend.training.user_code import UserCodeError

GALLERY = Path(__file__).parents[4] / "resources/gallery/digits"
HEAD = """
import torch
from torch import nn

class UserModel(nn.Module):
    def loss(self, output, target):
        return sum(one.mean() for one in torch.utils._pytree.tree_leaves(output) if one is not None)
"""
ReadLayers = Callable[..., ModelLayers]


@pytest.fixture
def read_layers(tmp_path: Path) -> ReadLayers:
    """The layers of a model with this body of ``UserModel``, on the digits or on ``item``."""

    def layers_of(body: str, item: str = "", **request: Any) -> ModelLayers:
        model = tmp_path / "model"
        model.mkdir(exist_ok=True)
        (model / "bks_model.py").write_text(HEAD + body)
        loader = GALLERY / "loader"
        if item:
            loader = tmp_path / "loader"
            loader.mkdir(exist_ok=True)
            (loader / "bks_dataset.py").write_text(
                f"""import torch
class UserDataset:
    def __init__(self, folder): ...
    def __len__(self): return 8
    def __getitem__(self, index): return {item}
"""
            )
        full_request = {"model": model, "loader": loader, "dataset": GALLERY / "dataset", **request}
        with contextlib.closing(tool_protocol.Report(tmp_path / "progress")) as report:
            raw = layers(full_request, report)
            model_check = check_model(full_request, report)
        result = ModelLayers.from_dict(raw)
        assert result.to_dict() == raw
        assert result.parameters == model_check["parameters"]
        return result

    return layers_of


def by_name(result: ModelLayers) -> dict[str, Layer]:
    return {layer.name: layer for layer in result.layers}


NET = """
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)
        self.first = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.second = nn.Conv2d(4, 1, 3, padding=1, bias=False)
        self.never = nn.Linear(2, 2)
        for one in self.second.parameters():
            one.requires_grad = False

    def forward(self, data):
        return self.head((self.second(self.first(data).relu()) + data).flatten(1))
"""


def test_each_layer_has_its_shape_parameters_multiply_adds_and_memory(
    read_layers: ReadLayers,
) -> None:
    result = read_layers(NET, batch_size=3)
    assert result.layers[1] == Layer(
        "second", "Conv2d", (3, 1, 8, 8), 36, 8 * 8 * 36, 3 * 64 * 4, False, ("first",)
    )
    assert [layer.name for layer in result.layers] == ["first", "second", "head", "never"]
    assert result.layers[3].output_shape is None
    assert result.layers[2].multiply_adds == 640
    assert result.multiply_adds == 2 * 8 * 8 * 36 + 640


def test_a_large_batch_is_computed_from_a_small_one(read_layers: ReadLayers) -> None:
    small_result, large_result = read_layers(NET), read_layers(NET, batch_size=1000)
    assert large_result.layers[0].output_shape == (1000, 4, 8, 8)
    assert large_result.activation_bytes == 1000 * small_result.activation_bytes
    assert large_result.multiply_adds == small_result.multiply_adds


def test_layers_are_joined_through_computations_of_the_forward(
    read_layers: ReadLayers,
) -> None:
    """Additions, parts assigned to, and decisions about values, which no trace can follow."""
    result = read_layers("""
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(64, 64) for _ in range(4))

    def forward(self, data):
        a = self.a(data.flatten(1))
        b = self.b(a)
        if b.sum().item() == 1e9:
            return a
        both = torch.zeros(len(a), 128)
        both[:, :64] = a.detach()
        both[:, 64:] += a * b
        return self.d(self.c(both[:, 64:]) + b)
""")
    layer_by_name = by_name(result)
    assert layer_by_name["b"].inputs == ("a",)
    assert layer_by_name["c"].inputs == ("a", "b")
    assert layer_by_name["d"].inputs == ("b", "c")


def test_parameters_that_a_container_uses_itself_are_a_row_of_their_own(
    read_layers: ReadLayers,
) -> None:
    result = read_layers("""
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
        self.more = nn.ParameterList([nn.Parameter(torch.ones(3))])
        self.layer = nn.Linear(64, 64)
        self.again = self.layer
        self.tied = nn.Linear(64, 64)
        self.tied.weight = self.layer.weight

    def forward(self, data):
        return self.tied(self.again(self.layer(data.flatten(1) * self.scale)))
""")
    layer_by_name = by_name(result)
    assert layer_by_name["(the model)"].parameters == 67
    assert layer_by_name["layer"].inputs == ("(the model)",)
    assert {layer_by_name["layer"].parameters, layer_by_name["tied"].parameters} == {4160, 64}
    assert layer_by_name["layer"].multiply_adds == 2 * 64 * 64, "it is called twice"


def test_a_residual_block_is_what_the_next_one_reads(read_layers: ReadLayers) -> None:
    """Otherwise each block would read the branches of all blocks before it."""
    result = read_layers("""
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(5)))

    def forward(self, data):
        return self.blocks(data.flatten(1))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.more = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, data):
        data = data + self.layer(data)
        return data + self.more(data)
""")
    layer_by_name = by_name(result)
    assert layer_by_name["blocks.4.layer"].inputs == ("blocks.3",)
    assert layer_by_name["blocks.4"].inputs == ("blocks.3", "blocks.4.layer", "blocks.4.more")
    assert layer_by_name["blocks.4"].activation_bytes == 256


def test_attention_and_recurrent_layers_are_counted(read_layers: ReadLayers) -> None:
    result = read_layers("""
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.memory = nn.LSTM(8, 5, batch_first=True)
        self.shape = nn.Linear(5, 2)

    def forward(self, data):
        output, (hidden, cell) = self.memory(self.encoder(data[:, 0]))
        return self.shape(hidden[-1])
""")
    layer_by_name = by_name(result)
    assert layer_by_name["encoder.self_attn"].multiply_adds == 8 * 8 * 8 * 4 + 2 * 8 * 8 * 8
    assert layer_by_name["encoder.linear1"].output_shape == (1, 8, 16)
    assert layer_by_name["memory"].multiply_adds == 8 * (8 * 20 + 5 * 20)
    assert layer_by_name["memory"].output_shape == (1, 8, 5)
    assert layer_by_name["memory"].inputs == ("encoder.norm2",)
    assert layer_by_name["shape"].inputs == ("memory",)


@pytest.mark.parametrize(
    "layer",
    [
        "scripted(nn.Linear(64, 10))",
        "torch.compile(nn.Linear(64, 10), backend='eager')",
        "nn.LazyLinear(10)",
        "Refuser()",
    ],
)
def test_a_layer_that_cannot_be_inspected_is_listed_anyway(
    read_layers: ReadLayers, layer: str
) -> None:
    result = read_layers(f"""
    def __init__(self):
        super().__init__()
        self.begin = nn.ReLU()
        self.layer = {layer}
        self.end = nn.Linear(10, 10)

    def forward(self, data):
        return self.end(self.layer(self.begin(data.flatten(1))))

def scripted(module):
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)

class Refuser(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 10)

    def forward(self, data):
        from torch.overrides import _get_current_function_mode
        assert _get_current_function_mode() is None
        return self.inner(data)
""")
    assert by_name(result)["end"].output_shape == (1, 10)
    assert result.parameters == 64 * 10 + 10 + 110


def test_a_model_that_runs_under_no_counter_is_shown_in_order(read_layers: ReadLayers) -> None:
    result = read_layers("""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 4), nn.Linear(4, 4)

    def forward(self, data):
        from torch.overrides import _get_current_function_mode
        assert _get_current_function_mode() is None
        return self.b(self.a(data.flatten(1)))
""")
    assert (result.multiply_adds, result.layers[1].inputs) == (None, ("a",))
    assert "could not be counted" in result.warnings[0]


def test_a_forward_that_catches_an_error_of_a_layer_is_followed(read_layers: ReadLayers) -> None:
    result = read_layers("""
    def __init__(self):
        super().__init__()
        self.wrong, self.right = nn.Linear(3, 3), nn.Linear(64, 4)

    def forward(self, data):
        try:
            return self.wrong(data)
        except RuntimeError:
            return self.right(data.flatten(1))
""")
    assert by_name(result)["right"].output_shape == (1, 4)
    assert by_name(result)["wrong"].output_shape is None


def test_batches_of_any_structure_are_passed_on(read_layers: ReadLayers) -> None:
    result = read_layers(
        """
    def __init__(self):
        super().__init__()
        self.words, self.end = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, data):
        return {"answer": self.end(self.words(data["ids"]).mean(1)), "extra": None}
""",
        item='{"ids": torch.arange(5), "name": "a"}, 0',
        batch_size=2,
    )
    assert [layer.output_shape for layer in result.layers] == [(2, 5, 4), (2, 2)]
    assert result.layers[1].inputs == ("words",)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "The model's forward returns nothing"),
        ("return data.cuda()", "The model's forward"),
        ("return self.layer(data)", "The model's forward"),
    ],
)
def test_a_forward_that_cannot_be_used_is_one_sentence(
    read_layers: ReadLayers, body: str, message: str
) -> None:
    with pytest.raises(UserCodeError) as caught:
        read_layers(f"""
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, data):
        {body}
""")
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
