"""A loss or metric with a weight has one validation for every batch size and number of ranks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from backend.training import user_code
from backend.training.data import ValidationOrder
from backend.training.evaluation import BatchValues, average_values
from backend.training.strategies.wire_format import decode, encode

WEIGHTS = torch.tensor([0.2, 5.0, 1.0], dtype=torch.float64)


class WeightedModel(nn.Module):
    """Class weights in the loss; the labels -1 count in neither of both."""

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> Any:
        total = nn.functional.cross_entropy(
            output, target, WEIGHTS, ignore_index=-1, reduction="sum"
        )
        return total, WEIGHTS[target[target >= 0]].sum()

    def metrics(self, output: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
        is_labelled = target >= 0
        hits = (output.argmax(1) == target)[is_labelled].sum()
        return {"accuracy": (hits, is_labelled.sum()), "size": float(len(target))}


@given(
    labels=st.lists(st.integers(-1, 2), min_size=1, max_size=40),
    batch_size=st.integers(1, 12),
    ranks=st.integers(1, 4),
    seed=st.integers(0, 99),
)
@example(labels=[-1, -1, 0, 2], batch_size=2, ranks=2, seed=0)
def test_the_validation_is_that_of_all_samples_at_once(
    labels: list[int], batch_size: int, ranks: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    output = torch.randn(len(labels), 3, generator=generator, dtype=torch.float64)
    target = torch.tensor(labels)
    order = ValidationOrder(len(labels), batch_size, 0, 1)
    batch_values = []
    for rank in range(ranks):
        for number in ValidationOrder(len(labels), batch_size, rank, ranks).batch_numbers():
            share = list(order.batch_indices(number))
            batch = WeightedModel(), output[share], target[share]
            with torch.no_grad():
                loss, weight = user_code.compute_weighted_loss(*batch)
            metrics = user_code.compute_metrics(*batch)
            values = BatchValues.of_batch(loss, metrics, *batch[1:], weight)
            message = decode(encode(values.to_message()))
            batch_values.append((number, BatchValues.from_message(message)))
    means = average_values(batch_values, order)
    if max(labels) < 0:
        assert math.isnan(means["validation/loss"])
        return
    expected = nn.functional.cross_entropy(output, target, WEIGHTS, ignore_index=-1)
    assert means["validation/loss"] == pytest.approx(float(expected))
    is_counted = target >= 0
    hits = (output.argmax(1) == target)[is_counted].double().mean()
    assert means["validation/accuracy"] == pytest.approx(float(hits))


def test_a_batch_in_which_nothing_counts_has_the_loss_0_and_no_gradient_of_nan() -> None:
    output = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    loss = user_code.compute_loss(WeightedModel(), output, torch.full((4,), -1))
    loss.backward()
    assert float(loss.detach()) == 0
    assert output.grad is not None
    assert torch.equal(output.grad, torch.zeros(4, 3, dtype=torch.float64))
