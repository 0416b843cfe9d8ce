"""Synchronous data parallelism over Horovod: every rank applies the mean of all gradients.

Small gradients are in a few flat buckets that live as long as the job, each reduced by one call,
and the sync vector is the tail of one of them, so agreement adds no message to a step. Large ones
are reduced separately in the memory where autograd left them: nothing is zeroed, added or copied.

After the sync vector there is one number for each parameter, 1 if a rank's step used it. A
parameter that no rank used has no gradient after `reduce`, as on one process.

Horovod's own ``DistributedOptimizer`` sends one tensor for each parameter and fuses those that are
ready in the same cycle of a millisecond; then the grouping, and with it the order in which a ring
adds up, depends on timing. Fusion is turned off here: the groups are fixed, so a run repeats bit
for bit on any number of ranks (tested on 2 and 4 by ``tests/backend/training/test_resume.py``). Its
cost compared to Horovod's way is measured by ``tests/benchmarks/step_overhead.py`` and, across
nodes, ``tests/benchmarks/nodes.py``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from backend.base.errors import BackendError
from backend.records.jobs.config import StrategyConfig
from backend.training.strategies.base import Strategy, drop_unused

SINGLE_BYTES = 2**20
"""A parameter of at least this size is a message of its own."""
BUCKET_BYTES = 32 * 2**20
WHOLE_BYTES = 8 * 2**20
"""Up to this size small gradients are one message; of more, those of the last layers are sent while
the first are still computed.
"""
LAST_BYTES = 2**20
"""The bucket that is sent last, with the first layers, is the one that is waited for."""


class AllReduce(Strategy):
    name = "allreduce"

    def __init__(self, config: StrategyConfig) -> None:
        self._half = config.setting("compression") == "fp16"
        self._reduction = config.setting("reduction")
        self._messages: list[GradientMessage] = []
        self._parameters: list[torch.nn.Parameter] = []
        self._used = torch.zeros(0)

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
                "Choose the strategy DDP, or set the node up with Horovod.",
            ) from error
        self._hvd = horovod.torch
        if self._reduction == "hierarchical" and not self._hvd.nccl_built():
            raise BackendError(
                "Horovod on this node was built without NCCL, which hierarchical allreduce needs.",
                "Choose the reduction “average”.",
            )

    def join(self, stall_limit_s: float) -> None:
        # Horovod reads these in `init`.
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"
        os.environ["HOROVOD_AUTOTUNE"] = "0"
        if self._reduction == "hierarchical":
            os.environ["HOROVOD_HIERARCHICAL_ALLREDUCE"] = "1"
        # The guard ends a rank that hangs; this is for runs without a guard.
        os.environ.setdefault("HOROVOD_STALL_CHECK_TIME_SECONDS", str(int(stall_limit_s) + 30))
        os.environ.setdefault(
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", str(2 * int(stall_limit_s) + 60)
        )
        self._hvd.init()

    def broadcast(self, values: torch.Tensor) -> None:
        self._hvd.broadcast_(values, root_rank=0, name="share")

    def adopt(self, model: torch.nn.Module, ballot_size: int) -> torch.Tensor:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        groups = grouped(self._parameters)
        # The last small one to be sent: by then it is known which parameters the step used.
        carrier = max((n for n, group in enumerate(groups) if _may_carry(group)), default=None)
        if self._half or self._reduction == "adasum":
            # The sync vector is a mean of exact numbers.
            carrier = None
        tail = ballot_size + len(self._parameters)
        ballot: Bucket | None = None
        for number, group in enumerate(groups):
            name = f"gradients-{number}"
            if number == carrier:
                ballot = Bucket(self._hvd, name, group, tail)
                self._messages.append(ballot)
            elif len(group) == 1:
                self._messages.append(Single(self._hvd, name, group[0]))
            else:
                self._messages.append(Bucket(self._hvd, name, group, 0))
        if ballot is None:
            # No small gradient of 32 bits: the sync vector is a message of its own.
            ballot = Bucket(self._hvd, "ballot", [], tail)
            self._messages.append(ballot)
        for message in self._messages:
            message.watch(send=len(groups) > 1 and message is not ballot)
            if message is not ballot:
                message.half = self._half
                message.is_adasum = self._reduction == "adasum"
        self._used = ballot.tail[ballot_size:]
        return ballot.tail[:ballot_size]

    def zero(self) -> None:
        for message in self._messages:
            message.zero()

    def reduce(self) -> None:
        unused = {p for message in self._messages for p in message.unused()}
        self._used.fill_(1.0)
        places = [place for place, p in enumerate(self._parameters) if p in unused]
        for place in places:
            self._used[place] = 0.0
        for message in self._messages:
            message.send()
        for message in self._messages:
            message.receive()
        drop_unused(self._parameters, places, self._used)

    def gradient_norm(self) -> torch.Tensor:
        norms: list[torch.Tensor] = [
            torch.linalg.vector_norm(m.gradients).float() for m in self._messages if m.parameters
        ]
        return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))

    def scale_gradients(self, factor: torch.Tensor) -> None:
        for message in self._messages:
            message.gradients.mul_(factor)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._hvd.allreduce(values, op=self._hvd.Sum, name="total")
        return result

    def gather(self, value: Any) -> list[Any]:
        result: list[Any] = self._hvd.allgather_object(value, name="gather")
        return result

    def leave(self) -> None:
        self._hvd.shutdown()


def grouped(parameters: Sequence[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Group parameters that share a message, in the order in which their gradients are ready.

    That is from the last layer to the first. Towards the first the groups halve: what is sent after
    the backward pass is small, and what is sent early is few messages.
    """
    groups = [[parameter] for parameter in parameters if is_large(parameter)]
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        if not is_large(parameter):
            kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    for kind in kinds.values():
        limit = LAST_BYTES if _bytes(kind) > WHOLE_BYTES else BUCKET_BYTES
        group: list[torch.nn.Parameter] = []
        for parameter in kind:
            group.append(parameter)
            if _bytes(group) >= limit:
                groups.append(group)
                group = []
                limit = min(2 * limit, BUCKET_BYTES)
        if group:
            groups.append(group)
    place = {parameter: number for number, parameter in enumerate(parameters)}
    return sorted(
        (group[::-1] for group in groups), key=lambda group: place[group[-1]], reverse=True
    )


def is_large(parameter: torch.nn.Parameter) -> bool:
    return _bytes([parameter]) >= SINGLE_BYTES


def _may_carry(group: Sequence[torch.nn.Parameter]) -> bool:
    return group[0].dtype == torch.float32 and not is_large(group[0])


def _bytes(parameters: Sequence[torch.nn.Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)


class GradientMessage(ABC):
    """Gradients of some parameters that are reduced by one call."""

    half = False
    """Send 16 bits of each number: half the bytes, 11 bits of precision, no value above 65,504."""
    is_adasum = False
    """Add by Adasum in place of the mean (Maleki et al. 2020, arXiv 2006.02924)."""

    def __init__(self, hvd: Any, name: str, parameters: list[torch.nn.Parameter]) -> None:
        self._hvd = hvd
        self._name = name
        self.parameters = parameters
        self._awaited: set[torch.Tensor] = set()
        self._sends_early = False
        self._handle: int | None = None

    @property
    @abstractmethod
    def gradients(self) -> torch.Tensor:
        """All of them, where the optimizer finds them."""

    @abstractmethod
    def _collect(self) -> torch.Tensor:
        """Return the data to reduce, contiguous and shared with `gradients`."""

    @abstractmethod
    def unused(self) -> list[torch.nn.Parameter]:
        """Return those without a gradient of this step, before `send`."""

    def watch(self, *, send: bool) -> None:
        """Record from now on which gradients are ready.

        Args:
            send: Send the message in the backward pass, when its last gradient is ready.
        """
        self._sends_early = send
        for parameter in self.parameters:
            register: Any = parameter.register_post_accumulate_grad_hook
            register(self._arrived)

    def _arrived(self, parameter: torch.Tensor) -> None:
        self._awaited.discard(parameter)
        if self._sends_early and not self._awaited:
            self.send()

    def zero(self) -> None:
        self._awaited = set(self.parameters)

    def send(self) -> None:
        if self._handle is not None:
            return
        self._content = self._wire = self._collect()
        # MPI supports neither bfloat16 nor complex numbers.
        if self._content.is_complex():
            self._wire = torch.view_as_real(self._content)
        elif self._content.dtype is torch.bfloat16:
            self._wire = self._content.float()
        if self.half and self._wire.dtype in (torch.float32, torch.float64):
            self._wire = self._wire.half()
        op = self._hvd.Adasum if self.is_adasum else self._hvd.Average
        self._handle = self._hvd.allreduce_async_(self._wire, name=self._name, op=op)

    def receive(self) -> None:
        self._hvd.synchronize(self._handle)
        self._handle = None
        if self._content.is_complex():
            torch.view_as_real(self._content).copy_(self._wire)
        elif self._wire is not self._content:
            self._content.copy_(self._wire)


class Single(GradientMessage):
    """One gradient, in the tensor that autograd made for it."""

    def __init__(self, hvd: Any, name: str, parameter: torch.nn.Parameter) -> None:
        super().__init__(hvd, name, [parameter])
        self._parameter = parameter

    @property
    def gradients(self) -> torch.Tensor:
        return self._content

    def zero(self) -> None:
        super().zero()
        self._parameter.grad = None

    def unused(self) -> list[torch.nn.Parameter]:
        return [self._parameter] if self._parameter.grad is None else []

    def _collect(self) -> torch.Tensor:
        gradient = self._parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(self._parameter, memory_format=torch.contiguous_format)
        elif gradient.is_sparse:
            gradient = gradient.to_dense()
        self._parameter.grad = gradient.contiguous()
        return self._parameter.grad


class Bucket(GradientMessage):
    """Gradients of some parameters in one flat tensor, possibly with the sync vector at its end.

    Each parameter's ``grad`` is a view into it that autograd adds to, so nothing is copied.
    """

    def __init__(
        self, hvd: Any, name: str, parameters: list[torch.nn.Parameter], tail: int
    ) -> None:
        super().__init__(hvd, name, parameters)
        first = parameters[0] if parameters else None
        dtype = first.dtype if first is not None else torch.float32
        device = first.device if first is not None else torch.device("cpu")
        count = sum(parameter.numel() for parameter in parameters)
        self._flat = torch.zeros(count + tail, dtype=dtype, device=device)
        self._gradients = self._flat[:count]
        self.tail = self._flat[count:]
        self._pairs = []
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            self._pairs.append((parameter, self._gradients[start:end].view(parameter.shape)))
            start = end

    @property
    def gradients(self) -> torch.Tensor:
        return self._gradients

    def zero(self) -> None:
        super().zero()
        self._gradients.zero_()
        for parameter, view in self._pairs:
            # A user's own zero_grad() removes the view.
            if parameter.grad is not view:
                parameter.grad = view

    def unused(self) -> list[torch.nn.Parameter]:
        # A gradient that user code set itself did not trigger `_arrived`.
        return [
            parameter
            for parameter, view in self._pairs
            if parameter.grad is None or (parameter.grad is view and parameter in self._awaited)
        ]

    def _collect(self) -> torch.Tensor:
        for parameter, view in self._pairs:
            if parameter.grad is not view:
                if parameter.grad is None:
                    view.zero_()
                else:
                    view.copy_(parameter.grad)
                parameter.grad = view
        return self._flat
