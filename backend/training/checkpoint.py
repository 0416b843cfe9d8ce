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
import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch.nn.parameter import is_lazy

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.records.base import access_modes, number_format, timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    SIDECAR_SUFFIX,
    JobFolder,
    checkpoint_name,
)
from backend.records.base.validation import sanitize
from backend.records.jobs.checkpoint import (
    Checkpoint,
    finite_checkpoints,
    newest_until,
    read_checkpoints,
    retired_checkpoints,
)
from backend.records.jobs.config import CheckpointPolicy
from backend.records.jobs.heartbeat import Phase, RankHeartbeat
from backend.training import weights_file
from backend.training.finite import not_finite_names

FORMAT = 1
_WAIT_S = 60.0
_PAUSE_S = 1.0
_MAX_PREFIXES = 4
"""Number of prefixes that the remedy proposes to leave out: with more, it is another model."""


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
        self._last_checkpoint: Checkpoint | None = None
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

    @property
    def last_checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint that this run wrote and verified."""
        return self._last_checkpoint

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
            self._last_checkpoint = write_checkpoint(self._folder.checkpoints, state, record)
            self.failure = self.nan_message = ""
            if names:
                self.nan_message = (
                    f"The checkpoint {record.name} holds NaN or infinite numbers, in "
                    f"{record.not_finite}. A resume takes one from before."
                )
                self.on_nan(record.step, self.nan_message)
            else:
                replace_json(self._folder.latest, self._last_checkpoint.to_dict())
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


_LARGE_FREE_BYTES = 2**30


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
        if sha256_of(temporary_path) != digest:
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


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if _HAS_DIGEST else _digest(file)


_HAS_DIGEST = hasattr(hashlib, "file_digest")  # Python 3.11


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


# --- reading ----------------------------------------------------------------------------------


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
            cause = _first_line(error)
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
        if sha256_of(path) != record.sha256:
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


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read initial weights: a state dict, a safetensors file, or a checkpoint of Ringmaster.

    Raises:
        BackendError: The file is none of these.
    """
    return read_weights(path)[0]


def read_weights(path: Path) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Read weights as `load_weights`; return also the names of other content of the file."""
    if not path.is_file():
        raise BackendError(f"The weights file {path} does not exist.", "Choose another file.")
    if path.suffix == ".safetensors":
        return _load_safetensors(path), ()
    if sidecar_of(path).is_file():
        reason = damage_reason(path)
        if reason:
            raise BackendError(
                f"The checkpoint {path.name} cannot be used: {reason}.", resume_remedy(path)
            )
    try:
        loaded = weights_file.load(path)
    except Exception as error:
        raise BackendError(
            f"{path.name} is not a weights file: {_first_line(error)}.", weights_file.remedy(path)
        ) from error
    weights = _find_state_dict(loaded)
    if weights is None:
        raise BackendError(f"{path.name} contains no named weights.", weights_file.remedy(path))
    tensors = {str(k): v for k, v in weights.items() if not isinstance(v, weights_file.StandIn)}
    return tensors, weights_file.other_names(loaded, weights)


def _find_state_dict(loaded: object) -> Mapping[Any, Any] | None:
    """Return the state dict of a saved object: itself, under a usual key, or its only dict."""
    if not isinstance(loaded, Mapping):
        return None
    inner_dicts = {
        key: value
        for key, value in loaded.items()
        if isinstance(value, Mapping)
        and any(isinstance(item, torch.Tensor) for item in value.values())
    }
    for key in ("model", "state_dict", "model_state_dict"):
        if key in inner_dicts:
            return inner_dicts[key]
    if any(isinstance(value, torch.Tensor) for value in loaded.values()):
        return loaded
    return next(iter(inner_dicts.values())) if len(inner_dicts) == 1 else None


def _load_safetensors(path: Path) -> dict[str, torch.Tensor]:
    import safetensors
    import safetensors.torch

    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise BackendError(
            f"{path.name} is not a safetensors file: {_first_line(error)}.",
            "Save it again with safetensors.torch.save_file(model.state_dict(), …).",
        ) from error


def fit_weights(
    model: torch.nn.Module,
    weights: Mapping[str, Any],
    source: str,
    pass_batch: Callable[[], None] | None = None,
    excluded_prefixes: Sequence[str] = (),
) -> str:
    """Load ``weights`` into the model, all or none. Of tied weights, one is enough.

    If the names do not match, one prefix common to all of them is removed or added: compiled models
    have ``_orig_mod.``, data-parallel ones ``module.``, Lightning's ``model.``.

    Args:
        pass_batch: Passes a batch to the model, which ties the weights of some models.
        excluded_prefixes: Prefixes of the names of weights that keep the model's values.

    Returns:
        A message on the prefix that was removed or added, otherwise "".

    Raises:
        BackendError: The weights belong to another architecture, or match only in part.
    """
    names = list(model.state_dict())
    candidates = [(weights, "")]
    for prefix in _common_prefixes(weights):
        renamed_weights = {name.removeprefix(prefix): value for name, value in weights.items()}
        candidates.append(
            (renamed_weights, f"The prefix “{prefix}” was removed from the names in {source}.")
        )
    for prefix in _common_prefixes(names):
        renamed_weights = {prefix + name: value for name, value in weights.items()}
        candidates.append(
            (renamed_weights, f"The prefix “{prefix}” was added to the names in {source}.")
        )
    # The first of equal candidates: the names as they are.
    fitting_weights, message = max(
        candidates, key=lambda candidate: len(candidate[0].keys() & set(names))
    )
    if pass_batch is not None:
        all_weights = _add_tied(model.state_dict(), fitting_weights)
        if all_weights.keys() < set(names):
            pass_batch()
    if excluded_prefixes:
        fitting_weights = _keep_model_values(model, fitting_weights, excluded_prefixes)
    _load_weights_into(model, fitting_weights, source)
    return message


def _keep_model_values(
    model: torch.nn.Module, weights: Mapping[str, Any], excluded_prefixes: Sequence[str]
) -> dict[str, Any]:
    """Return the weights with the model's own values in place of the excluded weights.

    Raises:
        BackendError: The model has no weight with such a prefix.
    """
    model_state = model.state_dict()
    names_with_prefix(model_state, excluded_prefixes, "start_from_except")
    prefixes = tuple(excluded_prefixes)
    other_weights = {
        name: value for name, value in weights.items() if not name.startswith(prefixes)
    }
    return other_weights | {n: value for n, value in model_state.items() if n.startswith(prefixes)}


def _first_parts(names: Iterable[str]) -> list[str]:
    """Return how the names begin, up to the first dot."""
    return list(dict.fromkeys("".join(name.partition(".")[:2]) for name in names))


def names_with_prefix(names: Iterable[str], prefixes: Sequence[str], setting: str) -> set[str]:
    """Return the names that begin with a prefix.

    Raises:
        BackendError: No name begins with one of the prefixes.
    """
    all_names = list(names)
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in all_names):
            raise BackendError(
                f"The setting {setting} has “{sanitize(prefix)}”, but no name of the model begins "
                f"with it; they begin with {number_format.name_list(_first_parts(all_names))}.",
                "Give the beginning of a name, such as “layers.0.”.",
            )
    return {name for name in all_names if name.startswith(tuple(prefixes))}


def _add_tied(model_state: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Add the tensors to ``weights`` that share the memory of others, such as tied weights.

    Files often hold these once: safetensors' ``save_model`` drops the second name.
    """
    all_weights = dict(weights)
    memories: dict[int, list[str]] = {}
    for name, value in model_state.items():
        if type(value) is torch.Tensor and value.layout is torch.strided and value.numel():
            memories.setdefault(value.untyped_storage().data_ptr(), []).append(name)
    for names in memories.values():
        saved_names = [name for name in names if _has_shape(weights.get(name), model_state[name])]
        missing_names = [name for name in names if name not in weights]
        if not saved_names or not missing_names:
            continue
        # The future memory, and flags for its bytes that are in the file.
        nbytes = model_state[names[0]].untyped_storage().nbytes()
        memory = torch.zeros(nbytes, dtype=torch.uint8)
        is_known = torch.zeros(nbytes, dtype=torch.uint8)
        for name in saved_names:
            _view_as(memory, model_state[name]).copy_(weights[name])
            _byte_view_as(is_known, model_state[name]).fill_(1)
        for name in missing_names:
            if _byte_view_as(is_known, model_state[name]).all():
                all_weights[name] = _view_as(memory, model_state[name])
    return all_weights


def _has_shape(value: Any, tensor: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == tensor.shape


def _view_as(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of ``memory`` at which ``tensor`` lies in its storage."""
    typed_memory = memory[: len(memory) // tensor.element_size() * tensor.element_size()].view(
        tensor.dtype
    )
    return typed_memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _byte_view_as(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of the part of ``memory`` at which ``tensor`` lies in its storage."""
    size = tensor.element_size()
    return memory.as_strided(
        (*tensor.shape, size),
        (*(size * stride for stride in tensor.stride()), 1),
        tensor.storage_offset() * size,
    )


def _common_prefixes(names: Iterable[str]) -> list[str]:
    """Return the dotted prefixes of all names, ``a.`` and ``a.b.`` of ``a.b.x`` and ``a.b.y``."""
    first_path, *other_paths = [name.split(".")[:-1] for name in names] or [[]]
    count = 0
    while count < len(first_path) and all(
        path[: count + 1] == first_path[: count + 1] for path in other_paths
    ):
        count += 1
    return [".".join(first_path[: number + 1]) + "." for number in range(count)]


def _load_weights_into(model: torch.nn.Module, weights: Mapping[str, Any], source: str) -> None:
    model_state = model.state_dict()
    weights = _add_tied(model_state, weights)
    missing_names = [key for key in model_state if key not in weights]
    surplus_names = [key for key in weights if key not in model_state]
    shape_errors = [
        f"{key} {list(weights[key].shape)} instead of {list(model_state[key].shape)}"
        for key in model_state
        if isinstance(model_state[key], torch.Tensor)
        and isinstance(weights.get(key), torch.Tensor)
        # A layer that only training uses takes its shape from the file.
        and not is_lazy(model_state[key])
        and weights[key].shape != model_state[key].shape
    ]
    if missing_names or surplus_names or shape_errors:
        fitting_count = len(model_state) - len(missing_names) - len(shape_errors)
        parts = []
        if missing_names:
            parts.append(f"not in the file: {number_format.name_list(missing_names)}")
        if shape_errors:
            parts.append(f"different shape: {number_format.name_list(shape_errors)}")
        if surplus_names:
            parts.append(f"not in the model: {number_format.name_list(surplus_names)}")
        summary = (
            f"{fitting_count} of the model's {len(model_state)} weights match"
            if fitting_count
            else "no name matches the model's"
        )
        raise BackendError(
            f"The weights in {source} do not belong to this model: {summary}; {'; '.join(parts)}.",
            _start_new_remedy(
                [*missing_names, *(part.split(" ")[0] for part in shape_errors), *surplus_names]
            )
            if fitting_count
            else "Choose weights that were trained with this model.",
        )
    try:
        model.load_state_dict(dict(weights))
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise BackendError(
            f"The weights in {source} do not belong to this model: {_first_line(error)}.",
            "Choose weights that were trained with this model.",
        ) from error


def _start_new_remedy(names: Sequence[str]) -> str:
    prefixes = dict.fromkeys(name.rpartition(".")[0] + "." for name in names if "." in name)
    if not prefixes or len(prefixes) > _MAX_PREFIXES:
        return "Choose weights that were trained with this model."
    return (
        f"To start these with new weights, set start_from_except = {json.dumps(list(prefixes))}; "
        "or choose weights that were trained with this model."
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).strip().rstrip(".")[:200]
