"""What a checkpoint holds: all that a run needs to go on as if it had never stopped."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from backend.records.launch import Launch
from backend.training.checkpoint import FORMAT
from backend.training.course import Course

_BUFFER_BYTES = 16 * 2**20
"""Above this, each rank's buffers are not kept: statistics are small, tables alike on all."""


def content(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    course: Course,
    ranks: Sequence[Any],
    measured: Mapping[str, float],
    launch: Launch,
) -> dict[str, Any]:
    """All of it.

    Args:
        ranks: What each rank has of its own, by its number.
        measured: What is known about the model at the end of an epoch, empty within one.
    """
    return {
        "format": FORMAT,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
        "course": course.to_dict(),
        "ranks": ranks,
        "metrics": dict(measured),
        "job": {
            "id": launch.job_id,
            "run": launch.run,
            "config_sha256": launch.config.sha256(),
            "hashes": dict(launch.hashes),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "horovod": _version("horovod"),
        },
    }


def own_buffers(model: torch.nn.Module, rank: int) -> list[torch.Tensor]:
    """What this rank's buffers hold, where they may differ from rank 0's (running means)."""
    buffers = list(model.buffers()) if rank else []
    large = sum(b.numel() * b.element_size() for b in buffers) > _BUFFER_BYTES
    return [] if large else [buffer.detach().cpu() for buffer in buffers]


def _version(module: str) -> str:
    found = sys.modules.get(module)
    return str(getattr(found, "__version__", "")) if found else ""
