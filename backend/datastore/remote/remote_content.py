"""Large files of a remote data root: hashed on the host if possible, or fetched or sent whole.

An account may allow only SFTP; then a hash costs a transfer, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.datastore.access import hashes
from backend.records.base.validation import sanitize
from backend.ssh.interface import CommandResult, LoginRefused, Shell, Unreachable
from backend.ssh.sftp import RemoteFile, SftpFiles

_NO_PROGRAM = 127
_CHUNK_BYTES = 4_000_000
_LEAST_LIMIT_S = 120.0
_SLOWEST_BYTES_PER_S = 10e6
_TRIES = 3
_CHECK = 'cd -- "$1" && LC_ALL=C exec sha256sum --quiet -c ../files.sha256'
_FAILED = ": FAILED"

OnBytes = Callable[[int], None]
Connect = Callable[[], AbstractContextManager[Shell]]


@dataclass(frozen=True)
class RemoteTree:
    """The content of a remote folder, by relative path."""

    files: Mapping[str, RemoteFile]
    folders: Sequence[str]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


def files_of(files: SftpFiles, path: str) -> list[tuple[str, RemoteFile]]:
    """As `content.files_of`: of a file itself with ""."""
    remote = files.status(path)
    if not remote.is_folder:
        return [("", remote)]
    return sorted(walk(files, path).files.items(), key=lambda pair: pair[0])


def walk(files: SftpFiles, path: str) -> RemoteTree:
    remote_files: dict[str, RemoteFile] = {}
    folders: list[str] = []
    pending_folders = [""]
    while pending_folders:
        folder = pending_folders.pop()
        for file in files.entries(posixpath.join(path, folder) if folder else path):
            name = f"{folder}/{file.name}" if folder else file.name
            if file.is_folder:
                folders.append(name)
                pending_folders.append(name)
            else:
                remote_files[name] = file
    return RemoteTree(remote_files, sorted(folders))


def fingerprint(files: SftpFiles, path: str) -> str:
    """Compute `hashes.fingerprint` for remote files, which only have size and time."""
    digest = hashlib.sha256()
    for name, file in sorted(walk(files, path).files.items()):
        digest.update(os.fsencode(name))
        digest.update(f"\0{file.bytes}\0{file.mtime_s}\0".encode())
    return digest.hexdigest()


def sha256(shell: Shell, path: str, on_bytes: OnBytes) -> str:
    """Return the hash of one remote file."""
    with shell.files() as files:
        size = files.status(path).bytes
    answer = _run(shell, ["sha256sum", "-b", "--", path], size)
    if answer is not None and answer.ok:
        on_bytes(size)
        # sha256sum marks a name that contains a backslash with one before the hash.
        return answer.out.lstrip("\\")[:64]
    digest = hashlib.sha256()
    with shell.files() as files:
        for start in range(0, size, _CHUNK_BYTES):
            chunk = files.read(path, start, _CHUNK_BYTES)
            digest.update(chunk)
            on_bytes(len(chunk))
    return digest.hexdigest()


def compare(
    shell: Shell, subject: str, path: str, expected_hashes: Mapping[str, str], on_bytes: OnBytes
) -> None:
    """Compare as `hashes.compare`, on the remote host: the list is next to the folder.

    Raises:
        BackendError: A file changed, is missing or was added; it is named.
    """
    with shell.files() as files:
        tree = walk(files, path)
    hashes.compare_names(subject, tree.files.keys(), expected_hashes)
    answer = _run(shell, ["sh", "-c", _CHECK, "sh", path], tree.bytes)
    if answer is not None and answer.ok:
        on_bytes(tree.bytes)
        return
    lines = answer.out.splitlines() if answer is not None else []
    failed_name = next((x.removesuffix(_FAILED) for x in lines if x.endswith(_FAILED)), "")
    if failed_name:
        raise hashes.differs(subject, sanitize(failed_name))
    for name in sorted(expected_hashes):
        if sha256(shell, posixpath.join(path, name), on_bytes) != expected_hashes[name]:
            raise hashes.differs(subject, name)


def bring(
    shell: Shell, path: str, folder: Path, expected_hashes: Mapping[str, str], progress: Progress
) -> None:
    """Fetch a folder, check it against its hashes, and put it at ``folder``.

    Raises:
        BackendError: It does not match, or could not be fetched; nothing was stored.
    """
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    with shell.files() as files:
        tree = walk(files, path)
        hashes.compare_names(f"The folder {path}", tree.files.keys(), expected_hashes)
        _refuse_full_disk(folder.parent, tree.bytes)
        try:
            for folder_name in ("", *tree.folders):
                (staging / folder_name).mkdir(parents=True, exist_ok=True)
            done_bytes = 0
            for name, file in tree.files.items():
                start_bytes = done_bytes
                files.fetch(
                    file.path,
                    staging / name,
                    lambda count, _, start_bytes=start_bytes: progress.step(  # type: ignore[misc]
                        start_bytes + count, tree.bytes, "Fetching files"
                    ),
                )
                done_bytes += file.bytes
            hashes.compare(f"The folder {path}", staging, expected_hashes)
            # Another process of this desktop may have been first.
            with suppress(OSError):
                os.rename(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def publish(
    connect: Connect,
    staging: Path,
    path: str,
    progress: Progress,
    label: str = "Sending files",
) -> None:
    """Send a folder to ``path``; files that arrived before a broken connection are not sent again.

    Raises:
        BackendError: It could not be sent, or the user cancelled; nothing is left there.
    """
    try:
        for remaining_tries in reversed(range(_TRIES)):
            try:
                with connect() as shell:
                    _send_missing(shell, staging, path, progress, label)
                return
            except Unreachable:
                if not remaining_tries:
                    raise
    except BaseException:
        with suppress(BackendError), connect() as shell, shell.files() as files:
            files.remove_tree(path)
        raise


def _send_missing(shell: Shell, staging: Path, path: str, progress: Progress, label: str) -> None:
    local_sizes = {name: status.st_size for name, status in hashes.walk(staging)}
    folders = sorted(
        item.relative_to(staging).as_posix() for item in staging.rglob("*") if item.is_dir()
    )
    total_bytes = sum(local_sizes.values())
    with shell.files() as files:
        with suppress(FileExistsError):
            files.make_folder(posixpath.dirname(path))
        for folder in (path, *(f"{path}/{name}" for name in folders)):
            with suppress(FileExistsError):
                files.make_folder(folder, is_read_only=True)
        remote_files = walk(files, path).files
        for name in remote_files.keys() - local_sizes.keys():
            # An incomplete file of a broken connection.
            files.remove(remote_files[name].path)
        sent_bytes = 0
        for name, size in sorted(local_sizes.items()):
            if name not in remote_files or remote_files[name].bytes != size:

                def on_sent(file_bytes: int, _: int, earlier_bytes: int = sent_bytes) -> None:
                    progress.step(earlier_bytes + file_bytes, total_bytes, label)

                try:
                    files.send(staging / name, f"{path}/{name}", on_sent)
                except UnicodeEncodeError as error:
                    raise BackendError(
                        f"{hashes.files_text(name)} has a name that is not UTF-8, which cannot be "
                        "sent over SFTP.",
                        "Rename it, then import again.",
                    ) from error
            sent_bytes += size
            progress.step(sent_bytes, total_bytes, label)


def _run(shell: Shell, argv: Sequence[str], size: int) -> CommandResult | None:
    """Run a command; None if the account runs no programs, or not this one."""
    limit_s = max(_LEAST_LIMIT_S, size / _SLOWEST_BYTES_PER_S)
    try:
        answer = shell.run(argv, limit_s=limit_s)
    except LoginRefused as error:
        swallowed(error)
        return None
    return None if answer.code == _NO_PROGRAM else answer


def _refuse_full_disk(folder: Path, needed_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise BackendError(
            f"It needs {needed_bytes / 1e9:.2f} GB on this computer, and {folder} has "
            f"{free_bytes / 1e9:.2f} GB left.",
            f"Free some space in {folder}; nothing was fetched.",
        )
