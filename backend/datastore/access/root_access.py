"""Access to the data root: mounted here, or over SFTP (`backend.datastore.remote.mirror`).

All other modules read plain files below `OpenRoot.path`. They call `OpenRoot.files` before they
read what another computer may have written, and to change the data root. With a mounted root
nothing has to be done before reading, and the file system makes the changes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access import hashes
from backend.records.base import content
from backend.records.base.layout import DataRoot, JobFolder, NodeFolder
from backend.records.base.local_files import Files
from backend.records.base.remote_root import MirrorUsage
from backend.records.library.item import FileEntry, Kind

OnBytes = Callable[[int], None]


class DataRootAccess(Files):
    """Access to a data root that is a folder here, and the base of that to every other one.

    Paths are those below `OpenRoot.path`; on a mirror they stand for remote files. A method that
    does nothing here has work to do in `backend.datastore.remote`. Every call may raise `OSError`,
    and `BackendError` if the remote host does not answer.
    """

    is_mounted = True
    """Whether programs on this computer see the data root."""

    def open(self) -> None:
        """Connect to it, once, before any other call.

        Raises:
            BackendError: It cannot be reached, or is not a data root.
        """

    def close(self) -> None:
        """Disconnect."""

    def display_path(self, path: Path) -> str:
        """Return a path for users, as on the host that has the files."""
        return str(path)

    def on_nodes(self, path: Path) -> str:
        """Return a path for a node that has the data root at the same place as its host."""
        return str(path)

    def url(self, path: Path) -> str:
        """Return an address that the desktop's file manager opens."""
        return path.absolute().as_uri()

    # Before reading.

    def refresh_jobs(self) -> None:
        """Fetch what a list shows of every job."""

    def refresh_job(self, folder: JobFolder) -> None:
        """Fetch everything small of one job; FileNotFoundError if it was removed."""
        # An unmounted share leaves an empty folder, which is neither a change nor a failure.
        os.listdir(folder.path)

    def refresh_history(self, folder: JobFolder) -> None:
        """Fetch what was appended to the history of a job."""

    def refresh_library(self, kind: Kind) -> None:
        """Fetch the list of versions."""

    def has_files_of(self, folder: JobFolder) -> bool:
        """Return whether the checkpoints of a job are here, not only their sidecars."""
        return True

    def refresh_nodes(self) -> None:
        """Fetch every node's entry and its agent's last status."""

    def refresh_past(self, folder: NodeFolder) -> None:
        """Fetch the recent history of a node."""

    def refresh_usage(self) -> None:
        """Fetch the ledger of the runs."""

    # Reading large files in place.

    def size(self, path: Path) -> int:
        return content.size_of(path)

    def changed_s(self, path: Path) -> float:
        """Return when a file was last changed, by the clock of the disk, in seconds since 1970."""
        # Not mtime: a file that was copied to the data root keeps the time of its node in that.
        return path.stat().st_ctime

    def read(self, path: Path, offset: int, limit_bytes: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit_bytes)

    def sha256(self, path: Path, on_bytes: OnBytes) -> str:
        return content.sha256_of(path, on_bytes)

    def fingerprint(self, folder: Path) -> str:
        """See `hashes.fingerprint`."""
        return hashes.fingerprint(folder)

    def list_files(self, folder: Path) -> list[FileEntry]:
        """Return every file below, by path."""
        return sorted(
            (FileEntry(path, status.st_size) for path, status in hashes.walk(folder)),
            key=lambda file: file.path,
        )

    def compare(
        self, subject: str, folder: Path, expected_hashes: Mapping[str, str], on_bytes: OnBytes
    ) -> None:
        """See `hashes.compare`."""
        hashes.compare(subject, folder, expected_hashes, on_bytes)

    def has_local_file(self, path: Path) -> bool:
        """Return whether a file can be opened at ``path`` on this computer now."""
        return True

    def bring_file(self, path: Path, progress: Progress) -> None:
        """Fetch one file to ``path``."""

    def bring_content(
        self, folder: Path, expected_hashes: Mapping[str, str], progress: Progress
    ) -> None:
        """Fetch the files of a version to ``folder`` and compare them with ``expected_hashes``."""

    def mirror_usage(self) -> MirrorUsage | None:
        """Return the disk usage of the local mirror, None if the data root is mounted."""
        return None

    def clear(self) -> int:
        """Remove fetched files that the data root still has; return the bytes freed."""
        raise BackendError(
            "The data root is mounted here; this computer keeps no mirror of it.",
            "Open a data root over SSH to use a mirror: --data-root ssh://HOST/PATH.",
        )

    # Changing.

    def publish(self, built: Path, progress: Progress) -> None:
        """Move a folder that was ``built`` here to where it can be renamed."""

    def notify_end(self, folder: JobFolder, run: int) -> None:
        """Send the end of a run that `backend.node.run.finalize` wrote in ``folder``."""

    # Nodes that do not see the data root; `datastore.remote.staging_access`.

    def provide(
        self,
        nodes: Sequence[str],
        folder: JobFolder,
        versions: Sequence[Path],
        files: Sequence[Path],
        progress: Progress,
    ) -> None:
        """Copy to the nodes, before a run is claimed, what they lack for it.

        ``versions`` are folders of the library, ``files`` a checkpoint or weights.
        """
        verb = "does" if len(nodes) == 1 else "do"
        raise BackendError(
            f"{' and '.join(nodes)} {verb} not see the data root, and this computer does not mount "
            "it, so it cannot copy files between the two.",
            "Start the job from a computer that mounts the data root.",
        )

    def hand_over(
        self, nodes: Sequence[str], folder: JobFolder, run: int, progress: Progress
    ) -> None:
        """Copy the claimed job's folder to its node, which is read from then on."""
        self.provide(nodes, folder, (), (), progress)

    def bring_home(self, folder: JobFolder, progress: Progress) -> None:
        """Fetch everything of the newest run, if it has ended and was on another node."""


@dataclass(frozen=True)
class OpenJob(JobFolder):
    """The folder of a job in a data root that this desktop has opened."""

    files: DataRootAccess

    def earlier(self, run: int) -> OpenJob:
        """Return the folder that starting over moved the runs up to ``run`` to."""
        return OpenJob(self.started_over_runs / str(run), self.files)


@dataclass(frozen=True)
class OpenRoot(DataRoot):
    """A data root that this desktop has opened, with the access to its files."""

    files: DataRootAccess

    @property
    def name(self) -> str:
        return self.display_path(self.path)

    def display_path(self, path: Path) -> str:
        return self.files.display_path(path)

    def job(self, job_id: str) -> OpenJob:
        return OpenJob(self.jobs / job_id, self.files)


def move_into(root: OpenRoot, source: Path, target: Path) -> None:
    """Move a file or folder of the data root to a path in it; make the folders above that."""
    make_above(root, target)
    root.files.rename(source, target)


def make_above(root: OpenRoot, path: Path) -> None:
    """Make the folders above a path in the data root."""
    for parent in reversed(path.relative_to(root.path).parents):
        root.files.make_folder(root.path / parent, exist_ok=True)


def now_s(access: DataRootAccess, folder: Path) -> float:
    """Return the time by the clock of the disk that has ``folder``, in seconds since 1970."""
    mark = folder / f".now-{secrets.token_hex(8)}"
    access.replace_bytes(mark, b"")
    try:
        return access.changed_s(mark)
    finally:
        access.remove(mark)
