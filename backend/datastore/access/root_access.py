"""How the data root is reached: mounted here, or (`backend.datastore.remote.mirror`) over SFTP.

All else reads plain files below `DataRoot.path`. A `DataRootAccess` is told before something is
read that another computer may have written, and does what changes the data root. With a mounted
root nothing is to be done before reading, and changing is what the file system does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.datastore.access import folder_modes, hashes
from backend.records.base.atomic_files import replace_bytes, replace_json
from backend.records.base.layout import JobFolder, NodeFolder
from backend.records.base.mirror_usage import MirrorRoom
from backend.records.library.item import FileEntry, Kind

OnBytes = Callable[[int], None]


class DataRootAccess(Protocol):
    """Paths are those below `DataRoot.path`; on a mirror they stand for files that are far away.

    Every call may raise `OSError`, and `BackendError` where the far side does not answer.
    """

    @property
    def is_mounted(self) -> bool:
        """Whether what runs on this computer sees the data root."""

    def shown(self, path: Path) -> str:
        """A path for people, as it is where the files are."""

    def on_nodes(self, path: Path) -> str:
        """A path as a node sees it that has the data root where its host has it."""

    def url(self, path: Path) -> str:
        """An address that the desktop's file manager opens."""

    # Before reading.

    def refresh_jobs(self) -> None:
        """Of every job what a list shows."""

    def refresh_job(self, folder: JobFolder) -> None:
        """Everything small of one job; FileNotFoundError when it is gone."""

    def refresh_history(self, folder: JobFolder) -> None:
        """What was appended to the history of a job."""

    def refresh_library(self, kind: Kind) -> None:
        """Which versions there are."""

    def refresh_file(self, path: Path) -> None:
        """One small file; none there, none here."""

    def has_files_of(self, folder: JobFolder) -> bool:
        """Whether the checkpoints of a job are here, and not only their sidecars."""

    def refresh_nodes(self) -> None:
        """Every node's entry and what its agent wrote last."""

    def refresh_past(self, folder: NodeFolder) -> None:
        """What a node's agent kept of the last hours."""

    # Reading what is large, where it is.

    def size(self, path: Path) -> int: ...

    def read(self, path: Path, offset: int, limit_bytes: int) -> bytes: ...

    def sha256(self, path: Path, on_bytes: OnBytes) -> str: ...

    def fingerprint(self, folder: Path) -> str:
        """See `content.fingerprint`."""

    def files(self, folder: Path) -> list[FileEntry]:
        """Every file below, by path."""

    def compare(
        self, what: str, folder: Path, wanted: Mapping[str, str], on_bytes: OnBytes
    ) -> None:
        """See `content.compare`."""

    def holds(self, path: Path) -> bool:
        """Whether a file can be opened at ``path`` here and now."""

    def bring_file(self, path: Path, progress: Progress) -> None:
        """Have one file at ``path``."""

    def bring_content(self, folder: Path, wanted: Mapping[str, str], progress: Progress) -> None:
        """Have the files of a version in ``folder``, with the hashes that are wanted."""

    def room(self) -> MirrorRoom | None:
        """What of the data root is kept on this computer, None where it is mounted."""

    def clear(self) -> int:
        """Drop what was fetched and the data root still has; gives the bytes freed."""

    # Changing.

    def names(self, folder: Path) -> list[str]: ...

    def exists(self, path: Path) -> bool: ...

    def make_folder(self, path: Path, *, exist_ok: bool = False) -> None:
        """See `shared_folders.make_folder`."""

    def replace_bytes(self, path: Path, value: bytes) -> None: ...

    def replace_json(self, path: Path, value: Any) -> None: ...

    def create(self, path: Path, value: bytes) -> None:
        """A file that was not there, or FileExistsError."""

    def rename(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """One file; none is no error."""

    def remove_tree(self, path: Path) -> None: ...

    def publish(self, built: Path, progress: Progress) -> None:
        """Bring a folder that was ``built`` here to where it can be renamed."""

    def notify_end(self, folder: JobFolder, run: int) -> None:
        """The end of a run was written in ``folder`` by `backend.node.run.finalize`."""

    # Nodes that do not see the data root; `services.carrying`.

    def provide(
        self,
        nodes: Sequence[str],
        folder: JobFolder,
        versions: Sequence[Path],
        files: Sequence[Path],
        progress: Progress,
    ) -> None:
        """Before a run is claimed: have there what it is made of, and nothing twice.

        ``versions`` are folders of the library, ``files`` a checkpoint or weights.
        """

    def hand_over(
        self, nodes: Sequence[str], folder: JobFolder, run: int, progress: Progress
    ) -> None:
        """After the claim: the folder of the job goes there, and from now on is looked at there."""

    def bring_home(self, folder: JobFolder, progress: Progress) -> None:
        """Have all of the newest run here, if it is over and was elsewhere."""

    def close(self) -> None: ...


def not_staged(nodes: Sequence[str]) -> BackendError:
    sees = "does" if len(nodes) == 1 else "do"
    return BackendError(
        f"{' and '.join(nodes)} {sees} not see the data root, and this computer does not mount it, "
        "so it cannot carry files between the two.",
        "Start the job from a computer that mounts the data root.",
    )


class Mounted:
    """The data root is a folder here."""

    is_mounted = True

    def shown(self, path: Path) -> str:
        return str(path)

    def on_nodes(self, path: Path) -> str:
        return str(path)

    def url(self, path: Path) -> str:
        return path.absolute().as_uri()

    def refresh_jobs(self) -> None:
        pass

    def refresh_job(self, folder: JobFolder) -> None:
        # An unmounted share leaves an empty folder: that is no news, and no failure.
        os.listdir(folder.path)

    def refresh_history(self, folder: JobFolder) -> None:
        pass

    def refresh_library(self, kind: Kind) -> None:
        pass

    def refresh_file(self, path: Path) -> None:
        pass

    def has_files_of(self, folder: JobFolder) -> bool:
        return True

    def refresh_nodes(self) -> None:
        pass

    def refresh_past(self, folder: NodeFolder) -> None:
        pass

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def read(self, path: Path, offset: int, limit_bytes: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit_bytes)

    def sha256(self, path: Path, on_bytes: OnBytes) -> str:
        return hashes.hash_file(path, on_bytes)

    def fingerprint(self, folder: Path) -> str:
        return hashes.fingerprint(folder)

    def files(self, folder: Path) -> list[FileEntry]:
        return sorted(
            (FileEntry(path, status.st_size) for path, status in hashes.walk(folder)),
            key=lambda one: one.path,
        )

    def compare(
        self, what: str, folder: Path, wanted: Mapping[str, str], on_bytes: OnBytes
    ) -> None:
        hashes.compare(what, folder, wanted, on_bytes)

    def holds(self, path: Path) -> bool:
        return True

    def bring_file(self, path: Path, progress: Progress) -> None:
        pass

    def bring_content(self, folder: Path, wanted: Mapping[str, str], progress: Progress) -> None:
        pass

    def room(self) -> MirrorRoom | None:
        return None

    def clear(self) -> int:
        raise BackendError(
            "The data root is mounted here; this computer keeps no mirror of it.",
            "Only of one that is reached over SSH: --data-root ssh://HOST/PATH.",
        )

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def make_folder(self, path: Path, *, exist_ok: bool = False) -> None:
        folder_modes.make_folder(path, exist_ok=exist_ok)

    def replace_bytes(self, path: Path, value: bytes) -> None:
        replace_bytes(path, value)

    def replace_json(self, path: Path, value: Any) -> None:
        replace_json(path, value)

    def create(self, path: Path, value: bytes) -> None:
        with path.open("xb") as file:
            try:
                # At once, so that a disk without room says so here.
                file.write(value)
                file.flush()
            except OSError:
                path.unlink(missing_ok=True)
                raise

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def publish(self, built: Path, progress: Progress) -> None:
        pass

    def notify_end(self, folder: JobFolder, run: int) -> None:
        pass

    def provide(
        self,
        nodes: Sequence[str],
        folder: JobFolder,
        versions: Sequence[Path],
        files: Sequence[Path],
        progress: Progress,
    ) -> None:
        raise not_staged(nodes)

    def hand_over(
        self, nodes: Sequence[str], folder: JobFolder, run: int, progress: Progress
    ) -> None:
        raise not_staged(nodes)

    def bring_home(self, folder: JobFolder, progress: Progress) -> None:
        pass

    def close(self) -> None:
        pass


MOUNTED = Mounted()
