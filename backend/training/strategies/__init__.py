"""Strategies: how the ranks of one job train together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.records.jobs.config import StrategyConfig
    from backend.training.strategies.base import Strategy
    from backend.training.strategies.rendezvous import Rendezvous


def make(config: StrategyConfig) -> Strategy | Rendezvous:
    """Make this rank's part in the strategy of a job; asynchronous ones need a meeting only."""
    if config.servers:
        from backend.training.strategies.rendezvous import Rendezvous

        return Rendezvous()
    if config.name == "alone":
        from backend.training.strategies.alone import Alone

        return Alone()
    if config.name == "ddp":
        from backend.training.strategies.ddp import Ddp

        return Ddp()
    from backend.training.strategies.allreduce import AllReduce

    return AllReduce(config)
