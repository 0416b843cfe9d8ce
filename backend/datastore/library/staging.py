"""The hidden folder in which a version is built before it appears under its name.

The folder is next to its target, so that one rename moves it there; its name contains the process
that builds the version. An import that was killed is recognised by its missing process on this
computer, and by a week without writes, by the file server's own clock, on another.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.base.log import swallowed
from backend.node.system import process_identity
from backend.records.base.access_modes import make_folder
from backend.records.jobs.status import ProcessIdentity

_MAX_SILENCE_S = 7 * 86_400
_NAME = re.compile(
    r"\.(?P<name>.+)\.importing-(?P<host>[A-Za-z0-9_-]*)-(?P<boot>[0-9a-f]*)-(?P<pid>\d+)-"
    r"(?P<ticks>\d+)-[0-9a-f]{8}",
    re.DOTALL,
)


@dataclass(frozen=True)
class Staging:
    """The folder of an import, in progress or left over."""

    path: Path
    name: str
    host: str
    is_left_over: bool


def make_staging(folder: Path, name: str) -> Path:
    """Make the hidden folder for a version of ``name`` in ``folder``."""
    host, boot, pid, ticks = _own_process()
    token = secrets.token_hex(4)
    staging = folder / f".{name}.importing-{host}-{boot}-{pid}-{ticks}-{token}"
    make_folder(folder, exist_ok=True)
    make_folder(staging, exist_ok=True, is_read_only=True)
    return staging


def stagings(folder: Path, names: Iterable[str] | None = None) -> Iterator[Staging]:
    """Yield the imports in progress in ``folder``, and those that did not finish.

    ``names`` are those in the folder, if it is not on this computer.
    """
    try:
        names = os.listdir(folder) if names is None else names
    except FileNotFoundError:
        return
    for folder_name in names:
        match = _NAME.fullmatch(folder_name)
        if match is not None:
            path = folder / folder_name
            yield Staging(path, match["name"], match["host"], _is_left_over(path, match))


def sweep(staging: Staging) -> None:
    """Remove a copy that will not be finished; its source is not changed."""
    shutil.rmtree(staging.path, ignore_errors=True)


def _own_process() -> tuple[str, str, int, int]:
    host = re.sub(r"[^A-Za-z0-9_-]", "_", socket.gethostname())[:40]
    try:
        process = process_identity.own_process()
    except (OSError, AssertionError):
        # Without /proc an import counts as abandoned after a long time without writes.
        return host, "", os.getpid(), 0
    return host, process.boot_id.replace("-", "")[:12], process.pid, process.start_ticks


def _is_left_over(path: Path, match: re.Match[str]) -> bool:
    host, boot, _, _ = _own_process()
    if boot and match["boot"] == boot:
        builder = ProcessIdentity(
            socket.gethostname(), process_identity.boot_id(), int(match["pid"]), int(match["ticks"])
        )
        return not process_identity.is_alive(builder)
    if boot and match["boot"] and match["host"] == host:
        # This computer was restarted since.
        return True
    return _silence_s(path) > _MAX_SILENCE_S


def _silence_s(path: Path) -> float:
    """Return the time since the last write in ``path``, by the clock of its file system."""
    clock_file = path.with_name(f".now-{secrets.token_hex(4)}")
    try:
        clock_file.touch()
        now_s = clock_file.stat().st_mtime
        clock_file.unlink()
        last_write_s = max(Path(folder).stat().st_mtime for folder, _, _ in os.walk(path))
    except (OSError, ValueError) as error:
        swallowed(error)
        return 0.0
    return now_s - last_write_s
