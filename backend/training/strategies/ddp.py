"""Synchronous data parallelism by PyTorch alone: `torch.nn.parallel.DistributedDataParallel`.

It trains as `AllReduce` does, on nodes where Horovod cannot be built. Gradients go through gloo on
CPUs and NCCL on GPUs.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from backend.training.strategies.base import ForwardPass, LocalGradients, drop_unused
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
        # `find_unused_parameters` would make every step wait for one more message, the map of used
        # parameters: 11 % of a step of 16 ms. Here that map is the tail of the sync vector.
        return torch.nn.parallel.DistributedDataParallel(
            forward, broadcast_buffers=False, init_sync=False, gradient_as_bucket_view=True
        )

    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        sync = super().adopt(model, ballot_size)
        self._sync = torch.cat([sync, sync.new_zeros(len(self._parameters))])
        self._used = self._sync[ballot_size:]
        self._nodes = [torch.autograd.graph.get_gradient_edge(p).node for p in self._parameters]
        return self._sync[:ballot_size]

    def backward(self, loss: torch.Tensor) -> None:
        hooked: Any = loss
        hooked.register_hook(self._begin)
        super().backward(loss)
        self.exchange_s = time.perf_counter() - self._computed

    def _begin(self, _gradient: torch.Tensor) -> None:
        """Send the sync vector while the gradients are computed."""
        is_used: Any = torch._C._will_engine_execute_node
        self._unused = [place for place, node in enumerate(self._nodes) if not is_used(node)]
        self._used.fill_(1.0)
        if self._unused:
            self._used[self._unused] = 0.0
        self._sent = distributed.all_reduce(self._sync, async_op=True)
        # DDP waits for a gradient of each parameter.
        for place in self._unused:
            parameter = self._parameters[place]
            torch.autograd.backward(parameter, torch.zeros_like(parameter))
        engine: Any = torch.autograd.Variable._execution_engine
        # Called when all gradients are computed, before DDP's own callback, which waits for the
        # other ranks: that one is queued later.
        engine.queue_callback(self._note_computed)

    def _note_computed(self) -> None:
        self._computed = time.perf_counter()

    def reduce(self) -> None:
        super().reduce()
        self._sent.wait()
        self._sync.div_(self.world_size)
        drop_unused(self._parameters, self._unused, self._used)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(values)
        return values

    def gather(self, value: Any) -> list[Any]:
        values = [None] * self.world_size
        distributed.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        distributed.destroy_process_group()
