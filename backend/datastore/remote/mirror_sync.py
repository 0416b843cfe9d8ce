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
from backend.records.base.atomic_files import read_json, replace_bytes
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
_PIECE_BYTES = 1_000_000
_OVERLAP_BYTES = 256
_FOLDER_MODE = 0o700
_OF_A_JOB = (
    "config.toml",
    "job.lock",
    "launch.json",
    "meta.json",
    "notes.json",
    "origin.json",
    "placement.json",
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
        self._line = PersistentConnection(connect, self._ask_the_time, remote.host)

    def _remote(self, path: Path) -> str:
        parts = path.absolute().relative_to(self._root.path.absolute()).parts
        return str(PurePosixPath(self._remote_root.path, *parts))

    def refresh_jobs(self) -> None:
        def pull(files: SftpFiles) -> None:
            found = _folders(files, self._remote(self._root.jobs))
            self._forget_others(self._root.jobs, found)
            for name, remote in found.items():
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
        for path in (folder.past, folder.earlier, folder.week, folder.earlier_week):
            self._refresh_appended(path, node_history.LIMIT_BYTES)

    def _refresh_appended(self, path: Path, limit_bytes: int) -> None:
        # In pieces, so that another read may run in between. No more pieces than the limit: the
        # file may grow as fast as it is fetched.
        for _ in range(limit_bytes // _PIECE_BYTES + 2):
            if self._call(lambda files: self._pull_appended(files, path, limit_bytes)):
                return

    def refresh_library(self, kind: Kind) -> None:
        def pull(files: SftpFiles) -> None:
            place = library_files.kind_folder(self._root, kind)
            try:
                found = _folders(files, self._remote(place))
            except FileNotFoundError:
                return
            self._forget_others(place, found)
            for name, remote in found.items():
                if not is_same(place / name, remote):
                    self._pull_versions(files, place / name)
                    self._mark(place / name, remote)

        self._call(pull)

    def refresh_file(self, path: Path) -> None:
        self._call(lambda files: self._pull_file(files, path))

    def refresh_nodes(self) -> None:
        def pull(files: SftpFiles) -> None:
            try:
                found = _folders(files, self._remote(self._root.nodes))
            except FileNotFoundError:
                # Not an empty folder: the share may not be mounted on the host.
                remove_tree(self._root.nodes)
                return
            self._forget_others(self._root.nodes, found)
            for name, remote in found.items():
                folder = self._root.node(name)
                if not is_same(folder.path, remote):
                    for path in (folder.entry, folder.status):
                        self._pull_file(files, path)
                    self._mark(folder.path, remote)

        self._call(pull)

    def _pull_job(self, files: SftpFiles, folder: JobFolder) -> None:
        try:
            found = {one.name: one for one in files.entries(self._remote(folder.path))}
        except FileNotFoundError:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        make_here(folder.path)
        for name in _OF_A_JOB:
            self._pull_known(files, folder.path / name, found.get(name))
        # Starting over moves the files of earlier runs; new files then have the same names.
        earlier = _names(folder.runs)
        self._pull_names(files, folder.runs, found.get("runs"))
        if _names(folder.runs) - earlier:
            for part in (folder.output, folder.checkpoints):
                shutil.rmtree(part, ignore_errors=True)
        self._pull_names(files, folder.attempts, found.get("attempts"))
        self._pull_checkpoints(files, folder, found.get("checkpoints"))
        self._pull_acts(files, folder.acts, found.get("acts"))
        if newest := folder.newest_run():
            self._pull_attempt(files, folder.attempt(newest))

    def _pull_attempt(self, files: SftpFiles, attempt: AttemptFolder) -> None:
        try:
            remote = files.status(self._remote(attempt.path))
            if is_same(attempt.path, remote):
                return
            found = {
                one.name: one
                for one in files.entries(remote.path)
                if one.name.endswith(".json") and not one.name.startswith(".")
            }
        except FileNotFoundError:
            return
        for name, one in found.items():
            self._pull_known(files, attempt.path / name, one)
        # Until its supervisor is seen, the age of a claim is that of its local folder
        # (`datastore.jobs.run_status`), which must be by this computer's clock.
        if attempt.supervisor.name in found:
            self._mark(attempt.path, remote)

    def _pull_checkpoints(
        self, files: SftpFiles, folder: JobFolder, remote: RemoteFile | None
    ) -> None:
        """Fetch the sidecar of each checkpoint whose file exists; see `list_checkpoints`.

        A script has its files elsewhere; its sidecars go with them.
        """
        here = folder.checkpoints
        if remote is None or is_same(here, remote):
            return
        found = {one.name: one for one in files.entries(remote.path)}
        make_here(here)
        kept = set()
        for name, one in found.items():
            stem, suffix = os.path.splitext(name)
            there = found.get(stem + CHECKPOINT_SUFFIX)
            if suffix == KEEP_SUFFIX:
                kept.add(name)
                self._pull_known(files, here / name, one)
            if suffix != SIDECAR_SUFFIX or name.startswith("."):
                continue
            self._pull_known(files, here / name, one)
            if there is not None or name == folder.latest.name or is_of_script(here / name):
                kept.add(name)
            if there is not None and is_same(here / there.name, there):
                kept.add(there.name)
        for name in _names(here) - kept:
            (here / name).unlink(missing_ok=True)
        self._mark(here, remote)

    def _pull_acts(self, files: SftpFiles, here: Path, remote: RemoteFile | None) -> None:
        if remote is None or is_same(here, remote):
            return
        make_here(here)
        known = _names(here)
        for one in files.entries(remote.path):
            # Files in it never change.
            if one.name not in known and not one.name.startswith("."):
                self._pull_known(files, here / one.name, one)
        self._mark(here, remote)

    def _pull_names(self, files: SftpFiles, here: Path, remote: RemoteFile | None) -> None:
        if remote is None or is_same(here, remote):
            return
        found = _folders(files, remote.path)
        self._forget_others(here, found)
        for name in found:
            make_here(here / name)
        self._mark(here, remote)

    def _pull_versions(self, files: SftpFiles, here: Path) -> None:
        try:
            found = {one.name: one for one in files.entries(self._remote(here))}
        except FileNotFoundError:
            return
        self._forget_others(here, found)
        for name, remote in found.items():
            if remote.is_folder and not name.startswith("."):
                make_here(here / name)
                self._pull_file(files, here / name / library_files.META)
            elif name.endswith(".removed"):
                self._pull_known(files, here / name, remote)

    def _pull_file(self, files: SftpFiles, path: Path) -> None:
        try:
            self._pull_known(files, path, files.status(self._remote(path)))
        except FileNotFoundError:
            path.unlink(missing_ok=True)

    def _pull_known(self, files: SftpFiles, path: Path, remote: RemoteFile | None) -> None:
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
        make_here(path.parent)
        replace_bytes(path, content, lasting=False)
        self._mark(path, remote)

    def _pull_appended(self, files: SftpFiles, path: Path, limit_bytes: int) -> bool:
        """Fetch a piece of what was appended; return False if there may be more."""
        try:
            remote = files.status(self._remote(path))
        except FileNotFoundError:
            return self._begin_again(files, path, None)
            # One byte more than a reader accepts: it then reports that the file is too large.
        wanted = min(remote.bytes, limit_bytes + 1)
        have = path.stat().st_size if path.exists() else 0
        if have == wanted:
            return True
        if have > wanted:
            return self._begin_again(files, path, remote)
        begin = max(0, have - _OVERLAP_BYTES)
        piece = files.read(remote.path, begin, min(_PIECE_BYTES, wanted - begin))
        make_here(path.parent)
        with path.open("r+b" if path.exists() else "x+b") as file:
            file.seek(begin)
            known = file.read(have - begin)
            if len(known) != have - begin or not piece.startswith(known):
                # It was truncated or replaced.
                return self._begin_again(files, path, remote)
            # At its offset, not appended: another process of this desktop may write it too.
            file.seek(have)
            file.write(piece[have - begin :])
        return begin + len(piece) >= wanted

    def _begin_again(self, files: SftpFiles, path: Path, remote: RemoteFile | None) -> bool:
        """Restart the copy of a file that was replaced; as `_pull_appended`."""
        path.unlink(missing_ok=True)
        return remote is None

    def _forget_others(self, here: Path, found: Mapping[str, RemoteFile]) -> None:
        make_here(here)
        for name in _names(here) - found.keys():
            path = here / name
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)

    def _ask_the_time(self, files: SftpFiles) -> None:
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
        one.name: one
        for one in files.entries(path)
        if one.is_folder and not one.name.startswith(".")
    }


def _names(here: Path) -> set[str]:
    """Return names that are not hidden: an incomplete item does not exist on the remote host."""
    try:
        return {name for name in os.listdir(here) if not name.startswith(".")}
    except FileNotFoundError:
        return set()


def is_of_script(sidecar: Path) -> bool:
    """Return whether a script wrote the checkpoint, where it wanted to."""
    with suppress(OSError, ValueError):
        return bool(Checkpoint.from_dict(read_json(sidecar)).file)
    return False


def make_here(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)


def is_same(path: Path, remote: RemoteFile) -> bool:
    try:
        here = path.stat()
    except OSError as error:
        swallowed(error)
        return False
    return here.st_mtime == remote.mtime_s and (remote.is_folder or here.st_size == remote.bytes)
