"""Updates of a mirror before something is read: names, small files, and appended data.

A file or folder of the mirror has the remote one's time if it is identical, as with rsync. SFTP
reports times in whole seconds, so a remote time is used for that only if it is some seconds old by
the remote disk's own clock: within one second a file can be replaced twice.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar

from backend.base.errors import BackendError
from backend.base.log import suppress, swallowed
from backend.datastore.library import library_files
from backend.datastore.nodes import history as node_history
from backend.records.base.atomic_files import replace_bytes, stored_record
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    SIDECAR_SUFFIX,
    AttemptFolder,
    DataRoot,
    JobFolder,
    NodeFolder,
)
from backend.records.base.local_files import remove_tree
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs import history
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.library.item import Kind
from backend.ssh.interface import Shell
from backend.ssh.persistent_connection import PersistentConnection
from backend.ssh.sftp import RemoteFile, SftpFiles

_RACY_S = 3
_SMALL_BYTES = 4_000_000
_CHUNK_BYTES = 1_000_000
_OVERLAP_BYTES = 256
_FOLDER_MODE = 0o700
_LEDGER_BYTES = 100_000_000
_JOB_FILES = (
    "config.toml",
    "job.lock",
    "launch.json",
    "meta.json",
    "notes.json",
    "origin.json",
    "placement.json",
    "proposal.json",
    "queued.json",
    "status.json",
)

T = TypeVar("T")


class MirrorReader:
    """Updates a local copy of the files of a remote data root."""

    def __init__(self, root: DataRoot, remote: RemoteRoot, connect: Callable[[], Shell]) -> None:
        self._root = root
        self._remote_root = remote
        self._clock_ahead_s: float | None = None
        self._refreshed_s = 0.0
        self._line = PersistentConnection(connect, self._measure_clock, remote.host)

    def _remote(self, path: Path) -> str:
        parts = path.absolute().relative_to(self._root.path.absolute()).parts
        return str(PurePosixPath(self._remote_root.path, *parts))

    def refresh_jobs(self) -> None:
        def pull(files: SftpFiles) -> None:
            remote_files = _folders(files, self._remote(self._root.jobs))
            self._remove_missing(self._root.jobs, remote_files)
            for name, remote in remote_files.items():
                folder = self._root.job(name)
                if not is_same(folder.path, remote):
                    with suppress(FileNotFoundError):
                        self._pull_job(files, folder)
                        self._mark(folder.path, remote)

        self._call(pull)

    def refresh_job(self, folder: JobFolder) -> None:
        self._call(lambda files: self._pull_job(files, folder))

    def refresh_history(self, folder: JobFolder) -> None:
        self._refresh_appended(folder.history, history.LIMIT_BYTES)

    def refresh_past(self, folder: NodeFolder) -> None:
        for path in (
            folder.history,
            folder.earlier_history,
            folder.week_history,
            folder.earlier_week_history,
        ):
            self._refresh_appended(path, node_history.LIMIT_BYTES)

    def refresh_usage(self) -> None:
        try:
            files = self._call(lambda files: files.entries(self._remote(self._root.usage)))
        except FileNotFoundError:
            return
        for file in files:
            self._refresh_appended(self._root.usage / file.name, _LEDGER_BYTES)

    def _refresh_appended(self, path: Path, limit_bytes: int) -> None:
        # In pieces, so that another read may run in between. No more pieces than the limit: the
        # file may grow as fast as it is fetched.
        for _ in range(limit_bytes // _CHUNK_BYTES + 2):
            if self._call(lambda files: self._pull_appended(files, path, limit_bytes)):
                return

    def refresh_library(self, kind: Kind) -> None:
        def pull(files: SftpFiles) -> None:
            kind_folder = library_files.kind_folder(self._root, kind)
            try:
                remote_files = _folders(files, self._remote(kind_folder))
            except FileNotFoundError:
                return
            self._remove_missing(kind_folder, remote_files)
            for name, remote in remote_files.items():
                if not is_same(kind_folder / name, remote):
                    self._pull_versions(files, kind_folder / name)
                    self._mark(kind_folder / name, remote)

        self._call(pull)

    def refresh_file(self, path: Path) -> None:
        self._call(lambda files: self._pull_file(files, path))

    def refresh_nodes(self) -> None:
        def pull(files: SftpFiles) -> None:
            try:
                remote_files = _folders(files, self._remote(self._root.nodes))
            except FileNotFoundError:
                # Not an empty folder: the share may not be mounted on the host.
                remove_tree(self._root.nodes)
                return
            self._remove_missing(self._root.nodes, remote_files)
            for name, remote in remote_files.items():
                folder = self._root.node(name)
                if not is_same(folder.path, remote):
                    for path in (folder.entry, folder.status):
                        self._pull_file(files, path)
                    self._mark(folder.path, remote)

        self._call(pull)

    def _pull_job(self, files: SftpFiles, folder: JobFolder) -> None:
        try:
            remote_files = {file.name: file for file in files.entries(self._remote(folder.path))}
        except FileNotFoundError:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        make_local_folder(folder.path)
        for name in _JOB_FILES:
            self._pull_if_changed(files, folder.path / name, remote_files.get(name))
        # Starting over moves the files of earlier runs; new files then have the same names.
        earlier_names = _names(folder.started_over_runs)
        self._pull_names(files, folder.started_over_runs, remote_files.get("runs"))
        if _names(folder.started_over_runs) - earlier_names:
            for part in (folder.output, folder.checkpoints):
                shutil.rmtree(part, ignore_errors=True)
        self._pull_names(files, folder.attempts, remote_files.get("attempts"))
        self._pull_checkpoints(files, folder, remote_files.get("checkpoints"))
        self._pull_acts(files, folder.acts, remote_files.get("acts"))
        if newest_run := folder.newest_run():
            self._pull_attempt(files, folder.attempt(newest_run))

    def _pull_attempt(self, files: SftpFiles, attempt: AttemptFolder) -> None:
        try:
            remote = files.status(self._remote(attempt.path))
            if is_same(attempt.path, remote):
                return
            remote_files = {
                file.name: file
                for file in files.entries(remote.path)
                if file.name.endswith(".json") and not file.name.startswith(".")
            }
        except FileNotFoundError:
            return
        for name, file in remote_files.items():
            self._pull_if_changed(files, attempt.path / name, file)
        # Until its supervisor is seen, the age of a claim is that of its local folder
        # (`datastore.jobs.run_status`), which must be by this computer's clock.
        if attempt.supervisor.name in remote_files:
            self._mark(attempt.path, remote)

    def _pull_checkpoints(
        self, files: SftpFiles, folder: JobFolder, remote: RemoteFile | None
    ) -> None:
        """Fetch the sidecar of each checkpoint whose file exists; see `list_checkpoints`.

        A script has its files elsewhere; its sidecars go with them.
        """
        local_folder = folder.checkpoints
        if remote is None or is_same(local_folder, remote):
            return
        remote_files = {file.name: file for file in files.entries(remote.path)}
        make_local_folder(local_folder)
        kept_names = set()
        for name, file in remote_files.items():
            stem, suffix = os.path.splitext(name)
            checkpoint_file = remote_files.get(stem + CHECKPOINT_SUFFIX)
            if suffix == KEEP_SUFFIX:
                kept_names.add(name)
                self._pull_if_changed(files, local_folder / name, file)
            if suffix != SIDECAR_SUFFIX or name.startswith("."):
                continue
            self._pull_if_changed(files, local_folder / name, file)
            if (
                checkpoint_file is not None
                or name == folder.latest.name
                or is_of_script(local_folder / name)
            ):
                kept_names.add(name)
            if checkpoint_file is not None and is_same(
                local_folder / checkpoint_file.name, checkpoint_file
            ):
                kept_names.add(checkpoint_file.name)
        for name in _names(local_folder) - kept_names:
            (local_folder / name).unlink(missing_ok=True)
        self._mark(local_folder, remote)

    def _pull_acts(self, files: SftpFiles, local_folder: Path, remote: RemoteFile | None) -> None:
        if remote is None or is_same(local_folder, remote):
            return
        make_local_folder(local_folder)
        local_names = _names(local_folder)
        for file in files.entries(remote.path):
            # Files in it never change.
            if file.name not in local_names and not file.name.startswith("."):
                self._pull_if_changed(files, local_folder / file.name, file)
        self._mark(local_folder, remote)

    def _pull_names(self, files: SftpFiles, local_folder: Path, remote: RemoteFile | None) -> None:
        if remote is None or is_same(local_folder, remote):
            return
        remote_files = _folders(files, remote.path)
        self._remove_missing(local_folder, remote_files)
        for name in remote_files:
            make_local_folder(local_folder / name)
        self._mark(local_folder, remote)

    def _pull_versions(self, files: SftpFiles, local_folder: Path) -> None:
        try:
            remote_files = {file.name: file for file in files.entries(self._remote(local_folder))}
        except FileNotFoundError:
            return
        self._remove_missing(local_folder, remote_files)
        for name, remote in remote_files.items():
            if remote.is_folder and not name.startswith("."):
                make_local_folder(local_folder / name)
                self._pull_file(files, local_folder / name / library_files.META)
            elif name.endswith(".removed"):
                self._pull_if_changed(files, local_folder / name, remote)

    def _pull_file(self, files: SftpFiles, path: Path) -> None:
        try:
            self._pull_if_changed(files, path, files.status(self._remote(path)))
        except FileNotFoundError:
            path.unlink(missing_ok=True)

    def _pull_if_changed(self, files: SftpFiles, path: Path, remote: RemoteFile | None) -> None:
        """Fetch a small file, unless the local copy is equal. A pipe would never end."""
        if remote is None or not remote.is_plain:
            path.unlink(missing_ok=True)
            return
        if is_same(path, remote):
            return
        try:
            # One byte more than a reader accepts: it then reports that the file is too large.
            content = files.read(remote.path, 0, _SMALL_BYTES + 1)
        except FileNotFoundError:
            path.unlink(missing_ok=True)
            return
        make_local_folder(path.parent)
        replace_bytes(path, content, durable=False)
        self._mark(path, remote)

    def _pull_appended(self, files: SftpFiles, path: Path, limit_bytes: int) -> bool:
        """Fetch a piece of what was appended; return False if there may be more."""
        try:
            remote = files.status(self._remote(path))
        except FileNotFoundError:
            return self._restart_copy(files, path, None)
            # One byte more than a reader accepts: it then reports that the file is too large.
        target_size = min(remote.bytes, limit_bytes + 1)
        local_size = path.stat().st_size if path.exists() else 0
        if local_size == target_size:
            return True
        if local_size > target_size:
            return self._restart_copy(files, path, remote)
        start = max(0, local_size - _OVERLAP_BYTES)
        chunk = files.read(remote.path, start, min(_CHUNK_BYTES, target_size - start))
        make_local_folder(path.parent)
        with path.open("r+b" if path.exists() else "x+b") as file:
            file.seek(start)
            overlap = file.read(local_size - start)
            if len(overlap) != local_size - start or not chunk.startswith(overlap):
                # It was truncated or replaced.
                return self._restart_copy(files, path, remote)
            # At its offset, not appended: another process of this desktop may write it too.
            file.seek(local_size)
            file.write(chunk[local_size - start :])
        return start + len(chunk) >= target_size

    def _restart_copy(self, files: SftpFiles, path: Path, remote: RemoteFile | None) -> bool:
        """Restart the copy of a file that was replaced; as `_pull_appended`."""
        path.unlink(missing_ok=True)
        return remote is None

    def _remove_missing(self, local_folder: Path, remote_files: Mapping[str, RemoteFile]) -> None:
        make_local_folder(local_folder)
        for name in _names(local_folder) - remote_files.keys():
            path = local_folder / name
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)

    def _measure_clock(self, files: SftpFiles) -> None:
        """Measure how much the remote disk's clock is ahead, with a file that is created there."""
        mark = f"{self._remote_root.path}/.now-{secrets.token_hex(4)}"
        self._clock_ahead_s = None
        # On a read-only data root the clock is not known, and everything small is fetched again.
        with suppress(FileNotFoundError, FileExistsError, BackendError):
            files.create(mark, b"")
            try:
                self._clock_ahead_s = files.status(mark).mtime_s - time.monotonic()
            finally:
                files.remove(mark)

    def _call(self, work: Callable[[SftpFiles], T]) -> T:
        def pull(files: SftpFiles) -> T:
            self._refreshed_s = time.monotonic()
            return work(files)

        return self._line.ask(pull)

    def _mark(self, path: Path, remote: RemoteFile) -> None:
        """Mark ``path`` as equal to its original, if it cannot have changed since."""
        ahead_s = self._clock_ahead_s
        if ahead_s is not None and remote.mtime_s < self._refreshed_s + ahead_s - _RACY_S:
            with suppress(OSError):
                os.utime(path, (remote.mtime_s, remote.mtime_s))


def _folders(files: SftpFiles, path: str) -> dict[str, RemoteFile]:
    return {
        file.name: file
        for file in files.entries(path)
        if file.is_folder and not file.name.startswith(".")
    }


def _names(folder: Path) -> set[str]:
    """Return names that are not hidden: an incomplete item does not exist on the remote host."""
    try:
        return {name for name in os.listdir(folder) if not name.startswith(".")}
    except FileNotFoundError:
        return set()


def is_of_script(sidecar: Path) -> bool:
    """Return whether a script wrote the checkpoint, where it wanted to."""
    checkpoint = stored_record(Checkpoint, sidecar)
    return checkpoint is not None and bool(checkpoint.file)


def make_local_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)


def is_same(path: Path, remote: RemoteFile) -> bool:
    try:
        status = path.stat()
    except OSError as error:
        swallowed(error)
        return False
    return status.st_mtime == remote.mtime_s and (
        remote.is_folder or status.st_size == remote.bytes
    )
