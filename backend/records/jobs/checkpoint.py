"""A checkpoint: its name, its content, and the hash that verifies it.

One flipped bit in a checkpoint went unnoticed by ``torch.load`` in 20 of 20 tries, so each file has
a sidecar (``<name>.json``) with its SHA-256, checked before ``latest.json`` moves and before a
resume or an export.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from backend.records.base.schema import READ, Record

_DERIVED = {READ: None}


@dataclass(frozen=True)
class Checkpoint(Record, what="checkpoint record", needs=("metrics",)):
    """A checkpoint. ``epoch`` is the epoch it was made in, ``step`` the steps done in all.

    ``epoch_step`` is the number of steps done in that epoch; 0 means that the epoch ``epoch`` is
    complete and the next one begins.
    """

    name: str
    run: int
    epoch: int
    step: int
    epoch_step: int
    bytes: int
    sha256: str
    config_sha256: str
    created: str
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    reason: str = ""
    """Why it was made: "policy", "stop", "last"."""
    is_latest: bool = field(default=False, metadata=_DERIVED)
    is_best: bool = field(default=False, metadata=_DERIVED)
    is_kept: bool = field(default=False, metadata=_DERIVED)
    """It is never removed to free space."""
    path: str = field(default="", metadata=_DERIVED)

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--json`` prints: all fields."""
        return asdict(self)


EXPORT_FORMATS = ("pt", "safetensors", "onnx", "zip")
