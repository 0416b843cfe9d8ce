"""Tests for numbers that are not finite: in the changes of a step, and in a checkpoint.

A norm is not finite if one of its numbers is not. Of a million numbers it takes 0.28 ms on a core,
the update of SGD 0.44 ms, and ``isfinite().all()`` 5 ms.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy

_NARROW = (torch.float16, torch.bfloat16)


def norm_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the norm over all tensors, as a float32.

    The norm is infinite also where the square of a finite number is, which would ruin the state of
    Adam.
    """
    if not tensors:
        return torch.zeros(())
    wide_tensors = [tensor.float() if tensor.dtype in _NARROW else tensor for tensor in tensors]
    norms = torch._foreach_norm(wide_tensors)
    if len(norms) == 1:
        return norms[0].float()
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack([norm.float() for norm in norms]))
    return norm


class BufferWatch:
    """Watch over the buffers of a model, which a skipped step must not change.

    Only NaN is an error: a mask may be infinite. A buffer with NaN at the start is not watched.
    """

    def __init__(self, model: torch.nn.Module, device: torch.device, *, may_restore: bool) -> None:
        """``may_restore``: whether steps may be skipped, so that `restore` needs a copy."""
        self._device = device
        self._may_restore = may_restore
        self._saved_buffers: list[tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]] = []
        self._owners = [
            (module._buffers, name)
            for module in model.modules()
            for name, buffer in module._buffers.items()
            if buffer is None or not has_nan(buffer)
        ]

    def _buffers(self) -> Iterator[tuple[dict[str, Any], str, torch.Tensor]]:
        for owner, name in self._owners:
            if (buffer := owner.get(name)) is not None:
                yield owner, name, buffer

    @torch.no_grad()
    def save(self) -> None:
        """Copy the buffers before a step."""
        if not self._may_restore:
            return
        entries = list(self._buffers())
        copies = [copy for _, _, _, copy in self._saved_buffers]
        if [_kind(buffer) for _, _, buffer in entries] != [_kind(copy) for copy in copies]:
            copies = [torch.empty_like(buffer) for _, _, buffer in entries]
        if entries:
            torch._foreach_copy_(copies, [buffer for _, _, buffer in entries])
        self._saved_buffers = [(*entry, copy) for entry, copy in zip(entries, copies, strict=True)]

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the buffers that `save` copied."""
        for owner, name, buffer, copy in self._saved_buffers:
            buffer.resize_(copy.shape).copy_(copy)
            owner[name] = buffer

    def has_nan(self) -> torch.Tensor | None:
        """Return whether a buffer has NaN, without waiting for a GPU; None without buffers."""
        floating = [
            buffer
            for _, _, buffer in self._buffers()
            if buffer.is_floating_point() and buffer.device == self._device
        ]
        return norm_of(floating).isnan() if floating else None


def _kind(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return tensor.shape, tensor.dtype, tensor.device


def has_nan(value: Any) -> bool:
    """Return whether a tensor has NaN; False for other values."""
    return math.isnan(_norm(value)) and bool(value.isnan().any())


def is_finite(value: Any) -> bool:
    """Return whether all numbers of a tensor are finite; True for other values."""
    return math.isfinite(_norm(value)) or bool(value.isfinite().all())


def _norm(value: Any) -> float:
    """Return the norm of a tensor of numbers, otherwise 0."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or is_lazy(value):
        return 0.0
    return (
        float(norm_of([value.detach()])) if value.is_floating_point() or value.is_complex() else 0.0
    )


def not_finite_names(content: Mapping[str, Any], expected_names: Collection[str] = ()) -> list[str]:
    """Return the names of the tensors that make a checkpoint useless.

    Args:
        content: See `checkpoint_content.content`.
        expected_names: Names of the model's tensors that hold NaN on purpose.
    """
    optimized_names = list(content.get("optimized", ()))
    model = content.get("model", {})
    buffers = [rank["buffers"] for rank in content.get("ranks", ()) if "buffers" in rank]
    names = [
        name
        for tensors in (model, *buffers)
        for name, tensor in tensors.items()
        if name not in expected_names
        and (has_nan(tensor) if name not in optimized_names else not is_finite(tensor))
    ]
    states = content.get("optimizer", {}).get("state", {})
    for index, state in states.items():
        owner = optimized_names[index] if index < len(optimized_names) else index
        names += [f"{key} of {owner}" for key, value in state.items() if not is_finite(value)]
    return list(dict.fromkeys(names))
