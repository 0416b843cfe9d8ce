"""Create a job that was trained elsewhere as a folder of this data root, in one step.

``origin.json`` says where a job comes from: ``bundle`` for one that was imported, ``replay_of`` for
one that repeats the curve of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import tomli_w

from backend.base.log import swallowed
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.bundles.archive_files import VerifiedArchive
from backend.datastore.jobs import files as job_files
from backend.records.base import timestamps
from backend.records.base.access_modes import make_folder, make_folders
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json, replace_bytes, replace_json, stored_record
from backend.records.base.layout import CHECKPOINT_SUFFIX, SIDECAR_SUFFIX, JobFolder
from backend.records.bundles.job_archive import CHECKPOINTS, HISTORY, SAMPLES, Manifest
from backend.records.jobs.config import JobConfig
from backend.records.jobs.run_environment import RunEnvironment
from backend.records.jobs.status import RunExit
from backend.records.library.item import Pin

_SCHEMA = 1


def origin_message(manifest: Manifest) -> str:
    """Return where an imported job comes from, for users."""
    user_text = f" of {manifest.user}" if manifest.user else ""
    return f"Imported from a bundle of the job {manifest.job_id}{user_text}."


def create_bundled_job(
    root: OpenRoot,
    config: JobConfig,
    pins: Mapping[str, Pin],
    bundle: VerifiedArchive,
    progress: Progress,
) -> str:
    """Make the folder of an imported job under a new id, and return the id."""
    manifest = bundle.manifest
    root.files.make_folder(root.jobs, exist_ok=True)
    make_folder(root.jobs, exist_ok=True)
    job_id = job_files.new_id()
    while root.files.exists(root.job(job_id).path):
        job_id = job_files.new_id()
    new_folder = root.jobs / f".{job_id}.new"
    try:
        make_folder(new_folder)
        new_job = OpenJob(new_folder, root.files)
        job_files.make_parts(new_job)
        _fill(new_job, job_id, config, pins, bundle, progress)
        if manifest.status.run:
            _fill_run(new_job, manifest)
        root.files.publish(new_folder, progress)
        root.files.rename(new_folder, root.job(job_id).path)
    except BaseException:
        root.files.remove_tree(new_folder)
        raise
    return job_id


def _fill(
    folder: OpenJob,
    job_id: str,
    config: JobConfig,
    pins: Mapping[str, Pin],
    bundle: VerifiedArchive,
    progress: Progress,
) -> None:
    manifest = bundle.manifest
    replace_bytes(folder.config, tomli_w.dumps(config.to_dict()).encode())
    replace_json(
        folder.meta,
        job_files.meta_of(job_id, config, pins, timestamps.utc_now(), user_name()),
    )
    job_files.write_notes(folder, manifest.name, manifest.notes, manifest.tags)
    origin_text = {"job": manifest.job_id, "user": manifest.user, "created": manifest.created}
    replace_json(folder.origin, {"schema": _SCHEMA, "bundle": origin_text})
    for name, path in ((HISTORY, folder.history), (SAMPLES, folder.samples)):
        if bundle.contains(name):
            bundle.copy_out(name, path, progress)
    if manifest.checkpoint:
        name = manifest.checkpoint
        member_name = f"{CHECKPOINTS}/{name}"
        sidecar = folder.checkpoints / f"{name}{SIDECAR_SUFFIX}"
        bundle.copy_out(f"{CHECKPOINTS}/{sidecar.name}", sidecar, progress)
        # That of a script goes where the script wrote it.
        relative_path = read_json(sidecar).get("file") or f"checkpoints/{name}{CHECKPOINT_SUFFIX}"
        inner_paths = manifest.files_below(member_name)
        targets = {
            f"{member_name}/{path}": folder.path / relative_path / path for path in inner_paths
        }
        for part, target in (
            targets or {member_name + CHECKPOINT_SUFFIX: folder.path / relative_path}
        ).items():
            make_folders(target.parent)
            bundle.copy_out(part, target, progress)
        replace_json(folder.latest, {"name": manifest.checkpoint})


def _fill_run(folder: JobFolder, manifest: Manifest) -> None:
    status = manifest.status
    origin_text = origin_message(manifest)
    message = f"{status.message} {origin_text}".strip()
    for environment in manifest.runs:
        make_folder(folder.attempt(environment.run).path, exist_ok=True)
        replace_json(folder.attempt(environment.run).environment, environment.to_dict())
    newest_attempt = folder.attempt(status.run)
    make_folder(newest_attempt.path, exist_ok=True)
    run_exit = RunExit(status.run, status.state, message, status.error, ended_at=status.updated_at)
    replace_json(newest_attempt.exit, run_exit.to_dict())
    replace_json(folder.status, replace(status, message=message).to_dict())


def mark_replay(folder: OpenJob, original_id: str) -> None:
    """Mark the job as the replay of another."""
    folder.files.replace_json(folder.origin, {"schema": _SCHEMA, "replay_of": original_id})


def original_of(folder: JobFolder) -> str:
    """Return the job that this one replays, or ""."""
    try:
        return str(read_json(folder.origin).get("replay_of", ""))
    except (OSError, ValueError) as error:
        swallowed(error)
        return ""


def is_imported(folder: JobFolder) -> bool:
    try:
        return "bundle" in read_json(folder.origin)
    except (OSError, ValueError) as error:
        swallowed(error)
        return False


def environment_of(folder: JobFolder, run: int) -> RunEnvironment | None:
    """Return the environment of run ``run``, if it was recorded."""
    return stored_record(RunEnvironment, folder.attempt(run).environment)


def environments(folder: JobFolder) -> tuple[RunEnvironment, ...]:
    """Return the environments of all runs that have one, oldest first."""
    runs = range(1, folder.newest_run() + 1)
    return tuple(
        environment for run in runs if (environment := environment_of(folder, run)) is not None
    )


def safe_stem(name: str) -> str:
    """Make a file name of a job's name that is valid on any system, and does not begin with “-”."""
    safe_name = "".join(c if c.isalnum() or c in " -_" else "-" for c in name).strip().lstrip("- ")
    return Path(safe_name[:80] or "job").name
