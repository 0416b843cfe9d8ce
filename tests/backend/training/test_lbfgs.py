"""L-BFGS takes the steps of torch's optimizer, and stays where none is possible."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from backend.training.lbfgs import Lbfgs

Function = Callable[[torch.Tensor], tuple[float, torch.Tensor]]


def with_gradient(value: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    def function(point: torch.Tensor) -> tuple[float, torch.Tensor]:
        variable = point.clone().requires_grad_()
        loss = value(variable)
        return loss.item(), torch.autograd.grad(loss, variable)[0]

    return function


def rosenbrock(x: torch.Tensor) -> torch.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def start() -> torch.Tensor:
    return torch.linspace(-1.5, 1.5, 8, dtype=torch.float64)


def steps(
    optimizer: Lbfgs, function: Function, point: torch.Tensor, count: int
) -> tuple[torch.Tensor, float]:
    """Make as many steps, or those until it has converged."""
    loss, gradient = function(point)
    for _ in range(count):
        if (result := optimizer.step(function, point, loss, gradient)) is None:
            break
        point, loss, gradient = result
    return point, loss


@pytest.mark.parametrize("history", [2, 10])
def test_lbfgs_takes_the_steps_of_torchs_optimizer(history: int) -> None:
    own_optimizer = Lbfgs(history, 1.0)
    parameter = torch.nn.Parameter(start())
    optimizer = torch.optim.LBFGS(
        [parameter], max_iter=1, max_eval=26, history_size=history, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = rosenbrock(parameter)
        torch.autograd.backward(loss)
        return loss

    for count in range(1, 26):
        point, _ = steps(Lbfgs(history, 1.0), with_gradient(rosenbrock), start(), count)
        optimizer.step(closure)
        torch.testing.assert_close(point, parameter.detach(), rtol=1e-6, atol=1e-9)
    _, loss = steps(own_optimizer, with_gradient(rosenbrock), start(), 80)
    assert loss < (1e-6 if history == 10 else 1.0)


@pytest.mark.parametrize("wall", [math.nan, math.inf])
def test_lbfgs_avoids_points_without_a_loss(wall: float) -> None:
    def value(x: torch.Tensor) -> torch.Tensor:
        loss = (x**2).sum() - x.sum()
        return loss if float(x.detach().max()) < 0.6 else loss * wall

    point = torch.tensor([-40.0, -30.0, 0.0], dtype=torch.float64)
    losses, _ = steps(Lbfgs(10, 100.0), with_gradient(value), point, 30)
    torch.testing.assert_close(losses, torch.full_like(losses, 0.5), rtol=1e-3, atol=1e-3)


def test_lbfgs_has_converged_where_no_step_lowers_the_loss() -> None:
    optimizer = Lbfgs(10, 1.0)
    point, loss = steps(optimizer, with_gradient(rosenbrock), start(), 5)
    assert optimizer.pairs

    def rising_loss(point: torch.Tensor) -> tuple[float, torch.Tensor]:
        return loss + 1.0, torch.ones_like(point)

    assert optimizer.step(rising_loss, point, loss, torch.ones_like(point)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [2, 4])
def test_after_lbfgs_has_converged_no_step_follows(power: int, dtype: torch.dtype) -> None:
    evaluated_points = []

    def bowl(x: torch.Tensor) -> torch.Tensor:
        evaluated_points.append(x)
        return (x - 1).abs().pow(power).sum()

    optimizer, function = Lbfgs(10, 1.0), with_gradient(bowl)
    point, loss = steps(optimizer, function, start().to(dtype), 1000)
    count, gradient = len(evaluated_points), function(point)[1]
    assert count < 1000, "it converged"
    assert optimizer.step(function, point, loss, gradient) is None
    assert loss == pytest.approx(0.0, abs=1e-9)


def test_a_step_along_the_gradient_follows_in_the_same_iteration_if_the_pairs_lead_uphill() -> None:
    optimizer = Lbfgs(10, 1.0)
    point, loss = steps(optimizer, with_gradient(rosenbrock), start(), 5)
    _, gradient = with_gradient(rosenbrock)(point)
    # A pair whose curvature is of another function: its direction leads uphill.
    step = torch.ones_like(gradient)
    optimizer.pairs.append((step, -step))
    result = optimizer.step(with_gradient(rosenbrock), point, loss, gradient)
    assert result is not None
    assert result[1] < loss
    assert len(optimizer.pairs) <= 1, "the pairs that failed are dropped"


def test_an_error_within_an_iteration_leaves_all_as_it_was() -> None:
    optimizer = Lbfgs(10, 1.0)
    point, _ = steps(optimizer, with_gradient(rosenbrock), start(), 5)
    previous_state = optimizer.state_dict()
    loss, gradient = with_gradient(rosenbrock)(point)

    def stopping_function(point: torch.Tensor) -> tuple[float, torch.Tensor]:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        optimizer.step(stopping_function, point, loss, gradient)
    assert optimizer.state_dict() == previous_state


def test_a_shorter_history_takes_the_last_steps_of_a_checkpoint() -> None:
    long, short = Lbfgs(10, 1.0), Lbfgs(2, 1.0)
    steps(long, with_gradient(rosenbrock), start(), 5)
    short.load_state_dict(long.state_dict())
    assert list(short.pairs) == list(long.pairs)[-2:]
