"""Disks that have no room left."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.commands import call

_NAME = "full"


@contextmanager
def filled_disk(folder: Path, free_bytes: int = 0) -> Iterator[None]:
    """The disk of ``folder`` has that much room; with 0, not one block for anybody."""
    fill(folder, free_bytes)
    try:
        yield
    finally:
        (folder / _NAME).unlink(missing_ok=True)


def fill(folder: Path, free_bytes: int = 0) -> None:
    """Take what room there is now, beside what was taken before."""
    disk_stat = os.statvfs(folder)
    filler = folder / _NAME
    previous_bytes = filler.stat().st_size if filler.exists() else 0
    size = previous_bytes + disk_stat.f_bavail * disk_stat.f_frsize - free_bytes
    path = shlex.quote(str(filler))
    last_bytes_command = "" if free_bytes else f"cat /dev/zero >>{path};"
    call("sh", "-c", f"{{ fallocate -l {size} {path}; {last_bytes_command} }} 2>&1; true")


@contextmanager
def small_disk(folder: Path, size: str = "4m") -> Iterator[Path]:
    """A disk of its own for ``folder``, mounted on this computer."""
    folder.mkdir()
    call("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder)
    try:
        yield folder
    finally:
        call("umount", "--lazy", folder)
