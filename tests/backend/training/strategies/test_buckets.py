"""Gradients are on their way while the first layers still compute theirs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.allreduce import (
    BUCKET_BYTES,
    LAST_BYTES,
    AllReduce,
    group_parameters,
)


class Wire:
    """The part of Horovod with which a strategy sends: records the bytes of each message."""

    Average = Sum = None

    def __init__(self) -> None:
        self.sent: list[int] = []

    def allreduce_async_(self, tensor: torch.Tensor, **_: Any) -> int:
        self.sent.append(tensor.numel() * tensor.element_size())
        return len(self.sent)

    def synchronize(self, handle: int) -> None: ...

    def allgather(self, tensor: torch.Tensor, **_: Any) -> torch.Tensor:
        return tensor


def layers(count: int, width: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(count)))


def sent_by_a_step(model: nn.Sequential, width: int) -> tuple[int, list[int]]:
    """Return the bytes sent before the first layer's gradient, and all messages of the step.

    The second step is measured: the first shows which gradients are complete when they arrive.
    """
    strategy, wire, early_bytes = AllReduce(StrategyConfig()), Wire(), []
    register_hook: Any = model[0].weight.register_post_accumulate_grad_hook
    register_hook(lambda _: early_bytes.append(sum(wire.sent)))
    strategy._hvd = wire
    strategy.adopt(model, sync_size=4)
    for _ in range(2):
        wire.sent.clear()
        strategy.zero()
        strategy.backward(model(torch.ones(1, width)).sum())
        strategy.reduce()
    return early_bytes[1], wire.sent


def test_all_but_the_first_layers_of_a_20_mb_model_are_sent_early() -> None:
    early_bytes, sent_sizes = sent_by_a_step(layers(12, 640), 640)
    assert sum(sent_sizes) > 19_000_000
    assert early_bytes > 0.9 * sum(sent_sizes)


def test_a_small_model_is_one_message() -> None:
    assert len(sent_by_a_step(layers(6, 256), 256)[1]) == 1


def test_a_large_gradient_is_sent_from_where_autograd_left_it() -> None:
    model = layers(3, 640)
    addresses: dict[int, int] = {}
    strategy, wire = AllReduce(StrategyConfig()), Wire()
    strategy._hvd = wire
    strategy.adopt(model, sync_size=4)
    for number in (0, 2):
        register_hook: Any = model[number].weight.register_hook
        register_hook(
            lambda gradient, number=number: addresses.update({number: gradient.data_ptr()})
        )
    strategy.zero()
    model[2](model[0](torch.ones(1, 640))).sum().backward()
    strategy.reduce()
    weights = [model[number].weight for number in range(3)]
    assert [w.grad.data_ptr() for w in weights[::2] if w.grad is not None] == [
        addresses[0],
        addresses[2],
    ]
    assert sorted(wire.sent)[1:] == 3 * [4 * 640 * 640]
    assert weights[1].grad is None, "no rank used this layer"


def test_sparse_and_unusually_laid_out_gradients_are_sent_whole() -> None:
    sparse = nn.Embedding(1024, 512, sparse=True)
    pixels = nn.Conv2d(256, 256, 3).to(memory_format=torch.channels_last)
    model = nn.ModuleList([sparse, pixels])
    strategy, wire = AllReduce(StrategyConfig()), Wire()
    strategy._hvd = wire
    strategy.adopt(model, sync_size=4)
    strategy.zero()
    (sparse(torch.tensor([3])).sum() + pixels(torch.ones(1, 256, 3, 3)).sum()).backward()
    strategy.reduce()
    for parameter in (sparse.weight, pixels.weight):
        assert parameter.grad is not None
        assert parameter.grad.is_contiguous()
        assert parameter.grad.any()


def test_buckets_halve_towards_the_first_layer_and_hold_each_parameter_once() -> None:
    model = layers(200, 500)
    buckets = group_parameters(list(model.parameters()))
    assert [p for bucket in buckets for p in bucket] == list(model.parameters())[::-1]
    sizes = [sum(p.numel() * p.element_size() for p in bucket) for bucket in buckets]
    layer = 4 * (500 * 500 + 500)
    assert max(sizes) < BUCKET_BYTES + layer
    assert sizes[-1] < LAST_BYTES + layer
    assert sizes[1:] == sorted(sizes[1:], reverse=True)


def test_each_kind_of_number_has_buckets_of_its_own_in_the_order_of_the_layers() -> None:
    first, last = nn.Linear(8, 8), nn.Linear(8, 8).to(torch.float64)
    buckets = group_parameters([*first.parameters(), *last.parameters()])
    assert buckets == [list(last.parameters())[::-1], list(first.parameters())[::-1]]
