"""A data root that this desktop mounts, with nodes that do not see it.

Everything of such a node is below its own staged root (`staged_root`). Until a run on it is fetched
(`records.nodes.remote_run`), files of its job are read from the node that leads it, and a stop
request is sent there. Everything else is a local folder. The data root decides between desktops:
a run is claimed only in it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base.errors import BackendError, as_backend_error
from backend.base.log import suppress, swallowed
from backend.base.progress import Progress
from backend.datastore.access.root_access import DataRootAccess, OnBytes
from backend.datastore.nodes import files as node_files
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import (
    CHECKPOINT_SUFFIX,
    KEEP_SUFFIX,
    SIDECAR_SUFFIX,
    DataRoot,
    JobFolder,
    NodeFolder,
)
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs.launch import RemoteRun, launch_of, remote_run_of
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.ssh.interface import Shell, Unreachable

if TYPE_CHECKING:
    from backend.datastore.remote.staged_root import StagedRoot

_RETRY_S = 60.0
"""Time until files are fetched again after a failure."""
_CLOSING_S = 5.0
_AFTER_PAUSE_S = 3.0

Connect = Callable[[NodeEntry], Shell]


class StagingAccess(DataRootAccess):
    """Access to a mounted data root and to staged roots. Every call may run on any thread."""

    def __init__(self, root: DataRoot, connect: Connect) -> None:
        self._root = root
        self._connect = connect
        self._lock = threading.Lock()
        self._remote: dict[tuple[str, NodeAddress, str], StagedRoot] = {}
        self._transfers: dict[str, _Transfer] = {}

    # Before reading.

    def refresh_job(self, folder: JobFolder) -> None:
        super().refresh_job(folder)
        if (remote := self._remote_of(folder)) is None:
            return
        run = folder.newest_run()
        remote.refresh_run(folder, run)
        # A trial belongs to no job (`services.jobs.trial_run`).
        if folder.attempt(run).exit.exists() and not folder.job_id.startswith("."):
            self._start_bringing_home(folder)

    def refresh_history(self, folder: JobFolder) -> None:
        if (remote := self._remote_of(folder)) is not None:
            remote.refresh_history(folder)

    def refresh_file(self, path: Path) -> None:
        if (remote := self._remote_of_file(path)) is not None:
            remote.refresh_small_file(path)

    def has_files_of(self, folder: JobFolder) -> bool:
        return _unfetched_run(folder) is None

    def refresh_nodes(self) -> None:
        threads = [
            self._root_of_entry(entry).ask_for_status() for entry in self._no_share_entries()
        ]
        deadline_s = time.monotonic() + _AFTER_PAUSE_S
        for thread in threads:
            if thread is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))

    def refresh_past(self, folder: NodeFolder) -> None:
        for entry in self._no_share_entries():
            if entry.name == folder.path.name:
                self._root_of_entry(entry).refresh_past(folder)

    # Reading large files in place.

    def size(self, path: Path) -> int:
        remote = self._remote_of_file(path)
        return super().size(path) if remote is None or self._has_local(path) else remote.size(path)

    def read(self, path: Path, offset: int, limit_bytes: int) -> bytes:
        remote = self._remote_of_file(path)
        if remote is None or self._has_local(path):
            return super().read(path, offset, limit_bytes)
        return remote.read(path, offset, limit_bytes)

    def sha256(self, path: Path, on_bytes: OnBytes) -> str:
        self.bring_file(path, Progress())
        return super().sha256(path, on_bytes)

    def bring_file(self, path: Path, progress: Progress) -> None:
        remote = self._remote_of_file(path)
        if remote is not None and not self._has_local(path):
            remote.fetch((path,), progress)

    # Changes: remote first, then local.

    def replace_json(self, path: Path, value: Any) -> None:
        if (remote := self._remote_of_file(path)) is not None:
            remote.replace(path, (json.dumps(value, allow_nan=False, indent=1) + "\n").encode())
        super().replace_json(path, value)

    def create(self, path: Path, value: bytes) -> None:
        if (remote := self._remote_of_file(path)) is not None:
            remote.create(path, value)
        super().create(path, value)

    def remove(self, path: Path) -> None:
        if path.suffix == KEEP_SUFFIX and (remote := self._remote_of_file(path)) is not None:
            remote.remove(path)
        super().remove(path)

    def notify_end(self, folder: JobFolder, run: int) -> None:
        if (remote := self._remote_of(folder)) is None:
            return
        exit_path = folder.attempt(run).exit
        try:
            remote.create(exit_path, exit_path.read_bytes())
        except FileExistsError:
            # The first writer counts.
            remote.refresh_run(folder, run)
        else:
            remote.replace(folder.status, folder.status.read_bytes())

    # A run on such a node.

    def provide(
        self,
        nodes: Sequence[str],
        folder: JobFolder,
        versions: Sequence[Path],
        files: Sequence[Path],
        progress: Progress,
    ) -> None:
        for remote in map(self._root_of_node, nodes):
            for version in versions:
                remote.send_version(version, f"{version.parent.name}@{version.name[1:]}", progress)
            remote.begin_job(folder)
            remote.send_files(files, progress)

    def hand_over(
        self, nodes: Sequence[str], folder: JobFolder, run: int, progress: Progress
    ) -> None:
        for remote in map(self._root_of_node, nodes):
            remote.send_job(folder, run, progress)
        replace_json(folder.attempt(run).staged_marker, RemoteRun(nodes[0]).to_dict())
        # A stop request from before exists only here.
        if folder.stop_request.exists():
            with suppress(FileExistsError):
                self._root_of_node(nodes[0]).create(
                    folder.stop_request, folder.stop_request.read_bytes()
                )

    def bring_home(self, folder: JobFolder, progress: Progress) -> None:
        run = folder.newest_run()
        remote = self._remote_of(folder)
        if remote is None or not folder.attempt(run).exit.exists():
            return
        with self._lock:
            transfer = self._transfers.setdefault(folder.job_id, _Transfer())
        with transfer.lock:
            # Another thread may have just done it.
            if self._remote_of(folder) is not remote:
                return
            with as_backend_error(
                f"The results of the job {folder.job_id} could not be fetched from {remote.node}"
            ):
                remote.bring_home(folder, run, progress)
                replace_json(
                    folder.attempt(run).staged_marker,
                    RemoteRun(remote.node, is_home=True).to_dict(),
                )

    def _start_bringing_home(self, folder: JobFolder) -> None:
        with self._lock:
            transfer = self._transfers.setdefault(folder.job_id, _Transfer())
            if transfer.thread is not None and transfer.thread.is_alive():
                return
            if time.monotonic() < transfer.not_before_s:
                return
            transfer.not_before_s = time.monotonic() + _RETRY_S

            def bring() -> None:
                # Files that could not be fetched stay on the node, and are requested again.
                with suppress(BackendError, OSError):
                    self.bring_home(folder, transfer.progress)

            transfer.thread = threading.Thread(target=bring, daemon=True)
            transfer.thread.start()

    def close(self) -> None:
        with self._lock:
            transfers = tuple(self._transfers.values())
            staged_roots = tuple(self._remote.values())
        for transfer in transfers:
            transfer.progress.cancel()
        deadline_s = time.monotonic() + _CLOSING_S
        for transfer in transfers:
            if transfer.thread is not None:
                transfer.thread.join(max(0.0, deadline_s - time.monotonic()))
        for staged_root in staged_roots:
            staged_root.close()

    # Selection of the node.

    def _remote_of(self, folder: JobFolder) -> StagedRoot | None:
        """Return the node of a job's newest run, until all of the run is fetched."""
        remote_run = _unfetched_run(folder)
        return self._root_of_node(remote_run.node) if remote_run is not None else None

    def _remote_of_file(self, path: Path) -> StagedRoot | None:
        """Return the node of the job of ``path``, if the node writes or reads that file."""
        try:
            job_id, name, *_ = path.relative_to(self._root.jobs).parts
        except ValueError:  # it is no file of a job
            return None
        folder = self._root.job(job_id)
        if name == folder.logs.name and (remote := self._rank_is_on(folder, path)) is not None:
            return remote
        remote_parts = (
            folder.stop_request,
            folder.logs,
            folder.attempts,
            folder.output,
            folder.work_folders,
        )
        if name not in {part.name for part in remote_parts} and path.parent != folder.checkpoints:
            return None
        return self._remote_of(folder)

    def _rank_is_on(self, folder: JobFolder, log: Path) -> StagedRoot | None:
        """Return the node that writes a rank's log; after the run, its head node has all logs."""
        run = folder.newest_run()
        if _unfetched_run(folder) is None or folder.attempt(run).exit.exists():
            return None
        launch = launch_of(folder.launch, run)
        for plan in launch.ranks if launch is not None else ():
            if folder.rank_log(plan.rank) == log:
                return self._root_of_node(plan.node)
        return None

    def _has_local(self, path: Path) -> bool:
        """Return whether a local file exists that a run in progress does not write."""
        folder = JobFolder(path.parent.parent)
        is_checkpoint = path.suffix == CHECKPOINT_SUFFIX and path.parent == folder.checkpoints
        if not is_checkpoint or not path.exists():
            return False
        from backend.datastore.remote.staged_root import run_of_checkpoint

        # A run from an older checkpoint uses some of the same names again.
        return run_of_checkpoint(path.with_suffix(SIDECAR_SUFFIX)) != folder.newest_run()

    def _root_of_node(self, node: str) -> StagedRoot:
        entry = node_files.entry(self._root, node)
        if entry is None or not entry.is_staged:
            raise Unreachable(
                f"The file is on {node}, which is no longer a node without the data root.",
                f"Add {node} again, without the data root as before.",
            )
        return self._root_of_entry(entry)

    def _no_share_entries(self) -> list[NodeEntry]:
        """Return the nodes that do not see the data root, and have the files of an agent."""
        return [
            entry for entry in node_files.entries(self._root) if entry.is_staged and entry.is_ready
        ]

    def _root_of_entry(self, entry: NodeEntry) -> StagedRoot:
        # Most data roots have no such node.
        from backend.datastore.remote.staged_root import StagedRoot

        key = (entry.name, entry.address, entry.data_root)
        with self._lock:
            if key not in self._remote:
                remote = RemoteRoot(entry.name, entry.data_root)
                self._remote[key] = StagedRoot(self._root, remote, lambda: self._connect(entry))
            return self._remote[key]


def _unfetched_run(folder: JobFolder) -> RemoteRun | None:
    try:
        remote_run = remote_run_of(folder.attempt(folder.newest_run()))
    except OSError as error:
        swallowed(error)
        return None
    return None if remote_run is None or remote_run.is_home else remote_run


class _Transfer:
    """The transfer of one job's files to the data root."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.progress = Progress()
        self.thread: threading.Thread | None = None
        self.not_before_s = 0.0
