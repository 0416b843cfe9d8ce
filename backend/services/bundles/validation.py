"""Check whether a verified bundle can become a job here."""

from __future__ import annotations

import ast
import json
import platform
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import swallowed
from backend.datastore.bundles.archive_files import VerifiedArchive
from backend.records.base.content import folder_sha256
from backend.records.base.layout import CHECKPOINT_SUFFIX, SIDECAR_SUFFIX
from backend.records.base.validation import job_name_error, name_error, sanitize
from backend.records.bundles.job_archive import CHECKPOINTS, JOB_FILE, BundledFile
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import JobConfig, parse_job
from backend.records.library.item import KINDS, Kind

_TRAINED = ("model", "dataset", "loader")
REMEDY = "Nothing was imported; request the file again."


def usable_settings(bundle: VerifiedArchive) -> JobConfig:
    """Return the settings of a bundle that can be imported."""
    manifest = bundle.manifest
    name = bundle.path.name
    try:
        raw: Mapping[str, Any] = tomllib.loads(bundle.read(JOB_FILE).decode())
    except (KeyError, ValueError, RecursionError) as error:
        raise BackendError(
            f"{name} cannot be imported: it contains no {JOB_FILE}.", REMEDY
        ) from error
    parsed = parse_job(raw)
    fault = parsed.errors[0].message if parsed.errors else job_name_error(manifest.name)
    needed = ("script", *(["dataset"] * ("dataset" in raw))) if "script" in raw else _TRAINED
    missing = set(needed) - manifest.things.keys()
    for key, thing in manifest.things.items():
        if KINDS.get(key) is not thing.kind:
            fault = fault or f"it uses a {thing.kind.value} as its {sanitize(key)}"
        fault = fault or name_error(thing.name)
    if missing:
        fault = fault or f"it names no {min(missing)}"
    if manifest.checkpoint:
        fault = fault or _checkpoint_fault(bundle)
    if manifest.status.state.is_live or manifest.status.run > 1_000_000:
        fault = fault or "its job had not ended"
    if fault or parsed.config is None:
        raise BackendError(f"{name} cannot be imported: {fault.rstrip('.')}.", REMEDY)
    _check_python(bundle)
    return parsed.config


def _checkpoint_fault(bundle: VerifiedArchive) -> str:
    """Return what is wrong with the checkpoint of a bundle, or ""."""
    name = bundle.manifest.checkpoint
    place = f"{CHECKPOINTS}/{name}"
    if Path(name).name != name or name.startswith("."):
        return f"“{sanitize(name)}” is not a checkpoint name"
    file = bundle.manifest.files.get(place + CHECKPOINT_SUFFIX)
    # What a script wrote may be a folder.
    inner = bundle.manifest.below(place) if file is None else {}
    if not (file or inner) or not bundle.contains(place + SIDECAR_SUFFIX):
        return f"the checkpoint {sanitize(name)} is missing from it"
    try:
        record = Checkpoint.from_dict(json.loads(bundle.read(place + SIDECAR_SUFFIX)))
    except (ValueError, RecursionError) as error:
        swallowed(error)
        return f"the record of the checkpoint {sanitize(name)} cannot be used"
    if file is None:
        digest = folder_sha256((path, one.sha256) for path, one in inner.items())
        file = BundledFile(digest, sum(one.bytes for one in inner.values()))
    if (record.name, record.sha256, record.bytes) != (name, file.sha256, file.bytes):
        return f"the checkpoint {sanitize(name)} does not match its record"
    if (record.file or inner) and not _is_of_script(PurePosixPath(record.file)):
        return f"the checkpoint {sanitize(name)} is not a file of the job"
    return ""


def _is_of_script(path: PurePosixPath) -> bool:
    """Return whether a script may have written this file of its job."""
    return ".." not in path.parts and len(path.parts) > 1 and path.parts[0] in ("output", "work")


def _check_python(bundle: VerifiedArchive) -> None:
    """Refuse sources for a newer Python, which may contain syntax that this one does not know.

    A job that failed because of its own source is imported as it is.
    """
    manifest = bundle.manifest
    theirs = max((_minor(run.python) for run in manifest.runs), default=(0, 0))
    if theirs <= _minor(platform.python_version()):
        return
    for thing in manifest.things.values():
        for path in manifest.files:
            if thing.kind is Kind.DATASET or not thing.folder:
                continue
            if path.startswith(f"{thing.folder}/") and path.endswith(".py"):
                try:
                    ast.parse(bundle.read(path))
                except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                    raise BackendError(
                        f"{bundle.path.name} cannot be imported: “{sanitize(path)}” is written "
                        f"for Python {theirs[0]}.{theirs[1]}, and this is Python "
                        f"{platform.python_version()}.",
                        "Use a Ringmaster with that Python; nothing was imported.",
                    ) from error


def _minor(version: str) -> tuple[int, int]:
    try:
        major, minor = version.split(".")[:2]
        return int(major), int(minor)
    except ValueError as error:
        swallowed(error)
        return 0, 0
