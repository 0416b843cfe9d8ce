"""New folders in the data root, which the nodes' user must be able to write to as well.

The desktop that makes a job's folder and the ranks that fill it are often two users. Each new
folder gets the mode of its parent, so that every user who may write to the data root may write to
it; no mode has to be configured.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from backend.base.log import suppress

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_folder(path: Path, *, exist_ok: bool = False) -> None:
    """Make a folder with its parent's mode; root also sets its parent's owner.

    Raises:
        FileExistsError: It exists, and ``exist_ok`` is not set.
        OSError: It could not be made.
    """
    try:
        path.mkdir()
    except FileExistsError:
        if exist_ok and path.is_dir():
            return
        raise
    # A share without modes or owners decides itself who may write.
    with suppress(PermissionError, NotImplementedError):
        take_after(path, path.parent)


def make_folders(path: Path) -> None:
    """Make a folder and those above it that do not exist."""
    if not path.is_dir():
        make_folders(path.parent)
        make_folder(path, exist_ok=True)


def take_after(path: Path, above: Path) -> None:
    """Give a folder the mode of ``above``; root also sets the owner.

    Raises:
        OSError: It belongs to another user.
    """
    wanted = above.stat()
    path.chmod(stat.S_IMODE(wanted.st_mode))
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(path, wanted.st_uid, wanted.st_gid)


def is_narrower(path: Path, above: Path) -> bool:
    """Return whether our folder is writable for fewer users than ``above`` and can be changed."""
    if not hasattr(os, "geteuid"):
        return False
    mine, theirs = path.stat(), above.stat()
    may_change = os.geteuid() in (0, mine.st_uid)
    lacks = stat.S_IMODE(theirs.st_mode) & ~stat.S_IMODE(mine.st_mode) & _OTHERS_WRITE
    return may_change and bool(lacks or (os.geteuid() == 0 and mine.st_uid != theirs.st_uid))
