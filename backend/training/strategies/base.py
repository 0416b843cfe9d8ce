"""What the training loop asks of a strategy: how the workers of one job cooperate.

The loop computes an output and a loss; everything that crosses from one rank to another goes
through here. A strategy that averages gradients (``allreduce``, later ``ddp``) implements `adopt`,
`zero` and `reduce`. One that exchanges parameters (``downpour``, ``dc-asgd``) pulls them in
`zero`, pushes the gradient in `reduce` and hands the loop's own optimizer nothing to do by
overriding `step`. Either way the *ballot* travels with whatever `reduce` sends, so that agreeing
costs no message of its own, and every rank leaves `reduce` with the same ballot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Strategy(ABC):
    """One rank's part in the job. Every method but the properties is called by all ranks alike."""

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
        """Meet the other ranks, after `load`. `rank` and `world_size` hold afterwards."""

    @abstractmethod
    def share_model(self, model: torch.nn.Module) -> None:
        """Every rank gets rank 0's parameters and buffers."""

    @abstractmethod
    def share_buffers(self, model: torch.nn.Module) -> None:
        """Every rank gets rank 0's buffers (running means), before all judge one model."""

    @abstractmethod
    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        """Prepare for steps with this model.

        Returns:
            The ballot: a float32 vector on the model's device. The loop fills it before each
            backward pass and reads it after `reduce`.
        """

    @abstractmethod
    def zero(self) -> None:
        """Before a backward pass: no gradients yet. The ballot is filled."""

    @abstractmethod
    def reduce(self) -> None:
        """After a backward pass: gradients and ballot become the mean over all ranks.

        A rank whose step did not use a parameter counts as a gradient of zeros. Where no rank used
        it, its ``grad`` is None afterwards, so that weight decay and momentum do not change it.
        """

    @abstractmethod
    def gradient_norm(self) -> torch.Tensor:
        """Norm over all gradients, as `reduce` left them."""

    @abstractmethod
    def scale_gradients(self, factor: torch.Tensor) -> None: ...

    def step(self, update: Callable[[], None]) -> None:
        """Apply the gradients; ``update`` is one step of the job's optimizer."""
        update()

    @abstractmethod
    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Sum of ``values`` (float64, on the processor) over all ranks."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank. Costs some milliseconds; never once a step."""

    @abstractmethod
    def leave(self) -> None:
        """Part from the other ranks, when all are done."""
