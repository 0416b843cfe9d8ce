"""Batch L-BFGS over a function of one vector, without processes and messages.

The direction is from Nocedal & Wright, "Numerical Optimization" (2006), algorithm 7.4 (two-loop
recursion), the step length from 3.5 and 3.6 (strong Wolfe conditions), as `torch.optim.LBFGS` has
them: that optimizer evaluates its first point twice, and cannot stop within an iteration.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lbfgs

_MIN_SLOPE, _MIN_CURVATURE = 1e-9, 1e-10
"""Limits of torch.optim.LBFGS: the least slope for a step, and the least curvature of a pair."""


class Lbfgs:
    """Directions and step lengths from the last ``history`` steps.

    Attributes:
        pairs: Each step, and the change of the gradient over it.
    """

    def __init__(self, history: int, lr: float) -> None:
        self.pairs: deque[tuple[torch.Tensor, torch.Tensor]] = deque(maxlen=history)
        self.param_groups: list[dict[str, Any]] = []
        self._lr = lr

    def step(
        self,
        function: Callable[[torch.Tensor], tuple[float, torch.Tensor]],
        point: torch.Tensor,
        loss: float,
        gradient: torch.Tensor,
    ) -> tuple[torch.Tensor, float, torch.Tensor] | None:
        """Make one iteration; return the new point with its loss and gradient.

        Where no step along the direction lowers the loss, the direction of the gradient is
        searched, without the pairs. None: no step lowers the loss, so it has converged. An
        exception of ``function`` leaves a state from which the same step is made.
        """
        while (result := self._search(function, point, loss, gradient)) is None and self.pairs:
            self.pairs.clear()
        return result

    def _search(
        self,
        function: Callable[[torch.Tensor], tuple[float, torch.Tensor]],
        point: torch.Tensor,
        loss: float,
        gradient: torch.Tensor,
    ) -> tuple[torch.Tensor, float, torch.Tensor] | None:
        """Search along `direction` only; None if no step lowers the loss."""
        direction = self.direction(gradient)
        slope = gradient.dot(direction)
        if slope > -_MIN_SLOPE:
            return None
        initial_length = self._lr * (
            1.0 if self.pairs else min(1.0, 1.0 / float(gradient.abs().sum()))
        )

        def evaluate_along(start: torch.Tensor, length: Any, direction: torch.Tensor) -> Any:
            point = torch.add(start, direction, alpha=float(length))
            value, slopes = function(point)
            if math.isfinite(value) and slopes.isfinite().all():
                return value, slopes
            # The search halves its interval towards the start.
            return math.inf, torch.full_like(slopes, math.nan)

        # Not a public name, but with these arguments since torch 1.2; at most 25 evaluations.
        search: Any = lbfgs._strong_wolfe
        value, slopes, length, _ = search(
            evaluate_along, point, initial_length, direction, loss, gradient, slope
        )
        if not value < loss:
            return None
        step, change = float(length) * direction, slopes - gradient
        if step.dot(change) > _MIN_CURVATURE:
            self.pairs.append((step, change))
        return torch.add(point, direction, alpha=float(length)), value, slopes

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return minus the approximate inverse Hessian times the gradient."""
        direction = -gradient
        parts = []
        for step, change in reversed(self.pairs):
            part = step.dot(direction) / step.dot(change)
            parts.append(part)
            direction -= part * change
        if self.pairs:
            step, change = self.pairs[-1]
            direction *= step.dot(change) / change.dot(change)
        for (step, change), part in zip(self.pairs, reversed(parts), strict=True):
            direction += (part - change.dot(direction) / step.dot(change)) * step
        return direction

    def state_dict(self) -> dict[str, Any]:
        """Return the pairs, in the form of an optimizer of torch."""
        pairs = [{"step": step, "change": change} for step, change in self.pairs]
        return {"state": dict(enumerate(pairs)), "param_groups": []}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the pairs of a checkpoint; only the last pairs, if the history is shorter now.

        Raises:
            KeyError: The state is of another optimizer.
        """
        pairs = [state["state"][number] for number in sorted(state["state"])]
        self.pairs.extend((pair["step"], pair["change"]) for pair in pairs)
