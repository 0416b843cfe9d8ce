"""One network over all ranks: rank k trains its part k (see `backend.training.consensus`).

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
from backend.training.consensus import ConsensusUpdate, Rules, reinitialized
from backend.training.finite import norm_of
from backend.training.model_parts import ModelParts
from backend.training.strategies.base import ForwardPass, LocalGradients, optimized
from backend.training.strategies.channel import Channel
from backend.training.strategies.rendezvous import Meets

WHOLE_BYTES = "activation bytes whole"


class Consensus(Meets, LocalGradients):
    name = "consensus"
    is_split = True

    def __init__(self, config: StrategyConfig, host: str, beat: RankHeartbeat) -> None:
        super().__init__(host)
        self._rules = Rules.of(config)
        self._cut: Sequence[str] = config.setting("cut")
        self._beat = beat
        self._update: ConsensusUpdate | None = None
        self._live: dict[str, float] = {}
        self._lost_round = False

    def join(self, stall_limit_s: float) -> None:
        self._meeting.join(stall_limit_s)
        rank = self.rank
        self._below = Channel(self._meeting, rank - 1, rank) if rank else None
        has_above = rank < self.world_size - 1
        self._above = Channel(self._meeting, rank, rank + 1) if has_above else None

    def leave(self) -> None:
        self._meeting.leave()

    # --- the network ---------------------------------------------------------------------------

    def share_buffers(self, model: torch.nn.Module) -> None:
        """Do nothing: each rank has the buffers of its part."""

    def parallel(self, forward: ForwardPass) -> Callable[[Any, Any], torch.Tensor]:
        self._forward = forward
        return self._first_round

    def _part(self, model: torch.nn.Module, data: Any) -> ConsensusUpdate:
        """Return this rank's part; the first batch cuts the model."""
        if self._update is None:
            self._device = next(model.parameters()).device
            kept = random_state(self._device)
            self._parts = parts = ModelParts(model, self._cut, self.world_size, data)
            twin = None
            if self._rules.variant in PUBLISHED_VARIANTS and self._above is not None:
                twin = reinitialized(parts.first_layers[self.rank + 1])
            self._update = ConsensusUpdate(parts, self.rank, self._rules, twin)
            restore_random_state(kept, self._device)
            self._release_others(model, twin)
            if self.rank == 0:
                names = " and ".join(f"“{name}”" for name in parts.names)
                sys.stdout.write(f"The network is cut after {names}.\n")
        return self._update

    def _release_others(self, model: torch.nn.Module, twin: torch.nn.Module | None) -> None:
        """Move the other parts from the GPU to the CPU."""
        kept = {id(one) for one in (twin.parameters() if twin is not None else ())}
        for name, one in [*model.named_parameters(), *model.named_buffers()]:
            if self._parts.owner(name) != self.rank and id(one) not in kept:
                one.data = one.data.cpu()

    def output(self, model: torch.nn.Module, data: Any) -> Any:
        self._part(model, data)
        output = self._parts.run(self.rank, data, self._given())
        if self._above is None:
            return output
        self._send(self._above, None, [output])
        return None

    def _given(self) -> torch.Tensor | None:
        """Return the output of the part below; None for the first part."""
        if self._below is None:
            return None
        (x,) = self._receive(self._below)[1]
        return x.to(self._device)

    def _first_round(self, data: Any, target: Any) -> torch.Tensor:
        update = self._part(self._forward.model, data)
        self._batch = data, target
        self._drawn = random_state(self._device) if self._rules.rounds > 1 else None
        update.begin()
        return self._round(update)

    def _round(self, update: ConsensusUpdate) -> torch.Tensor:
        """Send the part's output on; return the loss of the last part, zero in the others."""
        data, target = self._batch
        output = update.forward(data, self._given())
        if self._above is not None:
            self._send(self._above, None, [output])
            return torch.zeros(())
        self._forward.output = output
        return user_code.compute_loss(self._forward.model, output, target)

    def backward(self, loss: torch.Tensor, *, is_last: bool = True) -> None:
        update = self._update
        assert update is not None
        live: dict[str, float] = {}
        if self._above is not None:
            live, answer = self._receive(self._above)
            loss = update.objective([one.to(self._device) for one in answer])
        super().backward(loss)
        if self._above is None:
            self._require_own_gradients()
        number = self.rank + 1
        live |= update.live | {
            f"objective of part {number}": float(loss.detach()),
            f"activation bytes of part {number}": float(update.bytes_split),
            # Of this part and those above; of all when rank 0 has it.
            WHOLE_BYTES: live.get(WHOLE_BYTES, 0.0) + update.bytes_whole,
        }
        self._live = live
        if self._below is not None:
            self._send(self._below, live, update.answer())

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
        own = [p.grad for p in self._forward.model.parameters() if p.grad is not None]
        square = norm_of(own).double().cpu().square().reshape(1)
        if self._lost_round:
            square, self._lost_round = torch.full_like(square, torch.nan), False
        total = self.total(torch.cat([self._sync.double(), square]))
        self._sync.copy_(total[:-1] / self.world_size)
        self._norm = total[-1].sqrt().float().to(self._device)

    def _require_own_gradients(self) -> None:
        others = [
            name
            for name, one in self._forward.model.named_parameters()
            if one.grad is not None and self._parts.owner(name) != self.rank
        ]
        if others:
            raise BackendError(
                f"The model's loss uses parameters of another part: {name_list(others)}.",
                "Compute the loss from the output; weight decay is a setting of the optimizer.",
            )

    def gradient_norm(self) -> torch.Tensor:
        return self._norm

    def step(self, update: Callable[[], None]) -> None:
        update()
        part = self._update
        assert part is not None
        for _ in range(self._rules.rounds - 1):
            assert self._drawn is not None
            # The same masks of dropout in each round of a batch.
            restore_random_state(self._drawn, self._device)
            self.zero()
            self.backward(self._round(part))
            super().reduce()
            # Each part decides for itself: the ranks agree once a step. The next step reports it.
            if super().gradient_norm().isfinite():
                update()
            else:
                self._lost_round = True

    def live(self) -> dict[str, float]:
        return self._live

    def whole_state(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        whole, states = super().whole_state(model, optimizer)
        if self._update is None:
            return whole, states
        known = optimized(model, optimizer)
        own = (
            {name: value for name, value in whole.items() if self._owns(name)},
            {n: one for n, one in states["state"].items() if self._owns(known[n])},
        )
        parts = self._collected(tree_map(_on_cpu, own))
        return (
            {**whole, **{name: one for part, _ in parts for name, one in part.items()}},
            {**states, "state": {n: one for _, part in parts for n, one in part.items()}},
        )

    def _owns(self, name: str) -> bool:
        return self._parts.owner(name) == self.rank

    # --- messages ------------------------------------------------------------------------------

    def _collected(self, value: Any) -> list[Any]:
        """Return the values of this rank and of all above it."""
        values = [value]
        if self._above is not None:
            values += self._receive(self._above)[0]
        if self._below is not None:
            self._send(self._below, values)
        return values

    def gather(self, value: Any) -> list[Any]:
        values = self._collected(value)
        if self._below is not None:
            values = self._receive(self._below)[0]
        if self._above is not None:
            self._send(self._above, values)
        return values

    def gather_bytes(self, content: torch.Tensor) -> Sequence[torch.Tensor]:
        return self.gather(content)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.gather(values)).sum(0)

    def broadcast(self, values: torch.Tensor) -> None:
        if self._below is not None:
            values.copy_(self._receive(self._below)[1][0])
        if self._above is not None:
            self._send(self._above, None, [values])

    def _send(self, channel: Channel, value: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        channel.send((value, [(one.shape, one.dtype) for one in tensors]), tensors)

    def _receive(self, channel: Channel) -> tuple[Any, list[torch.Tensor]]:
        """Return a message and its tensors; the guard sees that this rank waits."""
        _, phase = self._beat.read()
        self._beat.beat(Phase.WAITING_FOR_OTHERS)
        (value, _), tensors = channel.receive(_shaped, is_lasting=True)
        self._beat.beat(phase)
        return value, tensors


def _shaped(message: Any) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in message[1]]


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else value
