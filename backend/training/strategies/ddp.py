"""Synchronous data parallelism by PyTorch alone: `torch.nn.parallel.DistributedDataParallel`.

It trains as `AllReduce` does, on nodes where Horovod cannot be built. Gradients go through gloo on
CPUs and NCCL on GPUs.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from backend.training.strategies.base import ForwardPass, LocalGradients
from backend.training.strategies.rendezvous import Rendezvous, distributed


class Ddp(LocalGradients):
    name = "ddp"

    def __init__(self) -> None:
        super().__init__()
        self._meeting = Rendezvous()
        self._computed = 0.0

    @property
    def rank(self) -> int:
        return self._meeting.rank

    @property
    def world_size(self) -> int:
        return self._meeting.world_size

    def load(self) -> None:
        self._meeting.load()

    def join(self, stall_limit_s: float) -> None:
        self._meeting.join(stall_limit_s)
        on_gpu = torch.cuda.is_available() and bool(os.environ.get("CUDA_VISIBLE_DEVICES"))
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            store=self._meeting.store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=self._meeting.limit,
        )

    def broadcast(self, values: torch.Tensor) -> None:
        distributed.broadcast(values, 0)

    def parallel(self, forward: ForwardPass) -> torch.nn.Module:
        # Every rank has rank 0's values (`share_model`); buffers are each rank's own until then.
        # A step may leave parameters unused, on some ranks or on all.
        return torch.nn.parallel.DistributedDataParallel(
            forward,
            broadcast_buffers=False,
            init_sync=False,
            gradient_as_bucket_view=True,
            find_unused_parameters=True,
        )

    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        self._sync = super().adopt(model, ballot_size)
        return self._sync

    def zero(self) -> None:
        super().zero()
        # It is sent while the gradients are computed.
        self._sent = distributed.all_reduce(self._sync, async_op=True)

    def backward(self, loss: torch.Tensor) -> None:
        engine: Any = torch.autograd.Variable._execution_engine
        # Called when all gradients are computed, before DDP's own callback, which waits for the
        # other ranks: that one is queued later.
        hooked: Any = loss
        hooked.register_hook(lambda _gradient: engine.queue_callback(self._note_computed))
        super().backward(loss)
        self.exchange_s = time.perf_counter() - self._computed

    def _note_computed(self) -> None:
        self._computed = time.perf_counter()

    def reduce(self) -> None:
        super().reduce()
        self._sent.wait()
        self._sync.div_(self.world_size)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(values)
        return values

    def gather(self, value: Any) -> list[Any]:
        values = [None] * self.world_size
        distributed.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        distributed.destroy_process_group()
