"""Strategies with which the ranks of a job train together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.records.jobs.config import StrategyConfig
    from backend.records.jobs.heartbeat import RankHeartbeat
    from backend.training.strategies.base import Strategy
    from backend.training.strategies.rendezvous import Rendezvous


def make_strategy(
    config: StrategyConfig, processes: int, host: str, beat: RankHeartbeat
) -> Strategy | Rendezvous:
    """Make this rank's part in the strategy of a job; asynchronous strategies need a rendezvous.

    ``host`` is the address of rank 0 for all ranks.
    """
    if config.servers:
        from backend.training.strategies.rendezvous import Rendezvous

        return Rendezvous(host)
    if config.name == "alone" or (config.is_split and processes == 1):
        from backend.training.strategies.base import SingleProcess

        return SingleProcess()
    if config.is_split:
        from backend.training.strategies.consensus import Consensus

        return Consensus(config, host, beat)
    if config.name == "ddp":
        from backend.training.strategies.ddp import Ddp, LocalDdp

        if config.average_every > 1:
            return LocalDdp(config, host)
        if config.setting("compression") == "powersgd":
            from backend.training.strategies.power_sgd import PowerSgd

            return PowerSgd(config, host)
        if config.setting("shard") == "optimizer":
            from backend.training.strategies.sharded_optimizer import ShardedDdp

            return ShardedDdp(config, host)
        return Ddp(config, host)
    if config.name == "fsdp":
        from backend.training.strategies.fsdp import Fsdp

        return Fsdp(host)
    from backend.training.strategies.allreduce import AllReduce, LocalAllReduce

    return LocalAllReduce(config) if config.average_every > 1 else AllReduce(config)
