"""New folders in the data root, which the nodes' user must be able to write to as well.

The desktop that makes a job's folder and the ranks that fill it are often two users. Nobody is
asked for modes: whoever may write to the data root may write to what is made in it, because each
new folder takes after the one that it lies in.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from backend.base.log import suppress

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_folder(path: Path, *, exist_ok: bool = False) -> None:
    """``mkdir`` with the mode of the folder above; made by root, with its owner too.

    Raises:
        FileExistsError: It is there, and ``exist_ok`` is not given.
        OSError: It could not be made.
    """
    try:
        path.mkdir()
    except FileExistsError:
        if exist_ok and path.is_dir():
            return
        raise
    # A share that knows no modes or owners decides by itself who may write.
    with suppress(PermissionError, NotImplementedError):
        take_after(path, path.parent)


def take_after(path: Path, above: Path) -> None:
    """Give a folder the mode of the one ``above``; root gives it its owner, too.

    Raises:
        OSError: It is another user's.
    """
    wanted = above.stat()
    path.chmod(stat.S_IMODE(wanted.st_mode))
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(path, wanted.st_uid, wanted.st_gid)


def is_narrower(path: Path, above: Path) -> bool:
    """Whether a folder of ours lets fewer people write than the one above, which it can change."""
    if not hasattr(os, "geteuid"):
        return False
    mine, theirs = path.stat(), above.stat()
    may_change = os.geteuid() in (0, mine.st_uid)
    lacks = stat.S_IMODE(theirs.st_mode) & ~stat.S_IMODE(mine.st_mode) & _OTHERS_WRITE
    return may_change and bool(lacks or (os.geteuid() == 0 and mine.st_uid != theirs.st_uid))
