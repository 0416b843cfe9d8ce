"""Datasets, models and loaders as files in the data root.

A version appears and disappears by one rename, so two desktops need not know of each other: the
number of a new version belongs to the desktop that renames its folder first. A number is never
reused: ``v2.removed`` replaces ``v2``, because a job may be pinned to it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.datastore.access.hashes import MANIFEST, files_text, read_manifest
from backend.datastore.access.root_access import OpenRoot, move_into
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.library.item import FileEntry, Kind, LibraryItem

META = "meta.json"
_SCHEMA = 1
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")
_REMOVED = re.compile(r"v([1-9][0-9]{0,8})\.removed")
_TEXT_BYTES = 1_000_000
_EXISTS_ERRORS = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})


@dataclass(frozen=True)
class VersionFolder:
    """One version's folder. Only this class knows the names in it."""

    root: OpenRoot
    kind: Kind
    name: str
    version: int

    @property
    def path(self) -> Path:
        return kind_folder(self.root, self.kind) / self.name / f"v{self.version}"

    @property
    def content(self) -> Path:
        return self.path / self.kind.content

    @property
    def meta(self) -> Path:
        return self.path / META

    @property
    def manifest(self) -> Path:
        return self.path / MANIFEST

    @property
    def removed(self) -> Path:
        return self.path.with_name(self.path.name + ".removed")

    @property
    def text(self) -> str:
        return f"{self.kind.value} {self.name}@{self.version}"


def kind_folder(root: DataRoot, kind: Kind) -> Path:
    return root.path / kind.folder


def names(root: DataRoot, kind: Kind) -> list[str]:
    """Return every name that has or had a version.

    Raises:
        FileNotFoundError: There is no folder for this kind: nothing was imported yet, or the data
            root is not mounted.
    """
    with os.scandir(kind_folder(root, kind)) as entries:
        return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())


def versions(root: DataRoot, kind: Kind, name: str) -> list[int]:
    """Return the numbers of the existing versions, newest first."""
    return _numbers(root, kind, name, _VERSION)


def next_version(root: DataRoot, kind: Kind, name: str) -> int:
    used_numbers = versions(root, kind, name) + _numbers(root, kind, name, _REMOVED)
    return max(used_numbers, default=0) + 1


def _numbers(root: DataRoot, kind: Kind, name: str, pattern: re.Pattern[str]) -> list[int]:
    try:
        names = os.listdir(kind_folder(root, kind) / name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(m[1]) for m in map(pattern.fullmatch, names) if m), reverse=True)


def read_item(folder: VersionFolder) -> LibraryItem:
    """Read the record of a version.

    Raises:
        BackendError: It does not exist, or cannot be read.
    """
    try:
        raw = read_json(folder.meta)
        if int(raw.get("schema", _SCHEMA)) > _SCHEMA:
            raise BackendError(
                f"The {folder.text} was imported by a newer Ringmaster.",
                "Update Ringmaster on this computer.",
            )
        item = LibraryItem.from_dict(raw)
    except FileNotFoundError as error:
        raise BackendError(*_missing(folder)) from error
    except (OSError, ValueError, TypeError) as error:
        raise BackendError(
            f"The record of the {folder.text} cannot be read "
            f"({folder.root.display_path(folder.meta)}): {error}.",
            "Its files are unchanged; import them again as a new version.",
        ) from error
    if (item.kind, item.name, item.version) != (folder.kind, folder.name, folder.version):
        raise BackendError(
            f"The record in the folder {folder.root.display_path(folder.path)} is of "
            f"{item.kind.value} "
            f"{item.reference}.",
            "Rename the folder back: its name must be that of the version.",
        )
    return item


def _missing(folder: VersionFolder) -> tuple[str, str]:
    try:
        removal = read_json(folder.removed)
        return (
            f"The {folder.text} was removed on {str(removal['removed'])[:10]}.",
            f"It is in {folder.root.display_path(folder.root.trash / str(removal['trash']))}; "
            "move it "
            f"back to {folder.root.display_path(folder.path)}.",
        )
    except (OSError, ValueError, KeyError) as error:
        swallowed(error)
        return f"There is no {folder.text} in the data root {folder.root.name}.", ""


def write_item(root: OpenRoot, folder: Path, item: LibraryItem) -> None:
    """Replace ``meta.json`` in a version's folder."""
    root.files.replace_json(folder / META, {"schema": _SCHEMA, **item.to_dict()})


def read_hashes(folder: VersionFolder) -> tuple[bytes, dict[str, str]]:
    """Read the list of the version's files: its bytes, and the hashes by path."""
    try:
        content = folder.manifest.read_bytes()
        return content, read_manifest(content)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The list of files of the {folder.text} cannot be read "
            f"({folder.root.display_path(folder.manifest)}): {error}.",
            "Import its files again as a new version.",
        ) from error


def list_files(folder: VersionFolder) -> tuple[FileEntry, ...]:
    """Return the user's files, by path."""
    try:
        return tuple(folder.root.files.list_files(folder.content))
    except OSError as error:
        raise BackendError(
            f"The files of the {folder.text} cannot be listed: {error.strerror or error}."
        ) from error


def read_text(folder: VersionFolder, path: str) -> str:
    """Read one of the user's files as text, at most a megabyte of it."""
    content = folder.content.resolve()
    file = (content / path).resolve()
    if not file.is_relative_to(content) or file == content:
        raise BackendError(f"{files_text(path)} is not a file of the {folder.text}.")
    try:
        head = folder.root.files.read(file, 0, _TEXT_BYTES + 1)
    except OSError as error:
        raise BackendError(
            f"{files_text(path)} of the {folder.text} cannot be read: {error.strerror or error}."
        ) from error
    if b"\0" in head:
        raise BackendError(f"{files_text(path)} of the {folder.text} is not text.")
    text = head[:_TEXT_BYTES].decode("utf-8", "replace")
    return text + "\n… (cut off after 1 MB)" if len(head) > _TEXT_BYTES else text


def claim(staging: Path, root: OpenRoot, item: LibraryItem) -> LibraryItem:
    """Move a finished folder to its place under the next free number; return the version."""
    while True:
        root.files.refresh_library(item.kind)
        item = replace(item, version=next_version(root, item.kind, item.name))
        folder = VersionFolder(root, item.kind, item.name, item.version)
        write_item(root, staging, item)
        root.files.make_folder(folder.path.parent, exist_ok=True)
        try:
            root.files.rename(staging, folder.path)
        except OSError as error:
            if error.errno not in _EXISTS_ERRORS or not root.files.exists(folder.path):
                raise
            # Another desktop took this number a moment ago.
            continue
        sync_folder(folder.path.parent)
        return item


def move_to_trash(folder: VersionFolder, record: dict[str, Any], trash_name: str) -> Path:
    """Move a version to ``trash/<trash_name>`` and mark its number as used."""
    target = folder.root.trash / trash_name
    number = 1
    while folder.root.files.exists(target):
        number += 1
        target = folder.root.trash / f"{trash_name}-{number}"
    folder.root.files.make_folder(target.parent, exist_ok=True)
    folder.root.files.replace_json(folder.removed, {**record, "trash": target.name})
    try:
        folder.root.files.rename(folder.path, target)
    except BaseException:
        folder.root.files.remove(folder.removed)
        raise
    folder.root.files.replace_json(target / "removed.json", record)
    return target


def move_added(folder: VersionFolder, paths: Sequence[str]) -> None:
    """Move files out of a version to the trash; they keep their paths there."""
    target = folder.root.trash / f"{folder.kind.value}-{folder.name}-v{folder.version}-added"
    target = target.with_name(f"{target.name}-{secrets.token_hex(4)}")
    for path in paths:
        source, added_target = folder.content / path, target / path
        with suppress(OSError):  # It may be read-only.
            source.parent.chmod(0o755)
        move_into(folder.root, source, added_target)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder; not every file system supports it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        swallowed(error)
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        swallowed(error)
    finally:
        os.close(descriptor)


def all_versions(root: OpenRoot, kind: Kind) -> Iterator[VersionFolder]:
    """Yield every version in the data root; raises as `names` does."""
    for name in names(root, kind):
        for version in versions(root, kind, name):
            yield VersionFolder(root, kind, name, version)
