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
from backend.datastore.jobs.checkpoint_files import checkpoint_named, list_checkpoints
from backend.datastore.jobs.files import JobFile, read_job
from backend.datastore.library import imports, library_files
from backend.datastore.library.library_files import VersionFolder
from backend.records.base.atomic_files import read_json
from backend.records.base.content import files_of, hash_file, folder_sha256
from backend.records.base.layout import CHECKPOINT_SUFFIX, SIDECAR_SUFFIX, JobFolder
from backend.records.base.validation import sanitize
from backend.records.bundles.job_archive import (
    CHECKPOINTS,
    HISTORY,
    JOB_FILE,
    NO_CHECKPOINT,
    SUFFIX,
    Bundled,
    BundledThing,
    Manifest,
    Unbundled,
)
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.config import NOTHING, JobConfig, to_share
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
    ) -> Bundled:
        """Write a job into one file.

        Args:
            output: The path; by default it is named after the job, in the current folder.
            checkpoint: A name, "latest" or "best", or "none"; "" is the latest, if there is one.
            overwrite: The user agreed to replace this file.
        """
        progress = progress or Progress()
        view = self._jobs.queries.show(job_id)
        if view.state.is_live or view.state.is_queued:
            raise BackendError(
                f"The job {job_id} is {view.state.word.lower()}; only a job that is not active can "
                "be exported.",
                "Stop it first." if view.state.is_live else "Remove it from the queue.",
            )
        folder = self._root.job(job_id)
        file = read_job(folder)
        parts: list[ArchiveMember] = [
            ArchiveMember.from_bytes(JOB_FILE, tomli_w.dumps(to_share(file.config)).encode())
        ]
        things = self._things(file, with_data, parts, progress)
        record = self._checkpoint(folder, file.config, checkpoint, job_id)
        if record is not None:
            parts += self._checkpoint_parts(record, progress)
        with as_backend_error(f"The history of the job {job_id} could not be read"):
            self._root.files.refresh_history(folder)
            if folder.history.exists():
                size = folder.history.stat().st_size
                parts.append(
                    ArchiveMember(HISTORY, hash_file(folder.history), size, folder.history)
                )
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
            things=things,
            runs=imported_job.environments(folder),
            checkpoint=record.name if record is not None else "",
            left_out=tuple(sorted(file.config.environment)),
        )
        target = output or Path(imported_job.safe_stem(file.name) + SUFFIX)
        made = write_bundle(target, manifest, parts, progress, overwrite=overwrite)
        return Bundled(
            path=str(made),
            bytes=made.stat().st_size,
            files=len(parts) + 1,
            checkpoint=manifest.checkpoint,
            left_out=manifest.left_out,
            without_data=not with_data,
        )

    def _things(
        self, file: JobFile, with_data: bool, parts: list[ArchiveMember], progress: Progress
    ) -> dict[str, BundledThing]:
        """Return the versions that the job pins; add the files of each to ``parts`` once."""
        found: dict[str, BundledThing] = {}
        folders: dict[tuple[Kind, str], str] = {}
        for key, pin in file.pins.items():
            kind = KINDS[key]
            self._library.verify(kind, pin, progress)
            item = self._library.show(kind, pin.reference)
            known = (kind, pin.sha256)
            if kind is Kind.DATASET and not with_data:
                folders[known] = ""
            empty: tuple[str, ...] = ()
            if known not in folders:
                folders[known] = key
                more, empty = self._files(kind, pin, key, progress)
                parts += more
            elif other := next((t for t in found.values() if t.folder == folders[known]), None):
                empty = other.empty_folders
            found[key] = BundledThing(
                kind,
                pin.name,
                pin.version,
                pin.sha256,
                item.bytes,
                item.files,
                folders[known],
                empty,
            )
        return found

    def _files(
        self, kind: Kind, pin: Pin, key: str, progress: Progress
    ) -> tuple[list[ArchiveMember], tuple[str, ...]]:
        content = self._library.open_content(kind, pin.reference, progress)
        version = VersionFolder(self._root, kind, pin.name, pin.version)
        _, hashes = library_files.read_hashes(version)
        parts = []
        with as_backend_error(f"The files of the {version.text} cannot be read"):
            for path, digest in hashes.items():
                status = (content / path).stat()
                runs = bool(status.st_mode & 0o100)
                parts.append(
                    ArchiveMember(f"{key}/{path}", digest, status.st_size, content / path, runs)
                )
            empty = tuple(
                sorted(
                    one.relative_to(content).as_posix()
                    for one in content.rglob("*")
                    if one.is_dir() and not any(one.iterdir())
                )
            )
        return parts, empty

    def _checkpoint(
        self, folder: OpenJob, config: JobConfig, wanted: str, job_id: str
    ) -> Checkpoint | None:
        if wanted == NO_CHECKPOINT:
            return None
        found = list_checkpoints(folder, config.checkpoint)
        record = checkpoint_named(found, wanted or "latest")
        if record is None and wanted:
            raise BackendError(
                f"The job {job_id} has no checkpoint “{sanitize(wanted)}”.",
                f"Its checkpoints: {', '.join(one.name for one in found)}." if found else "",
            )
        return record

    def _checkpoint_parts(self, record: Checkpoint, progress: Progress) -> list[ArchiveMember]:
        path = Path(record.path)
        with as_backend_error(f"The checkpoint {record.name} could not be fetched"):
            self._root.files.bring_file(path, progress)
            sidecar = read_json(record.sidecar)
            name = f"{CHECKPOINTS}/{record.name}"
            members = [ArchiveMember(name + CHECKPOINT_SUFFIX, record.sha256, record.bytes, path)]
            if path.is_dir():
                members = [
                    ArchiveMember(f"{name}/{inner}", hash_file(one), one.stat().st_size, one)
                    for inner, one in files_of(path)
                ]
                inner_hashes = ((one.path.removeprefix(f"{name}/"), one.sha256) for one in members)
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

    def unbundle(self, path: Path, progress: Progress | None = None) -> Unbundled:
        """Make a job from a bundle; everything is verified before anything is created.

        Raises:
            BackendError: The file was damaged or changed, or cannot be used here.
            Cancelled: By ``progress``.
        """
        progress = progress or Progress()
        bundle = open_bundle(path, progress)
        config = usable_settings(bundle)
        manifest = bundle.manifest
        origin_text = imported_job.origin_message(manifest)
        pins: dict[str, Pin] = {}
        taken: dict[tuple[Kind, str], Pin] = {}
        imported: list[tuple[Kind, str]] = []
        reused: list[str] = []
        notes: list[str] = []
        try:
            # The largest first, because it is the most likely not to fit or to be cancelled.
            for key, thing in sorted(manifest.things.items(), key=lambda one: -one[1].bytes):
                known = (thing.kind, thing.sha256)
                item = self.local_version(thing)
                if known in taken:
                    pins[key] = taken[known]
                    continue
                if item is not None:
                    reused.append(f"{thing.kind.value} {item.reference}")
                elif thing.folder:
                    item = self._import(bundle, thing, origin_text, progress)
                    imported.append((thing.kind, item.reference))
                else:
                    notes.append(f"{_missing(thing)} {_WAY_TO_DATA}")
                pin = thing.pin if item is None else Pin(item.name, item.version, item.sha256)
                pins[key] = taken[known] = pin
            ordered = {key: pins[key] for key in manifest.things}
            with as_backend_error("The job could not be created"):
                job_id = imported_job.create_bundled_job(
                    self._root, config, ordered, bundle, progress
                )
        except BaseException:
            for kind, reference in imported:
                with suppress(BackendError):
                    self._library.remove(kind, reference)
            raise
        if manifest.left_out:
            notes.append(
                f"The values of {', '.join(manifest.left_out)} are not in the bundle; "
                "they are empty in a replay."
            )
        if config.start_from not in ("", NOTHING):
            notes.append(
                f"It began with the weights of {sanitize(config.start_from)}, which are not in "
                "the bundle."
            )
        return Unbundled(
            view=self._jobs.queries.show(job_id),
            origin=origin_text,
            imported=tuple(f"{kind.value} {reference}" for kind, reference in imported),
            reused=tuple(reused),
            notes=tuple(notes),
        )

    def local_version(self, thing: BundledThing) -> LibraryItem | None:
        """Return the local version with exactly these files; one of the same name is preferred."""
        return find_same_version(self._library, thing.kind, thing.pin)

    def _import(
        self, bundle: VerifiedArchive, thing: BundledThing, origin_text: str, progress: Progress
    ) -> LibraryItem:
        def refuse_others(sha256: str) -> None:
            if sha256 != thing.sha256:
                raise BackendError(
                    f"The files of the {thing.text} changed during the import.",
                    REMEDY,
                )

        self._root.files.refresh_library(thing.kind)
        item, trusted = imports.import_source(
            self._root,
            thing.kind,
            bundle.source(thing),
            thing.name,
            origin_text,
            progress,
            refuse_others,
        )
        self._index.put_item(item, trusted)
        return item


_WAY_TO_DATA = (
    "The curves are here; to train, import it, or request a bundle that includes the dataset."
)


def find_same_version(library: LibraryService, kind: Kind, pin: Pin) -> LibraryItem | None:
    """Return the version with the pinned files, whatever its name."""
    found = [item for item in library.list(kind) if item.sha256 == pin.sha256]
    return min(
        found,
        key=lambda item: (item.name != pin.name, item.version != pin.version, item.name),
        default=None,
    )


def _missing(thing: BundledThing) -> str:
    return (
        f"The {thing.text} (SHA-256 {thing.sha256[:12]}…) is neither in this data root nor in "
        "the bundle."
    )


def _status(folder: JobFolder) -> RunStatus:
    """Return the last status; for a draft, one that says so."""
    try:
        return RunStatus.from_dict(read_json(folder.status))
    except FileNotFoundError:
        return RunStatus(JobState.CREATED)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The status of the job {folder.job_id} cannot be read: {error}."
        ) from error
