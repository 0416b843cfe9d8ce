"""Large files in a mirror, and their removal.

Checkpoints and the files of versions are fetched for an export, a preview or a check, and stay for
the next use. The time of the last use is stored by the mirror itself: as a folder's own time, and
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
_RECENT_S = 3_600.0
_ABANDONED_S = 86_400.0
"""Incomplete files have a hidden name; an older file is abandoned."""
_DROPPED = ".dropped-"


@dataclass(frozen=True)
class CachedItem:
    """A checkpoint or a folder of files. ``used_s`` is the time of the last use (`time.time`)."""

    path: Path
    bytes: int
    used_s: float
    is_leftover: bool = False
    """Left by a fetch or an import that broke off; the data root has nothing of that name."""


def mark_used(path: Path) -> None:
    """Record the use of a checkpoint, or of the folder of a version's files."""
    with suppress(OSError):
        now_s, status = time.time(), path.stat()
        os.utime(path, (now_s, now_s if path.is_dir() else status.st_mtime))


def cached_items(root: DataRoot) -> list[CachedItem]:
    """Return all items, those used longest ago first."""
    items = [*_library_items(root), *_checkpoint_items(root)]
    return sorted(items, key=lambda item: item.used_s)


def expired_items(items: list[CachedItem], now_s: float) -> list[CachedItem]:
    """Return the items that are too old or exceed the size limit."""
    excess_bytes = sum(item.bytes for item in items) - KEEP_BYTES
    dropped_items = []
    for item in items:
        age_s = now_s - item.used_s
        if age_s > (_ABANDONED_S if item.is_leftover else KEEP_S) or (
            excess_bytes > 0 and age_s > _RECENT_S
        ):
            dropped_items.append(item)
            excess_bytes -= item.bytes
    return dropped_items


def drop(items: list[CachedItem], is_unchanged: Callable[[CachedItem], bool]) -> int:
    """Remove items that the data root has unchanged (``is_unchanged``); return the bytes freed."""
    freed_bytes = 0
    for item in items:
        if not (item.is_leftover or is_unchanged(item)):
            continue
        # Renamed first: an incomplete version would be taken for a complete one.
        dropped_path = item.path.with_name(f"{_DROPPED}{secrets.token_hex(4)}")
        with suppress(OSError):
            os.rename(item.path, dropped_path)
            if dropped_path.is_dir():
                remove_tree(dropped_path)
            else:
                dropped_path.unlink()
            freed_bytes += item.bytes
    return freed_bytes


def size(path: Path) -> int:
    """Return the bytes in a file, or in all files below a folder."""
    if not path.is_dir():
        with suppress(OSError):
            return path.stat().st_size
        return 0
    return sum(status.st_size for status in _file_statuses(path))


def _file_statuses(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.lstat(os.path.join(parent, name))


def _library_items(root: DataRoot) -> Iterator[CachedItem]:
    for kind in Kind:
        kind_folder = library_files.kind_folder(root, kind)
        yield from _leftover_items(kind_folder)
        for item_folder in _folders(kind_folder):
            yield from _leftover_items(item_folder)
            for version_folder in _folders(item_folder):
                yield from _leftover_items(version_folder)
                content = version_folder / kind.content
                if content.is_dir():
                    yield CachedItem(content, size(content), content.stat().st_mtime)


def _checkpoint_items(root: DataRoot) -> Iterator[CachedItem]:
    for job in _folders(root.jobs):
        folder = root.job(job.name).checkpoints
        yield from _leftover_items(folder)
        for path in folder.glob(f"[!.]*{CHECKPOINT_SUFFIX}"):
            with suppress(OSError):
                status = path.stat()
                yield CachedItem(path, status.st_size, status.st_atime)


def _folders(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir() and not path.name.startswith(".")]


def _leftover_items(folder: Path) -> Iterator[CachedItem]:
    for path in _entries(folder):
        if path.name.startswith("."):
            with suppress(OSError):
                yield CachedItem(path, size(path), path.stat().st_mtime, is_leftover=True)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
