"""Interface of a strategy, with which the workers of a job cooperate in the training loop.

The loop computes an output and a loss; all exchange between ranks goes through the strategy. A
strategy that averages gradients (``allreduce``, ``ddp``) implements `adopt`, `zero` and `reduce`. A
strategy that exchanges parameters (``downpour``, ``dc-asgd``) pulls them in `zero`, pushes the
gradient in `reduce`, and overrides `step` so that the loop's own optimizer does nothing. In both
cases the messages of `reduce` contain the *sync vector*, so that agreement needs no other message,
and every rank has the same vector after `reduce`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from backend.training import user_code
from backend.training.finite import norm_of
from backend.training.lbfgs import Lbfgs
from backend.training.strategies.wire_format import bytes_of, decode, encode


class ForwardPass(torch.nn.Module):
    """Module that computes output and loss of a batch, which a strategy can wrap."""

    output: Any = None
    """The output of the last batch."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Any, target: Any) -> torch.Tensor:
        self.output = user_code.compute_output(self.model, data)
        return user_code.compute_loss(self.model, self.output, target)


class Strategy(ABC):
    """Strategy of a job on one rank. All ranks call every method; the properties are local."""

    name: str
    is_split = False
    """Whether each rank has a part of the network, and all train on the same batch. The last rank
    has its output, and so its loss and metrics."""

    has_collective_forward = False
    """Whether the ranks exchange in a forward pass, so that all make the same number of them."""

    @property
    @abstractmethod
    def rank(self) -> int: ...

    @property
    @abstractmethod
    def world_size(self) -> int: ...

    @abstractmethod
    def load(self) -> None:
        """Import the strategy's libraries, so that `join` imports nothing.

        Raises:
            BackendError: A library is not installed here.
        """

    @abstractmethod
    def join(self, stall_limit_s: float) -> None:
        """Meet the other ranks, after `load`. `rank` and `world_size` are valid afterwards."""

    def share_model(self, model: torch.nn.Module) -> None:
        """Copy rank 0's parameters and buffers to every rank."""
        self._share([*model.parameters(), *model.buffers()])

    def share_buffers(self, model: torch.nn.Module) -> None:
        """Copy rank 0's buffers (running means) to every rank, before all evaluate one model."""
        self._share(list(model.buffers()))

    def _share(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy rank 0's ``tensors`` to every rank, by their bytes and in one message."""
        if self.world_size == 1:
            return
        vector = pack(tensors)
        self.broadcast(vector)
        if self.rank:
            fill_tensors(tensors, unpack(vector, tensors))

    def shard(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        make_optimizer: Callable[[Sequence[torch.nn.Parameter]], torch.optim.Optimizer],
    ) -> torch.optim.Optimizer:
        """Distribute the model over the ranks, after `share_model`; return its optimizer.

        Args:
            make_optimizer: Returns an optimizer of parameters that took the place of others.
        """
        return optimizer

    @abstractmethod
    def broadcast(self, values: torch.Tensor) -> None:
        """Fill ``values`` (on the CPU) with those of rank 0."""

    def parallel(self, forward: ForwardPass) -> Callable[[Any, Any], torch.Tensor]:
        """Return the function that the loop calls in place of ``forward``, after `share_model`.

        ``forward`` computes the loss of a batch; its parameters are those of the model.
        """
        return forward

    def output(self, model: torch.nn.Module, data: Any) -> Any:
        """Return the output of a batch of the validation; None where another rank has it."""
        return user_code.compute_output(model, data)

    @abstractmethod
    def adopt(
        self, model: torch.nn.Module, sync_size: int, names: Collection[str] | None = None
    ) -> torch.Tensor:
        """Prepare for steps with this model; again, when it trains other parameters.

        Gradients that exist are kept.

        Args:
            names: The names of the parameters that any rank trains; None for those of this rank.

        Returns:
            The sync vector: float32, on the model's device. The loop fills it before each backward
            pass and reads it after `reduce`.
        """

    @abstractmethod
    def zero(self) -> None:
        """Clear the gradients before the forward of a step, which may run backward passes."""

    def backward(self, loss: torch.Tensor, *, is_last: bool = True) -> None:
        """Add the gradients of a loss that `parallel`'s result returned.

        Args:
            is_last: No other pass of the step follows, so that a gradient can be sent.
        """
        # torch has no type annotations for `backward`.
        torch.autograd.backward(loss)

    @abstractmethod
    def reduce(self) -> None:
        """Average gradients and sync vector over all ranks after a backward pass.

        A rank whose step did not use a parameter counts as a gradient of zeros. If no rank used it,
        its ``grad`` is None afterwards, so that weight decay and momentum do not change it.
        """

    def average_thawed(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Average the gradients of parameters that `reduce` does not know, as it does.

        Raises:
            UserCodeError: The strategy trains only what it trained in the first step.
        """
        if self.world_size == 1 or not parameters:
            return
        own_gradients = [_gradient_numbers(tensor) for tensor in parameters]
        used_flags = torch.tensor(
            [float(tensor.grad is not None) for tensor in parameters], dtype=torch.float64
        )
        mean = self.sum_over_ranks(torch.cat([*own_gradients, used_flags])) / self.world_size
        *means, shares = torch.split(mean, [*map(len, own_gradients), len(used_flags)])
        for parameter, mean, share in zip(parameters, means, shares.tolist(), strict=True):
            gradient = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
            target = torch.view_as_real(gradient) if gradient.is_complex() else gradient
            target.copy_(mean.view_as(target))
            parameter.grad = gradient if share else None

    @abstractmethod
    def gradient_norm(self) -> torch.Tensor:
        """Return the norm over all gradients, as `reduce` left them."""

    @abstractmethod
    def scale_gradients(self, factor: torch.Tensor) -> None: ...

    def step(self, update: Callable[[], None]) -> None:
        """Apply the gradients; ``update`` is one step of the job's optimizer."""
        update()

    def figures(self) -> dict[str, float]:
        """Return the strategy's own figures of the last step, by name; rank 0 reports them."""
        return {}

    def full_state(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the state dicts of the whole model and its optimizer; rank 0 saves them."""
        return model.state_dict(), optimizer.state_dict()

    def own_state(self) -> dict[str, Any]:
        """Return what a checkpoint needs of the strategy, the same on each rank afterwards."""
        return {}

    def load_own_state(self, saved_state: Mapping[str, Any]) -> None:
        """Continue with the result of `own_state`, which may be empty or of another strategy."""
        del saved_state

    @abstractmethod
    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of ``values`` (float64, on the CPU) over all ranks."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank. Costs some milliseconds; never once a step.

        Raises:
            TypeError: `encode` does not know a type in it.
        """
        content = torch.frombuffer(bytearray(encode(value)), dtype=torch.uint8)
        return [decode(part.numpy().data) for part in self.gather_bytes(content)]

    @abstractmethod
    def gather_bytes(self, content: torch.Tensor) -> Sequence[torch.Tensor]:
        """Return the bytes (uint8, on the CPU) of all ranks, by rank, of any length."""

    @abstractmethod
    def leave(self) -> None:
        """Disconnect from the other ranks, when all have finished."""


class LocalGradients(Strategy):
    """Strategy whose gradients stay in the tensors that autograd made for them.

    Sparse gradients become dense, and a parameter that a step does not use has no gradient, so that
    the optimizer does not change it.
    """

    def __init__(self) -> None:
        self._parameters: list[torch.nn.Parameter] = []

    def adopt(
        self, model: torch.nn.Module, sync_size: int, names: Collection[str] | None = None
    ) -> torch.Tensor:
        self._parameters = list(trainable_parameters(model, names).values())
        return torch.zeros(sync_size, device=self._parameters[0].device)

    def zero(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def reduce(self) -> None:
        for parameter in self._parameters:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()

    def gradient_norm(self) -> torch.Tensor:
        return norm_of(self._gradients())

    def scale_gradients(self, factor: torch.Tensor) -> None:
        torch._foreach_mul_(self._gradients(), factor)

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self._parameters if p.grad is not None]


def trainable_parameters(
    model: torch.nn.Module, names: Collection[str] | None = None
) -> dict[str, torch.nn.Parameter]:
    """Return the named parameters, or those that require a gradient, in the model's order."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if (parameter.requires_grad if names is None else name in names)
    }


def optimized_names(model: torch.nn.Module, optimizer: torch.optim.Optimizer | Lbfgs) -> list[str]:
    """Return the names of the optimizer's parameters, in the order of its state dict."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [
        names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]
    ]


def drop_unused_gradients(
    parameters: Sequence[torch.nn.Parameter],
    unused_indices: Sequence[int],
    used_shares: torch.Tensor,
) -> None:
    """Drop the gradient of each parameter that no rank used.

    ``unused_indices`` are the parameters that this rank did not use; ``used_shares`` has the share
    of ranks that used each parameter. Only the parameters that this rank did not use are checked.
    """
    shares = used_shares.tolist() if unused_indices else []
    for index in unused_indices:
        if not shares[index]:
            parameters[index].grad = None


def _gradient_numbers(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return the numbers of a gradient, zeros without one, as float64 on the CPU."""
    gradient = parameter.grad
    numbers = torch.zeros_like(parameter) if gradient is None else gradient.to_dense().detach()
    numbers = torch.view_as_real(numbers) if numbers.is_complex() else numbers
    return numbers.detach().double().cpu().reshape(-1)


def pack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the bytes of all tensors as one on the CPU."""
    if not tensors:
        return torch.empty(0, dtype=torch.uint8)
    return torch.cat([bytes_of(tensor.detach().cpu()) for tensor in tensors])


def unpack(vector: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors in what `pack` made of ones like these."""
    parts, start = [], 0
    for tensor in tensors:
        end = start + tensor.numel() * tensor.element_size()
        parts.append(vector[start:end].clone().view(tensor.dtype).view(tensor.shape))
        start = end
    return parts


def fill_tensors(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy values into tensors, which may be parameters."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.detach().copy_(value)


class SingleProcess(LocalGradients):
    """One process with plain PyTorch: for laptops, tests, and nodes without Horovod.

    A model trains here as it does with `AllReduce` on one process.
    """

    name = "alone"

    @property
    def rank(self) -> int:
        return 0

    @property
    def world_size(self) -> int:
        return 1

    def load(self) -> None:
        pass

    def join(self, stall_limit_s: float) -> None:
        pass

    def broadcast(self, values: torch.Tensor) -> None:
        pass

    def sum_over_ranks(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def gather_bytes(self, content: torch.Tensor) -> list[torch.Tensor]:
        return [content]

    def leave(self) -> None:
        pass
