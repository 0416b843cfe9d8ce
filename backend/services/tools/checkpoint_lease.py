"""A checkpoint that stays while it is exported, although its run goes on and prunes it."""

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
    """It and its record under second names in ``folder``, or copies where no links can be.

    Torch alone takes seconds to be imported before the file is opened; an epoch may take less.

    Raises:
        BackendError: It is gone already, or there is no room in ``folder``.
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
            f"The run has just put another checkpoint in the place of {part.stem}.",
            "Export again.",
        ) from None
    except OSError:
        with as_backend_error(f"{part.name} cannot be copied to {second.parent.parent}"):
            shutil.copyfile(part, second)
