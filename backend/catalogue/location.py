"""Make the files of a catalogue readable by their owner only."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(path: Path) -> None:
    """Create ``path`` as an empty file that only its owner can read and write.

    Raises:
        FileExistsError: It exists already.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def make_private_folder(path: Path) -> None:
    """Create the folder for its owner only; an existing folder stays as it is."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
