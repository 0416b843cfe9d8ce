"""A checkpoint: its name, its content, and the hash that verifies it.

One flipped bit in a checkpoint went unnoticed by ``torch.load`` in 20 of 20 tries, so each file has
a sidecar (``<name>.json``) with its SHA-256, checked before ``latest.json`` moves and before a
resume or an export.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from backend.records.jobs.status import finite


@dataclass(frozen=True)
class Checkpoint:
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
    is_latest: bool = False
    is_best: bool = False
    is_kept: bool = False
    """It is never removed to free space."""
    path: str = ""

    def to_sidecar(self) -> dict[str, Any]:
        """Return the content of the file next to the checkpoint: everything that never changes."""
        raw = asdict(self)
        for derived in ("is_latest", "is_best", "is_kept", "path"):
            del raw[derived]
        raw["metrics"] = {name: finite(value) for name, value in self.metrics.items()}
        return raw

    @classmethod
    def from_sidecar(cls, raw: Mapping[str, Any]) -> Checkpoint:
        try:
            return cls(
                name=str(raw["name"]),
                run=int(raw["run"]),
                epoch=int(raw["epoch"]),
                step=int(raw["step"]),
                epoch_step=int(raw["epoch_step"]),
                bytes=int(raw["bytes"]),
                sha256=str(raw["sha256"]),
                config_sha256=str(raw["config_sha256"]),
                created=str(raw["created"]),
                metrics={
                    str(k): None if v is None else float(v) for k, v in raw["metrics"].items()
                },
                reason=str(raw.get("reason", "")),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"checkpoint record without a usable {error}") from error


EXPORT_FORMATS = ("pt", "safetensors", "onnx", "zip")
