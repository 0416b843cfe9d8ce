"""Free space of a file system: bytes, and files, of which many have a fixed number (inodes).

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from os import PathLike
from typing import Union

LEAST_FILES = 256
"""Files that a run makes at least: logs, records and checkpoints, each with a temporary one."""


@dataclass(frozen=True)
class DiskSpace:
    """``free_files`` is None where the file system has no fixed number of files."""

    total_bytes: int
    free_bytes: int
    free_files: int | None

    def lacks_files(self, needed_files: int = LEAST_FILES) -> bool:
        return self.free_files is not None and self.free_files < needed_files


def disk_space(path: Union[str, PathLike[str]]) -> DiskSpace:  # noqa: UP007 - evaluated by Python 3.9
    """Return the room of the file system of ``path`` for users who are not root.

    Raises:
        OSError: It does not exist or does not answer.
    """
    if not hasattr(os, "statvfs"):  # a desktop with Windows
        disk = shutil.disk_usage(path)
        return DiskSpace(disk.total, disk.free, None)
    status = os.statvfs(path)
    files = status.f_favail if status.f_files else None
    return DiskSpace(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize, files)


def free_files_message(free_files: int) -> str:
    """Say how many files a full file system can still take: the end of a sentence."""
    return f"can take only {free_files} more files (inodes), whatever its free space is"
