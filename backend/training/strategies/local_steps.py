"""Strategies whose ranks do not exchange gradients: the sync vector is the message of a step.

In local SGD the ranks train on their own for a period, and average their weights at the end. After
Douillard et al., *DiLoCo* (arXiv 2311.08105), algorithm 1: the mean change of the weights since the
beginning of a period is the gradient of an outer step with Nesterov momentum. With an outer rate of
1 and no outer momentum the ranks continue with the mean of their weights (local SGD, Stich, arXiv
1805.09767).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from backend.records.jobs.config import StrategyConfig
from backend.training.finite import norm_of
from backend.training.optimizer import grouped_parameters
from backend.training.strategies.base import LocalGradients, trainable_parameters


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
            vector = torch.cat([numbers.reshape(-1) for numbers in members])
            vector = vector.to((sent_dtype or dtype) if is_wide else torch.float32)
            self.receive(self.send(vector, f"period-{dtype}"))
            means = torch.split(vector, [numbers.numel() for numbers in members])
            for numbers, mean in zip(members, means, strict=True):
                numbers.copy_(mean.view_as(numbers))


class Periods:
    """Weights at the beginning of the current period, and the outer momentum, on each rank.

    A period ends after ``average_every`` steps of an epoch and at the end of the epoch, so that one
    model is validated. What a checkpoint holds is equal on all ranks: before one is saved, weights
    and optimizer states of the ranks are averaged, and the run itself continues with these. So a
    resume continues as the run that saved it, on any number of ranks.
    """

    def __init__(
        self, config: StrategyConfig, strategy: LocalSteps, saved_state: Mapping[str, Any] | None
    ) -> None:
        """``saved_state``: what `state` returned for a checkpoint; None without it."""
        self._strategy = strategy
        self._step_count = config.average_every
        self._rate = float(config.setting("outer_lr"))
        self._momentum = float(config.setting("outer_momentum"))
        self._anchors: dict[str, torch.Tensor] = dict(saved_state["anchors"]) if saved_state else {}
        self._velocities: dict[str, torch.Tensor] = (
            dict(saved_state["velocities"]) if saved_state else {}
        )
        self._parameters: dict[str, torch.nn.Parameter] = {}
        # Whether all ranks have the same weights, and the same state of the optimizer.
        self._has_equal_weights = self._has_equal_states = True

    def use_model(self, model: torch.nn.Module, names: Collection[str]) -> None:
        """Use the model's current parameters of these names, before a step changes them."""
        self._parameters = trainable_parameters(model, names)
        for values in (self._anchors, self._velocities):
            for name, parameter in self._parameters.items():
                if name in values:
                    values[name] = values[name].to(parameter)
                elif values is self._anchors:
                    values[name] = parameter.detach().clone()
                else:
                    values[name] = torch.zeros_like(parameter)

    def end_step(self, epoch_step: int, optimizer: torch.optim.Optimizer, *, is_last: bool) -> None:
        """End the period if it is over; all ranks call this after each step.

        Args:
            epoch_step: The number of finished steps of the epoch.
            is_last: The epoch is over.
        """
        self._has_equal_weights = self._has_equal_states = False
        if is_last or epoch_step % self._step_count == 0:
            self._average_weights()
            self._make_outer_step()
        if is_last:
            self.equalize(optimizer)

    @torch.no_grad()
    def _average_weights(self) -> None:
        """Give all ranks the mean weights; what is sent is their change in the period."""
        changes = [p - self._anchors[name] for name, p in self._parameters.items()]
        self._strategy.average(changes, self._strategy.sent_dtype)
        for (name, parameter), change in zip(self._parameters.items(), changes, strict=True):
            parameter.copy_(self._anchors[name] + change)
        self._has_equal_weights = True

    @torch.no_grad()
    def _make_outer_step(self) -> None:
        for name, parameter in self._parameters.items():
            anchor, velocity = self._anchors[name], self._velocities[name]
            change = parameter - anchor
            velocity.mul_(self._momentum).add_(change)
            anchor.add_(change + self._momentum * velocity, alpha=self._rate)
            parameter.copy_(anchor)

    def equalize(self, optimizer: torch.optim.Optimizer) -> None:
        """Give all ranks the mean of their weights and of their optimizer states."""
        if not self._has_equal_weights:
            self._average_weights()
        if not self._has_equal_states:
            self._average_states(optimizer)
        self._has_equal_states = True

    def _average_states(self, optimizer: torch.optim.Optimizer) -> None:
        """Average the numbers of the optimizer; a rank without a number counts as a zero."""
        parameters = grouped_parameters(optimizer)
        own_forms = {
            (index, str(key)): (list(value.shape), value.dtype, value.is_cuda)
            for index, parameter in enumerate(parameters)
            for key, value in optimizer.state.get(parameter, {}).items()
            if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
        }
        forms: dict[tuple[int, str], Any] = {}
        for rank_forms in self._strategy.gather(own_forms):
            forms = {**rank_forms, **forms}
        tensors = []
        for (index, key), (shape, dtype, is_cuda) in sorted(forms.items()):
            parameter = parameters[index]
            if (index, key) not in own_forms:
                device = parameter.device if is_cuda else "cpu"
                value = torch.zeros(shape, dtype=dtype, device=device)
                optimizer.state[parameter][key] = value
            tensors.append(optimizer.state[parameter][key])
        self._strategy.average(tensors)

    def state(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return what a checkpoint needs, after `equalize`."""
        return {"anchors": self._anchors, "velocities": self._velocities}
