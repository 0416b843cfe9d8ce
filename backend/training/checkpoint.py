"""Checkpoints, written in the background, verified before they count, and refused if damaged.

`Checkpointer.save` copies the state to its own memory and returns; a thread writes the copy to a
temporary name and hashes it, reads it back, renames it, and only then updates ``latest.json``.
``torch.save`` in place left 25 of 25 files unloadable when killed, and ``torch.load`` noticed one
flipped bit in 0 of 20 tries; hence the rename and the hash.

A full disk does not end the training at once: `Checkpointer.failure` has the reason, the last good
checkpoint stays, and the next checkpoint is tried as usual. After a second failure in a row the job
ends, because its work could be lost, unless its settings allow more (``continue_unsaved``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import torch

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.records.base import access_modes, number_format, timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.content import hash_file
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    SIDECAR_SUFFIX,
    JobFolder,
    checkpoint_name,
)
from backend.records.jobs.checkpoint import (
    Checkpoint,
    finite_checkpoints,
    newest_until,
    read_checkpoints,
    retired_checkpoints,
)
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.training.finite import not_finite_names

FORMAT = 1
_WAIT_S = 60.0
_PAUSE_S = 1.0
_LARGE_FREE_BYTES = 2**30


class Checkpointer:
    """Only writer of a job's ``checkpoints/``, on rank 0."""

    def __init__(
        self, folder: JobFolder, run: int, policy: CheckpointPolicy, config_sha256: str
    ) -> None:
        self._folder = folder
        self._run = run
        self._policy = policy
        self._config_sha256 = config_sha256
        self._copies: dict[str, torch.Tensor] = {}
        self._thread: threading.Thread | None = None
        self._last_save: tuple[Any, Checkpoint] | None = None
        self._writer_error: BaseException | None = None
        self.last_checkpoint: Checkpoint | None = None
        """The newest checkpoint that this run wrote and verified."""
        self.failure = ""
        """The reason why the last checkpoint could not be written, or ""."""
        self.on_failure: Callable[[int, str], None] = lambda step, message: None
        """Called with the step of the first checkpoint that failed after a good one."""
        self.sound_step: int | None = None
        """The last step with good weights, according to the losses; its checkpoint is kept."""
        self.expected_nan: Collection[str] = ()
        """Names of the model's tensors that hold NaN on purpose."""
        self.on_nan: Callable[[int, str], None] = lambda step, message: None
        """Called with the step of a checkpoint that holds NaN, and a message."""
        self.nan_message = ""
        """The message if the last checkpoint holds NaN, or "". It is never the newest or best."""
        access_modes.make_folders(folder.checkpoints)
        # A run that was killed in a save left an incomplete file; this folder has one writer.
        for temporary_path in folder.checkpoints.glob(".epoch-*.tmp"):
            temporary_path.unlink(missing_ok=True)

    def save(
        self,
        state: Mapping[str, Any],
        *,
        epoch: int,
        step: int,
        epoch_step: int,
        metrics: Mapping[str, float],
        reason: str,
    ) -> None:
        """Copy ``state`` and start to write it. Wait for the previous checkpoint."""
        self.wait()
        copy = self._copy(state, "", {})
        record = Checkpoint(
            name=checkpoint_name(epoch, step),
            run=self._run,
            epoch=epoch,
            step=step,
            epoch_step=epoch_step,
            bytes=0,
            sha256="",
            config_sha256=self._config_sha256,
            created=timestamps.utc_now(),
            metrics=dict(metrics),
            reason=reason,
        )
        self._last_save = copy, record
        self._thread = threading.Thread(
            target=self._write, args=self._last_save, name="checkpoint-writer"
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until no checkpoint is being written. Raise a bug of the writing thread here."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._writer_error is not None:
            bug, self._writer_error = self._writer_error, None
            raise bug

    def write_again(self) -> None:
        """Write the last checkpoint once more, and wait for the end."""
        self.wait()
        if self._last_save is not None:
            self._write(*self._last_save)
            self.wait()

    def continue_from(self, path: Path) -> None:
        """Make a checkpoint the job's newest: this run continues from it."""
        with suppress(OSError):
            for record in read_checkpoints(self._folder.checkpoints):
                if Path(record.path).name == path.name:
                    replace_json(self._folder.latest, record.to_dict())

    def newest_name(self) -> str:
        """Return the name of the job's newest checkpoint, "" without any."""
        checkpoints = finite_checkpoints(read_checkpoints(self._folder.checkpoints))
        return checkpoints[-1].name if checkpoints else ""

    def newest_sound_checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint up to `sound_step`."""
        checkpoints = read_checkpoints(self._folder.checkpoints)
        return newest_until(checkpoints, self.sound_step)

    def _copy(self, value: Any, path: str, copies: dict[Any, torch.Tensor]) -> Any:
        """Return ``value`` with every tensor copied; a tensor with two names is copied once."""
        if isinstance(value, torch.Tensor):
            tensor = value.detach()
            key = (
                tensor.data_ptr(),
                tensor.dtype,
                tuple(tensor.shape),
                tuple(tensor.stride()),
                tensor.device,
            )
            if tensor.numel() and key in copies:
                return copies[key]
            # A copy into used memory is three times as fast as into new memory.
            copy = self._copies.get(path)
            if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
                copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
                self._copies[path] = copy
            copy.copy_(tensor)
            copies[key] = copy
            return copy
        if isinstance(value, Mapping):
            return {k: self._copy(part, f"{path}/{k}", copies) for k, part in value.items()}
        if isinstance(value, (list, tuple)):
            parts = [self._copy(part, f"{path}/{n}", copies) for n, part in enumerate(value)]
            return tuple(parts) if isinstance(value, tuple) else parts
        return value

    def _write(self, state: Any, record: Checkpoint) -> None:
        try:
            if record.name in permanent_names(self._folder.checkpoints):
                # A run that resumed from an older one writes this name again.
                record = replace(record, name=f"{record.name}-run{self._run}")
            names = not_finite_names(state, self.expected_nan)
            record = replace(record, not_finite=number_format.name_list(names) if names else "")
            self.last_checkpoint = write_checkpoint(self._folder.checkpoints, state, record)
            self.failure = self.nan_message = ""
            if names:
                self.nan_message = (
                    f"The checkpoint {record.name} holds NaN or infinite numbers, in "
                    f"{record.not_finite}. A resume takes one from before."
                )
                self.on_nan(record.step, self.nan_message)
            else:
                replace_json(self._folder.latest, self.last_checkpoint.to_dict())
            self._retire()
        except OSError as error:
            swallowed(error)
            is_first = not self.failure
            self.failure = (
                f"The checkpoint {record.name} could not be written: "
                f"{failure_reason(error, self._folder.checkpoints)} ({self._folder.checkpoints})."
            )
            if is_first:
                newest_name = ""
                with suppress(OSError):
                    newest_name = self.newest_name()
                hint = (
                    f"The newest one is {newest_name}."
                    if newest_name
                    else "There is no other one yet."
                )
                self.on_failure(record.step, f"{self.failure} {hint}")
        except BaseException as error:  # noqa: BLE001 - raised by the next call of `wait`
            self._writer_error = error

    def _retire(self) -> None:
        """Remove old checkpoints by the policy; two verified checkpoints always stay."""
        checkpoints = read_checkpoints(self._folder.checkpoints)
        for checkpoint in retired_checkpoints(checkpoints, self._policy, self.sound_step):
            path = Path(checkpoint.path)
            # The record first: a file without a record is not a checkpoint.
            sidecar_of(path).unlink(missing_ok=True)
            if checkpoint.name in permanent_names(path.parent):
                # Marked after it was listed; the mark must stay valid.
                replace_json(sidecar_of(path), checkpoint.to_dict())
            else:
                path.unlink(missing_ok=True)


class NotSaved(BackendError):
    """The last checkpoint could not be written; every rank raises this, about rank 0."""

    rank = 0
    retry = "always"

    def __init__(self, failure: str, newest_name: str = "") -> None:
        """``newest_name``: the name of the job's newest checkpoint, "" without any."""
        is_disk_full = any(
            phrase in failure for phrase in ("No space left", "quota", "no more files")
        )
        first_remedy = (
            "Free space" if is_disk_full else "Make sure that the nodes can write to the data root"
        )
        second_remedy = (
            f"resume from {newest_name}"
            if newest_name
            else "start the job over: it has no checkpoint"
        )
        super().__init__(failure, f"{first_remedy}, then {second_remedy}.")


def failure_reason(error: OSError, folder: Path) -> str:
    """Return why the file system refuses a file in ``folder``; "No space left" has many causes."""
    reason = error.strerror or str(error)
    if error.errno == errno.EROFS:
        return f"{reason}; it was mounted again for reading only, usually after an error"
    if error.errno == errno.EIO:
        return f"{reason}; the storage did not keep what was written"
    if error.errno == errno.EDQUOT:
        return f"{reason}: the user's quota is used up"
    if error.errno != errno.ENOSPC:
        return reason
    try:
        space = os.statvfs(folder)
    except OSError as failed:
        swallowed(failed)
        return reason
    free_size = number_format.size(space.f_bavail * space.f_frsize)
    if space.f_files and not space.f_favail:
        return f"{reason}: it takes no more files (no free inodes), with {free_size} free"
    if space.f_bavail * space.f_frsize >= _LARGE_FREE_BYTES:
        return f"{reason}, with {free_size} free: a quota or a limit of the file system is reached"
    return reason


def finish_writing(checkpointer: Checkpointer, beat: RankHeartbeat, stall_limit_s: float) -> str:
    """Wait until the last checkpoint is on the disk; return the reason of a failure, or "".

    A share that is away for a minute, or a full disk where a user frees space, costs no work. The
    wait ends well before the stall limit of the other ranks' guards.
    """
    checkpointer.wait()
    deadline = time.monotonic() + min(_WAIT_S, stall_limit_s / 2)
    while checkpointer.failure and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        beat.beat(Phase.SAVING)
        checkpointer.write_again()
    return checkpointer.failure


def sidecar_of(path: Path) -> Path:
    return path.with_suffix(SIDECAR_SUFFIX)


def permanent_names(folder: Path) -> set[str]:
    """Return the checkpoints that a user keeps permanently."""
    # NFS caches that a file does not exist, but not a folder's content.
    return {path.stem for path in folder.glob(f"*{KEEP_SUFFIX}")}


class _HashingFile:
    """File that hashes bytes before it writes them, so that the hash is of the intended content."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, content: Any) -> int:
        self.sha256.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


def write_checkpoint(folder: Path, state: Any, record: Checkpoint) -> Checkpoint:
    """Write, read back, rename; the sidecar last, because it certifies the file.

    Raises:
        OSError: The disk is full, the share is gone, or the file differs from the written bytes.
    """
    path = folder / f"{record.name}{CHECKPOINT_SUFFIX}"
    temporary_path = folder / f".{path.name}.{os.getpid()}.tmp"
    try:
        with open(access_modes.create(temporary_path), "wb") as file:
            hashing = _HashingFile(file)
            try:
                torch.save(state, cast("IO[bytes]", hashing))
            except RuntimeError as error:
                # torch's writer reports a failed write as its own error.
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise
            file.flush()
            os.fsync(file.fileno())
        digest = hashing.sha256.hexdigest()
        if hash_file(temporary_path) != digest:
            raise OSError(f"{path.name} reads back differently than it was written")
        _require_loadable(temporary_path)
        size = temporary_path.stat().st_size
        # A record of an older file of this name would certify the wrong bytes.
        sidecar_of(path).unlink(missing_ok=True)
        os.replace(temporary_path, path)
    except BaseException:
        temporary_path.unlink(missing_ok=True)
        raise
    verified_record = replace(record, bytes=size, sha256=digest, path=str(path))
    replace_json(sidecar_of(path), verified_record.to_dict())
    return verified_record


def _require_loadable(path: Path) -> None:
    """Check only the structure of the file by mapping it, which takes a millisecond."""
    try:
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, AttributeError) as error:
        raise BackendError(
            "The model's state contains more than tensors, numbers and text, so a checkpoint of "
            "it could not be loaded.",
            "Let get_extra_state return a dict of tensors, numbers and text.",
        ) from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state in a checkpoint, verified with its sidecar.

    Raises:
        BackendError: The file is damaged, was exchanged, or is no checkpoint; nothing was executed.
    """
    reason = damage_reason(path)
    if not reason:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - a hostile file may raise anything
            cause = first_line(error)
            reason = f"it contains more than weights and numbers, and was not loaded ({cause})"
        else:
            if isinstance(state, dict) and state.get("format") == FORMAT:
                return state
            reason = "it is not a checkpoint of this version of Ringmaster"
    raise BackendError(f"The checkpoint {path.name} cannot be used: {reason}.", resume_remedy(path))


def damage_reason(path: Path) -> str:
    """Return why the checkpoint is not the written file, or "". Execute nothing."""
    if not path.exists():
        return "the file is missing"
    try:
        record = Checkpoint.from_dict(read_json(sidecar_of(path)))
    except FileNotFoundError:
        return f"its record {sidecar_of(path).name} is missing"
    except (OSError, ValueError) as error:
        return f"its record {sidecar_of(path).name} cannot be read ({error})"
    try:
        size = path.stat().st_size
        if size != record.bytes:
            expected_size = number_format.count(record.bytes)
            return f"it has {number_format.count(size)} bytes instead of {expected_size}"
        if hash_file(path) != record.sha256:
            return "its content is not what was written (the SHA-256 differs)"
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    return ""


def resume_remedy(path: Path) -> str:
    """Return a remedy that names the newest undamaged checkpoint before this one."""
    checkpoints = read_checkpoints(path.parent)
    step = next((c.step for c in checkpoints if c.name == path.stem), None)
    for other_checkpoint in reversed(checkpoints):
        if other_checkpoint.name == path.stem or (
            step is not None and other_checkpoint.step > step
        ):
            continue
        if not damage_reason(Path(other_checkpoint.path)):
            return f"Resume from the one before, {other_checkpoint.name}, which is undamaged."
    return "There is no undamaged checkpoint before it; start the job over."


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).strip().rstrip(".")[:200]
