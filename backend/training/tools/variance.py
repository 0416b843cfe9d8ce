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
from backend.training.tools.layer_modules import layer_modules
from backend.training.tools.layers import tensors_in
from backend.training.tools.model_batch import model_batch, prepare_process
from backend.training.user_code import (
    UserCodeError,
    compute_loss,
    compute_output,
    is_out_of_memory,
)

_MOST_CALLS = 2000
_MORE_CALLS = f"The layers ran more often than {_MOST_CALLS} times: only the first ones are here."
_ONE_SAMPLE = "One sample has no variance between samples."


def variance(request: Mapping[str, Any], report: tool_protocol.Report) -> dict[str, Any]:
    """``model``, ``loader``, ``dataset``, ``batch_size``."""
    batch = model_batch(request, report, int(request["batch_size"]))
    report("Running a step of the model…")
    found = variance_of(batch.model, batch.data, batch.target)
    if batch.samples == 1:
        found = replace(found, warnings=(*found.warnings, _ONE_SAMPLE))
    return found.to_dict()


def variance_of(model: torch.nn.Module, data: Any, target: Any) -> DepthVariance:
    """Return the variances of the layers with weights, or of all layers if none has some."""
    layers = [one for one in layer_modules(model) if one.is_layer]
    weighted = [one for one in layers if any(parameter.ndim > 1 for parameter in one.own)]
    calls = _Calls()
    handles = [
        one.module.register_forward_hook(calls.noter(one.name))
        for one in weighted or layers
        # Compiled to TorchScript, a module accepts no hooks.
        if not isinstance(one.module, torch.jit.ScriptModule)
    ]
    model.train()
    warnings, sigmoids = [], 0
    try:
        output = compute_output(model, data)
    finally:
        for handle in handles:
            handle.remove()
    try:
        loss = compute_loss(model, output, target)
        sigmoids = _sigmoids(loss)
        torch.autograd.backward(loss)
    except (UserCodeError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        warnings.append(f"There are no gradients: {error}")
    if calls.is_full:
        warnings.append(_MORE_CALLS)
    return DepthVariance(tuple(calls.rows), sigmoids, tuple(warnings))


class _Calls:
    """A row for each call of a layer, filled in the forward pass and in the backward pass."""

    def __init__(self) -> None:
        self.rows: list[LayerVariance] = []
        self.is_full = False
        self._count: Counter[str] = Counter()

    def noter(self, name: str) -> Callable[..., None]:
        def note(module: torch.nn.Module, _inputs: object, output: Any) -> None:
            found = [one for one in tensors_in(output) if one.is_floating_point() and one.ndim]
            self.is_full |= len(self.rows) == _MOST_CALLS
            if not found or self.is_full:
                return
            self._count[name] += 1
            calls = self._count[name]
            place = len(self.rows)
            value = found[0].detach()
            self.rows.append(
                LayerVariance(
                    name if calls == 1 else f"{name}, call {calls}",
                    type(module).__name__,
                    _variance(value) if len(value) > 1 else None,
                    None,
                    "" if _is_finite(value) else "output",
                )
            )
            if found[0].requires_grad:
                hook = partial(self._take, place)
                found[0].register_hook(hook)  # type: ignore[no-untyped-call]

        return note

    def _take(self, place: int, gradient: torch.Tensor) -> None:
        row, value = self.rows[place], gradient.detach()
        if _is_finite(value):
            self.rows[place] = replace(row, gradient=value.double().square().mean().item())
        else:
            self.rows[place] = replace(row, broken=row.broken or "gradient")


def _variance(value: torch.Tensor) -> float | None:
    """Return the variance over the first dimension, averaged over the others."""
    if not value.numel() or not _is_finite(value):
        return None
    return value.double().var(0, correction=0).mean().item()


def _is_finite(value: torch.Tensor) -> bool:
    return bool(torch.isfinite(value).all())


def _sigmoids(loss: torch.Tensor) -> int:
    """Count the sigmoids below a loss, called as modules or as functions."""
    waiting, seen, count = [loss.grad_fn], set(), 0
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            count += node.name() == "SigmoidBackward0"
            waiting += (one for one, _ in node.next_functions)
    return count


if __name__ == "__main__":
    prepare_process()
    tool_protocol.main(variance)
