"""Batch normalization over the batches of all ranks, on CPUs and GPUs and with each library.

PyTorch's and Horovod's ``SyncBatchNorm`` need GPUs. Here the sums of a batch are averaged over the
ranks in one message of the forward pass, and their gradients in one of the backward pass, as in
Ioffe and Szegedy (arXiv 1502.03167) for the batch of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from backend.base.errors import BackendError
from backend.training.strategies.allreduce import AveragedGradients

Average = Callable[[torch.Tensor], None]


def synchronize_norms(model: torch.nn.Module, strategy: AveragedGradients) -> None:
    """Let all batch normalizations of a model train on the batches of all ranks.

    Raises:
        BackendError: The model has none.
    """
    norms = {n: module for n, module in model.named_modules() if isinstance(module, _BatchNorm)}
    if not norms:
        raise BackendError(
            "The model has no batch normalization, so there is none to synchronize.",
            "Remove the setting sync_batch_norm.",
        )
    for name, module in norms.items():
        average = partial(strategy.average_now, name=f"norm {name}")
        # An attribute of the module comes before the method, and changes no name of its state.
        vars(module)["forward"] = partial(_normalize, module, average, strategy.world_size)


class _RankMean(torch.autograd.Function):
    """The mean of values over the ranks, whose gradient is the mean of their gradients."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, average: Average) -> torch.Tensor:
        context.average = average
        mean = values.clone()
        average(mean)
        return mean

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        mean = gradients[0].clone(memory_format=torch.contiguous_format)
        context.average(mean)
        return mean, None


def _normalize(
    module: _BatchNorm, average: Average, world_size: int, batch: torch.Tensor
) -> torch.Tensor:
    """Return the normalized batch, and update the running means."""
    if not module.training:
        output: torch.Tensor = type(module).forward(module, batch)
        return output
    module._check_input_dim(batch)  # type: ignore[no-untyped-call]
    values = batch.float() if batch.dtype in (torch.float16, torch.bfloat16) else batch
    own_variance, own_mean = torch.var_mean(
        values, [axis for axis in range(values.ndim) if axis != 1], correction=0
    )
    # Of 64 bits, so that a mean much larger than the deviation does not cancel it.
    own_variance, own_mean = own_variance.double(), own_mean.double()
    count = own_mean.new_full((1,), values.numel() / values.shape[1])
    own_sums = torch.cat([count * (own_variance + own_mean.square()), count * own_mean, count])
    square_sum, value_sum, mean_count = torch.split(
        _RankMean.apply(own_sums, average),  # type: ignore[no-untyped-call]
        [len(own_mean), len(own_mean), 1],
    )
    mean = value_sum / mean_count
    variance = square_sum / mean_count - mean.square()
    _update_running_means(module, mean.detach(), variance.detach(), mean_count * world_size)
    shape = [1, -1] + [1] * (values.ndim - 2)
    scale = (variance + module.eps).rsqrt().to(values)
    normalized = (values - mean.to(values).view(shape)) * scale.view(shape)
    if module.affine:
        normalized = normalized * module.weight.view(shape) + module.bias.view(shape)
    return normalized.to(batch.dtype)


@torch.no_grad()
def _update_running_means(
    module: _BatchNorm, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor
) -> None:
    if module.running_mean is None or module.running_var is None:
        return
    factor = module.momentum
    if module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
        if factor is None:
            factor = 1.0 / float(module.num_batches_tracked)
    module.running_mean.lerp_(mean.to(module.running_mean), factor or 0.0)
    unbiased_variance = variance * count / (count - 1)
    module.running_var.lerp_(unbiased_variance.to(module.running_var), factor or 0.0)
