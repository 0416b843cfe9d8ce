"""Helpers of the tests of imports: zip files made byte by byte, and a list of left-over files."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.library.imports import import_version
from backend.records.library.item import Kind, LibraryItem
from tests.fakes.mounted_root import mounted


def import_now(
    root: Path, source: Path, name: str = "digits", kind: Kind = Kind.DATASET
) -> LibraryItem:
    return import_version(mounted(root), kind, source, name, Progress())[0]


@contextmanager
def import_refused(root: Path, *phrases: str) -> Iterator[None]:
    """Refused in one sentence with these words, and nothing was created in the data root."""
    previous_files = read_tree(root)
    with pytest.raises(BackendError) as caught:
        yield
    message = caught.value.message
    for word in phrases:
        assert word in message, message
    assert message.endswith(".")
    assert "\n" not in message + caught.value.remedy
    assert read_tree(root) == previous_files


def read_tree(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, hidden ones too; empty folders for a kind do not count."""
    contents: dict[str, bytes | None] = {}
    for parent, folders, files in os.walk(folder):
        for name in folders:
            if Path(parent) != folder:
                contents[os.path.join(parent, name)] = None
        for name in files:
            contents[os.path.join(parent, name)] = Path(parent, name).read_bytes()
    return contents


def contents(folder: Path) -> dict[str, bytes]:
    """The files below, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def entry(
    name: str, mode: int = stat.S_IFREG | 0o644, method: int = zipfile.ZIP_STORED
) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    info.compress_type = method
    return info


def make_zip(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in entries:
            archive.writestr(info if isinstance(info, zipfile.ZipInfo) else entry(info), content)
    return path
