"""Synchronous data parallelism by PyTorch alone, over `torch.distributed`.

It trains as `AllReduce` does, on nodes where Horovod cannot be built: gloo on CPUs, NCCL on GPUs.
Not by `DistributedDataParallel`, which sends a gradient when it arrives first: it refuses a layer
that is used twice under reentrant activation checkpointing, and parameters that thaw later.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.allreduce import SENT_DTYPES, AveragedGradients
from backend.training.strategies.local_steps import LocalSteps
from backend.training.strategies.rendezvous import RendezvousMixin, distributed


class ProcessGroup(RendezvousMixin):
    """The part of a strategy whose ranks exchange by `torch.distributed`."""

    def join(self, stall_limit_s: float) -> None:
        self._rendezvous.join(stall_limit_s)
        on_gpu = torch.cuda.is_available() and bool(os.environ.get("CUDA_VISIBLE_DEVICES"))
        self.device_type = "cuda" if on_gpu else "cpu"
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            store=self._rendezvous.store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=self._rendezvous.timeout,
        )

    def broadcast(self, values: torch.Tensor) -> None:
        distributed.broadcast(values, 0)

    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(values)
        return values

    def gather_bytes(self, content: torch.Tensor) -> Sequence[torch.Tensor]:
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        distributed.all_gather(sizes, torch.tensor([content.numel()]))
        lengths = [int(size) for size in sizes]
        padded_content = torch.zeros(max(lengths), dtype=torch.uint8)
        padded_content[: content.numel()] = content
        contents = [torch.empty_like(padded_content) for _ in lengths]
        distributed.all_gather(contents, padded_content)
        return [part[:length] for part, length in zip(contents, lengths, strict=True)]

    def send(self, values: torch.Tensor, name: str, *, is_adasum: bool = False) -> Any:
        return values, distributed.all_reduce(values, async_op=True)

    def receive(self, handle: Any) -> None:
        values, work = handle
        work.wait()
        # gloo has no mean.
        values.div_(self.world_size)

    _own_group: Any = None

    def average_now(self, values: torch.Tensor, name: str) -> None:
        if self._own_group is None:
            # Gradients are sent meanwhile, in an order of their own.
            self._own_group = distributed.new_group()
        distributed.all_reduce(values, group=self._own_group)
        values.div_(self.world_size)

    def leave(self) -> None:
        distributed.destroy_process_group()
        self._rendezvous.leave()


class Ddp(ProcessGroup, AveragedGradients):
    name = "ddp"

    def __init__(self, config: StrategyConfig, host: str) -> None:
        super().__init__(host)
        self.sent_dtype = SENT_DTYPES[config.setting("compression")]

    def join(self, stall_limit_s: float) -> None:
        super().join(stall_limit_s)
        self.takes_bfloat16 = self.device_type == "cuda"


class LocalDdp(ProcessGroup, LocalSteps):
    name = "ddp"

    def __init__(self, config: StrategyConfig, host: str) -> None:
        super().__init__(host)
        self.sent_dtype = SENT_DTYPES[config.setting("compression")]
