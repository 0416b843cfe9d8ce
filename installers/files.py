"""Files and folders that several starts share, and reproducible archives."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator, Mapping
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


_YEAR_1980 = 315_532_800


def source_date_s() -> int:
    """Return the one modification time of all files in an archive, in seconds of Unix time.

    https://reproducible-builds.org/specs/source-date-epoch/
    """
    return int(os.environ.get("SOURCE_DATE_EPOCH", _YEAR_1980))


def write_archive(target: Path, trees: Mapping[str, Path], *, is_complete: bool = True) -> int:
    """Write a tar.gz of folders and files, each under its name in it; return their bytes.

    Without ``is_complete`` it is a first part: a second one can be appended to it, and gzip and
    tar read both as one (RFC 1952, 2.2: "members simply appear one after another").
    """
    packed_bytes = 0
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as gzip_file,
    ):
        archive = tarfile.TarFile(fileobj=gzip_file, mode="w", format=tarfile.GNU_FORMAT)
        for name, tree in sorted(trees.items()):
            paths = [tree, *tree.rglob("*")] if tree.is_dir() else [tree]
            for path in sorted(paths):
                packed_bytes += _add_member(
                    archive, path, f"{name}/{path.relative_to(tree)}".removesuffix("/.")
                )
        if is_complete:
            archive.close()
    return packed_bytes


def _add_member(archive: tarfile.TarFile, path: Path, name: str) -> int:
    status = path.lstat()
    member = tarfile.TarInfo(name)
    member.mtime = source_date_s()
    # The unpacking user decides the owners, and that user's umask the other permissions.
    member.mode = 0o755 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o100 else 0o644
    if stat.S_ISLNK(status.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
    else:
        member.size = status.st_size
        with path.open("rb") as content:
            archive.addfile(member, content)
        return member.size
    archive.addfile(member)
    return 0
