"""Keep a checkpoint while it is exported, although its run may remove it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from backend.base.errors import BackendError, as_backend_error
from backend.records.base.layout import SIDECAR_SUFFIX


@contextmanager
def held(checkpoint: Path, folder: Path) -> Iterator[Path]:
    """Link the checkpoint and its record in ``folder``, or copy them if links are impossible.

    Importing torch takes seconds before the file is opened; an epoch may take less.

    Raises:
        BackendError: It was removed already, or ``folder`` has no room.
    """
    with as_backend_error(f"Nothing can be written into {folder}"):
        place = TemporaryDirectory(prefix=".ringmaster-", dir=folder, ignore_cleanup_errors=True)
    with place:
        for part in (checkpoint, checkpoint.with_suffix(SIDECAR_SUFFIX)):
            _hold(part, Path(place.name, part.name))
        yield Path(place.name, checkpoint.name)


def _hold(part: Path, second: Path) -> None:
    try:
        os.link(part, second)
    except FileNotFoundError:
        raise BackendError(
            f"The run has just replaced the checkpoint {part.stem}.",
            "Export again.",
        ) from None
    except OSError:
        with as_backend_error(f"{part.name} cannot be copied to {second.parent.parent}"):
            shutil.copyfile(part, second)
