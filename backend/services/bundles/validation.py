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
from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.library.item import KINDS, Kind

_TRAINING_KEYS = ("model", "dataset", "loader")
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
    parsed_job = parse_job(raw)
    finding = parsed_job.errors[0].message if parsed_job.errors else job_name_error(manifest.name)
    required_keys = (
        ("script", *(["dataset"] * ("dataset" in raw))) if "script" in raw else _TRAINING_KEYS
    )
    missing_keys = set(required_keys) - manifest.versions.keys()
    for key, version in manifest.versions.items():
        if KINDS.get(key) is not version.kind:
            finding = finding or f"it uses a {version.kind.value} as its {sanitize(key)}"
        finding = finding or name_error(version.name)
    if missing_keys:
        finding = finding or f"it names no {min(missing_keys)}"
    if manifest.checkpoint:
        finding = finding or _checkpoint_finding(bundle)
    if manifest.status.state.is_live or manifest.status.run > 1_000_000:
        finding = finding or "its job had not ended"
    if finding or parsed_job.config is None:
        raise BackendError(f"{name} cannot be imported: {finding.rstrip('.')}.", REMEDY)
    _check_python(bundle)
    return parsed_job.config


def _checkpoint_finding(bundle: VerifiedArchive) -> str:
    """Return what is wrong with the checkpoint of a bundle, or ""."""
    name = bundle.manifest.checkpoint
    prefix = f"{CHECKPOINTS}/{name}"
    if Path(name).name != name or name.startswith("."):
        return f"“{sanitize(name)}” is not a checkpoint name"
    file = bundle.manifest.files.get(prefix + CHECKPOINT_SUFFIX)
    # What a script wrote may be a folder.
    inner_files = bundle.manifest.files_below(prefix) if file is None else {}
    if not (file or inner_files) or not bundle.contains(prefix + SIDECAR_SUFFIX):
        return f"the checkpoint {sanitize(name)} is missing from it"
    try:
        record = Checkpoint.from_dict(json.loads(bundle.read(prefix + SIDECAR_SUFFIX)))
    except (ValueError, RecursionError) as error:
        swallowed(error)
        return f"the record of the checkpoint {sanitize(name)} cannot be used"
    if file is None:
        digest = folder_sha256((path, f.sha256) for path, f in inner_files.items())
        file = BundledFile(digest, sum(f.bytes for f in inner_files.values()))
    if (record.name, record.sha256, record.bytes) != (name, file.sha256, file.bytes):
        return f"the checkpoint {sanitize(name)} does not match its record"
    if (record.file or inner_files) and not _is_of_script(PurePosixPath(record.file)):
        return f"the checkpoint {sanitize(name)} is not a file of the job"
    return ""


def _is_of_script(path: PurePosixPath) -> bool:
    """Return whether a script may have written this file of its job."""
    return ".." not in path.parts and len(path.parts) > 1 and path.parts[0] in ("output", "work")


def _check_python(bundle: VerifiedArchive) -> None:
    """Refuse sources for a newer Python, whose syntax this Python may not know.

    A job that failed because of its own source is imported unchanged.
    """
    manifest = bundle.manifest
    newest_python = max((_python_version(run.python) for run in manifest.runs), default=(0, 0))
    if newest_python <= _python_version(platform.python_version()):
        return
    for item_version in manifest.versions.values():
        for path in manifest.files:
            if item_version.kind is Kind.DATASET or not item_version.folder:
                continue
            if path.startswith(f"{item_version.folder}/") and path.endswith(".py"):
                try:
                    ast.parse(bundle.read(path))
                except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                    raise BackendError(
                        f"{bundle.path.name} cannot be imported: “{sanitize(path)}” is written "
                        f"for Python {newest_python[0]}.{newest_python[1]}, and this is Python "
                        f"{platform.python_version()}.",
                        "Use a Ringmaster with that Python; nothing was imported.",
                    ) from error


def _python_version(version: str) -> tuple[int, int]:
    try:
        major, minor = version.split(".")[:2]
        return int(major), int(minor)
    except ValueError as error:
        swallowed(error)
        return 0, 0
