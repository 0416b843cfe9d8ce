"""Bundles: export a job as one file, and import such a file as a job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.datastore.bundles import imported_job
from backend.datastore.bundles.archive_files import (
    ArchiveMember,
    VerifiedArchive,
    open_bundle,
    write_bundle,
)
from backend.datastore.jobs.checkpoint_files import (
    checkpoint_named,
    list_checkpoints,
    require_checkpoint,
)
from backend.datastore.jobs.files import JobFile, read_job
from backend.datastore.library import imports, library_files
from backend.datastore.library.library_files import VersionFolder
from backend.records.base.atomic_files import read_json
from backend.records.base.content import files_of, folder_sha256, hash_file
from backend.records.base.layout import CHECKPOINT_SUFFIX, SIDECAR_SUFFIX, JobFolder
from backend.records.base.validation import sanitize
from backend.records.bundles.job_archive import (
    CHECKPOINTS,
    HISTORY,
    JOB_FILE,
    NO_CHECKPOINT,
    SAMPLES,
    SUFFIX,
    BundledVersion,
    ImportedJob,
    Manifest,
    WrittenBundle,
)
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import RANDOM_WEIGHTS, JobConfig
from backend.records.jobs.job_file import shareable_config
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.library.item import KINDS, Kind, LibraryItem, Pin
from backend.services.bundles.validation import REMEDY, usable_settings

if TYPE_CHECKING:
    from backend.catalogue.store import Catalogue
    from backend.services.jobs.service import JobService
    from backend.services.library.service import LibraryService


class BundleService:
    """Export and import jobs. Every call blocks and may run on any thread."""

    def __init__(
        self,
        root: OpenRoot,
        library: LibraryService,
        jobs: JobService,
        index: Catalogue,
    ) -> None:
        self._root = root
        self._library = library
        self._jobs = jobs
        self._index = index

    # Export.

    def bundle(
        self,
        job_id: str,
        output: Path | None = None,
        *,
        with_data: bool = False,
        checkpoint: str = "",
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> WrittenBundle:
        """Write a job into one file.

        Args:
            output: The path; by default the job's name in the current folder.
            checkpoint: A name, "latest" or "best", or "none"; "" is the latest, if any exists.
            overwrite: The user agreed to replace this file.
        """
        progress = progress or Progress()
        view = self._jobs.queries.show(job_id)
        if view.state.is_live or view.state.is_queued:
            raise BackendError(
                f"The job {job_id} is {view.state_label.lower()}; only a job that is not active "
                "can be exported.",
                "Stop it first." if view.state.is_live else "Remove it from the queue.",
            )
        folder = self._root.job(job_id)
        file = read_job(folder)
        members: list[ArchiveMember] = [
            ArchiveMember.from_bytes(
                JOB_FILE, tomli_w.dumps(shareable_config(file.config)).encode()
            )
        ]
        versions = self._add_versions(file, with_data, members, progress)
        checkpoint_record = self._find_checkpoint(folder, file.config, checkpoint, job_id)
        if checkpoint_record is not None:
            members += self._checkpoint_members(checkpoint_record, progress)
        with as_backend_error(f"The history of the job {job_id} could not be read"):
            self._root.files.refresh_history(folder)
            self._root.files.refresh_file(folder.samples)
            for name, path in ((HISTORY, folder.history), (SAMPLES, folder.samples)):
                if path.exists():
                    members.append(ArchiveMember(name, hash_file(path), path.stat().st_size, path))
        manifest = Manifest(
            job_id=job_id,
            user=file.user,
            created=file.created,
            name=file.name,
            notes=file.notes,
            tags=file.tags,
            status=replace(
                _status(folder), state=view.state, message=view.status.message, error=view.error
            ),
            versions=versions,
            runs=imported_job.environments(folder),
            checkpoint=checkpoint_record.name if checkpoint_record is not None else "",
            omitted_variables=tuple(sorted(file.config.environment)),
        )
        target = output or Path(imported_job.safe_stem(file.name) + SUFFIX)
        bundle_path = write_bundle(target, manifest, members, progress, overwrite=overwrite)
        return WrittenBundle(
            path=str(bundle_path),
            bytes=bundle_path.stat().st_size,
            files=len(members) + 1,
            checkpoint=manifest.checkpoint,
            omitted_variables=manifest.omitted_variables,
            without_data=not with_data,
        )

    def _add_versions(
        self, file: JobFile, with_data: bool, members: list[ArchiveMember], progress: Progress
    ) -> dict[str, BundledVersion]:
        """Return the versions that the job pins; add the files of each to ``members`` once."""
        versions: dict[str, BundledVersion] = {}
        folders: dict[tuple[Kind, str], str] = {}
        for key, pin in file.pins.items():
            kind = KINDS[key]
            self._library.verify(kind, pin, progress)
            item = self._library.show(kind, pin.reference)
            content_key = (kind, pin.sha256)
            if kind is Kind.DATASET and not with_data:
                folders[content_key] = ""
            empty_folders: tuple[str, ...] = ()
            if content_key not in folders:
                folders[content_key] = key
                new_members, empty_folders = self._version_members(kind, pin, key, progress)
                members += new_members
            elif sibling := next(
                (v for v in versions.values() if v.folder == folders[content_key]), None
            ):
                empty_folders = sibling.empty_folders
            versions[key] = BundledVersion(
                kind,
                pin.name,
                pin.version,
                pin.sha256,
                item.bytes,
                item.files,
                folders[content_key],
                empty_folders,
            )
        return versions

    def _version_members(
        self, kind: Kind, pin: Pin, key: str, progress: Progress
    ) -> tuple[list[ArchiveMember], tuple[str, ...]]:
        content = self._library.open_content(kind, pin.reference, progress)
        version = VersionFolder(self._root, kind, pin.name, pin.version)
        _, hashes = library_files.read_hashes(version)
        members = []
        with as_backend_error(f"The files of the {version.text} cannot be read"):
            for path, digest in hashes.items():
                status = (content / path).stat()
                is_executable = bool(status.st_mode & 0o100)
                members.append(
                    ArchiveMember(
                        f"{key}/{path}", digest, status.st_size, content / path, is_executable
                    )
                )
            empty_folders = tuple(
                sorted(
                    p.relative_to(content).as_posix()
                    for p in content.rglob("*")
                    if p.is_dir() and not any(p.iterdir())
                )
            )
        return members, empty_folders

    def _find_checkpoint(
        self, folder: OpenJob, config: JobConfig, name: str, job_id: str
    ) -> Checkpoint | None:
        if name == NO_CHECKPOINT:
            return None
        checkpoints = list_checkpoints(folder, config.checkpoint)
        if name:
            return require_checkpoint(checkpoints, name, job_id)
        return checkpoint_named(checkpoints, "latest")

    def _checkpoint_members(self, record: Checkpoint, progress: Progress) -> list[ArchiveMember]:
        path = Path(record.path)
        with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
            self._root.files.bring_file(path, progress)
            sidecar = read_json(record.sidecar)
            name = f"{CHECKPOINTS}/{record.name}"
            members = [ArchiveMember(name + CHECKPOINT_SUFFIX, record.sha256, record.bytes, path)]
            if path.is_dir():
                members = [
                    ArchiveMember(
                        f"{name}/{inner_path}", hash_file(file), file.stat().st_size, file
                    )
                    for inner_path, file in files_of(path)
                ]
                inner_hashes = ((m.path.removeprefix(f"{name}/"), m.sha256) for m in members)
                if folder_sha256(inner_hashes) != record.sha256:
                    raise BackendError(
                        f"{path.name} does not match its record: its contents have changed.",
                        "Choose another checkpoint; no bundle was written.",
                    )
            else:
                sidecar["file"] = ""
        return [
            *members,
            ArchiveMember.from_bytes(name + SIDECAR_SUFFIX, json.dumps(sidecar).encode()),
        ]

    # Import.

    def unbundle(self, path: Path, progress: Progress | None = None) -> ImportedJob:
        """Make a job from a bundle; everything is verified before anything is created.

        Raises:
            BackendError: The file was damaged or changed, or cannot be used on this computer.
            Cancelled: By ``progress``.
        """
        progress = progress or Progress()
        bundle = open_bundle(path, progress)
        config = usable_settings(bundle)
        manifest = bundle.manifest
        origin_text = imported_job.origin_message(manifest)
        pins: dict[str, Pin] = {}
        imported_pins: dict[tuple[Kind, str], Pin] = {}
        imported_items: list[tuple[Kind, str]] = []
        reused_labels: list[str] = []
        notes: list[str] = []
        try:
            # The largest first, because it is the most likely not to fit or to be cancelled.
            for key, version in sorted(
                manifest.versions.items(), key=lambda entry: -entry[1].bytes
            ):
                content_key = (version.kind, version.sha256)
                item = self.local_version(version)
                if content_key in imported_pins:
                    pins[key] = imported_pins[content_key]
                    continue
                if item is not None:
                    reused_labels.append(f"{version.kind.value} {item.reference}")
                elif version.folder:
                    item = self._import(bundle, version, origin_text, progress)
                    imported_items.append((version.kind, item.reference))
                else:
                    notes.append(f"{_missing_message(version)} {_DATASET_REMEDY}")
                pin = version.pin if item is None else Pin(item.name, item.version, item.sha256)
                pins[key] = imported_pins[content_key] = pin
            ordered_pins = {key: pins[key] for key in manifest.versions}
            with as_backend_error("The job could not be created"):
                job_id = imported_job.create_bundled_job(
                    self._root, config, ordered_pins, bundle, progress
                )
        except BaseException:
            for kind, reference in imported_items:
                with suppress(BackendError):
                    self._library.remove(kind, reference)
            raise
        if manifest.omitted_variables:
            notes.append(
                f"The values of {', '.join(manifest.omitted_variables)} are not in the bundle; "
                "they are empty in a replay."
            )
        if config.start_from not in ("", RANDOM_WEIGHTS):
            notes.append(
                f"It began with the weights of {sanitize(config.start_from)}, which are not in "
                "the bundle."
            )
        return ImportedJob(
            view=self._jobs.queries.show(job_id),
            origin=origin_text,
            imported_items=tuple(f"{kind.value} {reference}" for kind, reference in imported_items),
            reused_items=tuple(reused_labels),
            notes=tuple(notes),
        )

    def local_version(self, version: BundledVersion) -> LibraryItem | None:
        """Return the local version with exactly these files, if possible of the same name."""
        return find_same_version(self._library, version.kind, version.pin)

    def _import(
        self, bundle: VerifiedArchive, version: BundledVersion, origin_text: str, progress: Progress
    ) -> LibraryItem:
        def check_hash(sha256: str) -> None:
            if sha256 != version.sha256:
                raise BackendError(
                    f"The files of the {version.text} changed during the import.",
                    REMEDY,
                )

        self._root.files.refresh_library(version.kind)
        item, fingerprint = imports.import_source(
            self._root,
            version.kind,
            bundle.source(version),
            version.name,
            origin_text,
            progress,
            check_hash,
        )
        self._index.put_item(item, fingerprint)
        return item


_DATASET_REMEDY = (
    "The curves are here; to train, import it, or request a bundle that includes the dataset."
)


def find_same_version(library: LibraryService, kind: Kind, pin: Pin) -> LibraryItem | None:
    """Return the version with the pinned files, whatever its name."""
    matches = [item for item in library.list(kind) if item.sha256 == pin.sha256]
    return min(
        matches,
        key=lambda item: (item.name != pin.name, item.version != pin.version, item.name),
        default=None,
    )


def _missing_message(version: BundledVersion) -> str:
    return (
        f"The {version.text} (SHA-256 {version.sha256[:12]}…) is neither in this data root nor in "
        "the bundle."
    )


def _status(folder: JobFolder) -> RunStatus:
    """Return the last status; for a draft, the status of a created job."""
    try:
        return RunStatus.from_dict(read_json(folder.status))
    except FileNotFoundError:
        return RunStatus(JobState.CREATED)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The status of the job {folder.job_id} cannot be read: {error}."
        ) from error
