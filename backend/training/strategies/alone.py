"""One process with plain PyTorch: for laptops, tests, and nodes without Horovod.

A model trains here as it does with `AllReduce` on one process: sparse gradients become dense, and a
parameter that a step does not use has no gradient, so that the optimizer does not change it.
"""

from __future__ import annotations

from typing import Any

import torch

from backend.training.strategies.base import Strategy


class Alone(Strategy):
    name = "alone"

    def __init__(self) -> None:
        self._parameters: list[torch.nn.Parameter] = []

    @property
    def rank(self) -> int:
        return 0

    @property
    def world_size(self) -> int:
        return 1

    def load(self) -> None:
        pass

    def join(self, stall_limit_s: float) -> None:
        pass

    def share_model(self, model: torch.nn.Module) -> None:
        pass

    def share_buffers(self, model: torch.nn.Module) -> None:
        pass

    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        return torch.zeros(ballot_size, device=self._parameters[0].device)

    def zero(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def reduce(self) -> None:
        for parameter in self._parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()

    def gradient_norm(self) -> torch.Tensor:
        return torch.nn.utils.get_total_norm(self._gradients())

    def scale_gradients(self, factor: torch.Tensor) -> None:
        torch._foreach_mul_(self._gradients(), factor)

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self._parameters if p.grad is not None]

    def total(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def leave(self) -> None:
        pass
