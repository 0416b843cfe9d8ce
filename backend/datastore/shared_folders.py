"""New folders in the data root, which the nodes' user must be able to write to as well.

The desktop that makes a job's folder and the ranks that fill it are often two users. Nobody is
asked for modes: whoever may write to the data root may write to what is made in it, because each
new folder takes after the one that it lies in.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def make_folder(path: Path, *, exist_ok: bool = False) -> None:
    """``mkdir`` with the mode of the folder above; made by root, with its owner too.

    Raises:
        FileExistsError: It is there, and ``exist_ok`` is not given.
        OSError: It could not be made.
    """
    above = path.parent.stat()
    try:
        path.mkdir()
    except FileExistsError:
        if exist_ok and path.is_dir():
            return
        raise
    # A share that knows no modes or owners decides by itself who may write.
    with contextlib.suppress(PermissionError, NotImplementedError):
        path.chmod(stat.S_IMODE(above.st_mode))
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            os.chown(path, above.st_uid, above.st_gid)
