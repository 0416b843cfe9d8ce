"""DDP that sends matrices of low rank in place of large gradients: PowerSGD.

After Vogels et al. (arXiv 1905.13727), algorithm 1 with the error that is fed back, algorithm 2.
The result depends on the ranks' gradients and errors only by their means. So the errors of all
ranks are replaced by their mean before a checkpoint: a resume continues as the run that saved it,
on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from backend.training.finite import norm_of
from backend.training.strategies.base import trainable_parameters
from backend.training.strategies.ddp import Ddp

RANK = 4
"""Columns of the two factors of a gradient: the product of the row factor (rows × `RANK`, columns
orthogonal) and the transposed column factor (columns × `RANK`) is the gradient that is applied. The
source has 2 for ResNet-18 and 4 for a language model."""


class PowerSgd(Ddp):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._matrices: dict[str, torch.nn.Parameter] = {}
        self._errors: dict[str, torch.Tensor] = {}
        self._bases: dict[str, torch.Tensor] = {}

    def adopt(
        self, model: torch.nn.Module, sync_size: int, names: Collection[str] | None = None
    ) -> torch.Tensor:
        parameters = trainable_parameters(model, names)
        self._matrices = {n: p for n, p in parameters.items() if _is_compressible(p)}
        for name, parameter in self._matrices.items():
            if name in self._errors:
                self._errors[name] = self._errors[name].to(parameter)
                self._bases[name] = self._bases[name].to(parameter)
                continue
            self._errors[name] = torch.zeros_like(parameter).flatten(1)
            # The same on all ranks, which need no message for it.
            generator = torch.Generator().manual_seed(len(self._bases))
            columns = self._errors[name].shape[1]
            self._bases[name] = torch.randn(columns, RANK, generator=generator).to(parameter)
        return super().adopt(model, sync_size, parameters.keys() - self._matrices.keys())

    def zero(self) -> None:
        super().zero()
        for parameter in self._matrices.values():
            parameter.grad = None

    @torch.no_grad()
    def reduce(self) -> None:
        super().reduce()
        if not self._matrices:
            return
        gradients = {
            name: torch.zeros_like(p) if p.grad is None else p.grad.to_dense()
            for name, p in self._matrices.items()
        }
        used_parameters = [
            g.new_tensor(float(self._matrices[n].grad is not None)) for n, g in gradients.items()
        ]
        sums = {n: gradient.flatten(1) + self._errors[n] for n, gradient in gradients.items()}
        row_factors = {n: matrix @ self._bases[n] for n, matrix in sums.items()}
        self._average([*row_factors.values(), *used_parameters])
        for name in row_factors:
            row_factors[name] = torch.linalg.qr(row_factors[name]).Q
        column_factors = {n: matrix.T @ row_factors[n] for n, matrix in sums.items()}
        self._average(list(column_factors.values()))
        means = {n: row_factors[n] @ column_factors[n].T for n in row_factors}
        # The error of a gradient that is NaN would stay without end.
        is_finite = bool(norm_of(list(means.values())).isfinite())
        for (name, parameter), is_used in zip(self._matrices.items(), used_parameters, strict=True):
            if is_used and is_finite:
                self._bases[name] = column_factors[name]
                self._errors[name] = sums[name] - means[name]
            parameter.grad = means[name].view_as(parameter) if is_used else None

    def _average(self, tensors: list[torch.Tensor]) -> None:
        vector = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self.receive(self.send(vector, "low rank"))
        parts = torch.split(vector, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def gradient_norm(self) -> torch.Tensor:
        return norm_of([super().gradient_norm(), *self._gradients()])

    def scale_gradients(self, factor: torch.Tensor) -> None:
        super().scale_gradients(factor)
        torch._foreach_mul_(self._gradients(), factor)

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self._matrices.values() if p.grad is not None]

    def own_state(self) -> dict[str, Any]:
        if self._errors:
            self._average(list(self._errors.values()))
        return {"errors": self._errors, "bases": self._bases}

    def load_own_state(self, state: Mapping[str, Any]) -> None:
        self._errors, self._bases = dict(state.get("errors", {})), dict(state.get("bases", {}))


def _is_compressible(parameter: torch.nn.Parameter) -> bool:
    """Return whether the two matrices are at most half as large as the gradient."""
    if parameter.ndim < 2 or parameter.dtype != torch.float32:
        return False
    rows, columns = parameter.shape[0], parameter[0].numel()
    return 2 * RANK * (rows + columns) <= rows * columns
