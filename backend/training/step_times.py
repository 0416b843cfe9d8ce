"""Parts of each rank's steps, slow ranks, and the single cause that slows the job.

All ranks end the exchange of a step at about the same moment. The rank that came last waited for
no other, so the shortest exchange of a step is its communication, and the rest of another rank's
exchange is waiting for the last rank.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backend.base.log import suppress
from backend.records.jobs.slow_cause import Cause, SlowCause, StepTimes

STEPS = 100
_MIN_BEHIND = 90
_MAX_LIMIT_MS = 50.0
_BEHIND_SHARE, _NOISE_MS = 0.2, 10.0
_BLOCK = 10
"""Number of steps in a block: loader workers deliver in bursts, for which one step waits."""
_MIN_BLOCKS = 9
_SHARE, _MIN_MS = 0.3, 5.0
_SHARE_ON_ONE_NODE = 0.5
_NOTABLE_FOREIGN, _HIGH_FOREIGN, _MAX_FOREIGN = 0.2, 1 / 3, 0.9
_STEP_INTERVAL = 8
"""Steps between two measurements of the wait for a core; each reads the kernel's figure twice, in
about 20 µs."""
_SCHEDSTAT = "/proc/thread-self/schedstat"


class RankStep(NamedTuple):
    """One step of one rank, in milliseconds.

    ``exchange_ms`` is the time inside the exchange of gradients, ``cpu_wait_ms`` the time in which
    it waited for a core while it computed.
    """

    data_ms: float = 0.0
    compute_ms: float = 0.0
    exchange_ms: float = 0.0
    cpu_wait_ms: float = 0.0

    @property
    def own_ms(self) -> float:
        return self.data_ms + self.compute_ms

    @property
    def foreign_share(self) -> float:
        """The share of computing in which other programs had the core."""
        return min(_MAX_FOREIGN, self.cpu_wait_ms / max(self.compute_ms, 1e-6))


@dataclass(frozen=True)
class _Block:
    """Means of some steps."""

    ranks: tuple[RankStep, ...]
    communication_ms: float

    @property
    def workers(self) -> list[RankStep]:
        """The ranks that make steps: a server makes none."""
        return [rank for rank in self.ranks if rank.own_ms] or list(self.ranks)

    @property
    def step_ms(self) -> float:
        return max(rank.own_ms + rank.exchange_ms for rank in self.ranks)


class StepBreakdown:
    """The last 100 steps of a run, in blocks of ten.

    A cause is named if it shows in 9 of 10 blocks. One rank: its own time is above that of the
    others by the limit of `SlowRanks`; the part that differs more, data or compute, is the cause.
    More time to compute is the fault of other programs if at least half of it is waiting for a
    core. Every rank: waiting for data, or communication, takes at least 30 % of a step and 5 ms; a
    step of the built-in example takes less. On one node no cable takes part: communication has to
    take half of a step. Who communicates needs a core: where other programs have it for a fifth of
    the time, the exchange says nothing about the network; for a third of the time on every rank,
    that is the cause. Of several causes the one with most milliseconds is named, because it is
    worth most to remove.
    """

    def __init__(
        self, *, times_exchange: bool = True, nodes: int = 2, has_servers: bool = False
    ) -> None:
        """``times_exchange``: the time of the exchange has no computing in it.

        ``nodes``: the number of nodes that the ranks are on. ``has_servers``: each worker exchanges
        with servers and does not wait for the other workers.
        """
        self._times_exchange = times_exchange and not has_servers
        self._has_servers = has_servers
        self._share = _SHARE if nodes > 1 else _SHARE_ON_ONE_NODE
        self._open_steps: list[Sequence[RankStep]] = []
        self._blocks: deque[_Block] = deque(maxlen=STEPS // _BLOCK)

    def add_steps(self, steps: Iterable[Sequence[RankStep]]) -> None:
        """Add steps, each with the steps of all ranks."""
        for step in steps:
            self._open_steps.append(step)
            if len(self._open_steps) == _BLOCK:
                shortest_ms = [min(rank.exchange_ms for rank in step) for step in self._open_steps]
                ranks = _aggregate(statistics.fmean, self._open_steps)
                self._blocks.append(_Block(ranks, statistics.fmean(shortest_ms)))
                self._open_steps = []

    def times(self) -> StepTimes | None:
        """Return the parts of a step; None before there are ten steps."""
        if not self._blocks:
            return None
        ranks = self._median_ranks()
        shortest_ms = statistics.median(block.communication_ms for block in self._blocks)
        data_ms = tuple(round(rank.data_ms, 3) for rank in ranks)
        if not self._times_exchange:
            compute_ms = tuple(round(rank.compute_ms + rank.exchange_ms, 3) for rank in ranks)
            return StepTimes(data_ms, compute_ms, (0.0,) * len(ranks))
        return StepTimes(
            data_ms,
            tuple(round(rank.compute_ms, 3) for rank in ranks),
            tuple(round(rank.exchange_ms - shortest_ms, 3) for rank in ranks),
            round(shortest_ms, 3),
        )

    def cause(self) -> SlowCause | None:
        """Return the cause that slows the job; None without a cause, and before 100 steps."""
        if len(self._blocks) < STEPS // _BLOCK:
            return None
        data_ms = [min(rank.data_ms for rank in block.workers) for block in self._blocks]
        causes = [self._part_cause(Cause.DATA, data_ms, _SHARE), self._cpu_cause()]
        foreign_shares = [
            max(rank.foreign_share for rank in block.workers) for block in self._blocks
        ]
        if self._times_exchange and statistics.median(foreign_shares) < _NOTABLE_FOREIGN:
            shortest_ms = [block.communication_ms for block in self._blocks]
            causes.append(self._part_cause(Cause.COMMUNICATION, shortest_ms, self._share))
        known_causes = [cause for cause in (self._rank_cause(), *causes) if cause is not None]
        return max(known_causes, key=lambda cause: cause.ms - cause.usual_ms, default=None)

    def _rank_cause(self) -> SlowCause | None:
        """Return the cause at the slowest rank, if it is slow."""
        behind_flags = [are_behind([*map(self._busy_ms, block.ranks)]) for block in self._blocks]
        counts = [sum(of_rank) for of_rank in zip(*behind_flags, strict=True)]
        slow_ranks = [rank for rank, count in enumerate(counts) if count >= _MIN_BLOCKS]
        if not slow_ranks:
            return None
        ranks = self._median_ranks()
        workers = [rank_step for rank_step in ranks if rank_step.own_ms]
        median_step = RankStep(
            *(statistics.median_low(part) for part in zip(*workers, strict=True))
        )
        rank = max(slow_ranks, key=lambda rank: self._busy_ms(ranks[rank]))
        slowest_step, step_ms = ranks[rank], self._step_ms()
        more_compute_ms = slowest_step.compute_ms - median_step.compute_ms
        more_exchange_ms = slowest_step.exchange_ms - median_step.exchange_ms
        if self._has_servers and more_exchange_ms > max(
            slowest_step.data_ms - median_step.data_ms, more_compute_ms
        ):
            if slowest_step.foreign_share >= _NOTABLE_FOREIGN:
                return None
            cause = Cause.COMMUNICATION
            return SlowCause(
                cause, rank, slowest_step.exchange_ms, step_ms, median_step.exchange_ms
            )
        if slowest_step.data_ms - median_step.data_ms >= more_compute_ms:
            return SlowCause(Cause.DATA, rank, slowest_step.data_ms, step_ms, median_step.data_ms)
        cause = Cause.COMPUTE
        if slowest_step.cpu_wait_ms - median_step.cpu_wait_ms >= more_compute_ms / 2:
            cause = Cause.CPU
        return SlowCause(
            cause,
            rank,
            slowest_step.compute_ms,
            step_ms,
            median_step.compute_ms,
            slowest_step.cpu_wait_ms,
        )

    def _busy_ms(self, rank_step: RankStep) -> float:
        """Return the time in which a rank waits for no other rank."""
        return rank_step.own_ms + (rank_step.exchange_ms if self._has_servers else 0.0)

    def _cpu_cause(self) -> SlowCause | None:
        """Return the cause if other programs have the cores of every rank."""
        shares = [min(rank.foreign_share for rank in block.workers) for block in self._blocks]
        step_ms, median_share = self._step_ms(), statistics.median(shares)
        is_much = sum(share >= _HIGH_FOREIGN for share in shares) >= _MIN_BLOCKS
        if not is_much or step_ms * median_share < _MIN_MS:
            return None
        return SlowCause(Cause.CPU, None, step_ms, step_ms, step_ms * (1 - median_share))

    def _part_cause(
        self, cause: Cause, parts_ms: Sequence[float], share: float
    ) -> SlowCause | None:
        """Return the cause if a part, given for each block, is large on every rank."""
        is_large = [
            part >= max(_MIN_MS, share * block.step_ms)
            for part, block in zip(parts_ms, self._blocks, strict=True)
        ]
        if sum(is_large) < _MIN_BLOCKS:
            return None
        return SlowCause(cause, None, statistics.median(parts_ms), self._step_ms())

    def _median_ranks(self) -> tuple[RankStep, ...]:
        return _aggregate(statistics.median, [block.ranks for block in self._blocks])

    def _step_ms(self) -> float:
        return statistics.median(block.step_ms for block in self._blocks)


def _aggregate(
    statistic: Callable[[Sequence[float]], float], steps: Iterable[Sequence[RankStep]]
) -> tuple[RankStep, ...]:
    """Apply a statistic to each part of each rank's steps."""
    return tuple(
        RankStep(*(statistic(part) for part in zip(*rank_values, strict=True)))
        for rank_values in zip(*steps, strict=True)
    )


class SlowRanks:
    """Detector over the last 100 steps of a run.

    A rank is slow if its own time, without waiting, was above that of the others by more than 50
    ms, or by more than 20 % of a step and 10 ms, in 90 of the last 100 steps. The time of the
    others is the low median of all ranks: if half of them are slow, the time of the fast half.

    Each step is judged separately, and one rank has to be behind in nearly all of them: processes
    that share a CPU alternate in being slower, and a mean or a median over a moment blames either
    of them. Below 10 ms the scheduler of one computer decides: two ranks at 18 and 27 ms do not
    show a slow node. A GPU at half its clock is behind in every step. 90 and not 100, because a
    checkpoint or a burst of the loader sometimes delays a step of the other ranks.
    """

    def __init__(self) -> None:
        self._steps: deque[Sequence[float]] = deque(maxlen=STEPS)

    def add_steps(self, steps: Iterable[Sequence[float]]) -> None:
        """Add steps, each with the milliseconds of all ranks."""
        self._steps.extend(steps)

    def step_ms(self) -> tuple[float, ...]:
        """Return the median time of a step per rank."""
        return tuple(round(statistics.median(times), 3) for times in zip(*self._steps, strict=True))

    def slow_ranks(self) -> tuple[int, ...]:
        """Return the slow ranks; none before there are 100 steps."""
        if len(self._steps) < STEPS:
            return ()
        behind_counts = [0] * len(self._steps[0])
        for times in self._steps:
            for rank, is_behind in enumerate(are_behind(times)):
                behind_counts[rank] += is_behind
        return tuple(rank for rank, count in enumerate(behind_counts) if count >= _MIN_BEHIND)


def are_behind(times_ms: Sequence[float]) -> list[bool]:
    """Return a flag for each rank: whether its time exceeds the others' by more than noise."""
    # A parameter server makes no steps: its time is 0.
    median_ms = statistics.median_low([time for time in times_ms if time] or times_ms)
    limit_ms = median_ms + min(_MAX_LIMIT_MS, max(_BEHIND_SHARE * median_ms, _NOISE_MS))
    return [rank_ms > limit_ms for rank_ms in times_ms]


class CpuWait:
    """Meter of the wait for a core within the forward and backward pass of every eighth step.

    In that time this thread could compute, but another program had the core.

    Threads of the same process that only wake up to poll wait as well, and do not slow a step. But
    they take cores: while the thread of Horovod polls, this thread may wait as long as that one
    computes, on each core alike. Where several threads compute a step, this is not corrected.
    """

    def __init__(self, threads: int = 1) -> None:
        """``threads``: the number of threads that compute a step."""
        self._cores = len(os.sched_getaffinity(0)) if threads == 1 else 0
        self._steps = 0
        self._start_wait_ms = self._start_others_ms = 0.0
        self._ms = 0.0

    def begin_step(self) -> None:
        if self._steps % _STEP_INTERVAL == 0:
            self._start_wait_ms, self._start_others_ms = thread_wait_ms(), other_threads_ms()

    def end_step(self) -> float:
        """Return the wait in milliseconds since `begin_step`, of the last measured step."""
        if self._steps % _STEP_INTERVAL == 0:
            self._ms = thread_wait_ms() - self._start_wait_ms
            if self._cores:
                own_ms = (other_threads_ms() - self._start_others_ms) / self._cores
                self._ms = max(0.0, self._ms - own_ms)
        self._steps += 1
        return self._ms


def other_threads_ms() -> float:
    """Return the CPU time of the other threads of this process until now."""
    return (time.process_time() - time.thread_time()) * 1e3


def thread_wait_ms() -> float:
    """Return the wait of this thread until now; 0 where the kernel does not count it."""
    with suppress(OSError, ValueError, IndexError), open(_SCHEDSTAT, encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e6
    return 0.0
