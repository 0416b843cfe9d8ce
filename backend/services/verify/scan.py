"""The content of a data root that its checks need, read once."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenJob, OpenRoot, now_s
from backend.datastore.jobs.files import JobFile, read_job
from backend.datastore.jobs.reaper import inspect
from backend.datastore.jobs.run_status import RunObservation, RunState
from backend.datastore.library import library_files
from backend.datastore.library.library_files import VersionFolder
from backend.records.library.item import Kind, LibraryItem

if TYPE_CHECKING:
    from backend.services.context.container import Services

STALE_AFTER_S = 3600.0
"""A path without a change for so long has no writer, by the clock of the data root's disk."""


@dataclass(frozen=True)
class ScannedVersion:
    """A version and its record, or the error of the record."""

    folder: VersionFolder
    item: LibraryItem | None
    error: BackendError | None = None


@dataclass(frozen=True)
class ScannedJob:
    """A folder of ``jobs/``.

    Attributes:
        names: The names of the folder's entries.
        file: The job file; None if it cannot be read.
        error: The error of the job file.
        run_inspection: The facts and the state of the run; None if they are unknown.
    """

    folder: OpenJob
    names: frozenset[str]
    file: JobFile | None
    error: BackendError | None
    run_inspection: tuple[RunObservation, RunState] | None

    @property
    def subject(self) -> str:
        return f"job {self.folder.job_id}"

    @property
    def is_live(self) -> bool:
        """Return whether a process may write to the job's files now."""
        if self.run_inspection is None:
            return True
        state = self.run_inspection[1]
        return state.state.is_live and state.unrecorded_end is None

    @property
    def will_continue(self) -> bool:
        """Return whether the job will make checkpoints without an action of the user."""
        return self.run_inspection is not None and (
            self.is_live or self.run_inspection[1].state.is_queued
        )


@dataclass
class Scan:
    """A scan of a data root, or only of its ``subjects``, if given."""

    services: Services
    hashes: bool
    progress: Progress
    subjects: frozenset[str] | None = None
    checkpoints: int = 0
    not_checked: list[str] = field(default_factory=list)
    _names: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    _unlisted_paths: set[Path] = field(default_factory=set)
    hashed_bytes: int = 0

    @property
    def root(self) -> OpenRoot:
        return self.services.data_root

    @cached_property
    def trash_folder(self) -> Path:
        """The folder in the trash for the paths that a repair moves."""
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        return self.root.trash / f"repaired-{stamp}"

    def names(self, folder: Path) -> tuple[str, ...]:
        """Return the names in a folder, on the computer of the data root; none if missing."""
        if folder not in self._names:
            names: Sequence[str] = ()
            try:
                names = self.root.files.names(folder)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                self._unlisted_paths.add(folder)
                folder_label = self.root.display_path(folder)
                self.not_checked.append(
                    f"{folder_label} cannot be listed: {error.strerror or error}."
                )
            self._names[folder] = tuple(sorted(names))
        return self._names[folder]

    def cannot_list(self, folder: Path) -> bool:
        """Return whether a folder exists whose names cannot be listed."""
        self.names(folder)
        return folder in self._unlisted_paths

    def includes(self, subject: str) -> bool:
        return self.subjects is None or subject in self.subjects

    def is_missing(self, subject: str, path: Path) -> bool:
        """Return whether a subject of this scan is missing, also now: it may be new."""
        return self.includes(subject) and not self.root.files.exists(path)

    def on_bytes(self, count: int) -> None:
        self.hashed_bytes += count
        self.progress.step(self.hashed_bytes, self.total_bytes, "Comparing contents")

    @cached_property
    def total_bytes(self) -> int:
        """The size of all contents that have a hash."""
        sizes = [v.item.bytes for v in self.versions if v.item is not None]
        for job in self.jobs:
            for folder in self.outputs(job):
                for name in self.names(folder.checkpoints):
                    if name.endswith(".pt") and name[0] != ".":
                        with suppress(OSError):
                            sizes.append(self.root.files.size(folder.checkpoints / name))
        return sum(sizes)

    @cached_property
    def versions(self) -> tuple[ScannedVersion, ...]:
        versions = []
        for kind in Kind:
            self.root.files.refresh_library(kind)
            with suppress(FileNotFoundError):
                for folder in library_files.all_versions(self.root, kind):
                    if not self.includes(folder.text):
                        continue
                    try:
                        versions.append(ScannedVersion(folder, library_files.read_item(folder)))
                    except BackendError as error:
                        versions.append(ScannedVersion(folder, None, error))
        return tuple(versions)

    @cached_property
    def job_ids(self) -> tuple[str, ...]:
        return tuple(reversed(self.services.queries.ids()))

    @cached_property
    def jobs(self) -> tuple[ScannedJob, ...]:
        ids = [i for i in self.job_ids if self.includes(f"job {i}")]
        return tuple(self._scan_jobs(ids))

    def _scan_jobs(self, ids: Sequence[str]) -> Iterator[ScannedJob]:
        for number, job_id in enumerate(ids):
            self.progress.step(number, len(ids), "Reading jobs")
            folder = self.root.job(job_id)
            if self.cannot_list(folder.path):
                continue
            job_file, file_error, run_inspection = None, None, None
            try:
                run_inspection = inspect(folder)
            except BackendError as error:
                self.not_checked.append(error.with_remedy)
            try:
                job_file = read_job(folder)
            except BackendError as error:
                file_error = error
            yield ScannedJob(
                folder, frozenset(self.names(folder.path)), job_file, file_error, run_inspection
            )

    def outputs(self, job: ScannedJob) -> Iterator[OpenJob]:
        """Yield the folders of a job with checkpoints: its own, and those of earlier runs.

        Nothing is yielded while the files are on a node that does not see the data root.
        """
        if self.root.files.is_mounted and not self.root.files.has_files_of(job.folder):
            return
        yield job.folder
        if job.folder.started_over_runs.name in job.names:
            for name in self.names(job.folder.started_over_runs):
                if name.isdecimal():
                    yield job.folder.earlier(int(name))

    @cached_property
    def needed_bytes(self) -> int:
        """The size of the next checkpoints of all running and queued jobs."""
        needed_bytes = self.services.preflight.needed_bytes
        jobs = [(job.file, job.folder.job_id) for job in self.jobs if job.will_continue]
        return sum(needed_bytes(file.config, job_id) for file, job_id in jobs if file is not None)

    @cached_property
    def _now_s(self) -> float | None:
        try:
            return now_s(self.root.files, self.root.path)
        except OSError as error:
            self.not_checked.append(
                f"What was left behind was not looked for, because {self.root.name} cannot be "
                f"written: {error.strerror or error}."
            )
            return None

    def is_stale(self, path: Path) -> bool:
        """Return whether no file of ``path`` was changed for `STALE_AFTER_S`."""
        if self._now_s is None:
            return False
        try:
            return self._now_s - self._changed_s(path) >= STALE_AFTER_S
        except FileNotFoundError:
            return False

    def _changed_s(self, path: Path) -> float:
        changed_s = self.root.files.changed_s(path)
        names: Sequence[str] = ()
        with suppress(OSError):
            names = self.root.files.names(path)
        return max([changed_s, *(self._changed_s(path / name) for name in names)])
