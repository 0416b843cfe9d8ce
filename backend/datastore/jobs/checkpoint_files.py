"""The checkpoints of a job as the desktop reads them: sidecars, hashes, newest and best.

The file itself is never loaded here; that needs torch and is done on the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.datastore.access.root_access import DataRootAccess, OpenJob
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import CHECKPOINT_SUFFIX, KEEP_SUFFIX, SIDECAR_SUFFIX, JobFolder
from backend.records.base.validation import sanitize
from backend.records.jobs.checkpoint import Checkpoint, finite_checkpoints, read_checkpoints
from backend.records.jobs.config import CheckpointPolicy


class DamagedCheckpoint(BackendError):
    """The file of a checkpoint does not match its record."""


def list_checkpoints(folder: OpenJob, policy: CheckpointPolicy) -> tuple[Checkpoint, ...]:
    """Return every checkpoint that has both file and sidecar, oldest first."""
    # A mirror has a sidecar only while the remote file exists.
    suffix = CHECKPOINT_SUFFIX if folder.files.has_files_of(folder) else SIDECAR_SUFFIX
    checkpoints = read_checkpoints(folder.checkpoints, suffix)
    usable_checkpoints = finite_checkpoints(checkpoints)
    latest_name = newest_name(folder) or (usable_checkpoints[-1].name if usable_checkpoints else "")
    best_name = _best_name(usable_checkpoints, policy)
    return tuple(
        replace(
            checkpoint,
            is_latest=checkpoint.name == latest_name,
            is_best=checkpoint.name == best_name,
        )
        for checkpoint in checkpoints
    )


def keep(files: DataRootAccess, record: Checkpoint, is_kept: bool) -> None:
    """Exempt a checkpoint from the retention policy, or put it under the policy again."""
    mark = record.sidecar.with_suffix(KEEP_SUFFIX)
    if is_kept:
        files.replace_json(mark, {})
    else:
        files.remove(mark)


def checkpoint_named(checkpoints: Sequence[Checkpoint], name: str) -> Checkpoint | None:
    """Return the checkpoint of that name; "latest" and "best" are names too."""
    for checkpoint in checkpoints:
        if (
            name in (checkpoint.name, Path(checkpoint.file).name or checkpoint.name)
            or (name == "latest" and checkpoint.is_latest)
            or (name == "best" and checkpoint.is_best)
        ):
            return checkpoint
    return None


def require_checkpoint(checkpoints: Sequence[Checkpoint], name: str, job_id: str) -> Checkpoint:
    """Return the checkpoint with a name as `checkpoint_named`, or raise a `BackendError`."""
    record = checkpoint_named(checkpoints, name)
    if record is not None:
        return record
    raise BackendError(
        f"The job {job_id} has no checkpoint “{sanitize(name)}”.",
        f"There are: {', '.join(record.name for record in checkpoints)}." if checkpoints else "",
    )


def newest_name(folder: JobFolder) -> str:
    """Return the name in ``latest.json``, or ""."""
    try:
        return str(read_json(folder.latest)["name"])
    except (OSError, ValueError, KeyError) as error:
        swallowed(error)
        return ""


def best_value(
    checkpoints: Sequence[Checkpoint], policy: CheckpointPolicy
) -> tuple[str, float] | None:
    """Return name and value of the policy's metric at the best checkpoint."""
    value = next((r.metrics.get(policy.best_metric) for r in checkpoints if r.is_best), None)
    return None if value is None else (policy.best_metric, value)


def _best_name(checkpoints: Sequence[Checkpoint], policy: CheckpointPolicy) -> str:
    sign = 1.0 if policy.best_mode == "min" else -1.0
    ratings = [
        (sign * value, -checkpoint.step, checkpoint.name)
        for checkpoint in checkpoints
        if (value := checkpoint.metrics.get(policy.best_metric)) is not None
        and math.isfinite(value)
    ]
    return min(ratings)[2] if ratings else ""


def verify(
    files: DataRootAccess,
    record: Checkpoint,
    progress: Callable[[int, int], None] | None = None,
    *,
    hashes: bool = True,
) -> None:
    """Compare the file with its sidecar's size, and with its hash.

    Raises:
        DamagedCheckpoint: The file does not match its record.
        BackendError: It cannot be read.
    """
    path = Path(record.path)
    checked_bytes = 0

    def count(read_bytes: int) -> None:
        nonlocal checked_bytes
        checked_bytes += read_bytes
        if progress is not None:
            progress(checked_bytes, record.bytes)

    try:
        size = files.size(path)
        if size != record.bytes:
            raise DamagedCheckpoint(
                f"The checkpoint {record.name} is {size} bytes long, but {record.bytes} "
                "were saved; it was cut or replaced."
            )
        digest = files.sha256(path, count) if hashes else record.sha256
    except OSError as error:
        raise BackendError(
            f"The checkpoint {record.name} cannot be read: {error.strerror or error}."
        ) from error
    if digest != record.sha256:
        raise DamagedCheckpoint(
            f"The checkpoint {record.name} is damaged: its contents changed after it was saved."
        )
