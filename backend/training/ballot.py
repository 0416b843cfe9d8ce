"""What the ranks tell each other at every step: the wish to stop, the loss, the metrics.

One small vector rides with the gradients (see `strategies.base`). Each rank has places of its own
for its loss and its time, so everybody knows *which* rank's loss is no number and which rank is
slow, and nobody has to ask. On a GPU the vector is read one step later: reading it at once would
make the processor wait for the GPU at every step. All ranks are late by the same step, so they
still leave together.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_STOP, _SAVE, _NORM, _FIRST_METRIC = 0, 1, 2, 3


@dataclass(frozen=True)
class Verdict:
    """What all ranks know of one step, the same on each."""

    stop: bool
    save: bool
    loss: float
    norm: float
    metrics: dict[str, float]
    losses: tuple[float, ...]
    rank_step_ms: tuple[float, ...]

    @property
    def not_a_number(self) -> int | None:
        """The first rank whose loss is not finite."""
        if math.isfinite(self.loss):
            return None
        return next((r for r, loss in enumerate(self.losses) if not math.isfinite(loss)), 0)


class Ballot:
    """One vector, filled before the gradients are reduced and read after."""

    def __init__(self, names: Sequence[str], rank: int, world_size: int) -> None:
        self.names = tuple(names)
        self._rank = rank
        self._world_size = world_size
        self._losses = _FIRST_METRIC + len(self.names)
        self._times = self._losses + world_size
        self.size = self._times + world_size
        self._cast: deque[tuple[torch.Tensor, torch.cuda.Event | None]] = deque()
        self._vector = torch.zeros(0)

    def use(self, vector: torch.Tensor) -> None:
        """``vector`` is what the strategy reduces."""
        self._vector = vector
        self._on_gpu = vector.is_cuda

    def fill(
        self,
        *,
        stop: bool,
        save: bool,
        loss: torch.Tensor,
        metrics: Mapping[str, float],
        step_ms: float,
    ) -> None:
        row = [0.0] * self.size
        row[_STOP] = float(stop)
        row[_SAVE] = float(save)
        for place, name in enumerate(self.names, _FIRST_METRIC):
            row[place] = metrics.get(name, math.nan)
        if not self._on_gpu:
            row[self._losses + self._rank] = loss.item()
        row[self._times + self._rank] = step_ms
        self._vector.copy_(torch.tensor(row), non_blocking=True)
        if self._on_gpu:
            self._vector[self._losses + self._rank].copy_(loss.detach())

    def cast(self, norm: torch.Tensor | None) -> None:
        """The vector has been reduced; ``norm`` is the gradients' norm, which all ranks share."""
        if norm is not None:
            self._vector[_NORM].copy_(norm)
        if not self._on_gpu:
            self._cast.append((self._vector, None))
            return
        kept = torch.empty(self.size, pin_memory=True)
        kept.copy_(self._vector, non_blocking=True)
        make_event: Any = torch.cuda.Event  # torch gives it no types
        event = make_event()
        event.record()
        self._cast.append((kept, event))

    def count(self, everything: bool) -> list[Verdict]:
        """The verdicts that can be read, oldest first; ``everything`` waits for the newest."""
        keep = 1 if self._on_gpu and not everything else 0
        verdicts = []
        while len(self._cast) > keep:
            vector, event = self._cast.popleft()
            if event is not None:
                event.synchronize()
            verdicts.append(self._read(vector.tolist()))
        return verdicts

    def _read(self, row: list[float]) -> Verdict:
        size = self._world_size
        losses = row[self._losses : self._times]
        return Verdict(
            stop=row[_STOP] > 0,
            save=row[_SAVE] > 0,
            loss=sum(losses),
            norm=row[_NORM],
            metrics=dict(zip(self.names, row[_FIRST_METRIC : self._losses], strict=True)),
            losses=tuple(loss * size for loss in losses),
            rank_step_ms=tuple(ms * size for ms in row[self._times :]),
        )
