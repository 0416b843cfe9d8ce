"""Import a folder, an archive or one file into the data root, completely or not at all.

First everything is checked, and refused if needed. Then it is copied to a hidden folder, hashed
during the copy, flushed to the disk, and renamed to its version. If an import is killed, a
hidden folder remains that no list shows and that the next import of that name removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from backend.base.cores import usable_cores
from backend.base.errors import BackendError, Cancelled, as_backend_error
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.base.room import LEAST_FILES, disk_space, free_files_message
from backend.datastore.access.hashes import MANIFEST, files_text, fingerprint, manifest
from backend.datastore.access.root_access import OpenRoot
from backend.datastore.library import library_files
from backend.datastore.library.library_files import VersionFolder, kind_folder
from backend.datastore.library.sources import ImportSource, SourceFile, inspect_file, scan_folder
from backend.datastore.library.staging import make_staging, stagings, sweep
from backend.datastore.library.zip_source import is_archive, is_packed, scan_zip
from backend.records.base import timestamps
from backend.records.base.access_modes import create, make_folder
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.local_files import remove_tree
from backend.records.base.validation import name_error
from backend.records.library.item import Kind, LibraryItem, import_details
from backend.records.library.project import WHOLE_FOLDER, ProjectPart

_SPARE_BYTES = 64_000_000
_POLL_S = 0.1
_MANY_FILES = 64
# Errors of shares for a name that they cannot store: too long, with ":" or "?", a Windows name.
_NAME_ERRORS = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST, errno.ENOENT)


def import_version(
    root: OpenRoot,
    kind: Kind,
    source: Path,
    name: str,
    progress: Progress,
    find_same: Callable[[str], LibraryItem | None] = lambda sha256: None,
) -> tuple[LibraryItem, str]:
    """Import ``source`` as the next version of ``name``.

    Args:
        find_same: Called with the hash after copying; the version it returns is used instead.

    Returns:
        The new version and the fingerprint of its files.

    Raises:
        BackendError: It cannot be imported; nothing was changed.
        Cancelled: The user cancelled; nothing was changed.
    """
    message = name_error(name)
    if message:
        raise BackendError(message)
    content = inspect(kind, source, progress)
    return import_source(root, kind, content, name, origin(source), progress, find_same)


def import_source(
    root: OpenRoot,
    kind: Kind,
    content: ImportSource,
    name: str,
    origin: str,
    progress: Progress,
    find_same: Callable[[str], LibraryItem | None] = lambda sha256: None,
) -> tuple[LibraryItem, str]:
    """Import a source that was checked already; ``origin`` is its name for users."""
    message = name_error(name)
    if message:
        raise BackendError(message)
    folder = kind_folder(root, kind)
    for earlier_staging in stagings(folder):
        if earlier_staging.name == name and earlier_staging.is_left_over:
            sweep(earlier_staging)
    with _data_root_errors(root), contextlib.closing(content):
        _refuse_full_disk(root, content.bytes, len(content.files) + len(content.folders))
        staging = make_staging(folder, name)
        try:
            copy = _Copy(content, staging / kind.content, root, progress)
            hashes = copy.run()
            progress.step(content.bytes, content.bytes, "Writing to the disk")
            listing = manifest(hashes)
            replace_bytes(staging / MANIFEST, listing)
            if copy.syncs_at_end:
                sync_file_system(staging)
            for part in (staging / kind.content, staging):
                library_files.sync_folder(part)
            item = LibraryItem(
                kind=kind,
                name=name,
                version=0,
                sha256=hashlib.sha256(listing).hexdigest(),
                bytes=content.bytes,
                files=len(content.files),
                created=timestamps.utc_now("seconds"),
                source=origin,
                details=import_details(
                    content.excluded_paths,
                    [] if kind.is_code else [f.path for f in content.files if is_packed(f.path)],
                ),
            )
            existing_item = find_same(item.sha256)
            if existing_item is not None:
                remove_tree(staging)
                return existing_item, ""
            root.files.publish(staging, progress)
            # From here on it cannot be cancelled: the version is about to appear.
            progress.step(content.bytes, content.bytes, "Writing to the disk")
            item = library_files.claim(staging, root, item)
        except BaseException:
            root.files.remove_tree(staging)
            raise
    return item, fingerprint(VersionFolder(root, kind, name, item.version).content)


def origin(source: Path) -> str:
    """Return a path as a record stores it, whatever bytes it contains."""
    return os.fsencode(source.absolute()).decode("utf-8", "replace")


def inspect(
    kind: Kind, source: Path, progress: Progress, part: ProjectPart = WHOLE_FOLDER
) -> ImportSource:
    """List what is to be imported, and refuse what cannot be; nothing is written."""
    with as_backend_error(f"{source} cannot be read"):
        mode = source.stat().st_mode if source.exists() else 0
    if stat.S_ISDIR(mode):
        return scan_folder(kind, source, progress, part)
    if not mode:
        raise BackendError(f"{source} does not exist.", "Choose a folder or a file.")
    if not stat.S_ISREG(mode):
        raise BackendError(f"{source} is not a file or folder.", "Choose a folder or a file.")
    with as_backend_error(f"{source} cannot be read"):
        is_packed_source = is_archive(source)
    if is_packed_source:
        return scan_zip(kind, source, progress, part)
    return inspect_file(kind, source)


class _Copy:
    """Copies all files of a source to a folder, several at a time."""

    def __init__(
        self, source: ImportSource, target: Path, root: OpenRoot, progress: Progress
    ) -> None:
        self._source = source
        self._target = target
        self._root = root
        self._progress = progress
        self._stop_event = threading.Event()
        self._copied_bytes = 0
        # One flush of the whole disk also waits for other programs' data, and is still much
        # faster than one for each of thousands of files.
        self.syncs_at_end = sys.platform == "linux" and len(source.files) > _MANY_FILES
        self._lock = threading.Lock()

    def run(self) -> dict[str, str]:
        """Copy the files and return each file's hash by path."""
        make_folder(self._target, exist_ok=True)
        for folder in self._source.folders:
            with _data_root_errors(self._root, folder):
                make_folder(self._target / folder, exist_ok=True)
        workers = 1 if self._source.is_sequential else min(4, usable_cores())
        pending_files = iter(self._source.files)
        with ThreadPoolExecutor(workers) as pool:
            tasks = [pool.submit(self._copy, pending_files) for _ in range(workers)]
            try:
                self._watch(tasks)
            except BaseException:
                self._stop_event.set()
                raise
        hashes: dict[str, str] = {}
        for task in tasks:
            hashes.update(task.result())
        return hashes

    def _watch(self, tasks: Sequence[Future[dict[str, str]]]) -> None:
        """Report progress until all is done; the first failure ends the others."""
        running_tasks: set[Future[dict[str, str]]] = set(tasks)
        while running_tasks:
            finished_tasks, running_tasks = wait(running_tasks, _POLL_S, FIRST_EXCEPTION)
            for task in finished_tasks:
                task.result()
            self._progress.step(self._copied_bytes, self._source.bytes, "Copying files")

    def _copy(self, pending_files: Iterator[SourceFile]) -> dict[str, str]:
        """Copy files that no other thread has taken yet."""
        hashes = {}
        for file in pending_files:
            with _data_root_errors(self._root, file.path):
                hashes[file.path] = self._copy_one(file, self._target / file.path)
        return hashes

    def _copy_one(self, file: SourceFile, target: Path) -> str:
        # Read-only: see `records.base.read_only`.
        descriptor = create(target, is_executable=file.is_executable, is_read_only=True)
        try:
            digest = self._source.copy(file, descriptor, self._count)
            if not self.syncs_at_end:
                os.fsync(descriptor)
            return digest
        finally:
            os.close(descriptor)

    def _count(self, count: int) -> None:
        if self._stop_event.is_set():
            raise Cancelled
        with self._lock:
            self._copied_bytes += count


def sync_file_system(path: Path) -> None:
    """Flush everything that was written to the file system of ``path``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _data_root_errors(root: OpenRoot, path: str = "") -> Iterator[None]:
    """Report failures of the data root, with the file or folder of the import."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            location = f" at {files_text(path)}" if path else ""
            raise BackendError(
                f"{_full_disk_message(root, error)}{location}; nothing was imported.",
                "Free some space in the data root, then import again.",
            ) from error
        reason = error.strerror or str(error)
        if error.errno == errno.EEXIST:
            reason = "another file has the same name on a disk that ignores upper case"
        subject = f"{files_text(path)} cannot be written to the" if path else "The"
        predicate = "" if path else " cannot be written to"
        raise BackendError(
            f"{subject} data root {root.name}{predicate}: {reason}.",
            "Rename, shorten or remove it; nothing was imported."
            if path and error.errno in _NAME_ERRORS
            else "Nothing was imported; check that the data root is mounted and writable.",
        ) from error


def _full_disk_message(root: OpenRoot, error: OSError) -> str:
    if error.errno == errno.EDQUOT:
        return f"Your disk quota on the data root {root.name} was used up"
    with suppress(OSError):
        if disk_space(root.path).lacks_files(1):
            return f"The data root {root.name} has no inode left for another file"
    return f"The disk of the data root {root.name} became full"


def _refuse_full_disk(root: OpenRoot, needed_bytes: int, files: int) -> None:
    capacity = disk_space(root.path)
    free_bytes = capacity.free_bytes
    if capacity.free_files is not None and capacity.lacks_files(files + LEAST_FILES):
        raise BackendError(
            f"It has {files} file{'' if files == 1 else 's'}, and the data root {root.name} "
            f"{free_files_message(capacity.free_files)}.",
            "Remove files from it, or pack small files into larger ones; nothing was imported.",
        )
    if free_bytes < needed_bytes + _SPARE_BYTES:
        raise BackendError(
            f"It needs {needed_bytes / 1e9:.2f} GB, and the data root {root.name} has "
            f"{free_bytes / 1e9:.2f} GB left.",
            "Free some space in the data root; nothing was imported.",
        )
