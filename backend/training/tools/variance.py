"""The variance of activations and gradients by depth, from one step of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from backend.records.library.variance import DepthVariance, LayerVariance
from backend.training.tools import protocol as tool_protocol
from backend.training.tools.inspected_model import layer_modules, model_batch, prepare_process
from backend.training.tools.layers import tensors_in
from backend.training.user_code import (
    UserCodeError,
    compute_loss,
    compute_output,
    is_out_of_memory,
)

_CALL_LIMIT = 2000
_CALL_LIMIT_WARNING = (
    f"The layers ran more often than {_CALL_LIMIT} times: only the first ones are here."
)
_ONE_SAMPLE_WARNING = "One sample has no variance between samples."


def variance(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``, ``loader``, ``dataset``, ``batch_size``."""
    batch = model_batch(request, report, int(request["batch_size"]))
    report("Running a step of the model…")
    depth_variance = compute_variance(batch.model, batch.data, batch.target)
    if batch.samples == 1:
        depth_variance = replace(
            depth_variance, warnings=(*depth_variance.warnings, _ONE_SAMPLE_WARNING)
        )
    return depth_variance.to_dict()


def compute_variance(model: torch.nn.Module, data: Any, target: Any) -> DepthVariance:
    """Return the variances of the layers with weights, or of all layers if none has some."""
    layers = [layer for layer in layer_modules(model) if layer.is_layer]
    weighted_layers = [
        layer for layer in layers if any(parameter.ndim > 1 for parameter in layer.parameters)
    ]
    calls = _LayerCalls()
    handles = [
        layer.module.register_forward_hook(calls.hook_for(layer.name))
        for layer in weighted_layers or layers
        # Compiled to TorchScript, a module accepts no hooks.
        if not isinstance(layer.module, torch.jit.ScriptModule)
    ]
    model.train()
    warnings, sigmoid_count = [], 0
    try:
        output = compute_output(model, data)
    finally:
        for handle in handles:
            handle.remove()
    try:
        loss = compute_loss(model, output, target)
        sigmoid_count = _count_sigmoids(loss)
        torch.autograd.backward(loss)
    except (UserCodeError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        warnings.append(f"There are no gradients: {error}")
    if calls.is_full:
        warnings.append(_CALL_LIMIT_WARNING)
    return DepthVariance(tuple(calls.rows), sigmoid_count, tuple(warnings))


class _LayerCalls:
    """A row for each call of a layer, filled in the forward pass and in the backward pass."""

    def __init__(self) -> None:
        self.rows: list[LayerVariance] = []
        self.is_full = False
        self._call_counts: Counter[str] = Counter()

    def hook_for(self, name: str) -> Callable[..., None]:
        def forward_hook(module: torch.nn.Module, _inputs: object, output: Any) -> None:
            tensors = [
                tensor
                for tensor in tensors_in(output)
                if tensor.is_floating_point() and tensor.ndim
            ]
            self.is_full |= len(self.rows) == _CALL_LIMIT
            if not tensors or self.is_full:
                return
            self._call_counts[name] += 1
            call_number = self._call_counts[name]
            row_index = len(self.rows)
            value = tensors[0].detach()
            self.rows.append(
                LayerVariance(
                    name if call_number == 1 else f"{name}, call {call_number}",
                    type(module).__name__,
                    _variance(value) if len(value) > 1 else None,
                    None,
                    "" if _is_finite(value) else "output",
                )
            )
            if tensors[0].requires_grad:
                gradient_hook = partial(self._add_gradient, row_index)
                tensors[0].register_hook(gradient_hook)  # type: ignore[no-untyped-call]

        return forward_hook

    def _add_gradient(self, row_index: int, gradient: torch.Tensor) -> None:
        row, value = self.rows[row_index], gradient.detach()
        if _is_finite(value):
            self.rows[row_index] = replace(row, gradient=value.double().square().mean().item())
        else:
            self.rows[row_index] = replace(row, broken_part=row.broken_part or "gradient")


def _variance(value: torch.Tensor) -> float | None:
    """Return the variance over the first dimension, averaged over the others."""
    if not value.numel() or not _is_finite(value):
        return None
    return value.double().var(0, correction=0).mean().item()


def _is_finite(value: torch.Tensor) -> bool:
    return bool(torch.isfinite(value).all())


def _count_sigmoids(loss: torch.Tensor) -> int:
    """Count the sigmoids below a loss, called as modules or as functions."""
    pending_nodes, visited_nodes, count = [loss.grad_fn], set(), 0
    while pending_nodes:
        node = pending_nodes.pop()
        if node is not None and node not in visited_nodes:
            visited_nodes.add(node)
            count += node.name() == "SigmoidBackward0"
            pending_nodes += (next_node for next_node, _ in node.next_functions)
    return count


if __name__ == "__main__":
    prepare_process()
    tool_protocol.main(variance)
