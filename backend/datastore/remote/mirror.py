"""A local mirror of a data root that this desktop does not mount, updated over SFTP.

All other modules read plain files, those of the mirror. The mirror is updated before: a file that
was replaced is fetched whole, a history from the end of the last fetch, and large files
(checkpoints, datasets, logs) only when needed. Changes are made on the remote host first, then in
the mirror, so whatever only one desktop may win is still decided by one call of the remote file
system.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access import hashes
from backend.datastore.access.root_access import DataRootAccess
from backend.datastore.remote import mirror_cache, remote_content
from backend.datastore.remote.mirror_cache import CachedItem
from backend.datastore.remote.mirror_sync import MirrorReader, is_same, make_local_folder
from backend.records.base.atomic_files import replace_bytes
from backend.records.base.content import folder_sha256
from backend.records.base.layout import JobFolder
from backend.records.base.local_files import remove_tree
from backend.records.base.remote_root import MirrorUsage
from backend.records.library.item import FileEntry
from backend.ssh.interface import Shell
from backend.ssh.sftp import RemoteFile, SftpFiles

_FOLDER_MODE = 0o700
_PRUNED = ".pruned"
_PRUNE_S = 86_400.0


class Mirror(MirrorReader, DataRootAccess):
    """Access to a local copy of the files of a remote data root.

    ``connect`` opens a connection to the host. Every call may run on any thread.
    """

    is_mounted = False

    def open(self) -> None:
        """Connect to the data root; create its folder if only that is missing.

        Raises:
            BackendError: It cannot be reached, or is not a data root.
        """
        label = self._remote_root.label
        try:
            root_status = self._line.ask(self._find_root)
        except FileNotFoundError as error:
            raise BackendError(
                f"The data root {label} does not exist, nor does its parent folder.",
                f"Mount the share on {self._remote_root.host}, or choose another folder: "
                "--data-root.",
            ) from error
        if not root_status.is_folder:
            raise BackendError(f"The data root {label} is a file.", "Choose a folder: --data-root.")
        try:
            self._root.path.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        except OSError as error:
            raise BackendError(
                f"The mirror of {label} on this computer, {self._root.path}, cannot be created: "
                f"{error.strerror}."
            ) from error
        self._prune_daily()

    def _find_root(self, files: SftpFiles) -> RemoteFile:
        path = self._remote_root.path
        try:
            return files.status(path)
        except FileNotFoundError:
            with suppress(FileExistsError):
                files.make_folder(path)
            return files.status(path)

    def close(self) -> None:
        self._line.close()

    # Names.

    def display_path(self, path: Path) -> str:
        return str(PurePosixPath(self._remote_root.label, *path.relative_to(self._root.path).parts))

    def on_nodes(self, path: Path) -> str:
        return self._remote(path)

    def url(self, path: Path) -> str:
        return self._remote_root.url(self._remote(path))

    # Reading large files in place.

    def size(self, path: Path) -> int:
        return self._line.ask(
            lambda files: sum(
                file.bytes for _, file in remote_content.files_of(files, self._remote(path))
            )
        )

    def changed_s(self, path: Path) -> float:
        # The local file has the time of this computer until the mirror has compared the two.
        return self._line.ask(lambda files: files.status(self._remote(path)).mtime_s)

    def read(self, path: Path, offset: int, limit_bytes: int) -> bytes:
        return self._line.ask(lambda files: files.read(self._remote(path), offset, limit_bytes))

    def sha256(self, path: Path, on_bytes: Callable[[int], None]) -> str:
        with self._line.separate_shell() as shell:
            with shell.files() as files:
                named_files = remote_content.files_of(files, self._remote(path))
            name_hashes = (
                (name, remote_content.sha256(shell, file.path, on_bytes) if file.is_plain else "")
                for name, file in named_files
            )
            if named_files and not named_files[0][0]:
                return next(name_hashes)[1]
            return folder_sha256(name_hashes)

    def fingerprint(self, folder: Path) -> str:
        return self._line.ask(lambda files: remote_content.fingerprint(files, self._remote(folder)))

    def list_files(self, folder: Path) -> list[FileEntry]:
        tree = self._line.ask(lambda files: remote_content.walk(files, self._remote(folder)))
        return [FileEntry(path, file.bytes) for path, file in sorted(tree.files.items())]

    def compare(
        self,
        subject: str,
        folder: Path,
        expected_hashes: Mapping[str, str],
        on_bytes: Callable[[int], None],
    ) -> None:
        with self._line.separate_shell() as shell:
            remote_content.compare(shell, subject, self._remote(folder), expected_hashes, on_bytes)

    def has_local_file(self, path: Path) -> bool:
        mirror_cache.mark_used(path)
        return path.exists()

    def bring_file(self, path: Path, progress: Progress) -> None:
        make_local_folder(path.parent)
        remote = self._call(lambda files: files.status(self._remote(path)))
        if remote.is_folder:
            for name, _ in self._call(lambda files: remote_content.files_of(files, remote.path)):
                self.bring_file(path / name, progress)
            return
        if is_same(path, remote):
            mirror_cache.mark_used(path)
            return
        label = f"Fetching {path.name}"
        with self._line.separate_shell() as shell:
            shell.fetch(
                remote.path,
                path,
                lambda done_bytes, total_bytes: progress.step(done_bytes, total_bytes, label),
            )
        os.utime(path, (time.time(), remote.mtime_s))
        self._prune()

    def bring_content(
        self, folder: Path, expected_hashes: Mapping[str, str], progress: Progress
    ) -> None:
        if not folder.exists():
            with self._line.separate_shell() as shell:
                remote_content.bring(shell, self._remote(folder), folder, expected_hashes, progress)
            self._prune()

    # Usage and cleanup of the local copy.

    def mirror_usage(self) -> MirrorUsage:
        items = mirror_cache.cached_items(self._root)
        return MirrorUsage(
            str(self._root.path),
            str(self._remote_root),
            mirror_cache.size(self._root.path),
            sum(item.bytes for item in items),
        )

    def clear(self) -> int:
        return self._drop(mirror_cache.cached_items(self._root))

    def _prune_daily(self) -> None:
        mark = self._root.path / _PRUNED
        with suppress(OSError):
            if not mark.exists() or time.time() - mark.stat().st_mtime > _PRUNE_S:
                mark.touch()
                self._prune()

    def _prune(self) -> None:
        # Cleanup is optional: its failure must not prevent other work.
        with suppress(BackendError, OSError):
            items = mirror_cache.expired_items(mirror_cache.cached_items(self._root), time.time())
            if items:
                self._drop(items)

    def _drop(self, items: list[CachedItem]) -> int:
        """Drop only what the data root still has."""
        if not items:
            return 0
        with self._line.separate_shell() as shell:
            return mirror_cache.drop(items, lambda item: self._is_unchanged(shell, item))

    def _is_unchanged(self, shell: Shell, item: CachedItem) -> bool:
        remote = self._remote(item.path)
        with suppress(FileNotFoundError), shell.files() as files:
            if not item.path.is_dir():
                return is_same(item.path, files.status(remote))
            remote_files = remote_content.walk(files, remote).files
            local_sizes = {name: status.st_size for name, status in hashes.walk(item.path)}
            return local_sizes == {name: file.bytes for name, file in remote_files.items()}
        return False

    # Changes: remote first, then local.

    def names(self, folder: Path) -> list[str]:
        remote_files = self._line.ask(lambda files: files.entries(self._remote(folder)))
        return [file.name for file in remote_files]

    def exists(self, path: Path) -> bool:
        try:
            self._line.ask(lambda files: files.status(self._remote(path)))
        except FileNotFoundError:
            return False
        return True

    def make_folder(self, path: Path, *, exist_ok: bool = False) -> None:
        try:
            self._line.act(lambda files: files.make_folder(self._remote(path)))
        except FileExistsError:
            if not exist_ok:
                raise
        make_local_folder(path)

    def replace_bytes(self, path: Path, value: bytes) -> None:
        self._line.act(lambda files: files.write(self._remote(path), value))
        make_local_folder(path.parent)
        replace_bytes(path, value, durable=False)

    def replace_json(self, path: Path, value: Any) -> None:
        text = json.dumps(value, allow_nan=False, indent=1) + "\n"
        self.replace_bytes(path, text.encode())

    def create(self, path: Path, value: bytes) -> None:
        self._line.act(lambda files: files.create(self._remote(path), value))
        replace_bytes(path, value, durable=False)

    def rename(self, old_path: Path, new_path: Path) -> None:
        self._line.act(lambda files: files.rename(self._remote(old_path), self._remote(new_path)))
        # A read on another thread may have done it already; the next one fetches what is missing.
        with suppress(OSError):
            make_local_folder(new_path.parent)
            os.rename(old_path, new_path)
        remove_tree(old_path)

    def remove(self, path: Path) -> None:
        self._line.act(lambda files: files.remove(self._remote(path)))
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        remove_tree(path)
        # It cleans up after a failure, and that failure is the one to report.
        with suppress(BackendError, OSError):
            self._line.act(lambda files: files.remove_tree(self._remote(path)))

    def publish(self, built: Path, progress: Progress) -> None:
        remote_content.publish(self._line.separate_shell, built, self._remote(built), progress)

    def has_files_of(self, folder: JobFolder) -> bool:
        return False

    def notify_end(self, folder: JobFolder, run: int) -> None:
        exit_path = folder.attempt(run).exit
        try:
            self.create(exit_path, exit_path.read_bytes())
        except FileExistsError:
            # The first writer counts.
            self.refresh_job(folder)
        else:
            self.replace_bytes(folder.status, folder.status.read_bytes())
