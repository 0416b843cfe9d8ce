"""Files of a run outside its job folder, named so that any process can find and remove them.

mpirun's session folder stays behind when mpirun is killed, and so does the memory that ranks share,
16 MiB for each killed rank, until the next reboot. Their names are derived from the run's tag, so
that the process that notices the run's end finds them: guard, supervisor, or a later reader.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path


def shared_memory_folder(tag: str) -> Path:
    """Return where the ranks of a run on one node keep what they exchange."""
    return Path("/dev/shm") / _name(tag)


def session_folder(tag: str) -> Path:
    """Return TMPDIR of a run's mpirun. Short: PMIx adds some 50 bytes, of 107 for a socket."""
    return Path("/tmp") / _name(tag)


def make_own(folder: Path) -> bool:
    """Make the folder where all users may make one; return False if it is another user's."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder.lstat().st_uid == os.geteuid()
    except OSError:
        # The caller then uses the usual folder.
        return False


def remove(tag: str) -> None:
    """Remove both, of a run that has no living process here."""
    for folder in (shared_memory_folder(tag), session_folder(tag)):
        shutil.rmtree(folder, ignore_errors=True)


def _name(tag: str) -> str:
    return f"ringmaster-{hashlib.sha256(tag.encode()).hexdigest()[:16]}"
