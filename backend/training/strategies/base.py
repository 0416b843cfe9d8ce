"""Interface of a strategy: how the workers of one job cooperate in the training loop.

The loop computes an output and a loss; everything that is exchanged between ranks goes through the
strategy. A strategy that averages gradients (``allreduce``, later ``ddp``) implements `adopt`,
`zero` and `reduce`. One that exchanges parameters (``downpour``, ``dc-asgd``) pulls them in `zero`,
pushes the gradient in `reduce`, and overrides `step` so that the loop's own optimizer does nothing.
Either way the *sync vector* is part of what `reduce` sends, so that agreement costs no message of
its own, and every rank has the same vector after `reduce`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Strategy(ABC):
    """One rank's part in the job. All ranks call every method; the properties are local."""

    name: str

    @property
    @abstractmethod
    def rank(self) -> int: ...

    @property
    @abstractmethod
    def world_size(self) -> int: ...

    @abstractmethod
    def load(self) -> None:
        """Import what the strategy needs, so that `join` imports nothing.

        Raises:
            BackendError: It is not installed here.
        """

    @abstractmethod
    def join(self, stall_limit_s: float) -> None:
        """Meet the other ranks, after `load`. `rank` and `world_size` are valid afterwards."""

    @abstractmethod
    def share_model(self, model: torch.nn.Module) -> None:
        """Copy rank 0's parameters and buffers to every rank."""

    @abstractmethod
    def share_buffers(self, model: torch.nn.Module) -> None:
        """Copy rank 0's buffers (running means) to every rank, before all evaluate one model."""

    @abstractmethod
    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        """Prepare for steps with this model.

        Returns:
            The sync vector: float32, on the model's device. The loop fills it before each backward
            pass and reads it after `reduce`.
        """

    @abstractmethod
    def zero(self) -> None:
        """Clear the gradients before a backward pass. The sync vector is filled."""

    @abstractmethod
    def reduce(self) -> None:
        """Average gradients and sync vector over all ranks after a backward pass.

        A rank whose step did not use a parameter counts as a gradient of zeros. If no rank used it,
        its ``grad`` is None afterwards, so that weight decay and momentum do not change it.
        """

    @abstractmethod
    def gradient_norm(self) -> torch.Tensor:
        """Return the norm over all gradients, as `reduce` left them."""

    @abstractmethod
    def scale_gradients(self, factor: torch.Tensor) -> None: ...

    def step(self, update: Callable[[], None]) -> None:
        """Apply the gradients; ``update`` is one step of the job's optimizer."""
        update()

    @abstractmethod
    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of ``values`` (float64, on the CPU) over all ranks."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank. Costs some milliseconds; never once a step."""

    @abstractmethod
    def leave(self) -> None:
        """Disconnect from the other ranks, when all are done."""
