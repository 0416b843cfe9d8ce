"""Synchronous data parallelism: every rank applies the mean of all gradients, over Horovod.

Small gradients are in a few flat buckets that live as long as the job, each reduced by one call,
and the sync vector is the tail of one of them, so agreement adds no message to a step. Large ones
are reduced separately in the memory where autograd left them: nothing is zeroed, added or copied.

After the sync vector there is one number for each parameter, 1 if a rank's step used it. A
parameter that no rank used has no gradient after `reduce`, as on one process.

A gradient may be added to several times in a step: a shared layer under reentrant activation
checkpointing, a backward pass within the forward, a hook of the user. So the first step sends
nothing in the backward pass and notes which gradients were final when they arrived first. From then
on the messages of those, and only those, are sent in the backward pass, in the same order on every
rank, which torch.distributed needs. One that changes after that all the same ends the job.

Horovod's own ``DistributedOptimizer`` sends one tensor for each parameter and fuses those that are
ready in the same cycle of a millisecond; then the grouping, and with it the order in which a ring
adds up, depends on timing. Fusion is turned off here: the groups are fixed, so a run repeats bit
for bit on any number of ranks (tested on 2 and 4 by ``tests/backend/training/test_resume.py``). Its
cost compared to Horovod's way is measured by ``tests/benchmarks/step_overhead.py`` and, across
nodes, ``tests/benchmarks/nodes.py``.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from backend.base.errors import BackendError
from backend.records.base.number_format import name_list
from backend.records.jobs.config import StrategyConfig
from backend.training.finite import norm_of
from backend.training.strategies.base import Strategy, drop_unused_gradients, trainable_parameters
from backend.training.strategies.local_steps import LocalSteps
from backend.training.strategies.wire_format import bytes_of
from backend.training.user_code import UserCodeError

LARGE_PARAMETER_BYTES = 2**20
"""Least size of a parameter that is its own message."""
BUCKET_BYTES = 32 * 2**20
SINGLE_MESSAGE_BYTES = 8 * 2**20
"""Largest size of all small gradients in a single message; of more, those of the last layers are
sent while the first are still computed.
"""
LAST_BYTES = 2**20
"""Size of the bucket that is sent last, with the first layers, and for which the step waits."""


SENT_DTYPES = {
    "none": None,
    "fp16": torch.float16,
    "bfloat16": torch.bfloat16,
    "powersgd": None,
}
"""Type of the sent numbers for each value of the setting ``compression``."""


class AveragedGradients(Strategy):
    """Strategy that averages the gradients of all ranks in messages of a fixed order."""

    sent_dtype: torch.dtype | None = None
    """Type of the sent numbers, None for the type of the gradients: float16 has 11 bits of
    precision and no value above 65,504, bfloat16 has 8 bits and the range of float32."""
    is_adasum = False
    """Whether to add by Adasum in place of the mean (Maleki et al. 2020, arXiv 2006.02924)."""
    takes_bfloat16 = False
    """Whether `send` takes bfloat16. MPI does not, and takes no complex numbers."""

    def __init__(self) -> None:
        self._messages: list[GradientMessage] = []
        self._early_messages: list[GradientMessage] = []
        self._is_trial = True
        self._parameters: list[torch.nn.Parameter] = []
        self._names: dict[torch.Tensor, str] = {}
        self._used_flags = torch.zeros(0)
        # The backward pass of the step, and the message that is sent next in it.
        self._backward_pass = -1
        self._unsent_messages: Iterator[GradientMessage] = iter(())
        self._next_message: GradientMessage | None = None

    @abstractmethod
    def send(self, values: torch.Tensor, name: str, *, is_adasum: bool) -> Any:
        """Begin to average ``values`` in place; return a handle for `receive`."""

    @abstractmethod
    def receive(self, handle: Any) -> None:
        """Wait until the values are averaged."""

    @abstractmethod
    def average_now(self, values: torch.Tensor, name: str) -> None:
        """Average ``values`` in place, also within a pass whose gradients are being sent."""

    def adopt(
        self, model: torch.nn.Module, sync_size: int, names: Collection[str] | None = None
    ) -> torch.Tensor:
        for message in self._messages:
            message.unwatch()
        parameters = trainable_parameters(model, names)
        self._parameters = list(parameters.values())
        self._names = {parameter: name for name, parameter in parameters.items()}
        groups = group_parameters(self._parameters)
        # The last small one to be sent: by then it is known which parameters the step used.
        carrier = max((n for n, group in enumerate(groups) if _may_carry(group)), default=None)
        if self.sent_dtype is not None or self.is_adasum:
            # The sync vector is a mean of exact numbers.
            carrier = None
        tail = sync_size + len(self._parameters)
        messages: list[GradientMessage] = []
        sync: GradientBucket | None = None
        for number, group in enumerate(groups):
            name = f"gradients-{number}"
            if number == carrier:
                sync = GradientBucket(self, name, group, tail)
            elif len(group) == 1:
                messages.append(SingleGradient(self, name, group[0]))
            else:
                messages.append(GradientBucket(self, name, group, 0))
        if sync is None:
            # No small gradient of 32 bits: the sync vector is a message of its own.
            sync = GradientBucket(self, "ballot", [], tail)
        for message in messages:
            message.sent_dtype = self.sent_dtype
            message.is_adasum = self.is_adasum
        self._messages = [*messages, sync]
        for message in self._messages:
            message.watch(self._note_arrival)
        # With one message there is nothing to send before the others.
        self._is_trial = len(groups) > 1
        self._early_messages = []
        self._used_flags = sync.tail[sync_size:]
        return sync.tail[:sync_size]

    def zero(self) -> None:
        self._backward_pass, self._next_message = -1, None
        for message in self._messages:
            message.zero()

    def backward(self, loss: torch.Tensor, *, is_last: bool = True) -> None:
        if is_last:
            hooked_loss: Any = loss
            hooked_loss.register_hook(self._begin_backward)
        super().backward(loss)

    def _begin_backward(self, _gradient: torch.Tensor) -> None:
        self._backward_pass = torch._C._current_graph_task_id()
        self._unsent_messages = iter(self._early_messages)
        self._next_message = next(self._unsent_messages, None)

    def _note_arrival(self, message: GradientMessage, parameter: torch.Tensor) -> None:
        # In a backward pass within this one or within the forward, the gradient is not complete.
        is_final = torch._C._current_graph_task_id() == self._backward_pass
        message.note_arrival(parameter, is_final, is_trial=self._is_trial)
        while self._next_message is not None and self._next_message.is_complete:
            self._next_message.send()
            self._next_message = next(self._unsent_messages, None)

    def reduce(self) -> None:
        self._require_unchanged()
        if self._is_trial:
            own_flags = [message.is_final() for message in self._messages[:-1]]
            rank_flags = zip(*self.gather(own_flags), strict=True)
            self._early_messages = [
                message
                for message, ranks in zip(self._messages, rank_flags, strict=False)
                if all(ranks)
            ]
            self._is_trial = False
        unused_parameters = {p for message in self._messages for p in message.unused_parameters()}
        self._used_flags.fill_(1.0)
        unused_indices = [
            index for index, p in enumerate(self._parameters) if p in unused_parameters
        ]
        for index in unused_indices:
            self._used_flags[index] = 0.0
        for message in self._ordered_messages():
            message.send()
        for message in self._messages:
            message.receive()
        drop_unused_gradients(self._parameters, unused_indices, self._used_flags)

    def _ordered_messages(self) -> list[GradientMessage]:
        """Return the messages in the order of sending, the one with the sync vector last."""
        early_messages = self._early_messages
        return [
            *early_messages,
            *(message for message in self._messages if message not in early_messages),
        ]

    def _require_unchanged(self) -> None:
        parameters = [p for message in self._early_messages for p in message.changed_parameters()]
        if parameters:
            raise UserCodeError(
                f"The gradient of {name_list([self._names[p] for p in parameters])} changed after "
                "it was sent to the other ranks. It did not in the first step.",
                "Call torch.utils.checkpoint with use_reentrant=False, and let hooks that change "
                "a .grad do so in each step, the first one included.",
            )

    def gradient_norm(self) -> torch.Tensor:
        return norm_of([m.gradients for m in self._messages if m.parameters])

    def scale_gradients(self, factor: torch.Tensor) -> None:
        for message in self._messages:
            message.gradients.mul_(factor)


class HorovodRanks(Strategy):
    """The part of a strategy whose ranks exchange by Horovod."""

    name = "allreduce"

    def __init__(self, config: StrategyConfig) -> None:
        super().__init__()
        self._reduction = config.setting("reduction")

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
        # Milliseconds in which it collects what to fuse, by default 1. A step of 2 ms takes 0.5 ms
        # less with this, one of 10 ms as long as before (tests/benchmarks/step_overhead.py).
        os.environ.setdefault("HOROVOD_CYCLE_TIME", "0.5")
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

    def send(self, values: torch.Tensor, name: str, *, is_adasum: bool = False) -> Any:
        op = self._hvd.Adasum if is_adasum else self._hvd.Average
        return self._hvd.allreduce_async_(values, name=name, op=op)

    def receive(self, handle: Any) -> None:
        self._hvd.synchronize(handle)

    def average_now(self, values: torch.Tensor, name: str) -> None:
        self.receive(self.send(values, name))

    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._hvd.allreduce(values, op=self._hvd.Sum, name="total")
        return result

    def gather_bytes(self, content: torch.Tensor) -> Sequence[torch.Tensor]:
        sizes = self._hvd.allgather(torch.tensor([content.numel()]), name="gather sizes")
        contents: torch.Tensor = self._hvd.allgather(content, name="gather")
        return torch.split(contents, sizes.tolist())

    def leave(self) -> None:
        self._hvd.shutdown()


class AllReduce(HorovodRanks, AveragedGradients):
    def __init__(self, config: StrategyConfig) -> None:
        super().__init__(config)
        self.sent_dtype = SENT_DTYPES[config.setting("compression")]
        self.is_adasum = self._reduction == "adasum"


class LocalAllReduce(HorovodRanks, LocalSteps):
    def __init__(self, config: StrategyConfig) -> None:
        super().__init__(config)
        self.sent_dtype = SENT_DTYPES[config.setting("compression")]


def group_parameters(parameters: Sequence[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
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
        limit = LAST_BYTES if _bytes(kind) > SINGLE_MESSAGE_BYTES else BUCKET_BYTES
        group: list[torch.nn.Parameter] = []
        for parameter in kind:
            group.append(parameter)
            if _bytes(group) >= limit:
                groups.append(group)
                group = []
                limit = min(2 * limit, BUCKET_BYTES)
        if group:
            groups.append(group)
    index_of = {parameter: index for index, parameter in enumerate(parameters)}
    return sorted(
        (group[::-1] for group in groups), key=lambda group: index_of[group[-1]], reverse=True
    )


def is_large(parameter: torch.nn.Parameter) -> bool:
    return _bytes([parameter]) >= LARGE_PARAMETER_BYTES


def _may_carry(group: Sequence[torch.nn.Parameter]) -> bool:
    return group[0].dtype == torch.float32 and not is_large(group[0])


def _bytes(parameters: Sequence[torch.nn.Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)


class GradientMessage(ABC):
    """Gradients of some parameters that are reduced by one call."""

    sent_dtype: torch.dtype | None = None
    is_adasum = False

    def __init__(
        self, strategy: AveragedGradients, name: str, parameters: list[torch.nn.Parameter]
    ) -> None:
        self._strategy = strategy
        self._name = name
        self.parameters = parameters
        self._hooks: list[Any] = []
        # Parameters without a gradient of this step, and those without a complete gradient.
        self._idle_parameters: set[torch.Tensor] = set()
        self._awaited_parameters: set[torch.Tensor] = set()
        self._repeated_parameters: set[torch.Tensor] = set()
        self._checksums: dict[torch.Tensor, torch.Tensor] = {}
        self._handle: Any = None

    @property
    @abstractmethod
    def gradients(self) -> torch.Tensor:
        """All gradients, in the memory of the parameters' ``grad``."""

    @abstractmethod
    def _collect(self) -> torch.Tensor:
        """Return the data to reduce, contiguous and shared with `gradients`."""

    @abstractmethod
    def unused_parameters(self) -> list[torch.nn.Parameter]:
        """Return the parameters without a gradient of this step, before `send`."""

    def watch(self, on_arrival: Callable[[GradientMessage, torch.Tensor], None]) -> None:
        """Call ``on_arrival`` each time autograd has added to a gradient. Keep old gradients."""
        self._idle_parameters = {tensor for tensor in self.parameters if tensor.grad is None}
        self._awaited_parameters = set(self.parameters)
        for parameter in self.parameters:
            # A parameter that is frozen at the moment, or on this rank, accepts no hook.
            is_trained = parameter.requires_grad
            register: Any = parameter.requires_grad_().register_post_accumulate_grad_hook
            self._hooks.append(register(functools.partial(on_arrival, self)))
            parameter.requires_grad_(is_trained)

    def unwatch(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def note_arrival(self, parameter: torch.Tensor, is_final: bool, *, is_trial: bool) -> None:
        """Note that autograd has added to a gradient.

        Args:
            is_final: The gradient is complete in this backward pass.
            is_trial: Note the gradient's content, for `is_final`.
        """
        self._idle_parameters.discard(parameter)
        if self._handle is not None:
            self._repeated_parameters.add(parameter)
        if not is_final:
            return
        self._awaited_parameters.discard(parameter)
        if is_trial and parameter.grad is not None:
            self._checksums.setdefault(parameter, _checksum(parameter.grad))

    @property
    def is_complete(self) -> bool:
        return not self._awaited_parameters

    def is_final(self) -> bool:
        """Return whether each gradient was final when it arrived first, after a trial."""
        sums, self._checksums = self._checksums, {}
        return all(
            parameter in sums
            and parameter.grad is not None
            and bool(sums[parameter] == _checksum(parameter.grad))
            for parameter in self.parameters
        )

    def changed_parameters(self) -> list[torch.nn.Parameter]:
        """Return the parameters whose gradient changed after `send`."""
        if self._handle is None:
            return []
        if self._content._version != self._version:
            return self.parameters
        return [
            parameter
            for parameter in self.parameters
            if parameter in self._repeated_parameters
            or parameter.grad is not self._sent_gradients[parameter]
        ]

    def zero(self) -> None:
        self._idle_parameters = set(self.parameters)
        self._awaited_parameters = set(self.parameters)
        self._repeated_parameters = set()

    def send(self) -> None:
        if self._handle is not None:
            return
        self._content = values = self._collect()
        if values.is_complex():
            values = torch.view_as_real(values)
        elif values.dtype is torch.bfloat16 and not self._strategy.takes_bfloat16:
            values = values.float()
        if self.sent_dtype is not None and values.dtype in (torch.float32, torch.float64):
            values = values.to(self.sent_dtype)
        self._values = values
        self._handle = self._strategy.send(values, self._name, is_adasum=self.is_adasum)
        self._sent_gradients = {parameter: parameter.grad for parameter in self.parameters}
        self._version = self._content._version

    def receive(self) -> None:
        self._strategy.receive(self._handle)
        self._handle = None
        if self._content.is_complex():
            torch.view_as_real(self._content).copy_(self._values)
        elif self._values is not self._content:
            self._content.copy_(self._values)


class SingleGradient(GradientMessage):
    """One gradient, in the tensor that autograd made for it."""

    def __init__(
        self, strategy: AveragedGradients, name: str, parameter: torch.nn.Parameter
    ) -> None:
        super().__init__(strategy, name, [parameter])
        self._parameter = parameter

    @property
    def gradients(self) -> torch.Tensor:
        gradient = self._parameter.grad
        return gradient if gradient is not None else self._parameter.detach()[:0]

    def zero(self) -> None:
        super().zero()
        self._parameter.grad = None

    def unused_parameters(self) -> list[torch.nn.Parameter]:
        return [self._parameter] if self._parameter.grad is None else []

    def _collect(self) -> torch.Tensor:
        gradient = self._parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(self._parameter, memory_format=torch.contiguous_format)
        elif gradient.is_sparse:
            gradient = gradient.to_dense()
        self._parameter.grad = gradient.contiguous()
        return self._parameter.grad


class GradientBucket(GradientMessage):
    """Gradients of some parameters in one flat tensor, possibly with the sync vector at its end.

    Each parameter's ``grad`` is a view into the tensor that autograd adds to, without a copy.
    """

    def __init__(
        self,
        strategy: AveragedGradients,
        name: str,
        parameters: list[torch.nn.Parameter],
        tail: int,
    ) -> None:
        super().__init__(strategy, name, parameters)
        first_parameter = parameters[0] if parameters else None
        dtype = first_parameter.dtype if first_parameter is not None else torch.float32
        device = first_parameter.device if first_parameter is not None else torch.device("cpu")
        count = sum(parameter.numel() for parameter in parameters)
        self._flat_values = torch.zeros(count + tail, dtype=dtype, device=device)
        self._gradients = self._flat_values[:count]
        self.tail = self._flat_values[count:]
        self._pairs = []
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            self._pairs.append((parameter, self._gradients[start:end].view(parameter.shape)))
            start = end

    @property
    def gradients(self) -> torch.Tensor:
        return self._gradients

    def watch(self, on_arrival: Callable[[GradientMessage, torch.Tensor], None]) -> None:
        super().watch(on_arrival)
        for parameter, view in self._pairs:
            if parameter.grad is not None:
                view.copy_(parameter.grad.to_dense())
                parameter.grad = view

    def zero(self) -> None:
        super().zero()
        self._gradients.zero_()
        for parameter, view in self._pairs:
            # A user's own zero_grad() removes the view.
            if parameter.grad is not view:
                parameter.grad = view

    def unused_parameters(self) -> list[torch.nn.Parameter]:
        # A gradient that user code set itself did not trigger `note_arrival`.
        return [
            parameter
            for parameter, view in self._pairs
            if parameter.grad is None
            or (parameter.grad is view and parameter in self._idle_parameters)
        ]

    def _collect(self) -> torch.Tensor:
        for parameter, view in self._pairs:
            if parameter.grad is not view:
                if parameter.grad is None:
                    view.zero_()
                else:
                    view.copy_(parameter.grad.to_dense())
                parameter.grad = view
        return self._flat_values


def _checksum(gradient: torch.Tensor) -> torch.Tensor:
    """Return a sum over the bytes; equal gradients have equal sums, NaN included."""
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bytes_of(values.detach()).sum()
