"""Parameter server, which applies the gradients of the workers in the order of arrival.

Downpour SGD is from Dean et al., "Large scale distributed deep networks" (NIPS 2012), section 4.1;
the compensation of delay from Zheng et al., "Asynchronous stochastic gradient descent with delay
compensation" (ICML 2017, arXiv 1609.08326), equations 10 and 15. No process and no message here, so
that a test or a simulation decides the order of arrival.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch

from backend.records.jobs.config import StrategyConfig
from backend.training.optimizer import set_rate

_WINDOW = 100
"""Number of last updates over which staleness is reported."""
_DECAY, _EPSILON = 0.95, 1e-7
MEAN_SQUARE = "mean_square"
"""Key in the optimizer's state of a parameter, and so in every checkpoint."""


class Staleness:
    """Numbers of other updates between a worker's pull and its push, of the last 100 pushes."""

    def __init__(self) -> None:
        self._last_updates: deque[int] = deque(maxlen=_WINDOW)

    def add(self, updates: int) -> None:
        self._last_updates.append(updates)

    def metrics(self) -> dict[str, float]:
        """Return mean, 95th percentile and maximum, as curves of the job; none without a push."""
        if not self._last_updates:
            return {}
        ordered_workers = sorted(self._last_updates)
        return {
            "staleness mean": sum(ordered_workers) / len(ordered_workers),
            "staleness p95": float(ordered_workers[math.ceil(0.95 * len(ordered_workers)) - 1]),
            "staleness max": float(ordered_workers[-1]),
        }


class ParameterServer:
    """Parameters of one server, and the job's optimizer over them.

    Attributes:
        version: The number of updates.
        trained_flags: A flag for each parameter that was ever trained; the others are in no pull.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        optimizer: torch.optim.Optimizer,
        strategy: StrategyConfig,
    ) -> None:
        self.parameters = list(parameters)
        self.trained_flags = bytearray(trained_flags(parameters))
        self.version = 0
        self.staleness = Staleness()
        self._optimizer = optimizer
        self._strength = strategy.compensation
        self._is_adaptive = strategy.is_adaptive
        self._pulled_versions: dict[int, int] = {}
        self._copies: dict[int, dict[int, torch.Tensor]] = {}
        self._new_means: dict[int, torch.Tensor] = {}

    def pull(self, worker: int) -> list[torch.Tensor]:
        """Return a copy of the parameters for this worker, which its next pull changes."""
        self._pulled_versions[worker] = self.version
        copies = self._copies.setdefault(worker, {})
        for index, parameter in compress(enumerate(self.parameters), self.trained_flags):
            if index not in copies:
                copies[index] = torch.empty_like(parameter)
            copies[index].copy_(parameter.detach())
        return [
            copies[index] for index in compress(range(len(self.parameters)), self.trained_flags)
        ]

    def thaw(self, index: int) -> None:
        """Train a parameter from now on; each worker's copy still has the current value."""
        self.trained_flags[index] = True
        for copies in self._copies.values():
            copies[index] = self.parameters[index].detach().clone()

    @torch.no_grad()
    def push(
        self,
        worker: int,
        gradients: Sequence[torch.Tensor | None],
        rate: float,
        *,
        does_fetch: bool = True,
    ) -> int:
        """Apply a worker's gradients; return their staleness.

        Args:
            gradients: The gradient of each parameter, None where the worker's steps did not use it.
            rate: The learning rate of this update.
            does_fetch: The worker pulls next. Otherwise it continues with its own copy, less the
                gradients times the rate: w_bak of the next push.
        """
        staleness = self.version - self._pulled_versions[worker]
        self._pulled_versions[worker] += 1
        copies = self._copies[worker]
        for index, (parameter, gradient) in enumerate(zip(self.parameters, gradients, strict=True)):
            if gradient is not None and self._strength:
                drift = parameter - copies[index]
                if not does_fetch:
                    copies[index].sub_(gradient, alpha=rate)
                gradient = gradient + self._compensation(index, gradient, drift)
            parameter.grad = gradient
        set_rate(self._optimizer, rate)
        self._optimizer.step()
        # After the step: an optimizer makes its own state where it has none.
        for index, mean in self._new_means.items():
            self._optimizer.state[self.parameters[index]][MEAN_SQUARE] = mean
        self._new_means.clear()
        self.version += 1
        self.staleness.add(staleness)
        return staleness

    def _compensation(
        self, index: int, gradient: torch.Tensor, drift: torch.Tensor
    ) -> torch.Tensor:
        """Return lambda_t · g · g · drift, elementwise; the drift is w − w_bak."""
        parameter = self.parameters[index]
        square = gradient * gradient
        if not self._is_adaptive:
            return self._strength * square * drift
        mean = self._optimizer.state.get(parameter, {}).get(MEAN_SQUARE)
        if mean is None:
            mean = self._new_means[index] = torch.zeros_like(parameter)
        mean.mul_(_DECAY).add_(square, alpha=1 - _DECAY)
        return self._strength / torch.sqrt(mean + _EPSILON) * square * drift

    def release(self, worker: int) -> None:
        """Release the copies of a worker that has ended."""
        self._pulled_versions.pop(worker, None)
        self._copies.pop(worker, None)


def trained_flags(parameters: Sequence[torch.nn.Parameter]) -> bytes:
    """Return a flag for each parameter: whether it is in training now."""
    return bytes(parameter.requires_grad for parameter in parameters)


def sent_parameters(
    parameters: Sequence[torch.nn.Parameter], message: Mapping[str, Any]
) -> list[torch.nn.Parameter]:
    """Return the parameters of a server whose tensors come with a message."""
    return list(compress(parameters, message.get("sent", b"")))


def shard_indices(parameters: Sequence[torch.nn.Parameter], servers: int) -> list[list[int]]:
    """Deal parameters to servers with about equal bytes, first those in training; return their
    indices."""
    indices: list[list[int]] = [[] for _ in range(servers)]
    loads = [0] * servers

    def sort_key(index: int) -> tuple[bool, int]:
        return parameters[index].requires_grad, parameters[index].numel()

    for index in sorted(range(len(parameters)), key=sort_key, reverse=True):
        server = loads.index(min(loads))
        indices[server].append(index)
        loads[server] += parameters[index].numel() * parameters[index].element_size()
    return [sorted(server_indices) for server_indices in indices]


@dataclass(frozen=True)
class Delays:
    """Simulated order of arrival: every push is ``delay`` updates late, exactly or on average."""

    delay: int
    is_random: bool = False
    seed: int = 1

    @property
    def workers(self) -> int:
        return self.delay + 1

    def arrivals(self, pushes: int) -> list[int]:
        """Return the worker of each push; a worker pulls right after its push.

        In turn, each of ``delay + 1`` workers is late by ``delay`` updates, once all have pushed.
        If each is as likely to be the next, the number has this mean, and a geometric distribution.
        """
        if not self.is_random:
            return [number % self.workers for number in range(pushes)]
        generator = random.Random(self.seed)
        return [generator.randrange(self.workers) for _ in range(pushes)]
