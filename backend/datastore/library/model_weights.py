"""Weights stored with a model, ``models/<name>/v<n>/weights.pt``: its jobs begin with them.

They are not part of the version's content and of its hash; a job names them in ``start_from``.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access.hashes import CHUNK_BYTES, files_text
from backend.datastore.library.library_files import VersionFolder, kind_folder, sync_folder
from backend.datastore.library.staging import make_staging
from backend.records.base.access_modes import create
from backend.records.library.item import WEIGHTS_SUFFIXES, is_weights

NAMES = tuple(f"weights{suffix}" for suffix in WEIGHTS_SUFFIXES)
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
_HEADER_BYTES = 9


def find(folder: VersionFolder) -> Path | None:
    """Return the weights of a version of a model; None if it has none."""
    paths = (folder.path / name for name in NAMES)
    return next((path for path in paths if folder.root.files.exists(path)), None)


def put(folder: VersionFolder, source: Path, progress: Progress) -> tuple[Path, str, int]:
    """Copy a file of weights to a version that has none.

    Returns:
        Their path, their SHA-256, and their bytes.

    Raises:
        BackendError: It is not such a file, or the version has weights; nothing was changed.
        Cancelled: The user cancelled; nothing was changed.
    """
    require_possible(folder, source)
    target = folder.path / f"weights{source.suffix.lower()}"
    try:
        staging = make_staging(kind_folder(folder.root, folder.kind), folder.name)
        try:
            total = source.stat().st_size
            copy = staging / target.name
            digest = _copy(
                source,
                copy,
                lambda copied_bytes: progress.step(copied_bytes, total, "Copying weights"),
            )
            folder.root.files.publish(staging, progress)
            folder.root.files.rename(copy, target)
        finally:
            folder.root.files.remove_tree(staging)
        sync_folder(folder.path)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "its disk is full" if is_full else error.strerror or str(error)
        raise BackendError(
            f"The weights could not be copied into the data root {folder.root.name}: {reason}.",
            "The model was not changed.",
        ) from error
    return target, digest, total


def require_possible(folder: VersionFolder, source: Path) -> None:
    """Refuse another file of weights, and a file that is none by its first bytes."""
    existing_path = find(folder)
    if existing_path is not None:
        raise BackendError(
            f"The {folder.text} has weights already ({folder.root.display_path(existing_path)}).",
            "Import the model again as a new version, and add these weights to that one.",
        )
    _require_weights(source)


def _copy(source: Path, target: Path, on_bytes: Callable[[int], None]) -> str:
    digest, copied_bytes = hashlib.sha256(), 0
    with source.open("rb") as origin, open(create(target), "wb") as copy:
        while chunk := origin.read(CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
            copied_bytes += len(chunk)
            on_bytes(copied_bytes)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()


def _require_weights(source: Path) -> None:
    """Refuse a file whose first bytes are not weights; a node finds out whether they fit."""
    file_label = files_text(source.name)
    if not is_weights(source.name):
        raise BackendError(
            f"{file_label} is not a weights file.", "Choose a .pt or .safetensors file."
        )
    try:
        if not source.is_file():
            raise BackendError(f"{source} is not a file.", "Choose a .pt or .safetensors file.")
        with source.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError as error:
        raise BackendError(f"{source} cannot be read: {error.strerror or error}.") from error
    if source.suffix.lower() == ".pt":
        is_plausible = head.startswith((_ZIP, _PICKLE))
        remedy = "Save them with torch.save(model.state_dict(), …)."
    else:
        is_plausible = len(head) == _HEADER_BYTES and head.endswith(b"{")
        remedy = "Save them with safetensors.torch.save_file(model.state_dict(), …)."
    if not is_plausible:
        raise BackendError(f"{file_label} contains no weights, despite its name.", remedy)
