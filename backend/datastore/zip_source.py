"""A zip file that is to be imported: everything that can be wrong with it is looked for first.

Python's ``zipfile`` drops ``../`` from names without a word and knows no limit to what a file
unpacks to. Here a zip is refused, with the entry's name, before anything is written; while it is
unpacked, no entry can give more bytes than its listing said, and its checksum is compared.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import stat
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from backend.datastore.content import CHUNK_BYTES, in_words
from backend.datastore.sources import (
    Source,
    SourceFile,
    home_of,
    no_entry_file,
    path_fault,
    write_all,
)
from backend.errors import BackendError
from backend.progress import Progress
from backend.records.library import Kind
from backend.records.values import RESERVED_NAMES, printable

MAX_ENTRIES = 500_000
_BOMB_BYTES = 1_000_000_000
_BOMB_RATIO = 200
_ENCRYPTED = 0x1
_UTF8 = 0x800
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_DRIVE = re.compile(r"[A-Za-z]:")
# What Finder puts beside the files.
_LITTER = re.compile(r"(^|/)(__MACOSX/|\.DS_Store$)")
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


class ZipSource(Source):
    """A zip file that was found sound as far as its listing goes."""

    def __init__(self, path: Path, files: Sequence[SourceFile], folders: set[str]) -> None:
        super().__init__(files, folders)
        self._path = path
        self._mine = threading.local()
        self._opened: list[zipfile.ZipFile] = []

    def copy(self, file: SourceFile, target: int, on_bytes: Callable[[int], None]) -> str:
        assert isinstance(file.key, zipfile.ZipInfo)
        digest, count = hashlib.sha256(), 0
        try:
            with self._archive().open(file.key) as entry:
                while piece := entry.read(CHUNK_BYTES):
                    digest.update(piece)
                    write_all(target, piece)
                    count += len(piece)
                    on_bytes(len(piece))
        except _BROKEN as error:
            raise _damaged(self._path, f"{in_words(file.path)} is cut off or damaged") from error
        if count != file.bytes:
            raise _damaged(self._path, f"{in_words(file.path)} is shorter than it should be")
        return digest.hexdigest()

    def _archive(self) -> zipfile.ZipFile:
        """One per thread: readers of one file would wait for each other."""
        archive: zipfile.ZipFile | None = getattr(self._mine, "archive", None)
        if archive is None:
            archive = self._mine.archive = zipfile.ZipFile(self._path)
            self._opened.append(archive)
        return archive

    def close(self) -> None:
        for archive in self._opened:
            archive.close()


def look_at_zip(kind: Kind, path: Path, progress: Progress) -> ZipSource:
    """List a zip file and refuse what cannot be imported.

    Its files may stand at its top or inside one folder, whose name is then dropped.
    """
    folders, files = look_at_entries(path, progress, litter=_LITTER)
    prefix = _wrapping(kind, folders, files)
    if kind.entry_file and prefix + kind.entry_file not in files:
        raise no_entry_file(kind, path.name)
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
    )


def look_at_entries(
    path: Path, progress: Progress, litter: re.Pattern[str] | None = None
) -> tuple[set[str], dict[str, zipfile.ZipInfo]]:
    """All folders and, by path, all files of a zip whose listing is sound, but for ``litter``.

    Raises:
        BackendError: It is no whole zip, or an entry could not be stored as it is named.
    """
    progress.step(0, 0, "Looking at the zip file")
    entries = [entry for entry in _listing(path) if not (litter and litter.search(entry.filename))]
    if len(entries) > MAX_ENTRIES:
        raise BackendError(
            f"{path.name} holds {len(entries)} entries; a zip file may hold {MAX_ENTRIES}.",
            "Unpack it and import the folder.",
        )
    names = {id(entry): _checked_name(path, entry) for entry in entries}
    folders, files = _tree(path, [(names[id(entry)], entry) for entry in entries])
    _refuse_bomb(path, entries)
    _refuse_overlap(path, entries)
    return folders, files


def _listing(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except UnicodeDecodeError as error:
        shown = printable(bytes(error.object).decode("utf-8", "replace"))
        raise _refusal(path, f"“{shown}”", "has a name that is not UTF-8") from error
    except (*_BROKEN, ValueError) as error:
        raise _damaged(path, "its list of files is missing or damaged") from error
    except OSError as error:
        raise BackendError(
            f"{path} cannot be read: {error.strerror or error}.", "Nothing was imported."
        ) from error


def _checked_name(path: Path, entry: zipfile.ZipInfo) -> str:
    """The relative path of an entry, without a ``/`` at its end."""
    name = entry.orig_filename
    if not entry.flag_bits & _UTF8:
        # Without the flag zipfile reads the bytes as a DOS code page; they may be UTF-8 as well.
        try:
            name = name.encode("cp437").decode()
        except UnicodeDecodeError:
            raise _refusal(path, in_words(name), "has a name that is not UTF-8") from None
    shown = in_words(name)
    fault = path_fault(name)
    if fault:
        raise _refusal(path, shown, fault)
    if "\\" in name:
        raise _refusal(path, shown, "has a Windows path with backslashes for a name")
    if _DRIVE.match(name):
        raise _refusal(path, shown, "begins with a drive letter of Windows")
    if name.startswith("/"):
        raise _refusal(path, shown, "has an absolute path")
    parts = name.removesuffix("/").split("/")
    if ".." in parts:
        raise _refusal(path, shown, "leads out of the folder with “..”")
    if "" in parts or "." in parts:
        raise _refusal(path, shown, "has an empty part in its path")
    for part in parts:
        if part.split(".")[0].rstrip(" ").upper() in RESERVED_NAMES:
            raise _refusal(path, shown, f"has the name {part}, which Windows reserves")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        raise _refusal(path, shown, "is a link")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refusal(path, shown, "is a device, a pipe or a socket, not a file")
    if entry.flag_bits & _ENCRYPTED:
        raise BackendError(
            f"{path.name} cannot be imported: {shown} is encrypted.",
            "Unpack it with its password and import the folder.",
        )
    if entry.compress_type not in _METHODS:
        raise BackendError(
            f"{path.name} cannot be imported: {shown} is packed in a way that Python does not "
            f"know (method {entry.compress_type}).",
            "Unpack it and import the folder.",
        )
    return name.removesuffix("/")


def _tree(
    path: Path, entries: Sequence[tuple[str, zipfile.ZipInfo]]
) -> tuple[set[str], dict[str, zipfile.ZipInfo]]:
    """All folders, those that are only implied too, and the files by path."""
    files = {name: entry for name, entry in entries if not entry.is_dir()}
    folders = {name for name, entry in entries if entry.is_dir()}
    for name in list(folders) + list(files):
        parent = name.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    twice = [
        n for n, count in Counter(n for n, e in entries if not e.is_dir()).items() if count > 1
    ]
    if twice:
        raise _refusal(path, in_words(twice[0]), "is in it twice")
    both = folders & files.keys()
    if both:
        raise _refusal(path, in_words(min(both)), "is a file and a folder at once")
    return folders, files


def _wrapping(kind: Kind, folders: set[str], files: dict[str, zipfile.ZipInfo]) -> str:
    """``"digits/"`` when all is inside that one folder, else ""."""
    if kind.entry_file:
        return home_of(kind.entry_file, files)
    tops = {name.partition("/")[0] for name in (*folders, *files)}
    top = next(iter(tops)) if len(tops) == 1 else ""
    return f"{top}/" if top in folders else ""


def _refuse_bomb(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    total = sum(entry.file_size for entry in entries)
    packed = max(1, path.stat().st_size)
    if total > _BOMB_BYTES and total > _BOMB_RATIO * packed:
        largest = max(entries, key=lambda entry: entry.file_size)
        raise BackendError(
            f"{path.name} would grow from {packed / 1e6:.1f} MB to {total / 1e9:.1f} GB "
            f"({in_words(largest.filename)} is the largest), as files do that are made to fill "
            "disks.",
            "If you trust it, unpack it yourself and import the folder.",
        )


def _refuse_overlap(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Entries that share their bytes are how a small zip unpacks to any size."""
    by_place = sorted(entries, key=lambda entry: entry.header_offset)
    for entry, following in pairwise(by_place):
        if entry.header_offset + entry.compress_size > following.header_offset:
            raise _refusal(
                path, in_words(following.filename), f"lies within {in_words(entry.filename)}"
            )


def _refusal(path: Path, shown: str, fault: str) -> BackendError:
    return BackendError(
        f"{path.name} cannot be imported: {shown} {fault}.",
        "Unpack it, mend that, and import the folder; nothing was imported.",
    )


def _damaged(path: Path, how: str) -> BackendError:
    return BackendError(
        f"{path.name} is no whole zip file: {how}.",
        "Fetch or make it again; nothing was imported.",
    )
