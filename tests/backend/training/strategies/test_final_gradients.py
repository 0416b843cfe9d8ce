"""A gradient that is added to several times in a step is sent when it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.allreduce import AllReduce
from backend.training.user_code import UserCodeError
from tests.backend.training.strategies.test_buckets import Wire
from tests.backend.training.training_rig import LOADER, new_training

MODEL = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDE = 512
KINDS = ("source", "tied", "copy", "twice", "reentrant", "other", "parts", "hook", "data", "inside")

class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        # Each is a message of its own, which is sent as soon as it may be.
        for kind in KINDS:
            setattr(self, kind, nn.Linear(WIDE, WIDE))
        self.copy.weight = self.tied.weight
        self.register_buffer("lift", torch.randn(4, WIDE))
        # Its gradient comes last.
        self.source.weight.register_post_accumulate_grad_hook(self.add)
    def add(self, parameter):
        self.hook.weight.grad.add_(self.hook.weight.detach(), alpha=0.1)
        self.data.weight.grad.data.add_(self.data.weight.detach(), alpha=0.1)
    def forward(self, x):
        x = torch.tanh(self.source(x @ self.lift))
        if torch.is_grad_enabled():
            self.inside(x.detach()).square().mean().backward()
        def layer(name, x):
            return torch.tanh(getattr(self, name)(x))
        return (
            layer("copy", layer("tied", x))
            + layer("twice", layer("twice", x))
            + checkpoint(layer, "reentrant", checkpoint(
                layer, "reentrant", x, use_reentrant=True), use_reentrant=True)
            + checkpoint(layer, "other", checkpoint(
                layer, "other", x, use_reentrant=False), use_reentrant=False)
            + layer("parts", checkpoint(layer, "parts", x, use_reentrant=True))
            + layer("hook", x) + layer("data", x) + layer("inside", x)
        )
    def loss(self, output, target):
        return (output.mean(1) - target).square().mean()
"""


@pytest.mark.parametrize("strategy", ["allreduce", "ddp"])
def test_two_ranks_train_as_one_process_however_often_a_gradient_is_added_to(
    tmp_path: Path, strategy: str
) -> None:
    training = new_training(
        tmp_path,
        model=MODEL,
        epochs=4,
        batch_size=48,
        optimizer={"name": "sgd", "lr": 0.1},
        strategy={"name": strategy, "lr_scaling": "none"},
    )
    training.train_well()
    space: dict[str, Any] = {}
    exec(MODEL + LOADER, space)
    torch.manual_seed(training.config.seed)
    model: Any = space["UserModel"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = space["UserDataset"]("")
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        # Each step holds the whole dataset, in whatever order.
        loss = model.loss(model(data.x), data.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert list(training.curve("loss").values()) == pytest.approx(losses, rel=1e-6)
    trained = torch.load(training.latest(), weights_only=True)["model"]
    differences = [
        name
        for name, tensor in model.state_dict().items()
        if not torch.allclose(trained[name], tensor, rtol=0, atol=1e-6)
    ]
    assert differences == []


def steps(layer: nn.Linear, *forwards: Any) -> Wire:
    """Make one step with each forward, and return what was sent."""
    strategy, wire = AllReduce(StrategyConfig()), Wire()
    strategy._hvd = wire
    strategy.adopt(nn.ModuleDict({"shared": layer, "last": nn.Linear(512, 512)}), sync_size=4)
    for forward in forwards:
        strategy.zero()
        strategy.backward(forward(torch.ones(2, 512, requires_grad=True)).sum())
        strategy.reduce()
    return wire


def test_a_gradient_that_changes_after_it_was_sent_ends_the_job_and_is_named() -> None:
    def in_parts(x: torch.Tensor) -> Any:
        return layer(checkpoint(layer, x, use_reentrant=True))

    layer: Any = nn.Linear(512, 512)
    assert steps(layer, in_parts, in_parts, layer).sent
    layer = nn.Linear(512, 512)
    with pytest.raises(UserCodeError, match=r"gradient of shared\.weight changed") as failed:
        steps(layer, layer, layer, in_parts)
    assert "use_reentrant=False" in failed.value.remedy
