"""Synchronous data parallelism over Horovod: every rank applies the mean of all gradients.

The gradients lie in few flat buckets that live as long as the job, each reduced by one call, and
the ballot is the tail of the first of them, so agreeing adds no message to a step. Horovod's own
``DistributedOptimizer`` sends one tensor for each parameter and fuses what happens to be ready in
the same cycle of a millisecond; then the grouping, and with it the order in which a ring adds up,
depends on timing. Fusion is switched off here: what is reduced together is fixed by the buckets,
so a run repeats bit for bit on any number of ranks (tried on 2 and 4 by
``tests/backend/training/test_resume.py``). What it costs beside Horovod's way is measured by
``tests/benchmarks/step_overhead.py``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from backend.errors import BackendError
from backend.training.strategies.base import Strategy

BUCKET_BYTES = 32 * 2**20
WHOLE_BYTES = 8 * 2**20
"""Models below this go out in one piece; of larger ones the last layers travel while the first
are still computed."""
LAST_BYTES = 2**20
"""The bucket that leaves last, with the first layers, is the one that is waited for."""


class AllReduce(Strategy):
    name = "allreduce"

    def __init__(self) -> None:
        self._buckets: list[Bucket] = []

    @property
    def rank(self) -> int:
        return int(self._hvd.rank())

    @property
    def world_size(self) -> int:
        return int(self._hvd.size())

    def load(self) -> None:
        try:
            import horovod.torch
        except ImportError as error:
            raise BackendError(
                f"Horovod cannot be loaded on this node: {error}.",
                "Provision the node again, or choose the strategy “alone” for one process.",
            ) from error
        self._hvd = horovod.torch

    def join(self, stall_limit_s: float) -> None:
        # Horovod reads these in `init`.
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"
        os.environ["HOROVOD_AUTOTUNE"] = "0"
        # The guard ends a rank that hangs; this is for the case that no guard is there.
        os.environ.setdefault("HOROVOD_STALL_CHECK_TIME_SECONDS", str(int(stall_limit_s) + 30))
        os.environ.setdefault(
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", str(2 * int(stall_limit_s) + 60)
        )
        self._hvd.init()

    def share_model(self, model: torch.nn.Module) -> None:
        self._share([*model.parameters(), *model.buffers()])

    def share_buffers(self, model: torch.nn.Module) -> None:
        self._share(list(model.buffers()))

    def _share(self, tensors: list[torch.Tensor]) -> None:
        """Rank 0's values of ``tensors`` into everyone's, by their bytes and in one message."""
        tensors = [tensor.detach() for tensor in tensors if tensor.numel()]
        if not tensors or self.world_size == 1:
            return
        if self.rank == 0:
            flat = torch.cat([bytes_of(tensor.cpu()) for tensor in tensors])
        else:
            flat = torch.empty(
                sum(t.numel() * t.element_size() for t in tensors), dtype=torch.uint8
            )
        self._hvd.broadcast_(flat, root_rank=0, name="share")
        if self.rank == 0:
            return
        start = 0
        for tensor in tensors:
            end = start + tensor.numel() * tensor.element_size()
            fresh = flat[start:end].clone().view(tensor.dtype).view(tensor.shape)
            tensor.copy_(fresh)
            start = end

    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        parameters = [p for p in model.parameters() if p.requires_grad]
        buckets = grouped(parameters)
        carrier = next((n for n, b in enumerate(buckets) if b[0].dtype == torch.float32), None)
        self._buckets = [
            Bucket(self._hvd, f"bucket-{n}", b, ballot_size if n == carrier else 0)
            for n, b in enumerate(buckets)
        ]
        if carrier is None:
            # No weights of 32 bits: the ballot goes alone, beside the gradients.
            self._buckets.append(Bucket(self._hvd, "ballot", [], ballot_size))
            carrier = len(self._buckets) - 1
        if len(buckets) > 1:
            for bucket in self._buckets:
                bucket.send_when_ready()
        return self._buckets[carrier].tail

    def zero(self) -> None:
        for bucket in self._buckets:
            bucket.zero()

    def reduce(self) -> None:
        for bucket in self._buckets:
            bucket.send()
        for bucket in self._buckets:
            bucket.receive()

    def gradient_norm(self) -> torch.Tensor:
        norms: list[torch.Tensor] = [
            torch.linalg.vector_norm(b.gradients).float() for b in self._buckets if b.parameters
        ]
        return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))

    def scale_gradients(self, factor: torch.Tensor) -> None:
        for bucket in self._buckets:
            bucket.gradients.mul_(factor)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._hvd.allreduce(values, op=self._hvd.Sum, name="total")
        return result

    def gather(self, value: Any) -> list[Any]:
        result: list[Any] = self._hvd.allgather_object(value, name="gather")
        return result

    def leave(self) -> None:
        self._hvd.shutdown()


def grouped(parameters: Sequence[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Which parameters share a bucket, in the order in which their gradients are there.

    That is from the last layer to the first. Towards the first the buckets halve: what leaves after
    the backward pass is small, and what leaves early is few messages.
    """
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    buckets: list[list[torch.nn.Parameter]] = []
    for kind in kinds.values():
        limit = LAST_BYTES if _bytes(kind) > WHOLE_BYTES else BUCKET_BYTES
        bucket: list[torch.nn.Parameter] = []
        for parameter in kind:
            bucket.append(parameter)
            if _bytes(bucket) >= limit:
                buckets.append(bucket)
                bucket = []
                limit = min(2 * limit, BUCKET_BYTES)
        if bucket:
            buckets.append(bucket)
    place = {parameter: number for number, parameter in enumerate(parameters)}
    return sorted(
        (bucket[::-1] for bucket in buckets), key=lambda bucket: place[bucket[-1]], reverse=True
    )


def _bytes(parameters: Sequence[torch.nn.Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)


class Bucket:
    """Gradients of some parameters in one flat tensor, and perhaps the ballot behind them.

    Each parameter's ``grad`` is a view into it that autograd adds to, so nothing is copied.
    """

    def __init__(
        self, hvd: Any, name: str, parameters: list[torch.nn.Parameter], tail: int
    ) -> None:
        self._hvd = hvd
        self._name = name
        self.parameters = parameters
        first = parameters[0] if parameters else None
        dtype = first.dtype if first is not None else torch.float32
        device = first.device if first is not None else torch.device("cpu")
        count = sum(parameter.numel() for parameter in parameters)
        self._flat = torch.zeros(count + tail, dtype=dtype, device=device)
        self.gradients = self._flat[:count]
        self.tail = self._flat[count:]
        self._views = []
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            self._views.append(self.gradients[start:end].view(parameter.shape))
            start = end
        self._pairs = list(zip(parameters, self._views, strict=True))
        self._missing = 0
        self._handle: int | None = None
        # MPI knows neither bfloat16 nor complex numbers.
        self._wire = self._flat
        if dtype.is_complex:
            self._wire = torch.view_as_real(self._flat)
        elif dtype is torch.bfloat16:
            self._wire = torch.empty_like(self._flat, dtype=torch.float32)

    def send_when_ready(self) -> None:
        """From now on the bucket leaves in the backward pass, when its last gradient is there."""
        for parameter in self.parameters:
            register: Any = parameter.register_post_accumulate_grad_hook
            register(self._arrived)

    def _arrived(self, parameter: torch.Tensor) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.send()

    def zero(self) -> None:
        self.gradients.zero_()
        self._missing = len(self.parameters)
        for parameter, view in self._pairs:
            # A user's own zero_grad() takes the view away.
            if parameter.grad is not view:
                parameter.grad = view

    def send(self) -> None:
        if self._handle is not None:
            return
        for parameter, view in self._pairs:
            if parameter.grad is not view:
                if parameter.grad is None:
                    view.zero_()
                else:
                    view.copy_(parameter.grad)
                parameter.grad = view
        if self._wire.dtype is not self._flat.dtype and not self._flat.is_complex():
            self._wire.copy_(self._flat)
        self._handle = self._hvd.allreduce_async_(self._wire, name=self._name, op=self._hvd.Average)

    def receive(self) -> None:
        self._hvd.synchronize(self._handle)
        self._handle = None
        if self._wire.dtype is not self._flat.dtype and not self._flat.is_complex():
            self._flat.copy_(self._wire)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)
