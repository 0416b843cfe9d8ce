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
_PIECE_BYTES = 4_000_000
_LEAST_LIMIT_S = 120.0
_SLOWEST_BYTES_PER_S = 10e6
_TRIES = 3
_CHECK = 'cd -- "$1" && LC_ALL=C exec sha256sum --quiet -c ../files.sha256'
_FAILED = ": FAILED"

OnBytes = Callable[[int], None]
Connect = Callable[[], AbstractContextManager[Shell]]


@dataclass(frozen=True)
class Tree:
    """The content of a remote folder, by relative path."""

    files: Mapping[str, RemoteFile]
    folders: Sequence[str]

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files.values())


def files_of(files: SftpFiles, path: str) -> list[tuple[str, RemoteFile]]:
    """As `content.files_of`: of a file itself with ""."""
    remote = files.status(path)
    if not remote.is_folder:
        return [("", remote)]
    return sorted(walk(files, path).files.items(), key=lambda found: found[0])


def walk(files: SftpFiles, path: str) -> Tree:
    found: dict[str, RemoteFile] = {}
    folders: list[str] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for one in files.entries(posixpath.join(path, below) if below else path):
            name = f"{below}/{one.name}" if below else one.name
            if one.is_folder:
                folders.append(name)
                waiting.append(name)
            else:
                found[name] = one
    return Tree(found, sorted(folders))


def fingerprint(files: SftpFiles, path: str) -> str:
    """Compute `hashes.fingerprint` for remote files, which only have size and time."""
    seen = hashlib.sha256()
    for name, one in sorted(walk(files, path).files.items()):
        seen.update(os.fsencode(name))
        seen.update(f"\0{one.bytes}\0{one.mtime_s}\0".encode())
    return seen.hexdigest()


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
        for begin in range(0, size, _PIECE_BYTES):
            piece = files.read(path, begin, _PIECE_BYTES)
            digest.update(piece)
            on_bytes(len(piece))
    return digest.hexdigest()


def compare(
    shell: Shell, what: str, path: str, wanted: Mapping[str, str], on_bytes: OnBytes
) -> None:
    """Compare as `hashes.compare`, on the remote host: the list is next to the folder.

    Raises:
        BackendError: A file changed, is missing or was added; it is named.
    """
    with shell.files() as files:
        found = walk(files, path)
    hashes.compare_names(what, found.files.keys(), wanted)
    answer = _run(shell, ["sh", "-c", _CHECK, "sh", path], found.bytes)
    if answer is not None and answer.ok:
        on_bytes(found.bytes)
        return
    failed = next(
        (line.removesuffix(_FAILED) for line in _lines(answer) if line.endswith(_FAILED)), ""
    )
    if failed:
        raise hashes.differs(what, sanitize(failed))
    for name in sorted(wanted):
        if sha256(shell, posixpath.join(path, name), on_bytes) != wanted[name]:
            raise hashes.differs(what, name)


def bring(
    shell: Shell, path: str, folder: Path, wanted: Mapping[str, str], progress: Progress
) -> None:
    """Fetch a folder, check it against its hashes, and put it at ``folder``.

    Raises:
        BackendError: It does not match, or could not be fetched; nothing was stored.
    """
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    with shell.files() as files:
        tree = walk(files, path)
        hashes.compare_names(f"The folder {path}", tree.files.keys(), wanted)
        _refuse_full_disk(folder.parent, tree.bytes)
        try:
            for below in ("", *tree.folders):
                (staging / below).mkdir(parents=True, exist_ok=True)
            done = 0
            for name, one in tree.files.items():
                before = done
                files.fetch(
                    one.path,
                    staging / name,
                    lambda arrived, _, before=before: progress.step(  # type: ignore[misc]
                        before + arrived, tree.bytes, "Fetching files"
                    ),
                )
                done += one.bytes
            hashes.compare(f"The folder {path}", staging, wanted)
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
    what: str = "Sending files",
) -> None:
    """Send a folder to ``path``; files that arrived before a broken connection are not sent again.

    Raises:
        BackendError: It could not be sent, or the user cancelled; nothing is left there.
    """
    try:
        for tries_left in reversed(range(_TRIES)):
            try:
                with connect() as shell:
                    _send_missing(shell, staging, path, progress, what)
                return
            except Unreachable:
                if not tries_left:
                    raise
    except BaseException:
        with suppress(BackendError), connect() as shell, shell.files() as files:
            files.remove_tree(path)
        raise


def _send_missing(shell: Shell, staging: Path, path: str, progress: Progress, what: str) -> None:
    here = {name: status.st_size for name, status in hashes.walk(staging)}
    folders = sorted(
        one.relative_to(staging).as_posix() for one in staging.rglob("*") if one.is_dir()
    )
    total = sum(here.values())
    with shell.files() as files:
        with suppress(FileExistsError):
            files.make_folder(posixpath.dirname(path))
        for folder in (path, *(f"{path}/{one}" for one in folders)):
            with suppress(FileExistsError):
                files.make_folder(folder, is_read_only=True)
        there = walk(files, path).files
        for name in there.keys() - here.keys():
            # An incomplete file of a broken connection.
            files.remove(there[name].path)
        done = 0
        for name, size in sorted(here.items()):
            if name not in there or there[name].bytes != size:

                def on_sent(sent: int, _: int, before: int = done) -> None:
                    progress.step(before + sent, total, what)

                try:
                    files.send(staging / name, f"{path}/{name}", on_sent)
                except UnicodeEncodeError as error:
                    raise BackendError(
                        f"{hashes.files_text(name)} has a name that is not UTF-8, which cannot be "
                        "sent over SFTP.",
                        "Rename it, then import again.",
                    ) from error
            done += size
            progress.step(done, total, what)


def _run(shell: Shell, argv: Sequence[str], size: int) -> CommandResult | None:
    """Run a command; None if the account runs no programs, or not this one."""
    limit_s = max(_LEAST_LIMIT_S, size / _SLOWEST_BYTES_PER_S)
    try:
        answer = shell.run(argv, limit_s=limit_s)
    except LoginRefused as error:
        swallowed(error)
        return None
    return None if answer.code == _NO_PROGRAM else answer


def _lines(answer: CommandResult | None) -> list[str]:
    return answer.out.splitlines() if answer is not None else []


def _refuse_full_disk(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BackendError(
            f"It needs {needed / 1e9:.2f} GB on this computer, and {folder} has "
            f"{free / 1e9:.2f} GB left.",
            f"Free some space in {folder}; nothing was fetched.",
        )
