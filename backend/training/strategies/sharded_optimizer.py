"""DDP whose ranks share the state of the optimizer: ZeRO, stage 1.

After Rajbhandari et al., *ZeRO* (arXiv 1910.02054): each rank updates its share of the parameters
and sends them to the others. An optimizer makes no state for a parameter without a gradient, so the
job's own optimizer, which knows all parameters, serves each rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from backend.training.optimizer import grouped_parameters
from backend.training.strategies.base import fill_tensors
from backend.training.strategies.ddp import Ddp
from backend.training.strategies.rendezvous import distributed


class ShardedDdp(Ddp):
    def shard(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        make_optimizer: Callable[[Sequence[torch.nn.Parameter]], torch.optim.Optimizer],
    ) -> torch.optim.Optimizer:
        self._model = model
        owners = self._owners()
        for parameter in list(optimizer.state):
            if owners[parameter] != self.rank:
                del optimizer.state[parameter]
        return optimizer

    def _owners(self) -> dict[torch.Tensor, int]:
        """Return the rank that updates each parameter: the largest first, to the emptiest rank."""
        bytes_of_rank = [0] * self.world_size
        owners: dict[torch.Tensor, int] = {}
        for parameter in sorted(self._model.parameters(), key=lambda p: -p.numel()):
            owners[parameter] = owner = bytes_of_rank.index(min(bytes_of_rank))
            bytes_of_rank[owner] += parameter.numel() * parameter.element_size()
        return owners

    def step(self, update: Callable[[], None]) -> None:
        owners = self._owners()
        gradients = {parameter: parameter.grad for parameter in owners}
        for parameter, owner in owners.items():
            if owner != self.rank:
                parameter.grad = None
        update()
        groups: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
            if gradient is not None:
                key = owners[parameter], parameter.dtype
                groups.setdefault(key, []).append(parameter)
        for (owner, _), members in groups.items():
            vector = torch.cat([parameter.detach().reshape(-1) for parameter in members])
            distributed.broadcast(vector, owner)
            if owner != self.rank:
                sizes = [parameter.numel() for parameter in members]
                values = [
                    value.view_as(parameter)
                    for value, parameter in zip(torch.split(vector, sizes), members, strict=True)
                ]
                fill_tensors(members, values)

    def full_state(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        model_state, optimizer_state = super().full_state(model, optimizer)
        owners, states = self._owners(), optimizer_state["state"]
        # The owner sends one tensor after the other: no rank holds the state of another.
        own_forms = {
            index: {key: _form(value) for key, value in state.items()}
            for index, state in states.items()
        }
        rank_forms = self.gather(own_forms)
        for index, parameter in enumerate(grouped_parameters(optimizer)):
            owner = owners[parameter]
            for key, form in rank_forms[owner].get(index, {}).items():
                if self.rank == 0 != owner:
                    states.setdefault(index, {})[key] = self._receive_from(owner, form)
                elif self.rank == owner != 0 and form["is_tensor"]:
                    distributed.send(states[index][key].contiguous(), 0)
        return model_state, optimizer_state

    def _receive_from(self, owner: int, form: dict[str, Any]) -> Any:
        if not form["is_tensor"]:
            return form["value"]
        device = self.device_type if form["is_cuda"] else "cpu"
        values = torch.empty(form["shape"], dtype=form["dtype"], device=device)
        distributed.recv(values, owner)
        return values.cpu()


def _form(value: Any) -> dict[str, Any]:
    """Return shape, type and place of a tensor; any other value itself."""
    if not isinstance(value, torch.Tensor):
        return {"is_tensor": False, "value": value}
    form = {"shape": list(value.shape), "dtype": value.dtype, "is_cuda": value.is_cuda}
    return {"is_tensor": True, **form}
