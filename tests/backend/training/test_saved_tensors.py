"""Memory of a step, compared with the tensors in its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from backend.training.saved_tensors import SavedTensors
from backend.training.tools.check_model import _activation_bytes
from tests.gallery.figures import SERVICE, build, sample_of


def held_bytes(root: Any, model: nn.Module) -> int:
    """Return the bytes of all storages that a graph refers to, without those of the model."""
    model_addresses = {
        t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]
    }
    sizes: dict[int, int] = {}
    nodes, visited = [root], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        nodes += [parent for parent, _ in node.next_functions]
        for tensor in saved_by(node):
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(size for address, size in sizes.items() if address not in model_addresses)


def saved_by(node: Any) -> Iterator[torch.Tensor]:
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            value = getattr(node, name)
            parts = value if isinstance(value, (tuple, list)) else [value]
            yield from (part for part in parts if isinstance(part, torch.Tensor))


class Function(nn.Module):
    """A model that computes with one layer of 8 values."""

    def __init__(self, compute: Callable[[nn.Linear, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("scale", torch.ones(8))
        self.compute = compute

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.compute(self.layer, data)


KINDS: dict[str, Callable[[nn.Linear, torch.Tensor], torch.Tensor]] = {
    "one input of two layers": lambda layer, x: layer(x) * functional.linear(x, layer.weight),
    "works in place": lambda layer, x: functional.relu(layer(x), inplace=True),
    "view": lambda layer, x: layer(x).view(2, -1).exp().sum(0),
    "output read twice": lambda layer, x: torch.tanh(layer(x)) * torch.tanh(layer(x)),
    "a tensor with itself": lambda layer, x: (y := layer(x)) * y,
    "nothing": lambda layer, x: layer(x) + 1,
    "dropout": lambda layer, x: functional.dropout(layer(x), 0.5),
    "joined": lambda layer, x: torch.cat([layer(x), x], 1).sigmoid(),
    "computed again": lambda layer, x: checkpoint(torch.sin, layer(x), use_reentrant=True),
    "weights only": lambda layer, x: (layer.weight * layer.weight).sum() + layer(x),
    "attention": lambda layer, x: functional.scaled_dot_product_attention(layer(x), x, x),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_step_keeps_is_counted_once(kind: str) -> None:
    model = Function(KINDS[kind])
    data = torch.rand(4, 8)
    with SavedTensors(model) as saved_tensors:
        output = model(data)
    torch.manual_seed(1)
    assert saved_tensors.bytes == held_bytes(model(data).grad_fn, model)
    output.sum().backward()
    assert model.layer.weight.grad is not None


SIDES = {
    "lenet-5": 28, "resnet-18": 64, "tiny-cifar-10": 28, "inception-variants": 16,
    "plain-deep": 16, "mlp": 8,
}  # fmt: skip


@pytest.mark.parametrize("name", SIDES)
def test_the_memory_of_a_network_is_what_its_graph_holds(name: str) -> None:
    side = SIDES[name]
    model: Any = build(name, **({} if name == "mlp" else {"side": side}))
    model.train()
    data = sample_of(SERVICE.show(name), 4, **({} if name == "mlp" else {"side": side}))
    data, target = torch.rand_like(data), torch.tensor([0, 1, 2, 3])
    loss = model.loss(model(data), target)
    assert _activation_bytes(model, data, target) == held_bytes(loss.grad_fn, model) // 4


def test_a_model_that_refuses_the_count_still_has_its_check() -> None:
    class RefusingFunction(Function):
        def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not twice")

    model = RefusingFunction(KINDS["nothing"])
    assert _activation_bytes(model, torch.rand(4, 8), torch.zeros(4)) is None
    assert _activation_bytes(model, torch.rand(0, 8), torch.zeros(0)) is None
