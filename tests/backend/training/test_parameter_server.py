"""A parameter server applies late gradients exactly as the papers have it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from backend.records.jobs.config import StrategyConfig
from backend.training.parameter_server import MEAN_SQUARE, Delays, ParameterServer, shards


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
    drawn = torch.Generator().manual_seed(1)
    staleness = []
    for worker in arrivals:
        gradients = [torch.randn(p.shape, generator=drawn) for p in model.parameters()]
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
    for ours, theirs in zip(none.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_late_gradient_is_compensated_by_the_way_that_the_parameters_went() -> None:
    model, server = served(dc_asgd(variant="constant", **{"lambda": 0.5}))
    before = [p.detach().clone() for p in model.parameters()]
    server.pull(1)
    server.pull(2)
    first = [torch.full_like(p, 0.3) for p in model.parameters()]
    late = [torch.full_like(p, 2.0) for p in model.parameters()]
    server.push(2, first, 0.1)
    now = [p.detach().clone() for p in model.parameters()]
    server.push(1, [one.clone() for one in late], 0.1)
    for p, g, w, backup in zip(model.parameters(), late, now, before, strict=True):
        torch.testing.assert_close(p.detach(), w - 0.1 * (g + 0.5 * g * g * (w - backup)))


def test_the_adaptive_lambda_follows_the_mean_square() -> None:
    model, server = served(dc_asgd(**{"lambda": 2.0}))
    means = [torch.zeros_like(p) for p in model.parameters()]
    copies = {worker: [p.detach().clone() for p in model.parameters()] for worker in (1, 2)}
    for worker in copies:
        server.pull(worker)
    drawn = torch.Generator().manual_seed(3)
    for worker in (1, 2, 1, 2, 2):
        expected = []
        gradients = [torch.randn(p.shape, generator=drawn) for p in model.parameters()]
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
    kept = copy.deepcopy(optimizer.state_dict())
    again = torch.optim.Adam(model.parameters(), lr=0.1)
    resumed = ParameterServer(list(model.parameters()), again, dc_asgd())
    again.load_state_dict(kept)
    for one in (server, resumed):
        one.pull(1)
    weights = [p.detach().clone() for p in model.parameters()]
    server.push(1, [torch.full_like(p, 2.0) for p in model.parameters()], 0.1)
    expected = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p, value in zip(model.parameters(), weights, strict=True):
            p.copy_(value)
    resumed.push(1, [torch.full_like(p, 2.0) for p in model.parameters()], 0.1)
    for p, value in zip(model.parameters(), expected, strict=True):
        assert torch.equal(p, value)
        means = optimizer.state[p][MEAN_SQUARE], again.state[p][MEAN_SQUARE]
        assert torch.equal(*means)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("variant", ["adaptive", "constant"])
@pytest.mark.parametrize("n_fetch", [1, 2, 5])
def test_a_worker_s_own_pushes_are_not_late(n_fetch: int, variant: str, momentum: float) -> None:
    results = []
    for strategy in (StrategyConfig("downpour"), dc_asgd(variant=variant)):
        model, server = served(strategy, momentum=momentum)
        drawn = torch.Generator().manual_seed(4)
        server.pull(1)
        for number in range(1, 13):
            gradients = [torch.randn(p.shape, generator=drawn) for p in model.parameters()]
            fetches = number % n_fetch == 0
            assert server.push(1, gradients, 0.1, fetches=fetches) == 0
            if fetches:
                server.pull(1)
        results.append(list(model.parameters()))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_a_gradient_between_fetches_is_compensated_by_the_updates_of_others() -> None:
    model, server = served(dc_asgd(variant="constant", **{"lambda": 0.5}))
    parameters = list(model.parameters())
    server.pull(1)
    server.pull(2)
    others = [torch.zeros_like(p) for p in parameters]
    drawn = torch.Generator().manual_seed(5)
    late = 0
    for worker in (1, 2, 2, 1, 1, 2, 1):
        gradients = [torch.randn(p.shape, generator=drawn) for p in parameters]
        before = [p.detach().clone() for p in parameters]
        staleness = server.push(worker, [one.clone() for one in gradients], 0.1, fetches=False)
        if worker == 2:
            late += 1
            others = [
                o + p.detach() - w for o, p, w in zip(others, parameters, before, strict=True)
            ]
            continue
        assert staleness == late
        for p, g, w, drift in zip(parameters, gradients, before, others, strict=True):
            torch.testing.assert_close(p.detach(), w - 0.1 * (g + 0.5 * g * g * drift))


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
    dealt = shards(parameters, 2)
    assert sorted(place for one in dealt for place in one) == list(range(16))
    sizes = [sum(parameters[place].numel() for place in one) for one in dealt]
    assert max(sizes) < 1.2 * min(sizes)
