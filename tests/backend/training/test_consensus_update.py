"""The update of consensus training, in one process on the built-in digits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.records.jobs.torch_options import PUBLISHED_VARIANTS
from backend.training import user_code
from backend.training.checkpoint_content import random_state, restore_random_state
from backend.training.consensus import REACH, ConsensusSettings, ConsensusUpdate, reinitialized
from backend.training.data import TrainingOrder, seed_everything
from backend.training.model_parts import ModelParts

DIGITS = Path(__file__).parents[3] / "resources/gallery/digits"


class SplitTraining:
    """All parts of a network in one process.

    Attributes:
        parameters: Of all parts, for one optimizer.
    """

    def __init__(self, parts: ModelParts, rules: ConsensusSettings) -> None:
        self._rules = rules
        count = len(parts)
        twin_layers: list[torch.nn.Module] = []
        if rules.variant in PUBLISHED_VARIANTS:
            twin_layers = [reinitialized(copy.deepcopy(head)) for head in parts.first_layers[1:]]
        self.updates = [
            ConsensusUpdate(
                parts, number, rules, twin_layers[number] if number < len(twin_layers) else None
            )
            for number in range(count)
        ]
        self.parameters = [
            parameter for number in range(count) for parameter in parts.parameters(number)
        ]
        self.parameters += [
            parameter for twin_layer in twin_layers for parameter in twin_layer.parameters()
        ]

    def train(
        self, data: Any, loss_of: Callable[[Any], torch.Tensor], step: Callable[[], object]
    ) -> float:
        """Train on a batch; return its loss in the first round.

        Args:
            loss_of: Returns the loss of an output.
            step: One step of the optimizer.
        """
        saved_random = random_state(torch.device("cpu"))
        first = 0.0
        for update in self.updates:
            update.begin_batch()
        for number in range(self._rules.rounds):
            if number:
                restore_random_state(saved_random, torch.device("cpu"))
            for parameter in self.parameters:
                parameter.grad = None
            value: Any = None
            for update in self.updates:
                value = update.forward(data, None if value is None else value.detach())
            objective = loss_of(value)
            first = first if number else float(objective.detach())
            for update in reversed(self.updates):
                torch.autograd.backward(objective)
                if update is not self.updates[0]:
                    lower_update = self.updates[self.updates.index(update) - 1]
                    objective = lower_update.objective(update.answer())
            step()
        return first


@cache
def pictures() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    sets = user_code.open_data(DIGITS / "loader", DIGITS / "dataset")
    users: list[Any] = [data_set.user_dataset for data_set in sets if data_set is not None]
    training, validation = users
    return training.pictures, training.digits, validation.pictures, validation.digits


def digits_model(seed: int) -> torch.nn.Module:
    seed_everything(seed)
    return user_code.load_model(DIGITS / "model")


def accuracy(
    rules: ConsensusSettings | None,
    *,
    seed: int = 1,
    epochs: int = 3,
    lr: float = 0.03,
    steps: int = 1,
) -> float:
    """Train whole (None) or split after ``features``; return the validation's accuracy, or NaN.

    Args:
        steps: Of the whole network on each batch.
    """
    data, target, unseen_data, digits = pictures()
    model = digits_model(seed)
    seed_everything(seed + 1)
    split = SplitTraining(
        ModelParts(model, ["features"], 2, data[:32]), rules or ConsensusSettings()
    )
    optimizer = torch.optim.SGD(split.parameters, lr=lr, momentum=0.9)
    order = TrainingOrder(len(data), 32, 0, 1, seed)
    model.train()
    for order.epoch in range(1, epochs + 1):
        for batch in map(list, order):

            def loss_of(output: torch.Tensor, batch: list[int] = batch) -> torch.Tensor:
                return user_code.compute_loss(model, output, target[batch])

            if rules is not None:
                loss = split.train(data[batch], loss_of, optimizer.step)
            else:
                for _ in range(steps):
                    optimizer.zero_grad()
                    batch_loss = loss_of(model(data[batch]))
                    torch.autograd.backward(batch_loss)
                    optimizer.step()
                    loss = batch_loss.item()
            if not math.isfinite(loss):
                return math.nan
    model.eval()
    with torch.no_grad():
        return (model(unseen_data).argmax(1) == digits).float().mean().item()


@cache
def unsplit_accuracy(seed: int, epochs: int) -> float:
    return accuracy(None, seed=seed, epochs=epochs)


@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_one_round_has_the_gradients_of_backpropagation(beta: float) -> None:
    data, target, *_ = pictures()
    model = digits_model(1).eval()
    torch.autograd.backward(user_code.compute_loss(model, model(data[:32]), target[:32]))
    expected_gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    for cut in (["features"], ["features.0", "features.3"]):
        split = SplitTraining(
            ModelParts(model, cut, len(cut) + 1, data[:32]), ConsensusSettings(beta)
        )
        split.train(
            data[:32],
            lambda output: user_code.compute_loss(model, output, target[:32]),
            lambda: None,
        )
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("rounds", "beta"), [(2, 0.1), (3, 1.0)])
def test_several_rounds_train_as_well_as_the_whole_network(rounds: int, beta: float) -> None:
    assert accuracy(ConsensusSettings(beta, rounds)) >= unsplit_accuracy(1, 3) - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_over_five_seeds_each_beta_is_within_two_points_of_the_whole_network(
    rounds: int, beta: float
) -> None:
    seeds = range(1, 6)
    accuracies = [accuracy(ConsensusSettings(beta, rounds), seed=seed, epochs=8) for seed in seeds]
    assert sum(accuracies) >= sum(unsplit_accuracy(seed, 8) for seed in seeds) - 0.02 * len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_three_rounds_learn_as_well_as_three_steps_of_the_whole_network(beta: float) -> None:
    seeds = range(1, 6)
    split_accuracies = [accuracy(ConsensusSettings(beta, 3), seed=seed, epochs=8) for seed in seeds]
    unsplit_accuracies = [accuracy(None, seed=seed, epochs=8, steps=3) for seed in seeds]
    assert sum(split_accuracies) >= sum(unsplit_accuracies) - 0.02 * len(seeds)


@pytest.mark.parametrize(("rounds", "beta"), [(3, 0.001), (3, 1e5)])
def test_no_setting_makes_the_loss_infinite(rounds: int, beta: float) -> None:
    assert accuracy(ConsensusSettings(beta, rounds), epochs=1) > 0.5


@pytest.mark.parametrize("beta", [0.001, 1e5])
def test_a_copy_stays_near_its_activations_and_the_multiplier_within_the_gradient(
    beta: float,
) -> None:
    data, target, *_ = pictures()
    model = digits_model(1)
    upper_update = ConsensusUpdate(
        ModelParts(model, ["features"], 2, data[:8]), 1, ConsensusSettings(beta, 3)
    )

    def norms(values: torch.Tensor) -> torch.Tensor:
        return values.flatten(1).norm(dim=1)

    bound = torch.zeros(8)
    for _ in range(3):
        x = torch.rand(8, 64, 4, 4)
        output = upper_update.forward(data[:8], x)
        torch.autograd.backward(user_code.compute_loss(model, output, target[:8]))
        difference, u, raised_beta = upper_update.answer()
        assert (norms(difference) <= 1.001 * REACH * norms(x)).all()
        assert (norms(u) <= 1.001 * bound).all()
        bound = norms(u + raised_beta * difference)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("variant", PUBLISHED_VARIANTS)
def test_each_reading_of_the_published_error_has_its_gradient(variant: str, scale: float) -> None:
    data = pictures()[0]
    model = digits_model(1).eval()
    split = SplitTraining(
        ModelParts(model, ["features"], 2, data[:8]), ConsensusSettings(variant=variant)
    )
    lower_update, upper_update = split.updates
    x = lower_update.forward(data[:8], None)
    with torch.no_grad():
        x.mul_(scale)
    upper_update.forward(data[:8], x.detach())
    twin_parameters = split.parameters[-2:]
    upper_output = upper_update.answer()[0]
    lower_output = lower_update._twin_layer(data[:8], x)  # type: ignore[misc] # a published form has one

    def square(value: torch.Tensor) -> torch.Tensor:
        return value.flatten(1).square().sum(1)

    size = square(lower_output) + square(upper_output)
    expected_loss = {
        "dual-layer": square(lower_output - upper_output),
        "dual-layer-normalised": square(lower_output - upper_output) / size.detach(),
        "dual-layer-quotient": square(lower_output - upper_output) / size,
    }[variant].mean() / 2
    loss = lower_update.objective([upper_output])
    torch.testing.assert_close(loss, expected_loss)
    pairs = zip(
        torch.autograd.grad(loss, twin_parameters),
        torch.autograd.grad(expected_loss, twin_parameters),
        strict=True,
    )
    for gradient, expected_gradient in pairs:
        torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("variant", ["dual-layer", "dual-layer-normalised"])
def test_the_published_forms_stay_near_chance(variant: str) -> None:
    assert accuracy(ConsensusSettings(variant=variant)) < 0.2
