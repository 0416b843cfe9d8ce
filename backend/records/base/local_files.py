"""Changes to files of the data root.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from backend.base.log import suppress
from backend.records.base import access_modes
from backend.records.base.atomic_files import replace_bytes, replace_json


class Files:
    """Files of a folder that is mounted here; `backend.datastore` also has those of a mirror.

    Every call may raise `OSError`.
    """

    def refresh_file(self, path: Path) -> None:
        """Fetch one small file, or remove it if it was removed."""

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def make_folder(self, path: Path, *, exist_ok: bool = False) -> None:
        """See `access_modes.make_folder`."""
        access_modes.make_folder(path, exist_ok=exist_ok)

    def replace_bytes(self, path: Path, value: bytes) -> None:
        replace_bytes(path, value)

    def replace_json(self, path: Path, value: Any) -> None:
        replace_json(path, value)

    def create(self, path: Path, value: bytes) -> None:
        """Create a new file; FileExistsError if it exists."""
        with open(access_modes.create(path), "wb") as file:
            try:
                # Flush now, so that a full disk raises here.
                file.write(value)
                file.flush()
            except OSError:
                path.unlink(missing_ok=True)
                raise

    def rename(self, old_path: Path, new_path: Path) -> None:
        os.rename(old_path, new_path)

    def remove(self, path: Path) -> None:
        """Remove one file; a missing one is not an error."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a folder if possible, also one that is read-only."""
    with suppress(OSError):
        access_modes.allow_writes(str(path))
    shutil.rmtree(path, ignore_errors=True)
