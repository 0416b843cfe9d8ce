"""Keep the catalogue equal to the folders of the data root, which other desktops change too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.catalogue.store import Catalogue
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.files import JobFolderReader
from backend.datastore.library import library_files, staging
from backend.datastore.library.library_files import VersionFolder
from backend.records.library.item import Kind, LibraryItem, RescanReport
from backend.ssh.interface import Unreachable


class Rescan:
    """Updates the catalogue: by the names of folders before a list, or by a whole rescan."""

    def __init__(self, root: OpenRoot, catalogue: Catalogue, jobs: JobFolderReader) -> None:
        self._root = root
        self._catalogue = catalogue
        self._jobs = jobs

    def sync_names(self, kind: Kind) -> None:
        """Update the catalogue with the imports and removals of other desktops."""
        try:
            folders = {(folder.name, folder.version): folder for folder in self._versions(kind)}
        except Unreachable:
            # The list is available while the data root is not.
            return
        if not folders and not library_files.kind_folder(self._root, kind).is_dir():
            # Nothing was imported yet, or the data root is not mounted at the moment.
            return
        known_versions = {(item.name, item.version) for item in self._catalogue.items(kind)}
        new_items = []
        for key in folders.keys() - known_versions:
            # A rescan reports a folder that cannot be read; a list shows what can be used.
            with suppress(BackendError):
                new_items.append(library_files.read_item(folders[key]))
        removed_versions = known_versions - folders.keys()
        if new_items or removed_versions:
            self._catalogue.sync_items(kind, new_items, removed_versions)

    def read_all(self, progress: Progress) -> RescanReport:
        """Read the whole data root into the catalogue, replacing its content."""
        counts: dict[str, int] = {}
        forgotten_labels: list[str] = []
        removed_staging_labels: list[str] = []
        problems: list[str] = []
        for kind in Kind:
            items = list(self._read_items(kind, progress, problems))
            for staging_folder in staging.stagings(library_files.kind_folder(self._root, kind)):
                if staging_folder.is_left_over:
                    staging.sweep(staging_folder)
                    removed_staging_labels.append(f"{kind.value} {staging_folder.name}")
            catalogue_versions = {(i.name, i.version) for i in self._catalogue.items(kind)}
            removed_versions = catalogue_versions - {(item.name, item.version) for item in items}
            forgotten_labels += [
                f"{kind.value} {name}@{version}" for name, version in sorted(removed_versions)
            ]
            self._catalogue.sync_items(kind, items, removed_versions)
            counts[kind.folder] = len(items)
        views = []
        ids = self.job_ids()
        for number, job_id in enumerate(ids):
            progress.step(number, len(ids), "Reading jobs")
            try:
                views.append(self._jobs.read(job_id))
            except BackendError as error:
                problems.append(error.message)
        removed_job_ids = sorted(self._catalogue.job_ids() - {view.id for view in views})
        self._catalogue.put_jobs(views)
        self._catalogue.remove_jobs(removed_job_ids)
        return RescanReport(
            **counts,
            jobs=len(views),
            forgotten_items=(*forgotten_labels, *(f"job {job_id}" for job_id in removed_job_ids)),
            removed_imports=tuple(removed_staging_labels),
            problems=tuple(problems),
        )

    def _read_items(
        self, kind: Kind, progress: Progress, problems: list[str]
    ) -> Iterator[LibraryItem]:
        for version_folder in self._versions(kind):
            progress.step(0, 0, f"Reading {kind.folder}")
            try:
                yield library_files.read_item(version_folder)
            except BackendError as error:
                problems.append(error.message)

    def job_ids(self) -> Sequence[str]:
        with as_backend_error(f"The jobs in {self._root.name} cannot be listed"):
            try:
                self._root.files.refresh_jobs()
                return self._jobs.ids()
            except FileNotFoundError:
                return ()

    def _versions(self, kind: Kind) -> Iterable[VersionFolder]:
        with as_backend_error(f"The {kind.folder} in {self._root.name} cannot be listed"):
            self._root.files.refresh_library(kind)
            try:
                return tuple(library_files.all_versions(self._root, kind))
            except FileNotFoundError:
                return ()
