"""Large files in a mirror, and their removal.

Checkpoints and the files of versions are fetched for an export, a preview or a check, and stay for
the next one. The time of the last use is stored by the mirror itself: as a folder's own time, and
as the access time of a checkpoint, whose own time is that of the remote file.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.base.log import suppress
from backend.datastore.library import library_files
from backend.records.base.layout import CHECKPOINT_SUFFIX, DataRoot
from backend.records.base.local_files import remove_tree
from backend.records.library.item import Kind

KEEP_S = 30 * 86_400.0
"""Files that were not used for so long are dropped."""
KEEP_BYTES = 20_000_000_000
"""Above this size the files used longest ago are dropped, but none of the last hour."""
_FRESH_S = 3_600.0
_ABANDONED_S = 86_400.0
"""Incomplete files have a hidden name; an older one is abandoned."""
_DROPPED = ".dropped-"


@dataclass(frozen=True)
class CachedItem:
    """A checkpoint or a folder of files. ``wanted_s`` is the time of the last use (`time.time`)."""

    path: Path
    bytes: int
    wanted_s: float
    is_rest: bool = False
    """Left by a fetch or an import that broke off; the data root has nothing of that name."""


def is_wanted_now(path: Path) -> None:
    """Record the use of a checkpoint, or of the folder of a version's files."""
    with suppress(OSError):
        now, before = time.time(), path.stat()
        os.utime(path, (now, now if path.is_dir() else before.st_mtime))


def kept(root: DataRoot) -> list[CachedItem]:
    """Return all of them, the one used longest ago first."""
    found = [*_of_the_library(root), *_checkpoints(root)]
    return sorted(found, key=lambda one: one.wanted_s)


def to_drop(found: list[CachedItem], now_s: float) -> list[CachedItem]:
    """Return the items that are too old or exceed the size limit."""
    much = sum(one.bytes for one in found) - KEEP_BYTES
    going = []
    for one in found:
        age_s = now_s - one.wanted_s
        if age_s > (_ABANDONED_S if one.is_rest else KEEP_S) or (much > 0 and age_s > _FRESH_S):
            going.append(one)
            much -= one.bytes
    return going


def drop(found: list[CachedItem], is_there: Callable[[CachedItem], bool]) -> int:
    """Remove items that the data root has unchanged (``is_there``); return the bytes freed."""
    freed = 0
    for one in found:
        if not (one.is_rest or is_there(one)):
            continue
        # Renamed first: an incomplete version would be taken for a complete one.
        aside = one.path.with_name(f"{_DROPPED}{secrets.token_hex(4)}")
        with suppress(OSError):
            os.rename(one.path, aside)
            if aside.is_dir():
                remove_tree(aside)
            else:
                aside.unlink()
            freed += one.bytes
    return freed


def size(path: Path) -> int:
    """Return the bytes in a file, or in all files below a folder."""
    if not path.is_dir():
        with suppress(OSError):
            return path.stat().st_size
        return 0
    return sum(status.st_size for status in _below(path))


def _below(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.lstat(os.path.join(parent, name))


def _of_the_library(root: DataRoot) -> Iterator[CachedItem]:
    for kind in Kind:
        place = library_files.kind_folder(root, kind)
        yield from _rests(place)
        for name in _folders(place):
            yield from _rests(name)
            for version in _folders(name):
                yield from _rests(version)
                content = version / kind.content
                if content.is_dir():
                    yield CachedItem(content, size(content), content.stat().st_mtime)


def _checkpoints(root: DataRoot) -> Iterator[CachedItem]:
    for job in _folders(root.jobs):
        folder = root.job(job.name).checkpoints
        yield from _rests(folder)
        for path in folder.glob(f"[!.]*{CHECKPOINT_SUFFIX}"):
            with suppress(OSError):
                status = path.stat()
                yield CachedItem(path, status.st_size, status.st_atime)


def _folders(place: Path) -> list[Path]:
    return [path for path in _entries(place) if path.is_dir() and not path.name.startswith(".")]


def _rests(place: Path) -> Iterator[CachedItem]:
    for path in _entries(place):
        if path.name.startswith("."):
            with suppress(OSError):
                yield CachedItem(path, size(path), path.stat().st_mtime, is_rest=True)


def _entries(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
