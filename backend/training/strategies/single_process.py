"""One process with plain PyTorch: for laptops, tests, and nodes without Horovod.

A model trains here as it does with `AllReduce` on one process.
"""

from __future__ import annotations

from typing import Any

import torch

from backend.training.strategies.base import LocalGradients


class SingleProcess(LocalGradients):
    name = "alone"

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

    def broadcast(self, values: torch.Tensor) -> None:
        pass

    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def gather_bytes(self, content: torch.Tensor) -> list[torch.Tensor]:
        return [content]

    def leave(self) -> None:
        pass
