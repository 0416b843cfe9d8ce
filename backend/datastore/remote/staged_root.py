"""Transfers between the data root and a node that does not see it, over one persistent connection.

The node has a staged root with the layout of the data root. A version of the library is sent to it
once, by its hash; a job's folder before each run. During the run its small files are fetched as
they change, and all the rest when it has ended, so that the data root has everything of every ended
run. Fetched files are added or replaced whole, and removed only if rank 0 removed them on the
node.
"""

from __future__ import annotations

import math
import os
import posixpath
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.base.progress import Progress
from backend.datastore.access import hashes
from backend.datastore.jobs.checkpoint_files import newest_name
from backend.datastore.remote import remote_content
from backend.datastore.remote.mirror_sync import MirrorReader, is_of_script, is_same
from backend.records.base import access_modes
from backend.records.base.atomic_files import stored_record
from backend.records.base.content import hash_file
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    SIDECAR_SUFFIX,
    AttemptFolder,
    DataRoot,
    JobFolder,
)
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs import history
from backend.records.jobs.checkpoint import Checkpoint, read_checkpoints, read_record
from backend.records.jobs.launch import remote_run_of
from backend.ssh.interface import Shell, Unreachable
from backend.ssh.sftp import RemoteFile, SftpFiles

_QUIET_S = 30.0
"""After a node was silent, reads do not wait for it again before it answers or this time passed."""
_STATUS_EVERY_S = 0.7
_PAUSE_S = 3.0
_SENT_NAMES = (
    "config.toml",
    "meta.json",
    "notes.json",
    "origin.json",
    "launch.json",
    "status.json",
)

T = TypeVar("T")


class StagedRoot(MirrorReader):
    """The staged root of one node; ``connect`` opens a connection to it.

    Every call may run on any thread, and raise `BackendError` if the node does not answer.
    """

    def __init__(self, root: DataRoot, remote: RemoteRoot, connect: Callable[[], Shell]) -> None:
        super().__init__(root, remote, connect)
        self.node = remote.host
        self._failure: Unreachable | None = None
        self._silent_until = 0.0
        self._asked_s = -math.inf
        self._status_thread: threading.Thread | None = None
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        # A thread that still waits for a silent node closes its connection itself.
        if self._status_thread is None or not self._status_thread.is_alive():
            self._line.close()

    # Status of the node's agent.

    def ask_for_status(self) -> threading.Thread | None:
        """Fetch the agent's last status in the background; return without waiting.

        A caller may wait for the returned thread at the first request or after a pause, when the
        local status is old only because of a slow connection, not a silent node.
        """
        now_s = time.monotonic()
        is_busy = self._status_thread is not None and self._status_thread.is_alive()
        if is_busy or self._is_closed or now_s < self._asked_s + _STATUS_EVERY_S:
            return None
        is_after_pause = self._asked_s < now_s - _PAUSE_S and self._failure is None
        self._asked_s = now_s
        self._status_thread = threading.Thread(target=self._fetch_status, daemon=True)
        self._status_thread.start()
        return self._status_thread if is_after_pause else None

    def _fetch_status(self) -> None:
        folder = self._root.node(self.node)

        def fetch(files: SftpFiles) -> None:
            for path in (folder.info, folder.status):
                if folder.entry.exists():
                    self._pull_file(files, path)

        with suppress(BackendError, OSError):
            self._ask(fetch)
        if self._is_closed:
            self._line.close()

    # A run whose files are on the node.

    def refresh_run(self, folder: JobFolder, run: int) -> None:
        """Fetch a job's state, and the names and figures of its checkpoints."""

        def pull(files: SftpFiles) -> None:
            try:
                remote_files = {
                    file.name: file for file in files.entries(self._remote(folder.path))
                }
            except FileNotFoundError:
                return
            for path in (folder.status, folder.stop_request):
                if path.name in remote_files:
                    self._pull_if_changed(files, path, remote_files[path.name])
            self._pull_checkpoints_of(files, folder, run, remote_files.get(folder.checkpoints.name))
            self._pull_attempt(files, folder.attempt(run))

        self._call(pull)

    def refresh_small_file(self, path: Path) -> None:
        def pull(files: SftpFiles) -> None:
            with suppress(FileNotFoundError):
                self._pull_if_changed(files, path, files.status(self._remote(path)))

        self._call(pull)

    def _pull_checkpoints_of(
        self, files: SftpFiles, folder: JobFolder, run: int, remote: RemoteFile | None
    ) -> None:
        local_folder = folder.checkpoints
        if remote is None or is_same(local_folder, remote):
            return
        remote_files = {file.name: file for file in files.entries(remote.path)}
        for name, file in remote_files.items():
            stem, suffix = os.path.splitext(name)
            is_complete = stem + CHECKPOINT_SUFFIX in remote_files or name == folder.latest.name
            if suffix == SIDECAR_SUFFIX and not name.startswith("."):
                self._pull_if_changed(files, local_folder / name, file)
                if not is_complete and not is_of_script(local_folder / name):
                    (local_folder / name).unlink(missing_ok=True)
        for sidecar in local_folder.glob(f"*{SIDECAR_SUFFIX}"):
            if sidecar.name not in remote_files and _is_of_run(sidecar, folder, run):
                # Rank 0 keeps the requested number, and has removed this one.
                sidecar.unlink(missing_ok=True)
                sidecar.with_suffix(CHECKPOINT_SUFFIX).unlink(missing_ok=True)
        self._mark(local_folder, remote)

    def _restart_copy(self, files: SftpFiles, path: Path, remote: RemoteFile | None) -> bool:
        if remote is not None:
            # In one step: if the node is lost meanwhile, this is the only copy.
            files.fetch(remote.path, path, None)
        return True

    def _call(self, work: Callable[[SftpFiles], T]) -> T:
        if self._failure is not None and time.monotonic() < self._silent_until:
            raise Unreachable(self._failure.message, self._failure.remedy) from self._failure
        return self._ask(work)

    def _ask(self, work: Callable[[SftpFiles], T]) -> T:
        try:
            result = super()._call(work)
        except Unreachable as error:
            self._failure, self._silent_until = error, time.monotonic() + _QUIET_S
            raise
        self._failure = None
        return result

    # Large files in place.

    def size(self, path: Path) -> int:
        named_files = self._call(lambda files: remote_content.files_of(files, self._remote(path)))
        return sum(file.bytes for _, file in named_files)

    def read(self, path: Path, offset: int, limit_bytes: int) -> bytes:
        return self._call(lambda files: files.read(self._remote(path), offset, limit_bytes))

    def create(self, path: Path, value: bytes) -> None:
        self._line.act(lambda files: files.create(self._remote(path), value))

    def replace(self, path: Path, value: bytes) -> None:
        self._line.act(lambda files: files.write(self._remote(path), value))

    def remove(self, path: Path) -> None:
        self._line.act(lambda files: files.remove(self._remote(path)))

    def fetch(self, paths: Sequence[Path], progress: Progress) -> None:
        """Fetch files and folders that are complete there, unless they are here already."""
        with self._line.separate_shell() as shell, shell.files() as files:
            remote_files = [
                (path / name, file)
                for path in paths
                for name, file in remote_content.files_of(files, self._remote(path))
            ]
            self._fetch(files, remote_files, progress)

    def _fetch(
        self, files: SftpFiles, remote_files: Sequence[tuple[Path, RemoteFile]], progress: Progress
    ) -> None:
        missing_files = [(path, file) for path, file in remote_files if not is_same(path, file)]
        total_bytes = sum(file.bytes for _, file in missing_files)
        earlier_bytes = 0
        for path, file in missing_files:

            def on_bytes(
                done_bytes: int, _: int, earlier_bytes: int = earlier_bytes, name: str = path.name
            ) -> None:
                progress.step(
                    earlier_bytes + done_bytes, total_bytes, f"Fetching {name} from {self.node}"
                )

            access_modes.make_folders(path.parent)
            files.fetch(file.path, path, on_bytes)
            with suppress(OSError):
                os.utime(path, (time.time(), file.mtime_s))
            earlier_bytes += file.bytes

    def bring_home(self, folder: JobFolder, run: int, progress: Progress) -> None:
        """Fetch everything of an ended run to the data root, the newest checkpoint first."""
        self.refresh_run(folder, run)
        with self._line.separate_shell() as shell, shell.files() as files:
            # Files of earlier runs were sent from here.
            records = [
                record
                for record in read_checkpoints(folder.checkpoints, SIDECAR_SUFFIX)
                if record.run == run
            ]
            names = {record.name for record in records}
            newest_checkpoint = newest_name(folder)
            checkpoints = [
                (folder.checkpoints / name, file)
                for name, file in self._files_below(files, folder.checkpoints).items()
                if name.endswith(CHECKPOINT_SUFFIX) and Path(name).stem in names
            ]
            checkpoints.sort(key=lambda pair: pair[0].stem != newest_checkpoint)
            self._fetch(files, checkpoints, progress)
            # A script may write its checkpoints in its working folder, too.
            script_paths = [Path(record.path) for record in records if record.file]
            script_paths = [path for path in script_paths if not path.is_relative_to(folder.output)]
            other_files = []
            for part in (folder.attempt(run).path, folder.logs, folder.output, *script_paths):
                for name, file in self._files_below(files, part).items():
                    path = part / name
                    if path == folder.history or part == folder.logs:
                        access_modes.make_folders(path.parent)
                        while not self._pull_appended(files, path, history.LIMIT_BYTES):
                            progress.step(0, 0, f"Fetching {path.name} from {self.node}")
                    else:
                        other_files.append((path, file))
            self._fetch(files, other_files, progress)
        # The end was written last, so files that were listed before may have changed since.
        self.refresh_run(folder, run)

    def _files_below(self, files: SftpFiles, folder: Path) -> dict[str, RemoteFile]:
        """Return complete files below a remote folder, by relative path; a file itself by ""."""
        try:
            named_files = remote_content.files_of(files, self._remote(folder))
        except FileNotFoundError:
            return {}
        return {name: file for name, file in named_files if not _is_hidden(name)}

    # Before a run.

    def send_version(self, version: Path, label: str, progress: Progress) -> None:
        """Send a version of the library, unless the node has one with the same hashes."""
        listing = (version / hashes.MANIFEST).read_bytes()
        remote = self._remote(version)
        progress.step(0, 0, f"Checking for {label} on {self.node}")
        with self._line.separate_shell() as shell:
            try:
                if (
                    shell.read(f"{remote}/{hashes.MANIFEST}", limit_bytes=len(listing) + 1)
                    == listing
                ):
                    return
            except FileNotFoundError:
                pass
            with shell.files() as files:
                self._make_folders(files, posixpath.dirname(remote))
                self._set_aside(files, remote)
        staging = f"{posixpath.dirname(remote)}/.{version.name}.{secrets.token_hex(4)}"
        send_label = f"Sending {label} to {self.node}"
        remote_content.publish(self._line.separate_shell, version, staging, progress, send_label)
        # If two desktops send the same version, the second one finds it on the node.
        with suppress(FileExistsError):
            self._line.act(lambda files: files.rename(staging, remote))
            return
        self._line.act(lambda files: files.remove_tree(staging))

    def send_files(self, paths: Sequence[Path], progress: Progress) -> None:
        """Send files of the data root, unless the node has them already."""
        with self._line.separate_shell() as shell, shell.files() as files:
            for path in paths:
                self._send(shell, files, path, progress)

    def _send(self, shell: Shell, files: SftpFiles, path: Path, progress: Progress) -> None:
        remote = self._remote(path)
        try:
            has_size = files.status(remote).bytes == path.stat().st_size
            if has_size and hash_file(path) == remote_content.sha256(shell, remote, lambda n: None):
                return
        except FileNotFoundError:
            self._make_folders(files, posixpath.dirname(remote))
        label = f"Sending {path.name} to {self.node}"
        files.send(
            path,
            remote,
            lambda done_bytes, total_bytes: progress.step(done_bytes, total_bytes, label),
        )

    def begin_job(self, folder: JobFolder) -> None:
        """Set aside what the node has of the job and was never fetched: the run begins empty."""
        if not any(
            remote_run is not None and remote_run.node == self.node and not remote_run.is_home
            for remote_run in map(remote_run_of, _attempts(folder))
        ):
            return
        self._line.act(lambda files: self._set_aside(files, self._remote(folder.path)))

    def send_job(self, folder: JobFolder, run: int, progress: Progress) -> None:
        """Make the job's folder on the node equal to the local one, except missing checkpoints."""
        with self._line.separate_shell() as shell, shell.files() as files:
            parts = (folder.logs, folder.output, folder.checkpoints, folder.attempt(run).path)
            for part in parts:
                self._make_folders(files, self._remote(part))
            for part in (folder.logs, folder.output):
                local_names = [name for name, _ in hashes.walk(part) if not _is_hidden(name)]
                for name in local_names:
                    self._send(shell, files, part / name, progress)
                for name, file in self._files_below(files, part).items():
                    if name not in local_names:
                        files.remove(file.path)
            local_names = os.listdir(folder.checkpoints)
            for name, file in self._files_below(files, folder.checkpoints).items():
                if name not in local_names:
                    files.remove(file.path)
            for name in local_names:
                # Including those that are not sent, so that their names are not reused.
                if name.endswith(KEEP_SUFFIX):
                    files.write(self._remote(folder.checkpoints / name), b"{}\n")
                elif name.endswith(SIDECAR_SUFFIX) and is_of_script(folder.checkpoints / name):
                    # Without its record the script's file would count as a new checkpoint.
                    self._send(shell, files, folder.checkpoints / name, progress)
            if folder.latest.exists():
                self._send(shell, files, folder.latest, progress)
            files.remove(self._remote(folder.stop_request))
            for name in _SENT_NAMES:
                if (folder.path / name).exists():
                    value = (folder.path / name).read_bytes()
                    files.write(self._remote(folder.path / name), value)

    def _set_aside(self, files: SftpFiles, remote: str) -> None:
        trash = self._remote(self._root.trash)
        with suppress(FileNotFoundError):
            files.status(remote)
            self._make_folders(files, trash)
            files.rename(remote, f"{trash}/{posixpath.basename(remote)}-{secrets.token_hex(4)}")

    def _make_folders(self, files: SftpFiles, remote: str) -> None:
        try:
            files.status(remote)
        except FileNotFoundError:
            self._make_folders(files, posixpath.dirname(remote))
            with suppress(FileExistsError):
                files.make_folder(remote)


def _attempts(folder: JobFolder) -> Iterator[AttemptFolder]:
    """Yield the attempts of all runs, also those before a start over."""
    for attempts in (folder.attempts, *folder.started_over_runs.glob(f"*/{folder.attempts.name}")):
        with suppress(FileNotFoundError):
            yield from (AttemptFolder(path) for path in attempts.iterdir())


def run_of_checkpoint(sidecar: Path) -> int:
    """Return the run that made a checkpoint; 0 if that cannot be read."""
    checkpoint = stored_record(Checkpoint, sidecar)
    return checkpoint.run if checkpoint is not None else 0


def _is_of_run(sidecar: Path, folder: JobFolder, run: int) -> bool:
    """Return whether the run's node has this checkpoint, unless it was removed or replaced."""
    with suppress(OSError, ValueError):
        record = read_record(sidecar)
        # What scripts wrote to the output folder was sent with their records.
        is_sent = bool(record.file) and Path(record.path).is_relative_to(folder.output)
        return record.run == run or is_sent
    return False


def _is_hidden(name: str) -> bool:
    """Return whether the name is that of an incomplete file."""
    return any(part.startswith(".") for part in name.split("/"))
