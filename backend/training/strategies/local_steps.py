"""Strategies whose ranks do not exchange gradients: the sync vector is the message of a step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import torch

from backend.training.finite import norm_of
from backend.training.strategies.base import LocalGradients


class SyncMessage(LocalGradients):
    """Strategy that sends the sync vector alone, with the square of the norm of its gradients."""

    def adopt(
        self, model: torch.nn.Module, sync_size: int, names: Collection[str] | None = None
    ) -> torch.Tensor:
        self._sync = super().adopt(model, sync_size, names)
        return self._sync

    def reduce(self) -> None:
        super().reduce()
        square = norm_of(self._gradients()).square().reshape(1)
        # The sum of squares, with the sync vector, whose ranks are averaged.
        message = torch.cat([self._sync / self.world_size, square.to(self._sync)])
        message = self.sum_over_ranks(message)
        self._sync.copy_(message[:-1])
        self._norm = message[-1].sqrt()

    def gradient_norm(self) -> torch.Tensor:
        return self._norm


class LocalSteps(SyncMessage):
    """Strategy of local SGD: each rank trains on its own, and `periods.Periods` averages.

    The gradient norm is the root mean square over the ranks, so that all clip alike.
    """

    sent_dtype: torch.dtype | None = None
    """Type of the sent changes of the weights, None for that of the weights."""

    @abstractmethod
    def send(self, values: torch.Tensor, name: str, *, is_adasum: bool = False) -> Any:
        """Begin to average ``values`` in place; return a handle for `receive`."""

    @abstractmethod
    def receive(self, handle: Any) -> None:
        """Wait until the values are averaged."""

    def average_thawed(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Keep the gradients, which are this rank's as all others."""

    def reduce(self) -> None:
        super().reduce()
        self._norm = self._norm / self.world_size**0.5

    def average(
        self, tensors: Sequence[torch.Tensor], sent_dtype: torch.dtype | None = None
    ) -> None:
        """Average tensors over all ranks in place, in one message for each type of numbers."""
        groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
        for tensor in tensors:
            numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            groups.setdefault((numbers.device, numbers.dtype), []).append(numbers)
        for (_, dtype), members in groups.items():
            # MPI does not take 16 bits of the range of 32.
            is_wide = dtype in (torch.float32, torch.float64)
            flat = torch.cat([numbers.reshape(-1) for numbers in members])
            flat = flat.to((sent_dtype or dtype) if is_wide else torch.float32)
            self.receive(self.send(flat, f"period-{dtype}"))
            means = torch.split(flat, [numbers.numel() for numbers in members])
            for numbers, mean in zip(members, means, strict=True):
                numbers.copy_(mean.view_as(numbers))
