"""A parameter server applies late gradients exactly as the papers have it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from backend.records.jobs.config import StrategyConfig
from backend.training.parameter_server import MEAN_SQUARE, Delays, ParameterServer, shard_indices


def served(strategy: StrategyConfig, **sgd: Any) -> tuple[nn.Linear, ParameterServer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **sgd)
    return model, ParameterServer(list(model.parameters()), optimizer, strategy)


def pushed(
    strategy: StrategyConfig, arrivals: Sequence[int], **sgd: Any
) -> tuple[nn.Linear, list[int]]:
    """Push made-up gradients in this order of workers, each of which pulls again at once."""
    model, server = served(strategy, **sgd)
    for worker in set(arrivals):
        server.pull(worker)
    generator = torch.Generator().manual_seed(1)
    staleness = []
    for worker in arrivals:
        gradients = [torch.randn(p.shape, generator=generator) for p in model.parameters()]
        staleness.append(server.push(worker, gradients, 0.1))
        server.pull(worker)
    return model, staleness


def dc_asgd(**settings: Any) -> StrategyConfig:
    return StrategyConfig("dc-asgd", settings=settings)


@pytest.mark.parametrize("variant", ["adaptive", "constant"])
def test_without_lambda_delay_compensation_is_downpour_bit_by_bit(variant: str) -> None:
    arrivals = [0, 1, 2, 1, 0, 0, 2, 1, 1, 2]
    plain, _ = pushed(StrategyConfig("downpour"), arrivals, momentum=0.9)
    none, _ = pushed(dc_asgd(variant=variant, **{"lambda": 0.0}), arrivals, momentum=0.9)
    for none_parameter, plain_parameter in zip(none.parameters(), plain.parameters(), strict=True):
        assert torch.equal(none_parameter, plain_parameter)


def test_a_late_gradient_is_compensated_by_the_way_that_the_parameters_went() -> None:
    model, server = served(dc_asgd(variant="constant", **{"lambda": 0.5}))
    previous_values = [p.detach().clone() for p in model.parameters()]
    server.pull(1)
    server.pull(2)
    first = [torch.full_like(p, 0.3) for p in model.parameters()]
    late_gradients = [torch.full_like(p, 2.0) for p in model.parameters()]
    server.push(2, first, 0.1)
    now = [p.detach().clone() for p in model.parameters()]
    server.push(1, [gradient.clone() for gradient in late_gradients], 0.1)
    for p, g, w, backup in zip(
        model.parameters(), late_gradients, now, previous_values, strict=True
    ):
        torch.testing.assert_close(p.detach(), w - 0.1 * (g + 0.5 * g * g * (w - backup)))


def test_the_adaptive_lambda_follows_the_mean_square() -> None:
    model, server = served(dc_asgd(**{"lambda": 2.0}))
    means = [torch.zeros_like(p) for p in model.parameters()]
    copies = {worker: [p.detach().clone() for p in model.parameters()] for worker in (1, 2)}
    for worker in copies:
        server.pull(worker)
    generator = torch.Generator().manual_seed(3)
    for worker in (1, 2, 1, 2, 2):
        expected = []
        gradients = [torch.randn(p.shape, generator=generator) for p in model.parameters()]
        for n, (p, g) in enumerate(zip(model.parameters(), gradients, strict=True)):
            means[n] = 0.95 * means[n] + 0.05 * g * g
            strength = 2.0 / torch.sqrt(means[n] + 1e-7)
            w = p.detach()
            expected.append(w - 0.1 * (g + strength * g * g * (w - copies[worker][n])))
        server.push(worker, gradients, 0.1)
        for p, value in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(p.detach(), value)
        copies[worker] = [p.clone().detach() for p in server.pull(worker)]


def test_the_mean_square_is_in_the_checkpoint_and_an_optimizer_with_own_state_works() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    server = ParameterServer(list(model.parameters()), optimizer, dc_asgd())
    server.pull(1)
    server.push(1, [torch.ones_like(p) for p in model.parameters()], 0.1)
    saved_state = copy.deepcopy(optimizer.state_dict())
    second_optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    resumed = ParameterServer(list(model.parameters()), second_optimizer, dc_asgd())
    second_optimizer.load_state_dict(saved_state)
    for parameter_server in (server, resumed):
        parameter_server.pull(1)
    weights = [p.detach().clone() for p in model.parameters()]
    server.push(1, [torch.full_like(p, 2.0) for p in model.parameters()], 0.1)
    expected = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p, value in zip(model.parameters(), weights, strict=True):
            p.copy_(value)
    resumed.push(1, [torch.full_like(p, 2.0) for p in model.parameters()], 0.1)
    for p, value in zip(model.parameters(), expected, strict=True):
        assert torch.equal(p, value)
        means = optimizer.state[p][MEAN_SQUARE], second_optimizer.state[p][MEAN_SQUARE]
        assert torch.equal(*means)


@pytest.mark.parametrize("variant", ["adaptive", "constant"])
@pytest.mark.parametrize(("n_fetch", "momentum"), [(1, 0.0), (2, 0.0), (5, 0.0), (1, 0.9)])
def test_a_worker_s_own_pushes_are_not_late(n_fetch: int, variant: str, momentum: float) -> None:
    results = []
    for strategy in (StrategyConfig("downpour"), dc_asgd(variant=variant)):
        model, server = served(strategy, momentum=momentum)
        generator = torch.Generator().manual_seed(4)
        server.pull(1)
        for number in range(1, 13):
            gradients = [torch.randn(p.shape, generator=generator) for p in model.parameters()]
            fetches = number % n_fetch == 0
            assert server.push(1, gradients, 0.1, does_fetch=fetches) == 0
            if fetches:
                server.pull(1)
        results.append(list(model.parameters()))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@given(
    pushes=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=40),
    variant=st.sampled_from(["constant", "adaptive"]),
)
def test_a_push_is_compensated_from_the_copy_on_which_its_worker_made_it(
    pushes: list[tuple[int, bool]], variant: str
) -> None:
    """Compare with equations 10 and 15 of the paper, in NumPy; a worker may fetch rarely."""
    strength, rate, generator = 0.5, 0.1, np.random.default_rng(5)
    model, server = served(dc_asgd(variant=variant, **{"lambda": strength}))
    flat = lambda: np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])  # noqa: E731
    weights = flat().astype(np.float64)
    mean_square = np.zeros_like(weights)
    copies = {worker: weights.copy() for worker in range(3)}
    for worker in copies:
        server.pull(worker)
    for worker, fetches in pushes:
        gradients = [
            torch.from_numpy(generator.normal(size=p.shape)).float() for p in model.parameters()
        ]
        g = np.concatenate([gradient.numpy().ravel() for gradient in gradients]).astype(np.float64)
        server.push(worker, gradients, rate, does_fetch=fetches)
        factor: Any = strength
        if variant == "adaptive":
            mean_square = 0.95 * mean_square + 0.05 * g * g
            factor = strength / np.sqrt(mean_square + 1e-7)
        weights = weights - rate * (g + factor * g * g * (weights - copies[worker]))
        copies[worker] = copies[worker] - rate * g
        if fetches:
            server.pull(worker)
            copies[worker] = weights.copy()
        np.testing.assert_allclose(flat(), weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("delay", [0, 3, 7])
def test_the_staleness_reported_is_the_staleness_made(delay: int) -> None:
    _, server = served(StrategyConfig("downpour"))
    delays = Delays(delay)
    for worker in range(delays.workers):
        server.pull(worker)
    reported = []
    for worker in delays.arrivals(200):
        reported.append(server.push(worker, [None, None], 0.1))
        server.pull(worker)
    assert set(reported[delay:]) == {delay}
    assert server.staleness.metrics() == {
        "staleness mean": delay,
        "staleness p95": delay,
        "staleness max": delay,
    }


@pytest.mark.parametrize("delay", [0, 1, 2, 4, 8, 16])
def test_a_random_delay_has_this_mean(delay: int) -> None:
    _, server = served(StrategyConfig("downpour"))
    delays = Delays(delay, is_random=True)
    for worker in range(delays.workers):
        server.pull(worker)
    reported = []
    for worker in delays.arrivals(4000):
        reported.append(server.push(worker, [None, None], 0.1))
        server.pull(worker)
    assert sum(reported) / len(reported) == pytest.approx(delay, rel=0.02)


def test_parameters_are_dealt_evenly_and_each_once() -> None:
    model = nn.Sequential(*(nn.Linear(10, 20 + width) for width in range(8)))
    parameters = list(model.parameters())
    dealt = shard_indices(parameters, 2)
    assert sorted(index for server_indices in dealt for index in server_indices) == list(range(16))
    sizes = [sum(parameters[index].numel() for index in server_indices) for server_indices in dealt]
    assert max(sizes) < 1.2 * min(sizes)
