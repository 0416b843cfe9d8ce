"""Files of a node or of the data root, over SFTP.

OpenSSH's SFTP server reports "Failure" for a full disk, a quota and many other causes, so a failed
write runs ``df`` to find the cause. paramiko ignores errors of closing a file, so the size of each
written file is checked before it is renamed.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.records.base.access_modes import file_mode, read_only_mode

_PIECE_BYTES = 32 * 1024
_PIECES_PER_BATCH = 32
OnBytes = Callable[[int, int], None]


@dataclass(frozen=True)
class RemoteFile:
    """Attributes of a remote file."""

    path: str
    bytes: int
    is_folder: bool
    is_plain: bool = True
    """Neither a folder nor a pipe or a device, which may never end."""
    mtime_s: int = 0
    """By the clock of the disk; SFTP has whole seconds."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class SftpFiles:
    """The files of paramiko's SFTPClient; ``who`` names the host.

    ``client`` returns an open one: a command may have ended the one before it. ``free_bytes``
    returns the free space of a folder's disk, or None.
    """

    def __init__(
        self, client: Callable[[], Any], account: str, free_bytes: Callable[[str], int | None]
    ) -> None:
        self._open_client = client
        self._account = account
        self._free_bytes = free_bytes

    @property
    def _client(self) -> Any:
        return self._open_client()

    def write(self, path: str, content: bytes, mode: int | None = None) -> None:
        """Replace a small file; without a mode it takes after its folder."""
        self._put(io.BytesIO(content), len(content), path, mode, None)

    def send(self, source: Path, path: str, on_bytes: OnBytes | None) -> None:
        try:
            file = source.open("rb")
        except OSError as error:
            raise BackendError(f"{source} cannot be read: {error.strerror}.") from error
        with file:
            status = os.fstat(file.fileno())
            is_executable = bool(status.st_mode & stat.S_IXUSR)
            self._put(file, status.st_size, path, None, on_bytes, is_executable=is_executable)

    def read(self, path: str, offset: int, limit_bytes: int) -> bytes:
        with self._reading(path), self._client.open(path, "rb") as file:
            # Files of /proc report no size and are not empty.
            size = file.stat().st_size
            end = min(size or offset, offset + limit_bytes)
            if size:
                return b"".join(_chunks(file, offset, end))
            file.seek(offset)
            return bytes(file.read(limit_bytes))

    def listing(self, path: str) -> tuple[RemoteFile, ...]:
        with self._reading(path):
            try:
                entries = self._client.listdir_attr(path)
            except UnicodeDecodeError as error:
                raise BackendError(
                    f"The folder {path} on {self._account} contains a name that is not UTF-8.",
                    f"Rename it on {self._account}.",
                ) from error
        return tuple(
            _remote_file(posixpath.join(path, entry.filename), entry)
            for entry in sorted(entries, key=lambda entry: str(entry.filename))
        )

    def entries(self, path: str) -> tuple[RemoteFile, ...]:
        """List as `listing`, following links; names that are invalid here are left out."""
        files = []
        for file in self.listing(path):
            if "\\" in file.name or file.name in (".", "..") or file.path != f"{path}/{file.name}":
                continue
            if file.is_folder or file.is_plain:
                files.append(file)
                continue
            with suppress(FileNotFoundError):
                files.append(self.status(file.path))
        return tuple(files)

    def status(self, path: str) -> RemoteFile:
        """Return the attributes of a link's target; FileNotFoundError if there is none."""
        with self._reading(path):
            return _remote_file(path, self._client.stat(path))

    def make_folder(self, path: str, *, is_read_only: bool = False) -> None:
        """Make a folder like `backend.records.base.access_modes.make_folder`.

        Raises:
            FileExistsError: It exists. If two make it at one time, one of them gets this.
            FileNotFoundError: Its parent does not exist.
        """
        parent = self._client.stat(posixpath.dirname(path))
        mode = read_only_mode(parent.st_mode) if is_read_only else stat.S_IMODE(parent.st_mode)
        with self._changing(path):
            self._client.mkdir(path)
        self._copy_access(path, self._client.stat(path), parent, mode)

    def _copy_access(self, path: str, status: Any, parent: Any, mode: int) -> None:
        """See `backend.records.base.access_modes`."""
        # A share without modes or owners decides itself who may write.
        with suppress(OSError):
            uid = status.st_uid or parent.st_uid
            if (uid, parent.st_gid) != (status.st_uid, status.st_gid):
                with suppress(OSError):  # Its user may not be in the group.
                    self._client.chown(path, uid, parent.st_gid)
            if stat.S_IMODE(status.st_mode) != mode:
                self._client.chmod(path, mode)

    def create(self, path: str, content: bytes) -> None:
        """Create a new file; FileExistsError if it exists."""
        parent = self._client.stat(posixpath.dirname(path))
        with self._changing(path), self._client.open(path, "wx") as remote:
            self._copy_access(path, remote.stat(), parent, file_mode(parent.st_mode))
            try:
                remote.write(content)
                remote.flush()
            except OSError:
                self._client.remove(path)
                raise

    def rename(self, old_path: str, new_path: str) -> None:
        """Rename; FileExistsError if the target exists, FileNotFoundError without the source."""
        self._client.stat(old_path)
        with self._changing(new_path):
            self._client.rename(old_path, new_path)

    def remove(self, path: str) -> None:
        """Remove one file; a missing one is not an error."""
        with suppress(FileNotFoundError), self._changing(path):
            self._client.remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder with its content, links not followed; a missing one is not an error."""
        with suppress(FileNotFoundError):
            with suppress(PermissionError):  # It may be read-only; see `records.base.read_only`.
                self._client.chmod(path, 0o755)
            for file in self.listing(path):
                if file.is_folder:
                    self.remove_tree(file.path)
                else:
                    self.remove(file.path)
            self._client.rmdir(path)

    def fetch(self, path: str, target: Path, on_bytes: OnBytes | None) -> None:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        with self._reading(path), self._client.open(path, "rb") as remote:
            size = int(remote.stat().st_size)
            chunks = _chunks(remote, 0, size)
            try:
                with _local(target):
                    file = temporary.open("wb")
                with file:
                    self._copy(
                        chunks, lambda chunk: _write_local(file, chunk, target), size, on_bytes
                    )
                    with _local(target):
                        file.flush()
                        os.fsync(file.fileno())
                with _local(target):
                    os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)

    def _put(
        self,
        source: BinaryIO,
        size: int,
        path: str,
        mode: int | None,
        on_bytes: OnBytes | None,
        *,
        is_executable: bool = False,
    ) -> None:
        folder, name = posixpath.split(path)
        temporary = posixpath.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
        with self._writing(path, size, temporary):
            parent = self._client.stat(folder) if mode is None else None
            with self._client.open(temporary, "wx") as remote:
                # Before the first byte, so that a key is never readable for others.
                remote.chmod(0o600 if mode is None else mode)
                remote.set_pipelined(True)
                chunks = iter(lambda: source.read(_PIECE_BYTES), b"")
                self._copy(chunks, remote.write, size, on_bytes)
            status = self._client.stat(temporary)
            if status.st_size != size:
                raise OSError(f"{status.st_size} of {size} bytes arrived")
            if parent is not None:
                file_permissions = file_mode(parent.st_mode, is_executable=is_executable)
                self._copy_access(temporary, status, parent, file_permissions)
            self._client.posix_rename(temporary, path)

    @contextmanager
    def _changing(self, path: str) -> Iterator[None]:
        """Find the cause of SFTP's "Failure", which it also reports for existing files."""
        try:
            yield
        except (FileNotFoundError, TimeoutError, ConnectionError):
            raise
        except PermissionError as error:
            raise self._write_error(error, path, posixpath.dirname(path), 0) from error
        except OSError as error:
            try:
                self._client.lstat(path)
            except FileNotFoundError:
                refusal = self._write_error(error, path, posixpath.dirname(path), 0)
                raise refusal from error
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error

    def _copy(
        self,
        chunks: Iterator[bytes],
        write: Callable[[bytes], object],
        size: int,
        on_bytes: OnBytes | None,
    ) -> None:
        done_bytes = 0
        while done_bytes < size:
            chunk = next(chunks, b"")[: size - done_bytes]
            if not chunk:
                raise _TruncatedFile(done_bytes, size)
            write(chunk)
            done_bytes += len(chunk)
            if on_bytes is not None:
                on_bytes(done_bytes, size)

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise BackendError(
                f"{self._account} may not read {path}: permission denied.",
                f"Make it readable: chmod a+r {path}",
            ) from error
        except _TruncatedFile as error:
            raise BackendError(
                f"{path} on {self._account} became shorter while it was copied.", "Try again."
            ) from error

    @contextmanager
    def _writing(self, path: str, size: int, temporary: str) -> Iterator[None]:
        folder = posixpath.dirname(path)
        try:
            yield
        except BaseException as error:
            # An error reported by the node, not a broken connection.
            is_refusal = isinstance(error, OSError) and not isinstance(
                error, (TimeoutError, ConnectionError)
            )
            # Measured before the incomplete file is removed, while the disk is still full.
            refusal = self._write_error(error, path, folder, size) if is_refusal else None
            with suppress(OSError, EOFError):
                self._client.remove(temporary)
            if refusal is None:
                raise
            raise refusal from error

    def _write_error(self, error: BaseException, path: str, folder: str, size: int) -> BackendError:
        if isinstance(error, PermissionError):
            return BackendError(
                f"{self._account} may not write {path}: permission denied.",
                f"Make that user the owner of {folder}, or connect as another user.",
            )
        if isinstance(error, FileNotFoundError):
            return BackendError(
                f"{path} cannot be written: {self._account} has no folder {folder}.",
                "Create it first.",
            )
        if isinstance(error, _TruncatedFile):
            return BackendError(f"The file sent to {path} became shorter meanwhile.", "Try again.")
        free = self._free_bytes(folder)
        if free is not None and free < max(size, _PIECE_BYTES):
            return BackendError(
                f"The disk of {folder} on {self._account} is full: {free} bytes are left and "
                f"{path} needs {size}.",
                f"Free some space in {folder}, or connect as a user whose home is on another disk.",
            )
        return BackendError(
            f"{path} cannot be written on {self._account}; the node reports “{error}”.",
            f"Check that the disk of {folder} has no errors, that it may be written, and that no "
            "quota is used up.",
        )


def _chunks(remote: Any, start: int, end: int) -> Iterator[bytes]:
    """Read a part of a file; the next batch of pieces is requested before one is read.

    The ``prefetch`` of paramiko 5.1.0 requests pieces in a thread of its own. If that thread is
    slow, the rest of the file is read twice and kept in memory; after a cancelled read it
    continues.
    """
    offsets = range(start, end, _PIECE_BYTES)
    batches = [
        [(offset, min(_PIECE_BYTES, end - offset)) for offset in offsets[n : n + _PIECES_PER_BATCH]]
        for n in range(0, len(offsets), _PIECES_PER_BATCH)
    ]
    remote.seek(start)
    for requested_batch, batch in pairwise([[], *batches, []]):
        if batch:
            remote._prefetching, remote._prefetch_done = True, False
            remote._prefetch_thread(batch, None)
        for _, size in requested_batch:
            chunk = bytes(remote.read(size))
            if not chunk:
                return
            yield chunk


def _remote_file(path: str, status: Any) -> RemoteFile:
    mode = status.st_mode or 0
    return RemoteFile(
        path,
        status.st_size or 0,
        stat.S_ISDIR(mode),
        stat.S_ISREG(mode),
        int(status.st_mtime or 0),
    )


class _TruncatedFile(OSError):
    def __init__(self, done_bytes: int, size: int) -> None:
        super().__init__(f"{done_bytes} of {size} bytes")


def _write_local(file: BinaryIO, chunk: bytes, target: Path) -> None:
    with _local(target):
        file.write(chunk)


@contextmanager
def _local(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendError(
            f"{target} cannot be written on this computer: {error.strerror}."
        ) from error
