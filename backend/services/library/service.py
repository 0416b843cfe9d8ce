"""Datasets, models and loaders: import, list, verify, preview and remove them.

The folders in the data root are the truth. The catalogue answers a list at once, after comparing
the names of the folders, which reads no file: the list has what another desktop imported a moment
ago, and is available while the data root is not.
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
from backend.datastore.jobs.scan import JobFolderReader
from backend.datastore.library import imports, library_files, model_weights, project_detection
from backend.datastore.library.library_files import VersionFolder
from backend.datastore.library.sources import ImportSource
from backend.records.base import timestamps
from backend.records.base.validation import closest_match, sanitize
from backend.records.jobs.config import JobConfig
from backend.records.jobs.view import JobView
from backend.records.library.item import (
    LEAKS_DETAIL,
    WEIGHTS_DETAIL,
    FileEntry,
    Kind,
    LibraryItem,
    Pin,
    RescanReport,
    Combination,
    VersionChanges,
    split_reference,
)
from backend.records.library.preview import ModelCheck, Preview
from backend.records.library.project import ImportGuess, Project
from backend.services.library.rescan import Rescan
from backend.services.library.version_diff import compare_versions
from backend.services.tools import tool_process
from backend.services.tools.kept_results import ResultCache
from backend.services.tools.training_python import training_error

_PINNED_AS = {
    Kind.DATASET: ("dataset", "validation_dataset"),
    Kind.LOADER: ("loader", "validation_loader"),
    Kind.MODEL: ("model",),
    Kind.SCRIPT: ("script",),
}
_MOST_JOBS = 200


class LibraryService:
    """See `docs/architecture.md`. Every call blocks and may run on any thread.

    ``see_job`` returns a job's current state; by default its folder is read. ``cache`` is a folder
    on this computer for the results of previews and checks.
    """

    def __init__(
        self,
        root: OpenRoot,
        catalogue: Catalogue,
        cache: Path,
        see_job: Callable[[str], JobView] | None = None,
    ) -> None:
        self._root = root
        self._catalogue = catalogue
        self._kept = ResultCache(cache)
        self._jobs = JobFolderReader(root)
        self._rescan = Rescan(root, catalogue, self._jobs)
        self._see_job = see_job or self._jobs.read

    def watch(self, changed: Callable[[Kind], object]) -> None:
        """Call ``changed`` after each write of items to the catalogue, on the writing thread."""
        self._catalogue.items_changed = changed

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

        The same files again become a new version, because that was requested. With ``reuse_same``
        the newest version with exactly these files is returned instead.
        """
        same = partial(self._with_hash, kind, name) if reuse_same else lambda sha256: None
        self._root.files.refresh_library(kind)
        item, trusted = imports.import_version(
            self._root, kind, source, name, progress or Progress(), same
        )
        self._catalogue.put_item(item, trusted)
        return item

    def inspect(self, path: Path) -> ImportGuess:
        """Guess what a folder, zip or file is, from names only; never raises."""
        return project_detection.inspect(path)

    def import_project(
        self, source: Path, project: Project, name: str, progress: Progress | None = None
    ) -> tuple[LibraryItem, ...]:
        """Import each part as the next version of ``name``; reuse its newest if that is the same.

        All parts are checked before the first byte is written.

        Raises:
            BackendError: A part cannot be imported; it names that part and the imported ones.
        """
        progress = progress or Progress()
        examined: dict[Kind, ImportSource] = {}
        for kind, part in project.parts.items():
            with _named(kind, ()):
                self._root.files.refresh_library(kind)
                examined[kind] = imports.inspect(kind, source, progress, part)
        total = sum(files.bytes for files in examined.values())
        items: list[LibraryItem] = []
        before = 0
        for kind, files in examined.items():
            with _named(kind, items):
                item, trusted = imports.import_source(
                    self._root,
                    kind,
                    files,
                    name,
                    imports.origin(source / project.parts[kind].folder),
                    _Stretch(progress, before, files.bytes, total, kind),
                    partial(self._newest_with_hash, kind, name),
                )
                self._catalogue.put_item(item, trusted)
            items.append(item)
            before += files.bytes
        return tuple(items)

    def list(self, kind: Kind) -> tuple[LibraryItem, ...]:
        """Return every version, by name, newest first."""
        self._rescan.sync_names(kind)
        return self._catalogue.items(kind)

    def known_combinations(self) -> tuple[Combination, ...]:
        """Return what worked together: in previews and checks, then in jobs, newest job first."""
        found = [
            Combination(item.name, _name(loader))
            for item in self._catalogue.items(Kind.DATASET)
            if (loader := item.details.get("seen_through"))
        ]
        for item in self._catalogue.items(Kind.MODEL):
            tried = item.details.get("tried_on")
            if isinstance(tried, list) and len(tried) == 2:
                found.append(Combination(_name(tried[0]), _name(tried[1]), item.name))
        for view in self._catalogue.jobs(limit=_MOST_JOBS):
            names = {key: pin.name for key, pin in view.pins.items()}
            if view.step and {"dataset", "loader"} <= names.keys():
                dataset, loader = names["dataset"], names["loader"]
                found.append(Combination(dataset, loader, names.get("model", "")))
                other = names.get("validation_dataset", dataset)
                found.append(Combination(other, names.get("validation_loader", loader)))
        return tuple(dict.fromkeys(found))

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
        """Return whether its files can be read on this computer without fetching them."""
        return self._root.files.has_local_file(self.content(kind, reference))

    def files(self, kind: Kind, reference: str) -> tuple[FileEntry, ...]:
        return library_files.list_files(self._folder(kind, reference))

    def added_files(self, kind: Kind, reference: str) -> tuple[str, ...]:
        """Return the files in a version that were not in it when it was imported, by path."""
        folder = self._folder(kind, reference)
        listing = self._hashes(folder)[1]
        found = library_files.list_files(folder)
        return tuple(one.path for one in found if one.path not in listing)

    def remove_added(self, kind: Kind, reference: str) -> tuple[str, ...]:
        """Move the files that were added to a version to the trash of the data root."""
        folder = self._folder(kind, reference)
        added = self.added_files(kind, reference)
        with as_backend_error(f"The files added to the {folder.text} cannot be removed"):
            library_files.move_added(folder, added)
        return added

    def text(self, kind: Kind, reference: str, path: str) -> str:
        """Return one of the user's files, to be shown; at most a megabyte of it."""
        return library_files.read_text(self._folder(kind, reference), path)

    def first_bytes(
        self, kind: Kind, reference: str
    ) -> tuple[tuple[FileEntry, ...], Callable[[str, int], bytes]]:
        """Return the files of a version, and a function that reads the first bytes of one."""
        folder = self._folder(kind, reference)

        def read(path: str, limit_bytes: int) -> bytes:
            return folder.root.files.read(folder.content / path, 0, limit_bytes)

        return library_files.list_files(folder), read

    def changes(self, kind: Kind, newer: str, older: str = "") -> VersionChanges:
        """Return the changes in a version; by default, since the version before it.

        Raises:
            BackendError: There is no such version, or none before it.
        """
        after = self._folder(kind, newer)
        if older:
            before = self._folder(kind, older)
        else:
            versions = library_files.versions(self._root, kind, after.name)
            earlier = [version for version in versions if version < after.version]
            if not earlier:
                raise BackendError(
                    f"There is no version before {after.name}@{after.version}.",
                    "Name another one: --since NAME@VERSION.",
                )
            before = VersionFolder(self._root, kind, after.name, max(earlier))
        sides = [(f"{one.name}@{one.version}", self._hashes(one)[1]) for one in (before, after)]
        return compare_versions(sides[0], sides[1], partial(self.text, kind))

    def script_imports(self, reference: str, module: str) -> bool:
        """Return whether a Python file of a script imports this top-level module."""
        before = r"(import[ \t]+(?:[\w. \t]+,[ \t]*)*|from[ \t]+)"
        pattern = re.compile(rf"^[ \t]*{before}{module}\b", re.MULTILINE)
        with suppress(BackendError, OSError):
            folder = self.open_content(Kind.SCRIPT, reference)
            texts = (one.read_text("utf-8", "replace") for one in folder.rglob("*.py"))
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
        """Check that the files are the pinned ones.

        They are hashed if that was never done here, or if a name, size or time changed since; with
        ``thorough`` always, which also finds damage by a failing disk.

        Raises:
            BackendError: They are not; the first file that differs is named.
        """
        folder = VersionFolder(self._root, kind, pin.name, pin.version)
        item, digests = self._pinned(folder, pin)
        what = f"The {folder.text}"
        with as_backend_error(f"{what} cannot be verified"):
            before = self._root.files.fingerprint(folder.content)
            known = self._catalogue.trusted_fingerprint(kind, pin.name, pin.version)
            if before != known or thorough:
                on_bytes = ByteCount(
                    progress or Progress(), item.bytes, f"Verifying {pin.reference}"
                )
                self._root.files.compare(what, folder.content, digests, on_bytes)
                self._catalogue.put_item(item, before)

    def verify_names(self, kind: Kind, pin: Pin) -> None:
        """Check that the files have the recorded names and, together, the recorded size.

        Raises:
            BackendError: They have not; the first file that is missing or was added is named.
        """
        folder = VersionFolder(self._root, kind, pin.name, pin.version)
        item, digests = self._pinned(folder, pin)
        what = f"The {folder.text}"
        found = library_files.list_files(folder)
        hashes.compare_names(what, {one.path for one in found}, digests)
        if sum(one.bytes for one in found) != item.bytes:
            raise hashes.changed(what, "was changed after it was imported: its size differs")

    def _pinned(self, folder: VersionFolder, pin: Pin) -> tuple[LibraryItem, dict[str, str]]:
        item = self._item(folder)
        listing, digests = self._hashes(folder)
        if hashlib.sha256(listing).hexdigest() != pin.sha256:
            raise hashes.changed(f"The {folder.text}", "differs from the pinned version")
        return item, digests

    def remove(self, kind: Kind, reference: str) -> LibraryItem:
        """Move a version to the trash of the data root; refused while a live job uses it."""
        folder = self._folder(kind, reference)
        item = library_files.read_item(folder)
        for view in self._pinned_by(kind, item):
            if view.state.is_live or view.state.is_queued:
                raise BackendError(
                    f"The {folder.text} is in use by the job “{sanitize(view.name)}” "
                    f"({view.id}), which is {view.state.label.lower()}.",
                    "Stop the job first." if view.state.is_live else "Remove it from the queue.",
                )
        today = datetime.now(UTC)
        record = {"removed": timestamps.stamp(today, "seconds"), "item": item.to_dict()}
        place = f"{today:%Y%m%d}-{kind.value}-{item.name}-v{item.version}"
        with as_backend_error(f"The {folder.text} cannot be moved to the trash"):
            library_files.move_to_trash(folder, record, place)
        self._catalogue.remove_item(kind, item.name, item.version)
        return item

    def weights(self, reference: str) -> Path | None:
        """Return the weights stored with a model, None if it has none."""
        return model_weights.find(self._folder(Kind.MODEL, reference))

    def weights_hash(self, reference: str) -> str:
        """Return the recorded SHA-256 of a model's weights, "" without a record."""
        item = self._item(self._folder(Kind.MODEL, reference))
        return str(item.details.get(WEIGHTS_DETAIL, {}).get("sha256", ""))

    def add_weights(
        self, reference: str, source: Path, progress: Progress | None = None
    ) -> LibraryItem:
        """Store a file of weights with a model that has none; its new jobs begin with them.

        It is read first, if this computer has PyTorch.
        """
        folder = self._folder(Kind.MODEL, reference)
        item = self._item(folder)
        model_weights.require_possible(folder, source)
        others = tool_process.read_weights(source, progress) if training_error() is None else ()
        path, sha256, size = model_weights.put(folder, source, progress or Progress())
        known: dict[str, Any] = {
            "name": path.name,
            "sha256": sha256,
            "bytes": size,
            "source": source.name,
        }
        if others:
            known["unused"] = list(others)
        return self._add_facts(item, {WEIGHTS_DETAIL: known}, str(item.details.get("warning", "")))

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
        found = self._kept.get(
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
            warning = next((fault.message for fault in found.errors), "")
            facts: dict[str, Any] = {"items": found.count}
            if found.count and (found.samples or not found.errors):
                facts["seen_through"] = code.reference
            if found.classes and found.is_complete:
                facts["classes"] = len(found.classes)
            self._add_facts(data, facts, warning or next(iter(found.warnings), ""))
        return found

    def note(self, item: LibraryItem, key: str, value: object) -> LibraryItem:
        """Keep a fact about an item, such as `TRAINING_FACT` or `STUDY_FACT`."""
        return self._add_facts(item, {key: value}, str(item.details.get("warning", "")))

    def note_leaks(self, dataset: str, count: int) -> None:
        """Keep how many leaks a scan of a dataset found, until the next scan."""
        item = self.show(Kind.DATASET, dataset)
        if count or LEAKS_DETAIL in item.details:
            self.note(item, LEAKS_DETAIL, count)

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
        found = self._kept.get(
            _check_key(item.sha256, data.sha256 if data else "", code.sha256 if code else ""),
            ModelCheck.from_dict,
            lambda: tool_process.check_model(
                self.open_content(Kind.MODEL, item.reference, progress),
                self.open_content(Kind.LOADER, code.reference, progress) if code else None,
                self.open_content(Kind.DATASET, data.reference, progress) if data else None,
                progress=progress,
            ),
        )
        facts: dict[str, Any] = {
            "parameters": found.parameters,
            "trainable_parameters": found.trainable_parameters,
            "parameter_bytes": found.parameter_bytes,
        }
        if found.was_tried and data and code:
            facts["tried_on"] = [data.reference, code.reference]
        self._add_facts(item, facts, "" if not found.was_tried else next(iter(found.warnings), ""))
        return found

    def cached_check(self, model: Pin, dataset: Pin, loader: Pin) -> ModelCheck | None:
        """Return the result of `check_model` for exactly these files, None if there is none."""
        key = _check_key(model.sha256, dataset.sha256, loader.sha256)
        return self._kept.cached(key, ModelCheck.from_dict)

    def data_notes(self, config: JobConfig) -> tuple[str, ...]:
        """Return what a trial of a job's batch has warned of, else what its dataset's preview has.

        Empty if neither was made, or a part is unknown.
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
            found = library_files.versions(self._root, kind, name) if name in names else []
        if version is not None and name in names:
            return VersionFolder(self._root, kind, name, version)
        if not found:
            near = closest_match(name, tuple(names))
            remedy = f"Import it first, or choose one from the list of {kind.folder}."
            if near and near != name:
                remedy = f"Did you mean “{near}”?"
            elif not names:
                # A share that is not mounted looks like a data root in which nothing was imported.
                remedy = (
                    f"{self._root.name} has no {kind.folder} yet; import one, or check that the "
                    "share that should hold them is mounted."
                )
            raise BackendError(f"There is no {kind.value} “{sanitize(reference)}”.", remedy)
        return VersionFolder(self._root, kind, name, found[0])

    def _item(self, folder: VersionFolder) -> LibraryItem:
        """Read the current record of a version."""
        with as_backend_error(f"The record of the {folder.text} cannot be read"):
            self._root.files.refresh_file(folder.meta)
        return library_files.read_item(folder)

    def _hashes(self, folder: VersionFolder) -> tuple[bytes, dict[str, str]]:
        with as_backend_error(f"The list of files of the {folder.text} cannot be read"):
            self._root.files.refresh_file(folder.manifest)
        return library_files.read_hashes(folder)

    def _newest_with_hash(self, kind: Kind, name: str, sha256: str) -> LibraryItem | None:
        return self._with_hash(kind, name, sha256, most=1)

    def _with_hash(
        self, kind: Kind, name: str, sha256: str, most: int | None = None
    ) -> LibraryItem | None:
        for version in library_files.versions(self._root, kind, name)[:most]:
            with suppress(BackendError):
                item = library_files.read_item(VersionFolder(self._root, kind, name, version))
                if item.sha256 == sha256:
                    return item
        return None

    def _pinned_by(self, kind: Kind, item: LibraryItem) -> Iterator[JobView]:
        """Yield every job that uses a version, with its current state."""
        for job_id in self._rescan.job_ids():
            try:
                pins = self._jobs.read(job_id).pins
            except BackendError:
                # A job that cannot be read cannot train either.
                continue
            used = (pins[key] for key in _PINNED_AS[kind] if key in pins)
            if any((pin.name, pin.version) == (item.name, item.version) for pin in used):
                yield self._see_job(job_id)

    def _add_facts(self, item: LibraryItem, facts: dict[str, Any], warning: str) -> LibraryItem:
        merged = {**item.details, **facts, "warning": warning}
        if not warning:
            del merged["warning"]
        if merged == item.details:
            return item
        known = replace(item, facts=merged)
        # Facts are optional: if the data root is read-only, only the catalogue has them.
        with suppress(OSError, BackendError):
            folder = VersionFolder(self._root, item.kind, item.name, item.version)
            library_files.write_item(self._root, folder.path, known)
        self._catalogue.put_item(known)
        return known


def _check_key(model: str, dataset: str, loader: str) -> tuple[str, ...]:
    return "check", model, loader, dataset


def _name(reference: object) -> str:
    return str(reference).partition("@")[0]


@contextlib.contextmanager
def _named(kind: Kind, before: Sequence[LibraryItem]) -> Iterator[None]:
    """Name the part of a project that failed, and those imported ``before`` it, which stay."""
    try:
        yield
    except BackendError as error:
        kept = " and ".join(f"the {item.kind.value} {item.reference}" for item in before)
        were = f"{kept} {'was' if len(before) == 1 else 'were'} imported before"
        stay = "stays" if len(before) == 1 else "stay"
        if isinstance(error, Cancelled):
            if not before:
                raise
            raise BackendError(f"Cancelled; {were} and {stay}.") from error
        kept = f"{were[0].upper()}{were[1:]} it and {stay}." if before else ""
        raise BackendError(
            f"The {kind.value} cannot be imported: {error}", f"{error.remedy} {kept}".strip()
        ) from error


class _Stretch(Progress):
    """Turns progress of one part, in bytes, into progress of the whole."""

    def __init__(self, whole: Progress, before: int, size: int, total: int, kind: Kind) -> None:
        super().__init__()
        self._whole, self._before, self._size, self._total = whole, before, size, total
        self._kind = kind

    @property
    def is_cancelled(self) -> bool:
        return self._whole.is_cancelled

    def step(self, done: float, total: float, what: str) -> None:
        access = done / total if total else 0.0
        what = f"{self._kind.value.capitalize()}: {what}"
        self._whole.step(self._before + access * self._size, self._total, what)
