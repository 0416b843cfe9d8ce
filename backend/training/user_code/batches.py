"""Batches of any structure that a loader makes: pairs of tensors, lists, tuples, dicts, nested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backend.training.user_code.errors import UserCodeError, with_article

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ItemFailure:
    """Error that a worker returns in place of a batch, and `split_batch` raises.

    An exception that crosses from a worker of torch's DataLoader arrives as one long text.
    """

    error: UserCodeError


def split_batch(batch: Any) -> tuple[Any, Any]:
    """Return ``(data, target)`` of a batch, or raise the error of its worker."""
    if isinstance(batch, ItemFailure):
        raise batch.error
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    description = (
        f"{len(batch)} parts"
        if isinstance(batch, (tuple, list))
        else with_article(type(batch).__name__)
    )
    raise UserCodeError(
        f"The loader makes batches of {description}, but a batch is a pair (data, target).",
        "Return two values from __getitem__ (each may be a tuple or dict), or from collate.",
    )


def to_device(value: Any, device: torch.device | str) -> Any:
    """Return a batch with every tensor in it on ``device``; other values stay as they are."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        packed_sequence: Any = value  # a named tuple with a part that must stay on the CPU
        return packed_sequence.to(device)
    if isinstance(value, Mapping):
        return {key: to_device(part, device) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_device(part, device) for part in value))
    if isinstance(value, (tuple, list)):
        return type(value)(to_device(part, device) for part in value)
    return value


def batch_size(value: Any) -> int:
    """Return the number of items in a batch: the length of its first tensor, 1 without one."""
    import torch

    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.ndim else 1
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, (tuple, list)) or isinstance(value, Mapping):
        for part in parts:
            if isinstance(part, (torch.Tensor, Mapping, tuple, list)):
                return batch_size(part)
    return 1


def shape_of(value: Any) -> str:
    """Return shapes and types of a nested value, in one line: ``([1, 8, 8] float32, int)``."""
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype"):
        return f"{list(shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shape_of(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        if len(value) > 8:
            return f"{type(value).__name__} of {len(value)}"
        return "(" + ", ".join(shape_of(part) for part in value) + ")"
    return type(value).__name__
