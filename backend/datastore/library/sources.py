"""Sources of an import, checked completely before the first byte is written.

A source lists its files and refuses, with the name of the entry, whatever could not be stored, read
back or shown on every computer that uses the data root. Zip files have their own module
(`zip_source`); this one has folders and single files of code.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access.hashes import CHUNK_BYTES, files_text
from backend.datastore.library.ignore_rules import ENVIRONMENT_MARKS, is_litter, path_fault
from backend.records.library.item import Kind
from backend.records.library.project import WHOLE_FOLDER, ProjectPart

_CHECK_EVERY = 2000
# Links to folders that contain more links to folders can lead to any number of files.
_MOST_LINKS = 100_000
# For smaller files a separate thread costs more than it saves.
_LARGE_BYTES = 8 * CHUNK_BYTES


@dataclass(frozen=True)
class SourceFile:
    """A file to be imported as ``path``; ``key`` is its place in the source."""

    path: str
    bytes: int
    key: object
    is_executable: bool = False


class ImportSource(ABC):
    """The files that can be imported, and what is left out.

    Attributes:
        is_sequential: They are copied one after the other, in their order.
    """

    is_sequential = False

    def __init__(
        self,
        files: Sequence[SourceFile],
        folders: Iterable[str],
        excluded_paths: Iterable[str] = (),
    ) -> None:
        self.files = files
        self.excluded_paths = sorted(excluded_paths)
        self.folders = sorted(folders)
        """Every folder that is needed, parents first."""
        self.bytes = sum(file.bytes for file in files)

    @abstractmethod
    def copy(self, file: SourceFile, target: int, on_bytes: Callable[[int], None]) -> str:
        """Write the file to a descriptor and return its SHA-256.

        ``on_bytes`` is called for every chunk, on any thread; an exception in it ends the copy.
        """

    def close(self) -> None:  # noqa: B027
        """Close what is open; only some sources need it."""


class FolderSource(ImportSource):
    """A folder, or one file of code."""

    def copy(self, file: SourceFile, target: int, on_bytes: Callable[[int], None]) -> str:
        assert isinstance(file.key, str)
        try:
            origin = os.open(file.key, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise unreadable(file, error) from error
        try:
            earlier_status = os.fstat(origin)
            if file.bytes >= _LARGE_BYTES and hasattr(os, "sendfile"):
                digest, count = _copy_beside_hashing(origin, target, file.bytes, on_bytes)
            else:
                digest, count = _copy_plainly(origin, target, file, on_bytes)
            later_status = os.fstat(origin)
            if (count, later_status.st_size, later_status.st_mtime_ns) != (
                file.bytes,
                file.bytes,
                earlier_status.st_mtime_ns,
            ):
                raise BackendError(
                    f"{files_text(file.path)} was written to while it was imported.",
                    "Import again when no program writes to the folder.",
                )
            return digest
        finally:
            os.close(origin)


def unreadable(file: SourceFile, error: OSError) -> BackendError:
    return BackendError(
        f"{files_text(file.path)} cannot be read: {error.strerror or error}.",
        "Nothing was imported.",
    )


def _copy_plainly(
    origin: int, target: int, file: SourceFile, on_bytes: Callable[[int], None]
) -> tuple[str, int]:
    digest, copied_bytes = hashlib.sha256(), 0
    # At most the size that it had when it was listed: a log may grow faster than it is copied.
    while copied_bytes < file.bytes:
        try:
            chunk = os.read(origin, min(CHUNK_BYTES, file.bytes - copied_bytes))
        except OSError as error:
            raise unreadable(file, error) from error
        if not chunk:
            break
        digest.update(chunk)
        write_all(target, chunk)
        copied_bytes += len(chunk)
        on_bytes(len(chunk))
    return digest.hexdigest(), copied_bytes


def _copy_beside_hashing(
    origin: int, target: int, size: int, on_bytes: Callable[[int], None]
) -> tuple[str, int]:
    """Let the kernel copy while a thread hashes: both read the same pages of its cache."""
    digest, hashed_bytes = hashlib.sha256(), 0
    stop_event = threading.Event()

    def hash_all() -> None:
        nonlocal hashed_bytes
        buffer = memoryview(bytearray(CHUNK_BYTES))
        while hashed_bytes < size and not stop_event.is_set():
            count = os.preadv(origin, [buffer[: size - hashed_bytes]], hashed_bytes)
            if not count:
                return
            digest.update(buffer[:count])
            hashed_bytes += count

    with ThreadPoolExecutor(1) as pool:
        hashing = pool.submit(hash_all)
        copied_bytes = 0
        try:
            while copied_bytes < size:
                count = os.sendfile(
                    target, origin, copied_bytes, min(_LARGE_BYTES, size - copied_bytes)
                )
                if not count:
                    break
                copied_bytes += count
                on_bytes(count)
            # Start writing to the disk while the hash is computed.
            os.fsync(target)
            hashing.result()
        except BaseException:
            stop_event.set()
            raise
    return digest.hexdigest(), min(copied_bytes, hashed_bytes)


def write_all(target: int, content: bytes) -> None:
    """Write everything; `os.write` may write only a part, for example on a nearly full disk."""
    remaining_bytes = memoryview(content)
    while remaining_bytes:
        remaining_bytes = remaining_bytes[os.write(target, remaining_bytes) :]


def scan_folder(
    kind: Kind, path: Path, progress: Progress, part: ProjectPart = WHOLE_FOLDER
) -> FolderSource:
    """List a folder, or a part of it, and refuse what cannot be imported before it is written.

    A link to a file or folder within the folder is imported as a copy: not every share has links.
    A link to a folder that contains it is left out.
    """
    scan = _Scan(kind, path.resolve(), progress, part)
    scan.run()
    if not kind.entry_file:
        require_code(kind, f"The folder {path / part.folder}", [file.path for file in scan.files])
        return FolderSource(scan.files, scan.folders, scan.excluded_paths)
    home = home_of(kind.entry_file, [file.path for file in scan.files])
    files = [replace(file, path=file.path.removeprefix(home)) for file in scan.files]
    if kind.entry_file not in {file.path for file in files}:
        raise no_entry_file(kind, f"The folder {path / part.folder}")
    folders = [name.removeprefix(home) for name in scan.folders if name.startswith(home)]
    excluded_paths = [path.removeprefix(home) for path in scan.excluded_paths]
    return FolderSource(files, filter(None, folders), excluded_paths)


def home_of(entry_file: str, paths: Collection[str]) -> str:
    """Return ``"project/src/"`` if all files are in it, with the entry file at its top, or ""."""
    homes = (path.removesuffix(entry_file) for path in paths if Path(path).name == entry_file)
    home = min(homes, key=len, default="")
    return home if all(path.startswith(home) for path in paths) else ""


def inspect_file(kind: Kind, path: Path) -> FolderSource:
    """Treat one file of code or data as a folder that contains only it."""
    if kind.is_code and path.suffix != ".py":
        raise BackendError(
            f"{path} is neither a folder nor an archive nor Python code.",
            "Choose a folder, a .zip or .tar.gz file, or a .py file.",
        )
    reason = path_fault(path.name)
    if reason:
        raise _refusal(path.name, reason, "Rename it")
    if not os.access(path, os.R_OK):
        raise BackendError(f"{path} cannot be read.", "Ask its owner for read permission.")
    name = kind.entry_file or path.name
    return FolderSource([SourceFile(name, path.stat().st_size, str(path))], ())


def require_code(kind: Kind, label: str, paths: Collection[str]) -> None:
    """Check that a script has a file that can be run.

    Raises:
        BackendError: It has none.
    """
    if kind is Kind.SCRIPT and not any(path.endswith((".py", ".sh")) for path in paths):
        raise BackendError(
            f"{label} has no Python file and no shell script.",
            "Choose the folder of the program that trains.",
        )


def no_entry_file(kind: Kind, label: str) -> BackendError:
    return BackendError(
        f"{label} has no {kind.entry_file}, which every {kind.value} needs at its top.",
        f"Choose the folder or zip file that contains {kind.entry_file}.",
    )


class _Scan:
    """Collects the files of a part of ``top``."""

    def __init__(self, kind: Kind, top: Path, progress: Progress, part: ProjectPart) -> None:
        self._kind = kind
        start = (top / part.folder).resolve()
        # The folder of the data may be a link to a large disk, as a chosen folder may.
        self._top = top if start.is_relative_to(top) else start
        self._part = part
        self._progress = progress
        # A folder, its path in the import, and the folders of the links that led to it.
        self._pending_folders: list[tuple[str, str, tuple[str, ...]]] = [(os.fspath(start), "", ())]
        self._links = 0
        self.files: list[SourceFile] = []
        self.folders: list[str] = []
        self.excluded_paths: list[str] = []

    def run(self) -> None:
        while self._pending_folders:
            folder, path, links = self._pending_folders.pop()
            try:
                self._enter(folder, path, (*links, folder))
            except OSError as error:
                raise BackendError(
                    f"The folder {files_text(path or folder)} cannot be read: "
                    f"{error.strerror or error}.",
                    "Ask its owner for read permission, or remove it.",
                ) from error

    def _enter(self, folder: str, path: str, links: tuple[str, ...]) -> None:
        with os.scandir(folder) as iterator:
            entries = list(iterator)
        if path:
            if self._kind.is_code and any(e.name in ENVIRONMENT_MARKS for e in entries):
                self.excluded_paths.append(path)
                return
            self.folders.append(path)
        for entry in entries:
            self._add_entry(entry, f"{path}/{entry.name}" if path else entry.name, links)

    def _add_entry(self, entry: os.DirEntry[str], path: str, links: tuple[str, ...]) -> None:
        if not self._part.includes(path):
            return
        if is_litter(self._kind, entry.name):
            self.excluded_paths.append(path)
            return
        reason = path_fault(entry.name)
        if reason:
            raise _refusal(path, reason, "Rename it")
        if entry.is_dir(follow_symlinks=False):
            self._pending_folders.append((entry.path, path, links[:-1]))
            return
        origin = entry.path
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            origin = self._resolve_link(entry, path)
            status = os.stat(origin)
        if stat.S_ISDIR(status.st_mode):
            self._follow(origin, path, links)
            return
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(path, f"is {_file_type_label(status.st_mode)}, not a file", "Remove it")
        if not os.access(origin, os.R_OK):
            raise _refusal(path, "cannot be read", "Ask its owner for read permission")
        self.files.append(
            SourceFile(path, status.st_size, origin, bool(status.st_mode & stat.S_IXUSR))
        )
        if len(self.files) % _CHECK_EVERY == 0:
            self._progress.step(0, 0, f"Checking {len(self.files)} files")

    def _resolve_link(self, link: os.DirEntry[str], path: str) -> str:
        try:
            target = Path(link.path).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise _refusal(path, "is a broken link", "Remove the link") from error
        if not target.is_relative_to(self._top):
            raise _refusal(
                path, f"is a link out of the folder, to {target}", "Replace it with the file itself"
            )
        return str(target)

    def _follow(self, target: str, path: str, links: tuple[str, ...]) -> None:
        """Continue in the folder behind a link, unless that would never end."""
        if any(Path(link).is_relative_to(target) for link in links):
            self.excluded_paths.append(path)
            return
        self._links += 1
        if self._links > _MOST_LINKS:
            raise _refusal(path, "is one of more than 100,000 links to folders", "Remove links")
        self._pending_folders.append((target, path, links))


def _refusal(path: str, reason: str, remedy: str) -> BackendError:
    return BackendError(f"{files_text(path)} {reason}.", f"{remedy}; nothing was imported.")


def _file_type_label(mode: int) -> str:
    if stat.S_ISSOCK(mode):
        return "a socket"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device" if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else "something unknown"
