"""The checkpoints of a job as the desktop sees them: sidecars, hashes, newest and best.

The file itself is never loaded here; that needs torch and belongs to the nodes.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from backend.errors import BackendError
from backend.records.checkpoint import Checkpoint
from backend.records.files import read_json
from backend.records.job import CheckpointPolicy
from backend.records.layout import CHECKPOINT_SUFFIX, SIDECAR_SUFFIX, JobFolder

_READ_BYTES = 1 << 20


def list_checkpoints(folder: JobFolder, policy: CheckpointPolicy) -> tuple[Checkpoint, ...]:
    """Every checkpoint that has both file and sidecar, oldest first."""
    found: list[Checkpoint] = []
    with contextlib.suppress(FileNotFoundError):
        for path in folder.checkpoints.iterdir():
            if path.suffix != CHECKPOINT_SUFFIX or path.name.startswith("."):
                continue
            # One that is being made or pruned just now has no sidecar, or a moment later no file.
            with contextlib.suppress(OSError, ValueError):
                record = Checkpoint.from_sidecar(read_json(path.with_suffix(SIDECAR_SUFFIX)))
                found.append(replace(record, name=path.stem, path=str(path)))
    found.sort(key=lambda record: (record.step, record.epoch, record.run))
    latest = newest_name(folder) or (found[-1].name if found else "")
    best = _best(found, policy)
    return tuple(
        replace(record, is_latest=record.name == latest, is_best=record.name == best)
        for record in found
    )


def checkpoint_named(found: Sequence[Checkpoint], name: str) -> Checkpoint | None:
    """The checkpoint of that name; "latest" and "best" are names too."""
    for record in found:
        if (
            record.name == name
            or (name == "latest" and record.is_latest)
            or (name == "best" and record.is_best)
        ):
            return record
    return None


def newest_name(folder: JobFolder) -> str:
    """The name that ``latest.json`` holds, or ""."""
    try:
        return str(read_json(folder.latest)["name"])
    except (OSError, ValueError, KeyError):
        return ""


def best_value(found: Sequence[Checkpoint], policy: CheckpointPolicy) -> tuple[str, float] | None:
    """Name and value of the policy's metric at the best checkpoint."""
    value = next((r.metrics.get(policy.best_metric) for r in found if r.is_best), None)
    return None if value is None else (policy.best_metric, value)


def _best(found: Sequence[Checkpoint], policy: CheckpointPolicy) -> str:
    sign = 1.0 if policy.best_mode == "min" else -1.0
    rated = [
        (sign * value, -record.step, record.name)
        for record in found
        if (value := record.metrics.get(policy.best_metric)) is not None and math.isfinite(value)
    ]
    return min(rated)[2] if rated else ""


def verify(record: Checkpoint, progress: Callable[[int, int], None] | None = None) -> None:
    """Compare the file with its sidecar's hash.

    Raises:
        BackendError: The file is not what was saved, or cannot be read.
    """
    digest = hashlib.sha256()
    path = Path(record.path)
    done = 0
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size != record.bytes:
                raise BackendError(
                    f"The checkpoint {record.name} is {size} bytes long, but {record.bytes} "
                    "were saved; it was cut or replaced."
                )
            while piece := file.read(_READ_BYTES):
                digest.update(piece)
                done += len(piece)
                if progress is not None:
                    progress(done, size)
    except OSError as error:
        raise BackendError(
            f"The checkpoint {record.name} cannot be read: {error.strerror or error}."
        ) from error
    if digest.hexdigest() != record.sha256:
        raise BackendError(
            f"The checkpoint {record.name} is not what was saved: its contents have changed since."
        )
