"""A zip file or tar archive to be imported: every possible problem is checked first.

Python's ``zipfile`` silently drops ``../`` from names and has no limit for the unpacked size. Here
a zip is refused, with the entry's name, before anything is written. While it is unpacked, no entry
can produce more bytes than its listing says, and its checksum is compared. The members of a tar
archive are listed as entries of a zip, so that they pass the same checks.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import stat
import struct
import tarfile
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import IO

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access.hashes import CHUNK_BYTES, files_text
from backend.datastore.library.ignore_rules import ENVIRONMENT_MARKS, left_out_of, path_fault
from backend.datastore.library.sources import (
    ImportSource,
    SourceFile,
    home_of,
    no_entry_file,
    require_code,
    unreadable,
    write_all,
)
from backend.records.base.validation import sanitize
from backend.records.library.item import Kind
from backend.records.library.project import WHOLE_FOLDER, ProjectPart

MAX_ENTRIES = 500_000
_BOMB_BYTES = 1_000_000_000
_BOMB_RATIO = 200
_ENCRYPTED = 0x1
_UTF8 = 0x800
_DOS_FOLDER = 0x10
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_DRIVE = re.compile(r"[A-Za-z]:")
# Made on FAT, NTFS or VFAT, where a backslash separates the parts of a path.
_WINDOWS = (0, 10, 11, 14)
_UNICODE_PATH = 0x7075
_NamedEntries = list[tuple[str, zipfile.ZipInfo]]
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError,
)  # fmt: skip
_TAR = re.compile(r".+\.(tar(\.(gz|bz2|xz))?|tgz|tbz2?|txz)", re.IGNORECASE)
_UNKNOWN = re.compile(r".+\.(7z|rar|zst|lz4|lzma|cab|arj)", re.IGNORECASE)


class TarEntry(zipfile.ZipInfo):
    """A member of a tar archive in the form of an entry of a zip file."""

    def __init__(self, member: tarfile.TarInfo) -> None:
        super().__init__(member.name)
        self.member = member
        self.flag_bits, self.create_system = _UTF8, 3
        self.file_size = member.size if member.isreg() else 0
        self.header_offset = member.offset
        kind = stat.S_IFLNK if member.issym() or member.islnk() else stat.S_IFCHR
        kind = stat.S_IFREG if member.isreg() else stat.S_IFDIR if member.isdir() else kind
        self.external_attr = (kind | member.mode & 0o7777) << 16


def is_archive(path: Path) -> bool:
    """Return whether a file is unpacked by an import: a zip file, or a tar archive.

    Raises:
        BackendError: It is an archive that Python cannot unpack.
    """
    if _UNKNOWN.fullmatch(path.name):
        raise BackendError(
            f"{path.name} is an archive that cannot be unpacked here.",
            "Unpack it, for example with 7-Zip, and import the folder, or pack it as .tar.gz.",
        )
    # Many data files are zip files inside (.npz, .pt, .xlsx): the name decides.
    return path.suffix.lower() == ".zip" or _is_tar(path)


def is_packed(name: str) -> bool:
    """Return whether a file in a dataset has the name of an archive."""
    return bool(name.lower().endswith((".zip", ".tar.gz")) or _UNKNOWN.fullmatch(name))


def _is_tar(path: Path) -> bool:
    """Return whether a file is a tar archive; ``.gz`` alone is often one table."""
    is_compressed = path.suffix.lower() in (".gz", ".bz2", ".xz")
    return bool(_TAR.fullmatch(path.name)) or (is_compressed and tarfile.is_tarfile(path))


class ZipSource(ImportSource):
    """A zip file or tar archive whose listing is valid."""

    def __init__(
        self,
        path: Path,
        files: Sequence[SourceFile],
        folders: set[str],
        excluded_paths: Iterable[str] = (),
    ) -> None:
        super().__init__(files, folders, excluded_paths)
        self._path = path
        self._thread_local = threading.local()
        self._open_archives: list[zipfile.ZipFile | tarfile.TarFile] = []
        # Of a compressed archive, each step back would unpack it from its start.
        self.is_sequential = _is_tar(path)

    def copy(self, file: SourceFile, target: int, on_bytes: Callable[[int], None]) -> str:
        digest, count = hashlib.sha256(), 0
        try:
            with self._open(file) as entry:
                while chunk := self._read(entry, file):
                    digest.update(chunk)
                    write_all(target, chunk)
                    count += len(chunk)
                    on_bytes(len(chunk))
        except _BROKEN as error:
            raise _damage_error(
                self._path, f"{files_text(file.path)} is cut off or damaged"
            ) from error
        if count != file.bytes:
            raise _damage_error(self._path, f"{files_text(file.path)} is shorter than it should be")
        return digest.hexdigest()

    def _read(self, entry: IO[bytes], file: SourceFile) -> bytes:
        try:
            return entry.read(CHUNK_BYTES)
        except OSError as error:
            raise unreadable(file, error) from error

    def _open(self, file: SourceFile) -> IO[bytes]:
        """Open an entry in an archive for each thread: readers of one would wait for others."""
        archive: zipfile.ZipFile | tarfile.TarFile | None = getattr(
            self._thread_local, "archive", None
        )
        is_tar = isinstance(file.key, TarEntry)
        if archive is None:
            opener = tarfile.open if is_tar else zipfile.ZipFile
            archive = self._thread_local.archive = opener(self._path)
            self._open_archives.append(archive)
        if isinstance(archive, tarfile.TarFile):
            assert isinstance(file.key, TarEntry)
            member = archive.extractfile(file.key.member)
            assert member is not None
            return member
        assert isinstance(file.key, zipfile.ZipInfo)
        return archive.open(file.key)

    def close(self) -> None:
        for archive in self._open_archives:
            archive.close()


def scan_zip(
    kind: Kind, path: Path, progress: Progress, part: ProjectPart = WHOLE_FOLDER
) -> ZipSource:
    """List a zip file, or a part of it, and refuse what cannot be imported.

    The files of a whole zip may be at its top or inside one folder, whose name is then dropped.
    """
    folders, files, excluded_paths = scan_entries(path, progress, kind)
    if part == WHOLE_FOLDER:
        prefix = _wrapping(kind, folders, files)
    else:
        prefix = part.path_of("")
        files = {name: entry for name, entry in files.items() if _is_in_part(part, name)}
        folders, excluded_paths = (
            {n for n in names if _is_in_part(part, n)} for names in (folders, excluded_paths)
        )
    if kind.entry_file and prefix + kind.entry_file not in files:
        raise no_entry_file(kind, path.name)
    require_code(kind, path.name, files)
    return ZipSource(
        path,
        [
            SourceFile(
                name.removeprefix(prefix),
                entry.file_size,
                entry,
                bool(entry.external_attr >> 16 & stat.S_IXUSR),
            )
            for name, entry in files.items()
        ],
        {name.removeprefix(prefix) for name in folders if name.startswith(prefix)},
        {name.removeprefix(prefix) for name in excluded_paths},
    )


def entry_names(path: Path) -> list[str]:
    """Return the path of each entry as written, folders with ``/`` at the end; unchecked."""
    return [name for name, _ in _names(_listing(path))]


def scan_entries(
    path: Path, progress: Progress, kind: Kind | None = None
) -> tuple[set[str], dict[str, zipfile.ZipInfo], set[str]]:
    """List a zip file whose listing is valid.

    Args:
        kind: What is imported; litter is left out of it. None: nothing is left out.

    Returns:
        All folders; all files by path; the files and folders that are left out.

    Raises:
        BackendError: It is not a complete zip, or an entry could not be stored under its name.
    """
    progress.step(0, 0, "Checking the archive")
    named_entries = _names(_listing(path))
    named_entries, excluded_paths = (
        _remove_litter(kind, named_entries) if kind else (named_entries, set())
    )
    if len(named_entries) > MAX_ENTRIES:
        raise BackendError(
            f"{path.name} has {len(named_entries)} entries; the limit for an archive is "
            f"{MAX_ENTRIES}.",
            "Unpack it and import the folder.",
        )
    for name, entry in named_entries:
        _check_entry(path, name, entry)
    folders, files = _tree(path, named_entries)
    entries = [entry for _, entry in named_entries]
    _refuse_bomb(path, entries)
    _refuse_overlap(path, entries)
    return folders, files, excluded_paths


def _remove_litter(kind: Kind, named_entries: _NamedEntries) -> tuple[_NamedEntries, set[str]]:
    """Remove the litter; a folder that contains all the rest is the source and never litter."""
    excluded_paths: set[str] = set()
    for rule_kind in dict.fromkeys((Kind.DATASET, kind)):
        tops = {name.partition("/")[0] for name, _ in named_entries}
        top = f"{min(tops)}/" if rule_kind is not Kind.DATASET and len(tops) == 1 else ""
        inner_names = [name.removeprefix(top).rstrip("/") for name, _ in named_entries]
        environments = frozenset(
            _environments(inner_names) if rule_kind is not Kind.DATASET else ()
        )
        kept_entries = []
        for name, entry in zip(inner_names, named_entries, strict=True):
            litter = left_out_of(rule_kind, name, environments)
            if litter:
                excluded_paths.add(top + litter)
            else:
                kept_entries.append(entry)
        named_entries = kept_entries
    return named_entries, {
        path for path in excluded_paths if excluded_paths.isdisjoint(_parents(path))
    }


def _is_in_part(part: ProjectPart, path: str) -> bool:
    top = part.path_of("")
    return path.startswith(top) and part.includes(path.removeprefix(top))


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _environments(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        parts = path.split("/")
        for count, part in enumerate(parts):
            if count and part in ENVIRONMENT_MARKS:
                yield "/".join(parts[:count])


def _listing(path: Path) -> list[zipfile.ZipInfo]:
    try:
        if _is_tar(path):
            with tarfile.open(path) as archive:
                entries = [TarEntry(member) for member in islice(archive, MAX_ENTRIES + 1)]
                _require_end(archive)
                return [*entries]
        with zipfile.ZipFile(path) as zip_file:
            return zip_file.infolist()
    except UnicodeDecodeError as error:
        label = sanitize(bytes(error.object).decode("utf-8", "replace"))
        raise _refusal(path, f"“{label}”", "has a name that is not UTF-8") from error
    except (*_BROKEN, ValueError) as error:
        raise _damage_error(path, "its list of files is missing or damaged") from error
    except OSError as error:
        raise BackendError(
            f"{path} cannot be read: {error.strerror or error}.", "Nothing was imported."
        ) from error


def _require_end(archive: tarfile.TarFile) -> None:
    """Refuse a tar archive that is cut off between two members, which tarfile accepts."""
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no end")


def _names(entries: Sequence[zipfile.ZipInfo]) -> _NamedEntries:
    """Return the entries with their paths, of folders with ``/`` at the end; without the top.

    Programs mark a folder by a separator at its end, by a Unix mode, by a DOS attribute, or not at
    all: an empty entry with others below it is a folder, whatever it says.
    """
    raw_names = [_raw_name(entry) for entry in entries]
    # A whole archive without a slash was made with backslashes, whatever system it names.
    is_windows = not any("/" in name for name in raw_names)
    marked_entries = []
    for name, entry in zip(raw_names, entries, strict=True):
        if is_windows or entry.create_system in _WINDOWS:
            name = name.replace("\\", "/")
        parts = name.split("/")
        path_parts = [part for part in parts if part not in ("", ".")]
        if name.startswith("/"):
            path_parts.insert(0, "")
        if path_parts:
            marked_entries.append(
                ("/".join(path_parts), parts[-1] in ("", ".") or _is_marked_folder(entry), entry)
            )
    folder_names = {name for name, is_folder, _ in marked_entries if is_folder}
    folder_names.update(parent for name, _, _ in marked_entries for parent in _parents(name))
    return [
        (f"{name}/" if is_folder or (name in folder_names and not entry.file_size) else name, entry)
        for name, is_folder, entry in marked_entries
    ]


def _is_marked_folder(entry: zipfile.ZipInfo) -> bool:
    mode = entry.external_attr >> 16
    is_marked = bool(entry.external_attr & _DOS_FOLDER) and not stat.S_IFMT(mode)
    return stat.S_ISDIR(mode) or (is_marked and not entry.file_size)


def _raw_name(entry: zipfile.ZipInfo) -> str:
    name = entry.orig_filename
    if entry.flag_bits & _UTF8:
        return name
    # Without the flag zipfile decodes the bytes as a DOS code page; they may be UTF-8.
    raw = name.encode("cp437")
    return _unicode_path(raw, entry.extra) or raw.decode("utf-8", "surrogateescape")


def _unicode_path(raw: bytes, extra_fields: bytes) -> str:
    """Return the name in Info-ZIP's field, if that was made for the name ``raw``; or ""."""
    while len(extra_fields) >= 4:
        kind, size = struct.unpack("<HH", extra_fields[:4])
        field, extra_fields = extra_fields[4 : 4 + size], extra_fields[4 + size :]
        if kind == _UNICODE_PATH and field[:5] == struct.pack("<BI", 1, zlib.crc32(raw)):
            return field[5:].decode("utf-8", "surrogateescape")
    return ""


def _check_entry(path: Path, name: str, entry: zipfile.ZipInfo) -> None:
    """Refuse an entry that cannot be stored under its name."""
    label = files_text(name)
    reason = path_fault(name)
    if reason:
        raise _refusal(path, label, reason)
    if "\\" in name:
        raise _refusal(path, label, "has a Windows path with backslashes as its name")
    if _DRIVE.match(name):
        raise _refusal(path, label, "begins with a Windows drive letter")
    if name.startswith("/"):
        raise _refusal(path, label, "has an absolute path")
    if ".." in name.split("/"):
        raise _refusal(path, label, "leads out of the folder with “..”")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        raise _refusal(path, label, "is a link", "Unpack it and import the folder")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refusal(path, label, "is a device, a pipe or a socket, not a file")
    if entry.flag_bits & _ENCRYPTED:
        raise BackendError(
            f"{path.name} cannot be imported: {label} is encrypted.",
            "Unpack it with its password and import the folder.",
        )
    if entry.compress_type not in _METHODS:
        raise BackendError(
            f"{path.name} cannot be imported: {label} is compressed in a way that Python does "
            f"not support (method {entry.compress_type}).",
            "Unpack it and import the folder.",
        )


def _tree(path: Path, named_entries: _NamedEntries) -> tuple[set[str], dict[str, zipfile.ZipInfo]]:
    """Return all folders, implied ones included, and the files by path."""
    files = {name: entry for name, entry in named_entries if not name.endswith("/")}
    folders = {name[:-1] for name, _ in named_entries if name.endswith("/")}
    for name in list(folders) + list(files):
        for parent in _parents(name):
            if parent in folders:
                break
            folders.add(parent)
    counts = Counter(name for name, _ in named_entries if not name.endswith("/"))
    duplicate_names = [name for name, count in counts.items() if count > 1]
    if duplicate_names:
        raise _refusal(path, files_text(duplicate_names[0]), "is in it twice")
    clashing_names = folders & files.keys()
    if clashing_names:
        raise _refusal(path, files_text(min(clashing_names)), "is a file and a folder at once")
    return folders, files


def _wrapping(kind: Kind, folders: set[str], files: dict[str, zipfile.ZipInfo]) -> str:
    """Return ``"digits/"`` if everything is inside that one folder, or ""."""
    if kind.entry_file:
        return home_of(kind.entry_file, files)
    tops = {name.partition("/")[0] for name in (*folders, *files)}
    top = next(iter(tops)) if len(tops) == 1 else ""
    return f"{top}/" if top in folders else ""


def _refuse_bomb(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    total_bytes = sum(entry.file_size for entry in entries)
    packed_bytes = max(1, path.stat().st_size)
    if total_bytes > _BOMB_BYTES and total_bytes > _BOMB_RATIO * packed_bytes:
        largest_entry = max(entries, key=lambda entry: entry.file_size)
        raise BackendError(
            f"{path.name} would grow from {packed_bytes / 1e6:.1f} MB to {total_bytes / 1e9:.1f} "
            f"GB ({files_text(largest_entry.filename)} is the largest), which is typical of files "
            "made to fill disks.",
            "If you trust it, unpack it yourself and import the folder.",
        )


def _refuse_overlap(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse entries that share bytes, with which a small zip can unpack to any size."""
    sorted_entries = sorted(entries, key=lambda entry: entry.header_offset)
    for entry, next_entry in pairwise(sorted_entries):
        if entry.header_offset + entry.compress_size > next_entry.header_offset:
            raise _refusal(
                path, files_text(next_entry.filename), f"overlaps {files_text(entry.filename)}"
            )


def _refusal(
    path: Path,
    label: str,
    reason: str,
    remedy: str = "Unpack it, correct that, and import the folder",
) -> BackendError:
    return BackendError(
        f"{path.name} cannot be imported: {label} {reason}.", f"{remedy}; nothing was imported."
    )


def _damage_error(path: Path, reason: str) -> BackendError:
    return BackendError(
        f"{path.name} is not a complete {'tar archive' if _is_tar(path) else 'zip file'}: "
        f"{reason}.",
        "Download or create it again; nothing was imported.",
    )
