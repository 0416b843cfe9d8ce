"""Per-step agreement of the ranks: stop flag, checkpoint flag, loss, gradient norm, metrics, times.

One small float32 vector is reduced with the gradients (see `strategies.base`) and returns as the
mean over all ranks. Each rank has its own slots for its loss, its metrics and its times, and zeros
in the slots of the others, so every rank reads each rank's value: a NaN is attributed to its rank.

Loss and metrics keep their 64 bits: a slot of one value is four numbers of 16 bits, which float32
holds, adds to zeros and divides by the number of ranks without loss.

The slots are those of the metrics known until now. A rank with another sets a flag; then all ranks
exchange the metrics of that step and continue with more slots (`Trainer._complete`).

On a GPU the vector is read one step later: reading it at once would make the CPU wait for the GPU
at every step. All ranks are late by the same step, so they still stop together.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from backend.training.step_times import RankStep

_STOP, _SAVE, _NORM, _SCALED, _METRICS, _PARAMETERS, _BUFFERS, _FIRST_VALUE = range(8)
_HALVES = 4
"""Numbers of 16 bits in a number of 64 bits."""
_TIMES = len(RankStep._fields)
_ABSENT = 0x7FF8_0000_0000_0A85
"""Bits for a missing number: the metric is not among a rank's metrics of this step."""
(_MISSING_VALUE,) = struct.unpack("d", struct.pack("q", _ABSENT))
MAX_LATER_METRICS = 100
"""Number of metrics that may be added after the first step. A name with the number of the epoch or
a file in it would otherwise make the history, and the vector, larger without end."""


@dataclass(frozen=True)
class StepResult:
    """Values of one step, the same on all ranks."""

    stop: bool
    save: bool
    loss: float
    norm: float
    metrics: dict[str, float]
    """The mean over the ranks that have the metric in this step."""
    losses: tuple[float, ...]
    rank_step_ms: tuple[float, ...]
    """The time of each rank without the exchange."""
    rank_steps: tuple[RankStep, ...] = ()
    is_complete: bool = True
    """Whether `metrics` has the metrics of all ranks."""
    rank_metrics: Mapping[str, float] = field(default_factory=dict)
    """The metrics of this rank."""

    has_nan_buffer: bool = False
    """Whether a buffer of the model has NaN on a rank."""
    norm_rank: int | None = None
    """The rank whose gradient `norm` is of, if it is not that of all."""
    is_scaled: bool = False
    """Whether mixed precision has scaled the gradient, and so leaves out a step by itself."""

    @property
    def not_finite(self) -> NotFinite | None:
        """Return the value that is not finite: first a loss, as it is the cause of the others."""
        for rank, loss in enumerate(self.losses):
            if not math.isfinite(loss):
                is_known = any(map(math.isfinite, self.losses))
                return NotFinite("loss", loss, rank, is_known)
        if self.has_nan_buffer:
            return NotFinite("buffer", math.nan, 0, False)
        if math.isfinite(self.norm) or self.is_scaled:
            return None
        return NotFinite("gradient", self.norm, self.norm_rank or 0, self.norm_rank is not None)


class NotFinite(NamedTuple):
    """A value of a step that is NaN or infinite."""

    kind: Literal["loss", "gradient", "buffer"]
    value: float
    rank: int
    is_of_rank: bool
    """Whether only this rank has the value, and not all ranks."""


class MetricNames:
    """Names of the metrics of the first step, and at most `MAX_LATER_METRICS` later names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._max_count: int | None = None
        self.is_full = False
        """Whether a name was left out."""

    def add(self, names: Iterable[str]) -> list[str]:
        """Add ``names`` up to the limit; return the rest."""
        new_names = list(dict.fromkeys(name for name in names if name not in self.names))
        if self._max_count is None:
            self._max_count = len(new_names) + MAX_LATER_METRICS
        capacity = self._max_count - len(self.names)
        self.names += new_names[:capacity]
        self.is_full |= len(new_names) > capacity
        return new_names[capacity:]


class StepSync:
    """Sync vector, filled before the gradients are reduced and read afterwards.

    Attributes:
        wants_parameters: Whether a rank wants to train new parameters, by the last step read.
    """

    def __init__(
        self, names: Iterable[str], rank: int, world_size: int, measured_ranks: Sequence[int] = ()
    ) -> None:
        """``measured_ranks``: the ranks whose loss and metrics are the job's; all, if empty."""
        self._measured_ranks = measured_ranks or range(world_size)
        self._rank = rank
        self._world_size = world_size
        self._metric_names = MetricNames()
        self._pending_vectors: deque[_PendingVector] = deque()
        self._vector = torch.zeros(0)
        self.wants_parameters = False
        self.add_metrics(names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._metric_names.names)

    def add_metrics(self, names: Iterable[str]) -> bool:
        """Add slots for metrics; return whether `size` changed, which requires `use_vector`."""
        previous_count = len(self._metric_names.names)
        self._metric_names.add(names)
        self._values_of_rank = _HALVES * (1 + len(self._metric_names.names))
        self._rank_start = _FIRST_VALUE + self._rank * self._values_of_rank
        self._times_start = _FIRST_VALUE + self._world_size * self._values_of_rank
        self.size = self._times_start + self._world_size * _TIMES
        return len(self._metric_names.names) > previous_count

    def use_vector(self, vector: torch.Tensor, *, keeps_values: bool = False) -> None:
        """Use ``vector``, which the strategy reduces, with the previous values if requested."""
        if keeps_values:
            vector.copy_(self._vector)
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
        wants_parameters: bool = False,
        has_nan_buffer: torch.Tensor | None = None,
    ) -> None:
        """Fill this rank's slots; ``times`` are those of the previous step."""
        self._metrics, self._rank_wants_parameters = metrics, wants_parameters
        row = [0.0] * self.size
        row[_STOP] = float(stop)
        row[_SAVE] = float(save)
        row[_PARAMETERS] = float(wants_parameters)
        if not self._metric_names.is_full:
            row[_METRICS] = float(not metrics.keys() <= set(self._metric_names.names))
        # The loss of a GPU stays on it: see below.
        values = [0.0 if self._on_gpu else loss.item()]
        values += [metrics.get(name, _MISSING_VALUE) for name in self._metric_names.names]
        row[self._rank_start : self._rank_start + self._values_of_rank] = struct.unpack(
            f"{_HALVES * len(values)}h", struct.pack(f"{len(values)}d", *values)
        )
        start = self._times_start + self._rank * _TIMES
        row[start : start + _TIMES] = times
        self._vector.copy_(torch.tensor(row), non_blocking=True)
        if self._on_gpu:
            halves = loss.detach().double().reshape(1).view(torch.int16)
            self._vector[self._rank_start : self._rank_start + _HALVES].copy_(halves)
        if has_nan_buffer is not None:
            self._vector[_BUFFERS].copy_(has_nan_buffer)

    def read_parameter_request(self) -> bool:
        """Return `wants_parameters` of this step after the exchange; on several GPUs, of the last
        step that was read."""
        if self._world_size == 1:
            return self._rank_wants_parameters
        if not self._on_gpu:
            self.wants_parameters = self._vector[_PARAMETERS].item() > 0
        return self.wants_parameters

    def take_vector(self, norm: torch.Tensor, is_scaled: torch.Tensor | None = None) -> None:
        """Take the reduced vector, and two values that all ranks share.

        Args:
            norm: The norm of the gradients.
            is_scaled: As in `StepResult`; None without mixed precision.
        """
        self._vector[_NORM].copy_(norm)
        if is_scaled is not None:
            self._vector[_SCALED].copy_(is_scaled)
        if not self._on_gpu:
            self._pending_vectors.append(
                _PendingVector(self._vector, None, self.names, self._metrics)
            )
            return
        vector = torch.empty(self.size, pin_memory=True)
        vector.copy_(self._vector, non_blocking=True)
        make_event: Any = torch.cuda.Event  # torch has no type annotations for it
        event = make_event()
        event.record()
        self._pending_vectors.append(_PendingVector(vector, event, self.names, self._metrics))

    def read_results(self, waits_for_newest: bool) -> list[StepResult]:
        """Return the readable results, oldest first; ``waits_for_newest`` waits for all."""
        unread_count = 1 if self._on_gpu and not waits_for_newest else 0
        results = []
        while len(self._pending_vectors) > unread_count:
            pending_vector = self._pending_vectors.popleft()
            if pending_vector.event is not None:
                pending_vector.event.synchronize()
            results.append(self._read(pending_vector))
        return results

    def _read(self, pending_vector: _PendingVector) -> StepResult:
        # NumPy, as its calls take a fifth of torch's, and every step comes here.
        size, vector = self._world_size, pending_vector.vector.detach().cpu().numpy()
        times = len(vector) - size * _TIMES
        halves = np.rint(vector[_FIRST_VALUE:times] * size).astype(np.int16).reshape(size, -1)
        # For each rank: its loss, then its metrics.
        values = halves.view(np.float64).tolist()
        is_absent_value = (halves.view(np.int64) == _ABSENT).tolist()
        rank_metrics = [
            {
                name: value
                for name, value, is_absent in zip(
                    pending_vector.names, values[rank][1:], is_absent_value[rank][1:], strict=True
                )
                if not is_absent
            }
            for rank in range(size)
        ]
        rank_steps = tuple(
            RankStep(*rank_times)
            for rank_times in (vector[times:] * size).reshape(size, -1).tolist()
        )
        flags = vector[:_FIRST_VALUE].tolist()
        self.wants_parameters = flags[_PARAMETERS] > 0
        return StepResult(
            stop=flags[_STOP] > 0,
            save=flags[_SAVE] > 0,
            loss=sum(values[rank][0] for rank in self._measured_ranks) / len(self._measured_ranks),
            norm=flags[_NORM],
            metrics=self.mean_metrics(rank_metrics),
            losses=tuple(rank_values[0] for rank_values in values),
            rank_step_ms=tuple(
                rank_times.data_ms + rank_times.compute_ms for rank_times in rank_steps
            ),
            rank_steps=rank_steps,
            is_complete=flags[_METRICS] == 0,
            rank_metrics=pending_vector.metrics,
            has_nan_buffer=flags[_BUFFERS] > 0,
            is_scaled=flags[_SCALED] > 0,
        )

    def mean_metrics(self, rank_metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return the mean of each metric over the judging ranks that have it."""
        return mean_metrics([rank_metrics[rank] for rank in self._measured_ranks])


def mean_metrics(rank_metrics: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the ranks that have it."""
    metric_values: dict[str, list[float]] = {}
    for metrics in rank_metrics:
        for name, value in metrics.items():
            metric_values.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in metric_values.items()}


class _PendingVector(NamedTuple):
    """Reduced vector that is not read yet, with this rank's metrics of its step."""

    vector: torch.Tensor
    event: torch.cuda.Event | None
    names: tuple[str, ...]
    metrics: Mapping[str, float]
