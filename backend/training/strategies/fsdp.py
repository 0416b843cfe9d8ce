"""Fully sharded data parallelism: each rank holds a share of weights, gradients and optimizer.

With PyTorch's `fully_shard` (FSDP2), after Zhao et al., *PyTorch FSDP* (arXiv 2304.11277): weights
of a block are gathered for its forward and its backward pass, and each gradient is averaged where
its share of the weights is. A checkpoint has whole tensors under the names of the model, so it
continues on any number of ranks and with every other strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map_only

from backend.training.optimizer import grouped_parameters, parameters_by_name
from backend.training.strategies.base import optimized_names
from backend.training.strategies.ddp import ProcessGroup
from backend.training.strategies.local_steps import SyncMessage
from backend.training.user_code import UserCodeError

MakeOptimizer = Callable[[Sequence[torch.nn.Parameter]], torch.optim.Optimizer]


class Fsdp(ProcessGroup, SyncMessage):
    name = "fsdp"
    has_collective_forward = True

    def shard(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        make_optimizer: MakeOptimizer,
    ) -> torch.optim.Optimizer:
        names = optimized_names(model, optimizer)
        states = [optimizer.state.get(p, {}) for p in grouped_parameters(optimizer)]
        mesh = init_device_mesh(self.device_type, (self.world_size,))
        for block in _blocks(model):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        sharded_optimizer = make_optimizer(parameters_by_name(model, names))
        for parameter, state in zip(grouped_parameters(sharded_optimizer), states, strict=True):
            if state:
                sharded_optimizer.state[parameter] = {
                    key: _shard_like(value, parameter) for key, value in state.items()
                }
        return sharded_optimizer

    def average_thawed(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        if parameters:
            raise UserCodeError(
                "The model trains other layers than in its first step, which the strategy “fsdp” "
                "cannot do.",
                "Train all layers from the first step on, or choose the strategy DDP.",
            )

    def _gradients(self) -> list[torch.Tensor]:
        """Return this rank's share of each gradient."""
        return [g.to_local() if isinstance(g, DTensor) else g for g in super()._gradients()]

    def full_state(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        model_state, optimizer_state = super().full_state(model, optimizer)
        states: tuple[dict[str, Any], dict[str, Any]] = tree_map_only(
            DTensor, self._gather_tensor, (dict(model_state), optimizer_state)
        )
        return states

    def _gather_tensor(self, tensor: DTensor) -> torch.Tensor:
        """Return the full tensor on rank 0, which saves it, and an empty tensor on the others."""
        full_tensor: torch.Tensor = tensor.full_tensor().detach().cpu()
        return full_tensor if self.rank == 0 else full_tensor.new_empty(0)


def _blocks(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the modules whose weights are gathered together: the members of the outermost lists.

    A block that shares a weight with another block stays with the rest of the model.
    """
    owner_count: dict[int, int] = {}
    blocks = list(_members(model))
    for block in blocks:
        for parameter in set(block.parameters()):
            owner_count[id(parameter)] = owner_count.get(id(parameter), 0) + 1
    block_ids = {id(p) for block in blocks for p in block.parameters()}
    other_ids = {
        id(parameter)
        for module in model.modules()
        if not any(module in set(block.modules()) for block in blocks)
        for parameter in module.parameters(recurse=False)
    }
    shared_ids = {key for key, count in owner_count.items() if count > 1}
    shared_ids |= block_ids & other_ids
    for block in blocks:
        parameters = list(block.parameters())
        if parameters and not any(id(parameter) in shared_ids for parameter in parameters):
            yield block


def _members(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    for child in module.children():
        if isinstance(child, (torch.nn.Sequential, torch.nn.ModuleList)):
            yield from child.children()
        else:
            yield from _members(child)


def _shard_like(value: Any, parameter: torch.nn.Parameter) -> Any:
    if not isinstance(value, torch.Tensor) or not isinstance(parameter, DTensor):
        return value
    if value.shape != parameter.shape:
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements)
