"""Per-step agreement of the ranks: stop flag, checkpoint flag, loss, metrics and step times.

One small float32 vector is reduced with the gradients (see `strategies.base`) and returns as the
mean over all ranks. Each rank has its own slots for its loss, its metrics and its times, and zeros
in those of the others, so every rank reads each rank's value: a NaN is attributed to its rank.

Loss and metrics keep their 64 bits: a slot of one value is four numbers of 16 bits, which float32
holds, adds to zeros and divides by the number of ranks without loss.

On a GPU the vector is read one step later: reading it at once would make the CPU wait for the GPU
at every step. All ranks are late by the same step, so they still stop together.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backend.training.step_times import RankStep

_STOP, _SAVE, _NORM, _FIRST_VALUE = 0, 1, 2, 3
_HALVES = 4
"""Numbers of 16 bits in one of 64."""
_TIMES = len(RankStep._fields)


@dataclass(frozen=True)
class StepResult:
    """Values of one step that all ranks know, the same on each."""

    stop: bool
    save: bool
    loss: float
    norm: float
    metrics: dict[str, float]
    losses: tuple[float, ...]
    rank_step_ms: tuple[float, ...]
    """The time of each rank without the exchange."""
    rank_steps: tuple[RankStep, ...] = ()

    @property
    def not_a_number(self) -> int | None:
        """Return the first rank whose loss is not finite."""
        return next((r for r, loss in enumerate(self.losses) if not math.isfinite(loss)), None)


class StepSync:
    """One vector, filled before the gradients are reduced and read after."""

    def __init__(
        self, names: Sequence[str], rank: int, world_size: int, judges: Sequence[int] = ()
    ) -> None:
        """``judges``: the ranks whose loss and metrics are the job's; all, if it is empty."""
        self.names = tuple(names)
        self._judges = judges or range(world_size)
        self._rank = rank
        self._world_size = world_size
        self._values_of_rank = _HALVES * (1 + len(self.names))
        self._own = _FIRST_VALUE + rank * self._values_of_rank
        self._times = _FIRST_VALUE + world_size * self._values_of_rank
        self.size = self._times + world_size * _TIMES
        self._cast: deque[tuple[torch.Tensor, torch.cuda.Event | None]] = deque()
        self._vector = torch.zeros(0)

    def use(self, vector: torch.Tensor) -> None:
        """Use ``vector``, which the strategy reduces."""
        self._vector = vector
        self._on_gpu = vector.is_cuda

    def fill(
        self,
        *,
        stop: bool,
        save: bool,
        loss: torch.Tensor,
        metrics: Mapping[str, float],
        times: RankStep,
    ) -> None:
        """``times``: of the step before."""
        row = [0.0] * self.size
        row[_STOP] = float(stop)
        row[_SAVE] = float(save)
        # The loss of a GPU stays on it: see below.
        values = [0.0 if self._on_gpu else loss.item()]
        values += [metrics.get(name, math.nan) for name in self.names]
        row[self._own : self._own + self._values_of_rank] = struct.unpack(
            f"{_HALVES * len(values)}h", struct.pack(f"{len(values)}d", *values)
        )
        place = self._times + self._rank * _TIMES
        row[place : place + _TIMES] = times
        self._vector.copy_(torch.tensor(row), non_blocking=True)
        if self._on_gpu:
            halves = loss.detach().double().reshape(1).view(torch.int16)
            self._vector[self._own : self._own + _HALVES].copy_(halves)

    def cast(self, norm: torch.Tensor | None) -> None:
        """Take the reduced vector; ``norm`` is the gradients' norm, which all ranks share."""
        if norm is not None:
            self._vector[_NORM].copy_(norm)
        if not self._on_gpu:
            self._cast.append((self._vector, None))
            return
        kept = torch.empty(self.size, pin_memory=True)
        kept.copy_(self._vector, non_blocking=True)
        make_event: Any = torch.cuda.Event  # torch has no type annotations for it
        event = make_event()
        event.record()
        self._cast.append((kept, event))

    def count(self, everything: bool) -> list[StepResult]:
        """Return the readable results, oldest first; ``everything`` waits for the newest."""
        keep = 1 if self._on_gpu and not everything else 0
        verdicts = []
        while len(self._cast) > keep:
            vector, event = self._cast.popleft()
            if event is not None:
                event.synchronize()
            verdicts.append(self._read(vector))
        return verdicts

    def _read(self, vector: torch.Tensor) -> StepResult:
        size = self._world_size
        halves = (vector[_FIRST_VALUE : self._times] * size).round().to(torch.int16)
        # For each rank: its loss, then its metrics.
        values = halves.view(torch.float64).view(size, -1).tolist()
        judged = [values[rank] for rank in self._judges]
        ranks = tuple(
            RankStep(*times) for times in (vector[self._times :] * size).view(size, -1).tolist()
        )
        loss, *metrics = (sum(column) / len(judged) for column in zip(*judged, strict=True))
        return StepResult(
            stop=vector[_STOP].item() > 0,
            save=vector[_SAVE].item() > 0,
            loss=loss,
            norm=vector[_NORM].item(),
            metrics=dict(zip(self.names, metrics, strict=True)),
            losses=tuple(of_rank[0] for of_rank in values),
            rank_step_ms=tuple(one.data_ms + one.compute_ms for one in ranks),
            rank_steps=ranks,
        )
