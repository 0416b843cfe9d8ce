"""The checkpoints of a job as the desktop sees them: sidecars, hashes, newest and best.

The file itself is never loaded here; that needs torch and belongs to the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import MOUNTED, DataRootAccess
from backend.records.base.atomic_files import read_json, read_once
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    SIDECAR_SUFFIX,
    JobFolder,
)
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import CheckpointPolicy

_REMEMBERED = 1024


class Damaged(BackendError):
    """The file of a checkpoint is not what was saved."""


def list_checkpoints(
    folder: JobFolder, policy: CheckpointPolicy, share: DataRootAccess = MOUNTED
) -> tuple[Checkpoint, ...]:
    """Every checkpoint that has both file and sidecar, oldest first."""
    found: list[Checkpoint] = []
    # A mirror holds a sidecar only while the file is on the far side.
    suffix = CHECKPOINT_SUFFIX if share.has_files_of(folder) else SIDECAR_SUFFIX
    kept: set[str] = set()
    with suppress(FileNotFoundError):
        for entry in folder.checkpoints.iterdir():
            if entry.suffix == KEEP_SUFFIX:
                kept.add(entry.stem)
            if entry.suffix != suffix or entry.name.startswith(".") or entry == folder.latest:
                continue
            path = entry.with_suffix(CHECKPOINT_SUFFIX)
            # One that is being made or pruned just now has no sidecar, or a moment later no file.
            with suppress(OSError, ValueError):
                found.append(_checkpoint_of(path.with_suffix(SIDECAR_SUFFIX)))
    found.sort(key=lambda record: (record.step, record.epoch, record.run))
    latest = newest_name(folder) or (found[-1].name if found else "")
    best = _best(found, policy)
    return tuple(
        replace(
            record,
            is_latest=record.name == latest,
            is_best=record.name == best,
            is_kept=record.name in kept,
        )
        for record in found
    )


def keep(record: Checkpoint, is_kept: bool, share: DataRootAccess = MOUNTED) -> None:
    """Have a checkpoint stay whatever its job's policy says, or have it under the policy again."""
    mark = Path(record.path).with_suffix(KEEP_SUFFIX)
    if is_kept:
        share.replace_json(mark, {})
    else:
        share.remove(mark)


@read_once(_REMEMBERED)
def _checkpoint_of(sidecar: Path) -> Checkpoint:
    record = Checkpoint.from_sidecar(read_json(sidecar))
    path = sidecar.with_suffix(CHECKPOINT_SUFFIX)
    return replace(record, name=path.stem, path=str(path))


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


def verify(
    record: Checkpoint,
    progress: Callable[[int, int], None] | None = None,
    share: DataRootAccess = MOUNTED,
) -> None:
    """Compare the file with its sidecar's hash.

    Raises:
        Damaged: The file is not what was saved.
        BackendError: It cannot be read.
    """
    path = Path(record.path)
    done = 0

    def count(read: int) -> None:
        nonlocal done
        done += read
        if progress is not None:
            progress(done, record.bytes)

    try:
        size = share.size(path)
        if size != record.bytes:
            raise Damaged(
                f"The checkpoint {record.name} is {size} bytes long, but {record.bytes} "
                "were saved; it was cut or replaced."
            )
        digest = share.sha256(path, count)
    except OSError as error:
        raise BackendError(
            f"The checkpoint {record.name} cannot be read: {error.strerror or error}."
        ) from error
    if digest != record.sha256:
        raise Damaged(
            f"The checkpoint {record.name} is not what was saved: its contents have changed since."
        )
