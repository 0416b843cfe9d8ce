"""Protect library versions from user code, which may keep a cache next to its data.

A job trains only on the files that were imported: a version with another file is refused. Standard
library only and Python 3.9: the guards import this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from backend.base.log import suppress

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 1, 32, 4096, 1 << 14, 1 << 19
_KEPT_FLAGS = 0b1110
"""nosuid, nodev and noexec, which a container may not change."""
_WRITE = 0o222


def protect(folders: Iterable[str]) -> None:
    """Make folders read-only for this process and those that it starts.

    Modes do not stop root, which gets a mount namespace of its own; call this before threads start.
    In a container that may not mount, root can still write. A folder with the working folder in it
    is not a version, and stays as it is.
    """
    working_folder = os.path.join(os.path.realpath(os.curdir), "")
    version_folders = [
        folder
        for folder in dict.fromkeys(folders)
        if folder
        and os.path.isdir(folder)
        and not working_folder.startswith(os.path.join(os.path.realpath(folder), ""))
    ]
    with suppress(OSError, AttributeError):
        if os.geteuid() == 0:
            _mount_read_only(version_folders)
        else:
            for folder in version_folders:
                _deny_writes(folder)


def _mount_read_only(folders: list[str]) -> None:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)

    def call(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), "the mount was refused")

    call(library.unshare(_CLONE_NEWNS))
    # What is mounted later on this computer appears here too, and nothing the other way round.
    call(library.mount(None, b"/", None, ctypes.c_ulong(_MS_SLAVE | _MS_REC), None))
    for folder in folders:
        path = os.fsencode(os.path.realpath(folder))
        flags = os.statvfs(path).f_flag & _KEPT_FLAGS | _MS_REMOUNT | _MS_BIND | _MS_RDONLY
        call(library.mount(path, path, None, ctypes.c_ulong(_MS_BIND), None))
        call(library.mount(None, path, None, ctypes.c_ulong(flags), None))


def _deny_writes(folder: str) -> None:
    """Take the right to write from all folders in it; done once, as the top shows."""
    if os.stat(folder).st_mode & _WRITE:
        for subfolder, _, _ in os.walk(folder, topdown=False):
            os.chmod(subfolder, os.stat(subfolder).st_mode & ~_WRITE & 0o7777)


def allow_writes(folder: str) -> None:
    """Undo `protect` for a folder that is to be changed or removed."""
    for subfolder, _, names in os.walk(folder):
        for path in (subfolder, *(os.path.join(subfolder, name) for name in names)):
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & 0o7777 | 0o200)
