"""What a run leaves on a computer beside its job folder, named so that anybody can remove it.

mpirun's session folder stays behind when mpirun is killed, and the memory that ranks share stays,
16 MiB for each killed rank, until the next reboot. Their names follow from the run's tag, so that
whoever finds the run's end finds them too: guard, supervisor, or a reader much later.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path


def shared_memory_folder(tag: str) -> Path:
    """Where the ranks of a run on one node keep what they exchange."""
    return Path("/dev/shm") / _name(tag)


def session_folder(tag: str) -> Path:
    """TMPDIR of a run's mpirun. Short: PMIx makes sockets some 50 bytes below, of 107 in all."""
    return Path("/tmp") / _name(tag)


def make_own(folder: Path) -> bool:
    """Make the folder where everybody may make one; False when it is another user's."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def remove(tag: str) -> None:
    """Remove both, of a run of which nothing lives here any more."""
    for folder in (shared_memory_folder(tag), session_folder(tag)):
        shutil.rmtree(folder, ignore_errors=True)


def _name(tag: str) -> str:
    return f"ringmaster-{hashlib.sha256(tag.encode()).hexdigest()[:16]}"
