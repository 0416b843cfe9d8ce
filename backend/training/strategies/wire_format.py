"""Values as bytes that are safe to read from a network: no byte of them is ever executed.

A value is JSON text with the bytes of its tensors behind it. `decode` makes plain Python values and
tensors only, so a message can hold nothing that runs; `pickle` would run what it is sent.
"""

from __future__ import annotations

import json
import math
import numbers
import struct
from collections.abc import Callable, Mapping
from typing import Any

import torch

_HEADER = "<Q"
"""The bytes of the JSON text."""
_ALIGNMENT = 16
_DTYPES = {str(x): x for x in vars(torch).values() if isinstance(x, torch.dtype)}


def encode(value: Any) -> bytes:
    """Return the bytes of a value.

    It may consist of None, bool, int, float, str, bytes, tensors and dtypes, and of lists, tuples
    and dicts of them; a NamedTuple becomes a tuple.

    Raises:
        TypeError: It has a value of another type, or one with attributes of its own.
    """
    blobs = bytearray()
    text = json.dumps(_to_json(value, blobs), separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // _ALIGNMENT) * _ALIGNMENT)
    return struct.pack(_HEADER, len(text)) + text + blobs


def decode(content: bytes | bytearray | memoryview) -> Any:
    """Return the value that `encode` got.

    Raises:
        ValueError: These are no such bytes.
    """
    try:
        (size,) = struct.unpack_from(_HEADER, content)
        start = struct.calcsize(_HEADER)
        body = memoryview(content)[start:]
        if size > len(body):
            raise ValueError("the text is cut")
        return _from_json(json.loads(bytes(body[:size])), body[size:])
    except (struct.error, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise ValueError(f"not a message of a rank: {error}") from error


def _to_json(value: Any, blobs: bytearray) -> Any:
    # A subclass of a plain type would arrive without its attributes: a float without its weight.
    if not isinstance(value, torch.Tensor) and getattr(value, "__dict__", None):
        raise TypeError(f"a {type(value).__name__} with attributes cannot be sent to another rank")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": _append(value, blobs)}
    if isinstance(value, torch.Tensor):
        dense = value.detach().cpu().to_dense() if value.is_sparse else value.detach().cpu()
        content = bytes_of(dense.resolve_conj().resolve_neg()).numpy().tobytes()
        return {"tensor": [str(value.dtype), *value.shape], "at": _append(content, blobs)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)}
    if isinstance(value, Mapping):
        return {"dict": [[_to_json(k, blobs), _to_json(v, blobs)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_to_json(item, blobs) for item in value]}
    raise TypeError(f"a {type(value).__name__} cannot be sent to another rank")


def _append(content: bytes | bytearray, blobs: bytearray) -> list[int]:
    start = len(blobs)
    blobs += content
    blobs += bytes(-len(blobs) % _ALIGNMENT)
    return [start, len(content)]


def _from_json(value: Any, blobs: memoryview) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("a list without a kind")
        return value
    kind = next(iter(value))
    return _READERS[kind](value, blobs)


def _blob(value: Mapping[str, Any], key: str, blobs: memoryview) -> memoryview:
    start, size = value[key]
    if start < 0 or size < 0 or start + size > len(blobs):
        raise ValueError("bytes outside the message")
    return blobs[start : start + size]


def _tensor(value: Mapping[str, Any], blobs: memoryview) -> torch.Tensor:
    name, *shape = value["tensor"]
    dtype, content = _DTYPES[name], bytearray(_blob(value, "at", blobs))
    if any(side < 0 for side in shape):
        raise ValueError("a negative side")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content)} bytes for a tensor of {shape} × {name}")
    if not content:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(content, dtype=torch.uint8).view(dtype).view(shape)


_READERS: Mapping[str, Callable[[Any, memoryview], Any]] = {
    "bytes": lambda value, blobs: bytes(_blob(value, "bytes", blobs)),
    "tensor": _tensor,
    "dtype": lambda value, _blobs: _DTYPES[value["dtype"]],
    "dict": lambda value, blobs: {
        _from_json(key, blobs): _from_json(item, blobs) for key, item in value["dict"]
    },
    "list": lambda value, blobs: [_from_json(item, blobs) for item in value["list"]],
    "tuple": lambda value, blobs: tuple(_from_json(item, blobs) for item in value["tuple"]),
}


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a dense tensor as one of uint8; they share memory where they can."""
    return tensor.contiguous().view(-1).view(torch.uint8)
