"""Files and folders that several starts share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from installers.console import Progress


@contextlib.contextmanager
def locked(path: Path, label: str, progress: Progress | None) -> Iterator[int]:
    """Hold a lock among all starts of this user; yield its descriptor, for children to inherit.

    Without a `progress` to report to, there is no wait: BlockingIOError means that the lock is
    taken.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress is None:
                raise
            progress.note(f"Another start is preparing {label}; this one waits for it.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def replace_file(target: Path, text: str) -> None:
    """Replace a file atomically: a reader sees the old one or the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, target)


@contextlib.contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """An empty folder for the duration of a block; files of a killed start are removed first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Rename a folder before its removal, so that an incomplete one is never used."""
    renamed_folder = folder.with_name(f"{folder.name}.old-{os.getpid()}")
    os.replace(folder, renamed_folder)
    shutil.rmtree(renamed_folder)
