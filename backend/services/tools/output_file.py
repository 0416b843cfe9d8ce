"""Files that a tool writes for the user: complete or missing; an existing file stays."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from backend.base.errors import BackendError


def require_free(output: Path) -> None:
    """Raise if ``output`` exists, or its folder does not."""
    if os.path.lexists(output):
        raise _exists(output)
    if not output.parent.is_dir():
        raise BackendError(f"The folder {output.parent} does not exist.", "Create it first.")


def partial_path(output: Path) -> Path:
    """Return the path of the partial file, which `put_in_place` then renames."""
    return output.with_name(f".{output.name[-100:]}.{secrets.token_hex(4)}.tmp")


def _exists(output: Path) -> BackendError:
    return BackendError(f"{output} exists already and was not changed.", "Choose another name.")


def put_in_place(partial: Path, output: Path) -> None:
    """Rename a complete file; an existing file at ``output`` stays and is an error."""
    try:
        partial.chmod(0o644)
        try:
            # Unlike a rename, a link never replaces an existing file.
            os.link(partial, output)
        except FileExistsError:
            raise _exists(output) from None
        except OSError:
            # On a share without links, the check and the rename are two steps.
            if os.path.lexists(output):
                raise _exists(output) from None
            os.rename(partial, output)
    except OSError as error:
        raise BackendError(
            f"The file cannot be stored at {output}: {error.strerror or error}.",
            "Choose another folder.",
        ) from error
