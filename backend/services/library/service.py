"""Datasets, models and loaders: import, list, verify, preview and remove them.

The folders in the data root are the source of truth. The catalogue returns a list at once, after a
comparison of the names of the folders, which reads no file: the list has the latest imports of
other desktops, and is available while the data root is not.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError, Cancelled, as_backend_error
from backend.base.log import suppress
from backend.base.progress import ByteCount, Progress
from backend.catalogue.store import Catalogue
from backend.datastore.access import hashes
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.jobs.files import JobFolderReader
from backend.datastore.library import imports, library_files, model_weights, project_detection
from backend.datastore.library.library_files import VersionFolder
from backend.datastore.library.sources import ImportSource
from backend.records.base import timestamps
from backend.records.base.validation import closest_match, sanitize
from backend.records.jobs.config import JobConfig
from backend.records.jobs.view import JobView
from backend.records.library.item import (
    LEAKS_DETAIL,
    NEAR_LEAKS_DETAIL,
    WEIGHTS_DETAIL,
    Combination,
    FileEntry,
    Kind,
    LibraryItem,
    Pin,
    RescanReport,
    VersionChanges,
    split_reference,
)
from backend.records.library.preview import ModelCheck, Preview
from backend.records.library.project import ImportGuess, Project
from backend.services.library.rescan import Rescan
from backend.services.library.version_diff import compare_versions
from backend.services.tools import tool_process
from backend.services.tools.result_files import ResultCache
from backend.services.tools.training_python import training_error

_PIN_KEYS = {
    Kind.DATASET: ("dataset", "validation_dataset"),
    Kind.LOADER: ("loader", "validation_loader"),
    Kind.MODEL: ("model",),
    Kind.SCRIPT: ("script",),
}
_MAX_JOBS = 200


class LibraryService:
    """The library; see `docs/architecture.md`. Every call blocks and may run on any thread.

    Args:
        cache: A folder on this computer for the results of previews and checks.
        show_job: Returns the current state of a job; by default its folder is read.
    """

    def __init__(
        self,
        root: OpenRoot,
        catalogue: Catalogue,
        cache: Path,
        show_job: Callable[[str], JobView] | None = None,
    ) -> None:
        self._root = root
        self._catalogue = catalogue
        self._cache = ResultCache(cache)
        self._jobs = JobFolderReader(root)
        self._rescan = Rescan(root, catalogue, self._jobs)
        self._show_job = show_job or self._jobs.read

    def watch(self, on_change: Callable[[Kind], object]) -> None:
        """Call ``on_change`` after each write of items to the catalogue, on the writing thread."""
        self._catalogue.items_changed = on_change

    def import_item(
        self,
        kind: Kind,
        source: Path,
        name: str,
        progress: Progress | None = None,
        *,
        reuse_same: bool = False,
    ) -> LibraryItem:
        """Import a folder, a zip file or (as a model or loader) one ``.py`` as the next version.

        Identical files become a new version, too. With ``reuse_same`` the newest version with
        exactly these files is returned instead.
        """
        find_existing = partial(self._with_hash, kind, name) if reuse_same else lambda sha256: None
        self._root.files.refresh_library(kind)
        item, fingerprint = imports.import_version(
            self._root, kind, source, name, progress or Progress(), find_existing
        )
        self._catalogue.put_item(item, fingerprint)
        return item

    def inspect(self, path: Path) -> ImportGuess:
        """Guess the kind of a folder, zip or file from names only; never raises."""
        return project_detection.inspect(path)

    def import_project(
        self, source: Path, project: Project, name: str, progress: Progress | None = None
    ) -> tuple[LibraryItem, ...]:
        """Import each part as the next version of ``name``; reuse an identical newest version.

        All parts are checked before the first byte is written.

        Raises:
            BackendError: A part cannot be imported; the message names it and the imported parts.
        """
        progress = progress or Progress()
        sources: dict[Kind, ImportSource] = {}
        for kind, part in project.parts.items():
            with _name_failed_part(kind, ()):
                self._root.files.refresh_library(kind)
                sources[kind] = imports.inspect(kind, source, progress, part)
        total = sum(part_source.bytes for part_source in sources.values())
        items: list[LibraryItem] = []
        imported_bytes = 0
        for kind, part_source in sources.items():
            with _name_failed_part(kind, items):
                item, fingerprint = imports.import_source(
                    self._root,
                    kind,
                    part_source,
                    name,
                    imports.origin(source / project.parts[kind].folder),
                    _PartProgress(progress, imported_bytes, part_source.bytes, total, kind),
                    partial(self._with_hash, kind, name, limit=1),
                )
                self._catalogue.put_item(item, fingerprint)
            items.append(item)
            imported_bytes += part_source.bytes
        return tuple(items)

    def list(self, kind: Kind) -> tuple[LibraryItem, ...]:
        """Return every version, by name, newest first."""
        self._rescan.sync_names(kind)
        return self._catalogue.items(kind)

    def known_combinations(self) -> tuple[Combination, ...]:
        """Return parts that worked together: in previews and checks, then in jobs, newest first."""
        combinations = [
            Combination(item.name, _name_of(loader))
            for item in self._catalogue.items(Kind.DATASET)
            if (loader := item.details.get("seen_through"))
        ]
        for item in self._catalogue.items(Kind.MODEL):
            trial_parts = item.details.get("tried_on")
            if isinstance(trial_parts, list) and len(trial_parts) == 2:
                combinations.append(
                    Combination(_name_of(trial_parts[0]), _name_of(trial_parts[1]), item.name)
                )
        for view in self._catalogue.jobs(limit=_MAX_JOBS):
            names = {key: pin.name for key, pin in view.pins.items()}
            if view.step and {"dataset", "loader"} <= names.keys():
                dataset, loader = names["dataset"], names["loader"]
                combinations.append(Combination(dataset, loader, names.get("model", "")))
                validation_dataset = names.get("validation_dataset", dataset)
                combinations.append(
                    Combination(validation_dataset, names.get("validation_loader", loader))
                )
        return tuple(dict.fromkeys(combinations))

    def show(self, kind: Kind, reference: str) -> LibraryItem:
        """Return a version; ``reference`` is a name (its newest version) or ``name@version``."""
        item = self._item(self._folder(kind, reference))
        self._catalogue.put_item(item)
        return item

    def content(self, kind: Kind, reference: str) -> Path:
        """Return the path of the user's files, to be shown; see `open_content`."""
        folder = self._folder(kind, reference)
        library_files.read_item(folder)
        return folder.content

    def open_content(self, kind: Kind, reference: str, progress: Progress | None = None) -> Path:
        """Return the folder with the user's files, to be read on this computer."""
        folder = self._folder(kind, reference)
        item = library_files.read_item(folder)
        if not self._root.files.has_local_file(folder.content):
            listing, digests = self._hashes(folder)
            if hashlib.sha256(listing).hexdigest() != item.sha256:
                raise hashes.changed(f"The {folder.text}", "is not the one that was imported")
            with as_backend_error(f"The {folder.text} cannot be fetched"):
                self._root.files.bring_content(folder.content, digests, progress or Progress())
        return folder.content

    def is_local(self, kind: Kind, reference: str) -> bool:
        """Return whether the files of a version can be read on this computer without a fetch."""
        return self._root.files.has_local_file(self.content(kind, reference))

    def files(self, kind: Kind, reference: str) -> tuple[FileEntry, ...]:
        return library_files.list_files(self._folder(kind, reference))

    def added_files(self, kind: Kind, reference: str) -> tuple[str, ...]:
        """Return the paths of files that were added to a version after its import."""
        folder = self._folder(kind, reference)
        listing = self._hashes(folder)[1]
        files = library_files.list_files(folder)
        return tuple(f.path for f in files if f.path not in listing)

    def remove_added(self, kind: Kind, reference: str) -> tuple[str, ...]:
        """Move the files that were added to a version to the trash of the data root."""
        folder = self._folder(kind, reference)
        added_paths = self.added_files(kind, reference)
        with as_backend_error(f"The files added to the {folder.text} cannot be removed"):
            library_files.move_added(folder, added_paths)
        return added_paths

    def text(self, kind: Kind, reference: str, path: str) -> str:
        """Return a user's file, to be shown; at most a megabyte."""
        return library_files.read_text(self._folder(kind, reference), path)

    def first_bytes(
        self, kind: Kind, reference: str
    ) -> tuple[tuple[FileEntry, ...], Callable[[str, int], bytes]]:
        """Return the files of a version, and a function that reads the first bytes of a file."""
        folder = self._folder(kind, reference)

        def read(path: str, limit_bytes: int) -> bytes:
            return folder.root.files.read(folder.content / path, 0, limit_bytes)

        return library_files.list_files(folder), read

    def changes(self, kind: Kind, newer_version: str, older_version: str = "") -> VersionChanges:
        """Return the changes in a version; by default, since the previous version.

        Raises:
            BackendError: There is no such version, or no previous version.
        """
        newer_folder = self._folder(kind, newer_version)
        if older_version:
            older_folder = self._folder(kind, older_version)
        else:
            versions = library_files.versions(self._root, kind, newer_folder.name)
            earlier_versions = [version for version in versions if version < newer_folder.version]
            if not earlier_versions:
                raise BackendError(
                    f"There is no version before {newer_folder.name}@{newer_folder.version}.",
                    "Name another one: --since NAME@VERSION.",
                )
            older_folder = VersionFolder(self._root, kind, newer_folder.name, max(earlier_versions))
        sides = [
            (f"{v.name}@{v.version}", self._hashes(v)[1]) for v in (older_folder, newer_folder)
        ]
        return compare_versions(sides[0], sides[1], partial(self.text, kind))

    def script_imports(self, reference: str, module: str) -> bool:
        """Return whether a Python file of a script imports this top-level module."""
        prefix = r"(import[ \t]+(?:[\w. \t]+,[ \t]*)*|from[ \t]+)"
        pattern = re.compile(rf"^[ \t]*{prefix}{module}\b", re.MULTILINE)
        with suppress(BackendError, OSError):
            folder = self.open_content(Kind.SCRIPT, reference)
            texts = (p.read_text("utf-8", "replace") for p in folder.rglob("*.py"))
            return any(map(pattern.search, texts))
        return False

    def pin(self, kind: Kind, reference: str) -> Pin:
        """Resolve a reference to an exact version."""
        item = library_files.read_item(self._folder(kind, reference))
        return Pin(item.name, item.version, item.sha256)

    def verify(
        self,
        kind: Kind,
        pin: Pin,
        progress: Progress | None = None,
        *,
        thorough: bool = False,
    ) -> None:
        """Check that the files of a version are those of a pin.

        The files are hashed if this computer never hashed them, or if a name, size or time changed
        since; with ``thorough`` always, which also finds damage by a failing disk.

        Raises:
            BackendError: The files differ; the message names the first such file.
        """
        folder = VersionFolder(self._root, kind, pin.name, pin.version)
        item, digests = self._read_pinned(folder, pin)
        subject = f"The {folder.text}"
        with as_backend_error(f"{subject} cannot be verified"):
            fingerprint = self._root.files.fingerprint(folder.content)
            known_fingerprint = self._catalogue.trusted_fingerprint(kind, pin.name, pin.version)
            if fingerprint != known_fingerprint or thorough:
                on_bytes = ByteCount(
                    progress or Progress(), item.bytes, f"Verifying {pin.reference}"
                )
                self._root.files.compare(subject, folder.content, digests, on_bytes)
                self._catalogue.put_item(item, fingerprint)

    def verify_names(self, kind: Kind, pin: Pin) -> None:
        """Check that the files have the recorded names and, together, the recorded size.

        Raises:
            BackendError: The names or the size differ; the message has the first such file.
        """
        folder = VersionFolder(self._root, kind, pin.name, pin.version)
        item, digests = self._read_pinned(folder, pin)
        subject = f"The {folder.text}"
        files = library_files.list_files(folder)
        hashes.compare_names(subject, {f.path for f in files}, digests)
        if sum(f.bytes for f in files) != item.bytes:
            raise hashes.changed(subject, "was changed after it was imported: its size differs")

    def _read_pinned(self, folder: VersionFolder, pin: Pin) -> tuple[LibraryItem, dict[str, str]]:
        item = self._item(folder)
        listing, digests = self._hashes(folder)
        if hashlib.sha256(listing).hexdigest() != pin.sha256:
            raise hashes.changed(f"The {folder.text}", "differs from the pinned version")
        return item, digests

    def remove(self, kind: Kind, reference: str) -> LibraryItem:
        """Move a version to the trash of the data root; refused while a live job uses it."""
        folder = self._folder(kind, reference)
        item = library_files.read_item(folder)
        for view in self._jobs_using(kind, item):
            if view.state.is_live or view.state.is_queued:
                raise BackendError(
                    f"The {folder.text} is in use by the job “{sanitize(view.name)}” "
                    f"({view.id}), which is {view.state_label.lower()}.",
                    "Stop the job first." if view.state.is_live else "Remove it from the queue.",
                )
        today = datetime.now(UTC)
        record = {"removed": timestamps.stamp(today, "seconds"), "item": item.to_dict()}
        trash_name = f"{today:%Y%m%d}-{kind.value}-{item.name}-v{item.version}"
        with as_backend_error(f"The {folder.text} cannot be moved to the trash"):
            library_files.move_to_trash(folder, record, trash_name)
        self._catalogue.remove_item(kind, item.name, item.version)
        return item

    def weights(self, reference: str) -> Path | None:
        """Return the path of the weights stored with a model, None without weights."""
        return model_weights.find(self._folder(Kind.MODEL, reference))

    def weights_hash(self, reference: str) -> str:
        """Return the recorded SHA-256 of a model's weights, "" without a record."""
        item = self._item(self._folder(Kind.MODEL, reference))
        return str(item.details.get(WEIGHTS_DETAIL, {}).get("sha256", ""))

    def add_weights(
        self, reference: str, source: Path, progress: Progress | None = None
    ) -> LibraryItem:
        """Store a file of weights with a model without weights; new jobs begin with these.

        The file is read first, if this computer has PyTorch.
        """
        folder = self._folder(Kind.MODEL, reference)
        item = self._item(folder)
        model_weights.require_possible(folder, source)
        unused_names: tuple[str, ...] = ()
        if training_error() is None:
            unused_names = tool_process.read_weights(source, progress)
        path, sha256, size = model_weights.put(folder, source, progress or Progress())
        weights_record: dict[str, Any] = {
            "name": path.name,
            "sha256": sha256,
            "bytes": size,
            "source": source.name,
        }
        if unused_names:
            weights_record["unused"] = list(unused_names)
        warning = str(item.details.get("warning", ""))
        return self._add_details(item, {WEIGHTS_DETAIL: weights_record}, warning)

    def preview(
        self,
        dataset: str,
        loader: str,
        split: str = "training",
        progress: Progress | None = None,
    ) -> Preview:
        """Preview a dataset with a loader in its own process; results are cached."""
        data = self.show(Kind.DATASET, dataset)
        code = self.show(Kind.LOADER, loader)
        preview = self._cache.get(
            ("preview", data.sha256, code.sha256, split),
            Preview.from_dict,
            lambda: tool_process.preview(
                self.open_content(Kind.LOADER, code.reference, progress),
                self.open_content(Kind.DATASET, data.reference, progress),
                split,
                progress=progress,
            ),
        )
        if split == "training":
            warning = next((error.message for error in preview.errors), "")
            details: dict[str, Any] = {"items": preview.count}
            if preview.count and (preview.samples or not preview.errors):
                details["seen_through"] = code.reference
            if preview.classes and preview.is_complete:
                details["classes"] = len(preview.classes)
            self._add_details(data, details, warning or next(iter(preview.warnings), ""))
        return preview

    def note(self, item: LibraryItem, key: str, value: object) -> LibraryItem:
        """Store a detail of an item, such as `TRAINING_DETAIL` or `STUDY_DETAIL`."""
        return self._add_details(item, {key: value}, str(item.details.get("warning", "")))

    def note_leaks(self, dataset: str, count: int, near_count: int) -> None:
        """Store the numbers of leaks and near leaks that a scan found, until the next scan."""
        for key, number in ((LEAKS_DETAIL, count), (NEAR_LEAKS_DETAIL, near_count)):
            item = self.show(Kind.DATASET, dataset)
            if number != item.details.get(key, 0):
                self.note(item, key, number)

    def check_model(
        self,
        model: str,
        dataset: str = "",
        loader: str = "",
        progress: Progress | None = None,
    ) -> ModelCheck:
        """Build a model, and try a batch if data is given, in its own process."""
        item = self.show(Kind.MODEL, model)
        code = self.show(Kind.LOADER, loader) if loader else None
        data = self.show(Kind.DATASET, dataset) if dataset else None
        check = self._cache.get(
            _check_key(item.sha256, data.sha256 if data else "", code.sha256 if code else ""),
            ModelCheck.from_dict,
            lambda: tool_process.check_model(
                self.open_content(Kind.MODEL, item.reference, progress),
                self.open_content(Kind.LOADER, code.reference, progress) if code else None,
                self.open_content(Kind.DATASET, data.reference, progress) if data else None,
                progress=progress,
            ),
        )
        details: dict[str, Any] = {
            "parameters": check.parameters,
            "trainable_parameters": check.trainable_parameters,
            "parameter_bytes": check.parameter_bytes,
        }
        if check.was_tried and data and code:
            details["tried_on"] = [data.reference, code.reference]
        warning = next(iter(check.warnings), "") if check.was_tried else ""
        self._add_details(item, details, warning)
        return check

    def cached_check(self, model: Pin, dataset: Pin, loader: Pin) -> ModelCheck | None:
        """Return the cached result of `check_model` for exactly these files, if any."""
        key = _check_key(model.sha256, dataset.sha256, loader.sha256)
        return self._cache.cached(key, ModelCheck.from_dict)

    def data_notes(self, config: JobConfig) -> tuple[str, ...]:
        """Return the warnings of a trial of the job's batch, else of the dataset's preview.

        Empty without a trial or preview, or if a part is unknown.
        """
        parts = {Kind.MODEL: config.model, Kind.DATASET: config.dataset, Kind.LOADER: config.loader}
        if not all(parts.values()):
            return ()
        with suppress(BackendError, OSError):
            trial = self.cached_check(*(self.pin(kind, part) for kind, part in parts.items()))
            if trial is not None:
                return trial.warnings
            warning = self.show(Kind.DATASET, config.dataset).details.get("warning")
            return (str(warning),) if warning else ()
        return ()

    def rescan(self, progress: Progress | None = None) -> RescanReport:
        """Read the whole data root into the catalogue, replacing its content."""
        return self._rescan.read_all(progress or Progress())

    def _folder(self, kind: Kind, reference: str) -> VersionFolder:
        """Return the folder of a reference; for a name alone, the newest version's."""
        try:
            name, version = split_reference(reference)
        except ValueError as error:
            raise BackendError(f"{error}.") from error
        with as_backend_error(f"The {kind.folder} in {self._root.name} cannot be listed"):
            self._root.files.refresh_library(kind)
            try:
                names = library_files.names(self._root, kind)
            except FileNotFoundError:
                names = []
            versions = library_files.versions(self._root, kind, name) if name in names else []
        if version is not None and name in names:
            return VersionFolder(self._root, kind, name, version)
        if not versions:
            suggestion = closest_match(name, tuple(names))
            remedy = f"Import it first, or choose one from the list of {kind.folder}."
            if suggestion and suggestion != name:
                remedy = f"Did you mean “{suggestion}”?"
            elif not names:
                # A share that is not mounted resembles a data root without imports.
                remedy = (
                    f"{self._root.name} has no {kind.folder} yet; import one, or check that the "
                    "share that should hold them is mounted."
                )
            raise BackendError(f"There is no {kind.value} “{sanitize(reference)}”.", remedy)
        return VersionFolder(self._root, kind, name, versions[0])

    def _item(self, folder: VersionFolder) -> LibraryItem:
        """Read the current record of a version."""
        with as_backend_error(f"The record of the {folder.text} cannot be read"):
            self._root.files.refresh_file(folder.meta)
        return library_files.read_item(folder)

    def _hashes(self, folder: VersionFolder) -> tuple[bytes, dict[str, str]]:
        with as_backend_error(f"The list of files of the {folder.text} cannot be read"):
            self._root.files.refresh_file(folder.manifest)
        return library_files.read_hashes(folder)

    def _with_hash(
        self, kind: Kind, name: str, sha256: str, limit: int | None = None
    ) -> LibraryItem | None:
        for version in library_files.versions(self._root, kind, name)[:limit]:
            with suppress(BackendError):
                item = library_files.read_item(VersionFolder(self._root, kind, name, version))
                if item.sha256 == sha256:
                    return item
        return None

    def _jobs_using(self, kind: Kind, item: LibraryItem) -> Iterator[JobView]:
        """Yield every job that uses a version, with its current state."""
        for job_id in self._rescan.job_ids():
            try:
                pins = self._jobs.read(job_id).pins
            except BackendError:
                # A job that cannot be read cannot train either.
                continue
            used_pins = (pins[key] for key in _PIN_KEYS[kind] if key in pins)
            if any((pin.name, pin.version) == (item.name, item.version) for pin in used_pins):
                yield self._show_job(job_id)

    def _add_details(self, item: LibraryItem, details: dict[str, Any], warning: str) -> LibraryItem:
        merged_details = {**item.details, **details, "warning": warning}
        if not warning:
            del merged_details["warning"]
        if merged_details == item.details:
            return item
        updated_item = replace(item, details=merged_details)
        # Details are optional: if the data root is read-only, only the catalogue has them.
        with suppress(OSError, BackendError):
            folder = VersionFolder(self._root, item.kind, item.name, item.version)
            library_files.write_item(self._root, folder.path, updated_item)
        self._catalogue.put_item(updated_item)
        return updated_item


def _check_key(model: str, dataset: str, loader: str) -> tuple[str, ...]:
    return "check", model, loader, dataset


def _name_of(reference: object) -> str:
    return str(reference).partition("@")[0]


@contextlib.contextmanager
def _name_failed_part(kind: Kind, imported_items: Sequence[LibraryItem]) -> Iterator[None]:
    """Add the failed part of a project to an error, and the parts imported before, which stay."""
    try:
        yield
    except BackendError as error:
        item_list = " and ".join(f"the {i.kind.value} {i.reference}" for i in imported_items)
        past_verb, stay_verb = ("was", "stays") if len(imported_items) == 1 else ("were", "stay")
        imported_message = f"{item_list} {past_verb} imported before"
        if isinstance(error, Cancelled):
            if not imported_items:
                raise
            raise BackendError(f"Cancelled; {imported_message} and {stay_verb}.") from error
        remedy = error.remedy
        if imported_items:
            remedy += f" {imported_message[0].upper()}{imported_message[1:]} it and {stay_verb}."
        raise BackendError(
            f"The {kind.value} cannot be imported: {error}", remedy.strip()
        ) from error


class _PartProgress(Progress):
    """Converts the progress of one part, in bytes, into that of the whole import."""

    def __init__(
        self, progress: Progress, start_bytes: int, size: int, total: int, kind: Kind
    ) -> None:
        super().__init__()
        self._progress = progress
        self._start_bytes = start_bytes
        self._size = size
        self._total = total
        self._kind = kind

    @property
    def is_cancelled(self) -> bool:
        return self._progress.is_cancelled

    def step(self, done_amount: float, total: float, title: str) -> None:
        fraction = done_amount / total if total else 0.0
        title = f"{self._kind.value.capitalize()}: {title}"
        self._progress.step(self._start_bytes + fraction * self._size, self._total, title)
