"""A checkpoint: its name, its content, and the hash that verifies it.

One flipped bit in a checkpoint went unnoticed by ``torch.load`` in 20 of 20 tries, so each file has
a sidecar (``<name>.json``) with its SHA-256, checked before ``latest.json`` moves and before a
resume or an export.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base.atomic_files import cached_reader, read_json
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    LATEST,
    SIDECAR_SUFFIX,
    JobFolder,
)
from backend.records.base.schema import READ, Record
from backend.records.jobs.config import CheckpointPolicy

_DERIVED = {READ: None}

_CACHED_RECORDS = 1024
_MIN_KEPT = 2


@dataclass(frozen=True)
class Checkpoint(Record, label="checkpoint record", required=("metrics",)):
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
    """Reason of the checkpoint: "policy", "stop", "last"; "script" if a script wrote the file."""
    file: str = ""
    """The file or folder that a script wrote, relative to the job's folder."""
    not_finite: str = ""
    """Names of its tensors that hold NaN or infinite numbers: a resume would continue with them."""
    holds_only: str = ""
    """The part of a state that a script's file holds alone: "weights" or "optimizer"."""
    is_latest: bool = field(default=False, metadata=_DERIVED)
    is_best: bool = field(default=False, metadata=_DERIVED)
    is_kept: bool = field(default=False, metadata=_DERIVED)
    """The checkpoint is never removed to free space."""
    path: str = field(default="", metadata=_DERIVED)

    @property
    def sidecar(self) -> Path:
        """The file of this record."""
        path = Path(self.path)
        if not self.file:
            return path.with_suffix(SIDECAR_SUFFIX)
        job = JobFolder(path.parents[len(Path(self.file).parts) - 1])
        return job.checkpoints / f"{self.name}{SIDECAR_SUFFIX}"

    @property
    def marks(self) -> str:
        """Labels that set it apart from the others, such as "latest, best, weights only"."""
        labels = {
            "latest": self.is_latest,
            "best": self.is_best,
            "kept": self.is_kept,
            "holds NaN": bool(self.not_finite),
            f"{self.holds_only} only": bool(self.holds_only),
            "at a stop": self.reason == "stop",
            "last epoch": self.reason == "last",
        }
        return ", ".join(label for label, is_marked in labels.items() if is_marked)

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``--json`` prints: some fields only where they say something."""
        rare_keys = ("file", "not_finite", "holds_only")
        return {key: value for key, value in asdict(self).items() if value or key not in rare_keys}


def read_checkpoints(folder: Path, suffix: str = CHECKPOINT_SUFFIX) -> list[Checkpoint]:
    """Read the records of the checkpoints in ``folder``, oldest first. Nothing is verified.

    A file with ``suffix`` shows that there is a checkpoint, or the one that a script wrote.
    """
    checkpoints: list[Checkpoint] = []
    kept_names: set[str] = set()
    has_files = suffix == CHECKPOINT_SUFFIX
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.suffix == KEEP_SUFFIX:
                kept_names.add(path.stem)
            if path.suffix != SIDECAR_SUFFIX or path.name.startswith(".") or path.name == LATEST:
                continue
            # A checkpoint that is being made or removed has no sidecar, or soon no file.
            with suppress(OSError, ValueError):
                record = read_record(path)
                if not has_files or Path(record.path).exists():
                    checkpoints.append(record)
    checkpoints.sort(key=lambda record: (record.step, record.epoch, record.run))
    return [replace(record, is_kept=record.name in kept_names) for record in checkpoints]


def newest_until(checkpoints: Sequence[Checkpoint], step: int | None) -> Checkpoint | None:
    """Return the newest of these checkpoints, oldest first, up to a step; None without any."""
    earlier_checkpoints = (
        c for c in finite_checkpoints(checkpoints)[::-1] if step is not None and c.step <= step
    )
    return next(earlier_checkpoints, None)


def finite_checkpoints(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints without NaN or infinite numbers."""
    return [c for c in checkpoints if not c.not_finite]


def checkpoint_to_resume(
    checkpoints: Sequence[Checkpoint], sound_step: int | None
) -> Checkpoint | None:
    """Return the checkpoint from which a job resumes by default, None without any.

    Args:
        checkpoints: All checkpoints of the job, oldest first.
        sound_step: Of the error that ended it: a loss that rose is resumed from before its rise.
    """
    sound_checkpoints = finite_checkpoints(checkpoints)
    latest_checkpoint = next(
        (c for c in sound_checkpoints if c.is_latest),
        sound_checkpoints[-1] if sound_checkpoints else None,
    )
    return newest_until(checkpoints, sound_step) or latest_checkpoint


@cached_reader(_CACHED_RECORDS)
def read_record(sidecar: Path) -> Checkpoint:
    """Read one record.

    Raises:
        OSError, ValueError: It cannot be read, or is not one.
    """
    record = Checkpoint.from_dict(read_json(sidecar))
    checkpoint_path = sidecar.with_suffix(CHECKPOINT_SUFFIX)
    path = sidecar.parent.parent / record.file if record.file else checkpoint_path
    return replace(record, name=checkpoint_path.stem, path=str(path))


def retired_checkpoints(
    checkpoints: Sequence[Checkpoint], policy: CheckpointPolicy, sound_step: int | None = None
) -> list[Checkpoint]:
    """Return the checkpoints (sorted by their steps) that need not be kept."""
    # A run that continues from an older one makes the newest, at fewer steps than others have.
    finite = finite_checkpoints(checkpoints)
    newest_last = sorted(checkpoints, key=lambda c: (c.run, c.step))
    kept_names = {
        c.name
        for c in (
            *finite_checkpoints(newest_last)[-max(policy.keep_latest, 1) :],
            *newest_last[-1:],
        )
    }
    # Weights alone, however new, are not what a script resumes from.
    kept_names |= {
        c.name for c in [c for c in finite_checkpoints(newest_last) if not c.holds_only][-1:]
    }
    if sound_step is not None:
        # The newest that is known to be good, and the one that will be next.
        sound_names = [c.name for c in finite if c.step <= sound_step]
        later_names = [c.name for c in finite if c.step > sound_step]
        kept_names |= {*sound_names[-1:], *later_names[:1]}

    def goodness(checkpoint: Checkpoint) -> float:
        value = checkpoint.metrics.get(policy.best_metric)
        if value is None or not math.isfinite(value):
            return math.inf
        return value if policy.best_mode == "min" else -value

    best_first = sorted((c for c in finite if goodness(c) < math.inf), key=goodness)
    kept_names |= {c.name for c in best_first[: policy.keep_best]}
    kept_names |= {c.name for c in checkpoints if c.reason == "last"}
    for checkpoint in reversed(finite):
        if len(kept_names) >= _MIN_KEPT:
            break
        kept_names.add(checkpoint.name)
    return [c for c in checkpoints if c.name not in kept_names and not c.is_kept]


EXPORT_FORMATS = ("pt", "safetensors", "onnx", "zip")
