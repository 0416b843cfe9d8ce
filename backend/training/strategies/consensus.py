"""Strategy with one network over all ranks: rank k trains part k (`backend.training.consensus`).

Neighbours exchange activations and copies at their cut. All else goes along the chain of ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from backend.base.errors import BackendError
from backend.records.base.number_format import name_list
from backend.records.jobs.config import StrategyConfig
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.records.jobs.torch_options import PUBLISHED_VARIANTS
from backend.training import user_code
from backend.training.checkpoint_content import random_state, restore_random_state
from backend.training.consensus import ConsensusSettings, ConsensusUpdate, reinitialized
from backend.training.finite import norm_of
from backend.training.model_parts import ModelParts
from backend.training.strategies.base import ForwardPass, LocalGradients, optimized_names
from backend.training.strategies.channel import Channel
from backend.training.strategies.rendezvous import RendezvousMixin

UNSPLIT_BYTES = "activation bytes whole"


class Consensus(RendezvousMixin, LocalGradients):
    name = "consensus"
    is_split = True

    def __init__(self, config: StrategyConfig, host: str, beat: RankHeartbeat) -> None:
        super().__init__(host)
        self._settings = ConsensusSettings.from_strategy(config)
        self._cut_names: Sequence[str] = config.setting("cut")
        self._beat = beat
        self._update: ConsensusUpdate | None = None
        self._figures: dict[str, float] = {}
        self._lost_round = False

    def join(self, stall_limit_s: float) -> None:
        self._rendezvous.join(stall_limit_s)
        rank = self.rank
        self._lower_channel = Channel(self._rendezvous, rank - 1, rank) if rank else None
        has_upper = rank < self.world_size - 1
        self._upper_channel = Channel(self._rendezvous, rank, rank + 1) if has_upper else None

    def leave(self) -> None:
        self._rendezvous.leave()

    # --- the network ---------------------------------------------------------------------------

    def average_thawed(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Do nothing: each rank has the gradients of its part."""

    def share_buffers(self, model: torch.nn.Module) -> None:
        """Do nothing: each rank has the buffers of its part."""

    def parallel(self, forward: ForwardPass) -> Callable[[Any, Any], torch.Tensor]:
        self._forward = forward
        return self._first_round

    def _own_part(self, model: torch.nn.Module, data: Any) -> ConsensusUpdate:
        """Return this rank's part; the first batch cuts the model."""
        if self._update is None:
            self._device = next(model.parameters()).device
            saved_random = random_state(self._device)
            self._parts = parts = ModelParts(model, self._cut_names, self.world_size, data)
            twin_layer = None
            if self._settings.variant in PUBLISHED_VARIANTS and self._upper_channel is not None:
                twin_layer = reinitialized(parts.first_layers[self.rank + 1])
            self._update = ConsensusUpdate(parts, self.rank, self._settings, twin_layer)
            restore_random_state(saved_random, self._device)
            self._move_other_parts(model, twin_layer)
            if self.rank == 0:
                names = " and ".join(f"“{name}”" for name in parts.names)
                sys.stdout.write(f"The network is cut after {names}.\n")
        return self._update

    def _move_other_parts(self, model: torch.nn.Module, twin_layer: torch.nn.Module | None) -> None:
        """Move the other parts from the GPU to the CPU."""
        kept_ids = {
            id(tensor) for tensor in (twin_layer.parameters() if twin_layer is not None else ())
        }
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if self._parts.owner_part(name) != self.rank and id(tensor) not in kept_ids:
                tensor.data = tensor.data.cpu()

    def output(self, model: torch.nn.Module, data: Any) -> Any:
        self._own_part(model, data)
        output = self._parts.run(self.rank, data, self._receive_input())
        if self._upper_channel is None:
            return output
        self._send(self._upper_channel, None, [output])
        return None

    def _receive_input(self) -> torch.Tensor | None:
        """Return the output of the part below; None for the first part."""
        if self._lower_channel is None:
            return None
        (x,) = self._receive(self._lower_channel)[1]
        return x.to(self._device)

    def _first_round(self, data: Any, target: Any) -> torch.Tensor:
        update = self._own_part(self._forward.model, data)
        self._batch = data, target
        self._saved_random = random_state(self._device) if self._settings.rounds > 1 else None
        update.begin_batch()
        return self._run_round(update)

    def _run_round(self, update: ConsensusUpdate) -> torch.Tensor:
        """Send the part's output on; return the loss of the last part, zero in the others."""
        data, target = self._batch
        output = update.forward(data, self._receive_input())
        if self._upper_channel is not None:
            self._send(self._upper_channel, None, [output])
            return torch.zeros(())
        self._forward.output = output
        return user_code.compute_loss(self._forward.model, output, target)

    def backward(self, loss: torch.Tensor, *, is_last: bool = True) -> None:
        update = self._update
        assert update is not None
        figures: dict[str, float] = {}
        if self._upper_channel is not None:
            figures, answer = self._receive(self._upper_channel)
            loss = update.objective([tensor.to(self._device) for tensor in answer])
        super().backward(loss)
        if self._upper_channel is None:
            self._require_own_gradients()
        number = self.rank + 1
        figures |= update.figures | {
            f"objective of part {number}": float(loss.detach()),
            f"activation bytes of part {number}": float(update.split_bytes),
            # The bytes of this part and those above; at rank 0, of all.
            UNSPLIT_BYTES: figures.get(UNSPLIT_BYTES, 0.0) + update.unsplit_bytes,
        }
        self._figures = figures
        if self._lower_channel is not None:
            self._send(self._lower_channel, figures, update.answer())

    # --- steps ---------------------------------------------------------------------------------

    def adopt(
        self, model: torch.nn.Module, sync_size: int, names: Collection[str] | None = None
    ) -> torch.Tensor:
        super().adopt(model, sync_size, names)
        self._sync = torch.zeros(sync_size)
        return self._sync

    def reduce(self) -> None:
        super().reduce()
        # Also of parameters that the model trains from now on.
        gradients = [p.grad for p in self._forward.model.parameters() if p.grad is not None]
        square = norm_of(gradients).double().cpu().square().reshape(1)
        if self._lost_round:
            square, self._lost_round = torch.full_like(square, torch.nan), False
        sums = self.sum_over_ranks(torch.cat([self._sync.double(), square]))
        self._sync.copy_(sums[:-1] / self.world_size)
        self._norm = sums[-1].sqrt().float().to(self._device)

    def _require_own_gradients(self) -> None:
        other_names = [
            name
            for name, parameter in self._forward.model.named_parameters()
            if parameter.grad is not None and self._parts.owner_part(name) != self.rank
        ]
        if other_names:
            raise BackendError(
                f"The model's loss uses parameters of another part: {name_list(other_names)}.",
                "Compute the loss from the output; weight decay is a setting of the optimizer.",
            )

    def gradient_norm(self) -> torch.Tensor:
        return self._norm

    def step(self, update: Callable[[], None]) -> None:
        update()
        part = self._update
        assert part is not None
        for _ in range(self._settings.rounds - 1):
            assert self._saved_random is not None
            # The same masks of dropout in each round of a batch.
            restore_random_state(self._saved_random, self._device)
            self.zero()
            self.backward(self._run_round(part))
            super().reduce()
            # Each part decides for itself: the ranks agree once a step. The next step reports it.
            if super().gradient_norm().isfinite():
                update()
            else:
                self._lost_round = True

    def figures(self) -> dict[str, float]:
        return self._figures

    def full_state(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        model_state, states = super().full_state(model, optimizer)
        if self._update is None:
            return model_state, states
        names = optimized_names(model, optimizer)
        own_states = (
            {name: value for name, value in model_state.items() if self._owns(name)},
            {n: state for n, state in states["state"].items() if self._owns(names[n])},
        )
        parts = self._collect_upwards(tree_map(_on_cpu, own_states))
        return (
            {**model_state, **{name: state for part, _ in parts for name, state in part.items()}},
            {**states, "state": {n: state for _, part in parts for n, state in part.items()}},
        )

    def _owns(self, name: str) -> bool:
        return self._parts.owner_part(name) == self.rank

    # --- messages ------------------------------------------------------------------------------

    def _collect_upwards(self, value: Any) -> list[Any]:
        """Return the values of this rank and of all above it."""
        values = [value]
        if self._upper_channel is not None:
            values += self._receive(self._upper_channel)[0]
        if self._lower_channel is not None:
            self._send(self._lower_channel, values)
        return values

    def gather(self, value: Any) -> list[Any]:
        values = self._collect_upwards(value)
        if self._lower_channel is not None:
            values = self._receive(self._lower_channel)[0]
        if self._upper_channel is not None:
            self._send(self._upper_channel, values)
        return values

    def gather_bytes(self, content: torch.Tensor) -> Sequence[torch.Tensor]:
        return self.gather(content)

    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.gather(values)).sum(0)

    def broadcast(self, values: torch.Tensor) -> None:
        if self._lower_channel is not None:
            values.copy_(self._receive(self._lower_channel)[1][0])
        if self._upper_channel is not None:
            self._send(self._upper_channel, None, [values])

    def _send(self, channel: Channel, value: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        channel.send((value, [(tensor.shape, tensor.dtype) for tensor in tensors]), tensors)

    def _receive(self, channel: Channel) -> tuple[Any, list[torch.Tensor]]:
        """Return a message and its tensors; the guard sees that this rank waits."""
        _, phase = self._beat.read()
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        (value, _), tensors = channel.receive(_empty_tensors, is_lasting=True)
        self._beat.beat(phase)
        return value, tensors


def _empty_tensors(message: Any) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in message[1]]


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
