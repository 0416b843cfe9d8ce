"""The owner, group and mode of files and folders in a data root, which several users share.

The desktop that makes a job's folder, the ranks that fill it and the user who resumes the job are
often three users. Each file and folder takes after the folder that it is in, so that every user who
may write to the data root may write to it; no mode has to be configured, and no umask counts.

Library versions are protected from user code, which may keep a cache next to its data: a job trains
only on the files that were imported, and a version with another file is refused.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from backend.base.log import suppress

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BINARY = getattr(os, "O_BINARY", 0)
_HAS_MODES = hasattr(os, "geteuid")


def file_mode(folder_mode: int, *, is_executable: bool = False) -> int:
    """Return the mode of a file in a folder with ``folder_mode``.

    In a sticky folder only the owner may replace a file, so only the owner may write to it.
    """
    mode = folder_mode & 0o666 | 0o600
    if folder_mode & stat.S_ISVTX:
        mode &= ~_OTHERS_WRITE
    return mode | (mode & 0o444) >> 2 if is_executable else mode


def read_only_mode(folder_mode: int) -> int:
    """Return the mode of a library version's folder, which only its importer may change."""
    return folder_mode & 0o7777 & ~_OTHERS_WRITE


def set_umask(folder: Path) -> None:
    """Let this process, with user code and libraries in it, give files the modes of ``folder``."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    os.umask(0o077 & ~(read_only_mode(mode) if mode & stat.S_ISVTX else mode))


def create(path: Path, *, is_executable: bool = False, is_read_only: bool = False) -> int:
    """Create a file that takes after its folder, and return a descriptor; OSError if it exists."""
    folder = path.parent.stat()
    mode = file_mode(folder.st_mode, is_executable=is_executable)
    mode &= ~0o222 if is_read_only else -1
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    # A share without modes or owners decides itself who may write.
    with suppress(PermissionError, NotImplementedError):
        _set_access(descriptor, folder, mode)
    return descriptor


def open_for_writing(path: Path, flags: int = os.O_APPEND) -> int:
    """Open a file with its content, or create it; return a descriptor.

    A copy takes the place of a file of another user that may not be changed; an older version made
    it. OSError if that is not possible, either.
    """
    with suppress(FileExistsError):
        os.close(create(path))
    if not os.access(path, os.W_OK):
        copy_path = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        with path.open("rb") as source, open(create(copy_path), "wb") as target:
            shutil.copyfileobj(source, target)
        os.replace(copy_path, path)
    return os.open(path, os.O_RDWR | flags | _BINARY)


def make_folder(path: Path, *, exist_ok: bool = False, is_read_only: bool = False) -> None:
    """Make a folder with its parent's mode, group and, as root, owner.

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
    with suppress(PermissionError, NotImplementedError):
        inherit_access(path, path.parent, is_read_only=is_read_only)


def make_folders(path: Path) -> None:
    """Make a folder and those above it that do not exist."""
    if not path.is_dir():
        make_folders(path.parent)
        make_folder(path, exist_ok=True)


def inherit_access(path: Path, parent: Path, *, is_read_only: bool = False) -> None:
    """Give a folder, or a file, the mode, group and, as root, owner of its parent.

    Raises:
        OSError: It belongs to another user.
    """
    if not _HAS_MODES:
        return
    parent_status = parent.stat()
    # By descriptor: another user may put a link in its place at any moment.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        mode = (
            read_only_mode(parent_status.st_mode)
            if is_read_only
            else stat.S_IMODE(parent_status.st_mode)
        )
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            mode = file_mode(mode)
        _set_access(descriptor, parent_status, mode)
    finally:
        os.close(descriptor)


def _set_access(descriptor: int, parent_status: os.stat_result, mode: int) -> None:
    if not _HAS_MODES:
        return
    # The user may not be in the group.
    with suppress(PermissionError):
        os.fchown(descriptor, -1 if os.geteuid() else parent_status.st_uid, parent_status.st_gid)
    # After the owner: a change of that clears the bit of the group.
    os.fchmod(descriptor, mode)


def is_closed(path: Path, root: os.stat_result) -> bool:
    """Return whether users who may read or write the data root may not so use ``path`` in it."""
    status = path.lstat()
    needed_mode = root.st_mode & (0o077 if stat.S_ISDIR(status.st_mode) else 0o044)
    granted_mode = status.st_mode & 0o077
    if status.st_gid != root.st_gid:
        granted_mode = granted_mode & 0o007 | (granted_mode & 0o007) << 3
    return bool(needed_mode & ~granted_mode)


def is_narrower(path: Path, parent: Path) -> bool:
    """Return whether our folder is writable for fewer users than its parent and can be changed."""
    if not _HAS_MODES:
        return False
    own_status, parent_status = path.stat(), parent.stat()
    may_change = os.geteuid() in (0, own_status.st_uid)
    missing_modes = (
        stat.S_IMODE(parent_status.st_mode) & ~stat.S_IMODE(own_status.st_mode) & _OTHERS_WRITE
    )
    return may_change and bool(
        missing_modes or (os.geteuid() == 0 and own_status.st_uid != parent_status.st_uid)
    )


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
