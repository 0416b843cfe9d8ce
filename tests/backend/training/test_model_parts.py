"""Parts of a model, which together compute the model's output, or a refusal with a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from backend.base.errors import BackendError
from backend.training.model_parts import ModelParts


class Model(nn.Module):
    """Three layers, and a forward of the test's."""

    def __init__(self, forward: Callable[[Model, Any], Any]) -> None:
        super().__init__()
        self.act = nn.ReLU()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))
        self._forward = forward

    def forward(self, data: Any) -> Any:
        return self._forward(self, data)


DATA = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def cut(
    model: nn.Module, names: Sequence[str] = (), count: int = 2, data: Any = DATA
) -> ModelParts:
    return ModelParts(model, names, count, data)


def test_a_nested_chain_is_cut_where_its_parts_cost_the_same() -> None:
    inner = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model = nn.Sequential(inner, nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)))
    parts = cut(model, count=3)
    assert parts.names == ("0.2", "1.0")
    assert [len(parts.parameters(part)) for part in range(3)] == [4, 2, 2]
    model.eval()
    assert torch.equal(parts.run_all(DATA), model(DATA))


def test_a_part_follows_the_mode_of_the_model_and_may_use_its_input() -> None:
    def forward(self: Model, data: Any) -> Any:
        hidden = nn.functional.dropout(self.first(data["x"]), 0.5, self.training)
        return self.third(self.second(hidden).relu_()) + data["x"]

    model = Model(forward)
    data = {"x": DATA}
    parts = cut(model, ["second"], data=data)
    for mode in (False, True):
        model.train(mode)
        torch.manual_seed(2)
        output = parts.run_all(data)
        torch.manual_seed(2)
        assert torch.equal(output, model(data))


def test_decisions_of_python_stay_within_a_module_of_the_chain() -> None:
    def forward(self: Model, data: Any) -> Any:
        return self.third(self.first(data)) if data.sum() > 1e9 else self.second(data)

    chain = nn.Sequential(Model(forward), nn.Linear(4, 4))
    assert cut(chain).names == ("0",)
    with pytest.raises(BackendError, match="its forward cannot be traced") as refusal:
        cut(Model(forward), ["first"])
    assert "strategy.cut" in refusal.value.remedy


COUNTER = iter(range(1000))


@pytest.mark.parametrize(
    ("forward", "names", "message"),
    [
        (lambda self, x: self.third(self.first(x)), ["second"], "does not call it"),
        (
            lambda self, x: self.third(self.second(h := self.first(x)) + h),
            ["second"],
            "after “second”: its forward uses first after it, too",
        ),
        (
            lambda self, x: self.first(self.second(self.first(x))),
            ["second"],
            "two parts use “first”",
        ),
        (
            lambda self, x: self.third(self.second(self.first(self.act(x)))),
            ["act"],
            "has no parameters to train",
        ),
        (
            lambda self, x: self.third(self.first(x) * next(COUNTER)),
            ["first"],
            "compute another output",
        ),
        (lambda self, x: self.third(self.first(x) + x), (), "into 3 parts by itself"),
    ],
)
def test_a_cut_that_makes_no_chain_is_refused(
    forward: Callable[[Any, Any], Any], names: Sequence[str], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        cut(Model(forward), names, count=len(names) + 1 if names else 3)


def test_a_parameter_of_two_parts_is_refused() -> None:
    model = Model(lambda self, x: self.third(self.second(self.first(x))))
    model.third.weight = model.first.weight
    with pytest.raises(BackendError, match=r"two parts use “third\.weight”"):
        cut(model, ["first"])
