"""The parts of each rank's steps, and the one cause that slows the job.

All ranks end the exchange of a step at about the same moment. The rank that came last waited for
no other, so the shortest exchange of a step is its communication, and what another rank's exchange
takes longer is waiting for the last one.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backend.records.jobs.slow_cause import Cause, SlowCause, StepTimes
from backend.training.slow_ranks import STEPS, are_behind

_BLOCK = 10
"""Loader workers deliver in bursts: one step waits for all of them, the next ones for none."""
_MOST_OF_THEM = 9
_SHARE, _LEAST_MS = 0.3, 5.0


class RankStep(NamedTuple):
    """One step of one rank, in milliseconds.

    ``exchange_ms`` is the time inside the exchange of gradients, ``cpu_wait_ms`` the time in which
    it waited for a core while it computed.
    """

    data_ms: float = 0.0
    compute_ms: float = 0.0
    exchange_ms: float = 0.0
    cpu_wait_ms: float = 0.0


@dataclass(frozen=True)
class _Block:
    """Means of some steps."""

    ranks: tuple[RankStep, ...]
    communication_ms: float

    @property
    def own_ms(self) -> list[float]:
        return [one.data_ms + one.compute_ms for one in self.ranks]

    @property
    def step_ms(self) -> float:
        return max(one.data_ms + one.compute_ms + one.exchange_ms for one in self.ranks)


class StepBreakdown:
    """The last 100 steps of a run, in blocks of ten.

    A cause is named if it shows in 9 of 10 blocks. One rank: its own time is above that of the
    others by the limit of `SlowRanks`; the part that differs more, data or compute, is the cause.
    More time to compute is the fault of other programs if at least half of it is waiting for a
    core. Every rank: waiting for data, or communication, takes at least 30 % of a step and 5 ms; a
    step of the built-in example takes less. Of several causes the one with most milliseconds is
    named, because it is worth most to remove.
    """

    def __init__(self, *, times_exchange: bool = True) -> None:
        """``times_exchange``: the time of the exchange has no computing in it."""
        self._times_exchange = times_exchange
        self._open: list[Sequence[RankStep]] = []
        self._blocks: deque[_Block] = deque(maxlen=STEPS // _BLOCK)

    def take(self, steps: Iterable[Sequence[RankStep]]) -> None:
        """Add steps, each with those of all ranks."""
        for step in steps:
            self._open.append(step)
            if len(self._open) == _BLOCK:
                shortest = [min(one.exchange_ms for one in step) for step in self._open]
                ranks = _of_each(statistics.fmean, self._open)
                self._blocks.append(_Block(ranks, statistics.fmean(shortest)))
                self._open = []

    def times(self) -> StepTimes | None:
        """Return the parts of a step; None before there are ten steps."""
        if not self._blocks:
            return None
        ranks = self._usual()
        shortest = statistics.median(block.communication_ms for block in self._blocks)
        data = tuple(round(one.data_ms, 3) for one in ranks)
        if not self._times_exchange:
            computing = tuple(round(one.compute_ms + one.exchange_ms, 3) for one in ranks)
            return StepTimes(data, computing, (0.0,) * len(ranks))
        return StepTimes(
            data,
            tuple(round(one.compute_ms, 3) for one in ranks),
            tuple(round(one.exchange_ms - shortest, 3) for one in ranks),
            round(shortest, 3),
        )

    def cause(self) -> SlowCause | None:
        """Return what slows the job; None if nothing does, and before there are 100 steps."""
        if len(self._blocks) < STEPS // _BLOCK:
            return None
        shared = [self._of_all(Cause.DATA, [min(r.data_ms for r in b.ranks) for b in self._blocks])]
        if self._times_exchange:
            shortest = [block.communication_ms for block in self._blocks]
            shared.append(self._of_all(Cause.COMMUNICATION, shortest))
        found = [one for one in (self._of_rank(), *shared) if one is not None]
        return max(found, key=lambda one: one.ms - one.usual_ms, default=None)

    def _of_rank(self) -> SlowCause | None:
        """Return the cause at the slowest rank, if it is slow."""
        behind = [are_behind(block.own_ms) for block in self._blocks]
        counts = [sum(of_rank) for of_rank in zip(*behind, strict=True)]
        slow = [rank for rank, count in enumerate(counts) if count >= _MOST_OF_THEM]
        if not slow:
            return None
        ranks = self._usual()
        usual = RankStep(*(statistics.median_low(part) for part in zip(*ranks, strict=True)))
        rank = max(slow, key=lambda rank: ranks[rank].data_ms + ranks[rank].compute_ms)
        own, step_ms = ranks[rank], self._step_ms()
        more_ms = own.compute_ms - usual.compute_ms
        if own.data_ms - usual.data_ms >= more_ms:
            return SlowCause(Cause.DATA, rank, own.data_ms, step_ms, usual.data_ms)
        cause = Cause.COMPUTE
        if own.cpu_wait_ms - usual.cpu_wait_ms >= more_ms / 2:
            cause = Cause.CPU
        return SlowCause(cause, rank, own.compute_ms, step_ms, usual.compute_ms, own.cpu_wait_ms)

    def _of_all(self, cause: Cause, parts_ms: Sequence[float]) -> SlowCause | None:
        """Return the cause if a part, given for each block, is large on every rank."""
        large = [
            part >= max(_LEAST_MS, _SHARE * block.step_ms)
            for part, block in zip(parts_ms, self._blocks, strict=True)
        ]
        if sum(large) < _MOST_OF_THEM:
            return None
        return SlowCause(cause, None, statistics.median(parts_ms), self._step_ms())

    def _usual(self) -> tuple[RankStep, ...]:
        return _of_each(statistics.median, [block.ranks for block in self._blocks])

    def _step_ms(self) -> float:
        return statistics.median(block.step_ms for block in self._blocks)


def _of_each(
    statistic: Callable[[Sequence[float]], float], steps: Iterable[Sequence[RankStep]]
) -> tuple[RankStep, ...]:
    """Apply it to each part of each rank."""
    return tuple(
        RankStep(*(statistic(part) for part in zip(*of_rank, strict=True)))
        for of_rank in zip(*steps, strict=True)
    )
