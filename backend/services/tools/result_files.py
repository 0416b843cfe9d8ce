"""Results of tools as files: those that the user asked for, and a cache by the hashes of inputs.

A file for the user is complete or missing; an existing file stays.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from backend.base.errors import BackendError, exists_error
from backend.base.log import suppress
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.schema import Record


def require_free(output: Path) -> None:
    """Raise if ``output`` exists, or its folder does not."""
    if os.path.lexists(output):
        raise exists_error(output)
    if not output.parent.is_dir():
        raise BackendError(f"The folder {output.parent} does not exist.", "Create it first.")


def partial_path(output: Path) -> Path:
    """Return the path of the partial file, which `put_in_place` then renames."""
    return output.with_name(f".{output.name[-100:]}.{secrets.token_hex(4)}.tmp")


def put_in_place(partial_file: Path, output: Path) -> None:
    """Rename a complete file; an existing file at ``output`` stays and is an error."""
    try:
        partial_file.chmod(0o644)
        try:
            # Unlike a rename, a link never replaces an existing file.
            os.link(partial_file, output)
        except FileExistsError:
            raise exists_error(output) from None
        except OSError:
            # On a share without links, the check and the rename are two steps.
            if os.path.lexists(output):
                raise exists_error(output) from None
            os.rename(partial_file, output)
    except OSError as error:
        raise BackendError(
            f"The file cannot be stored at {output}: {error.strerror or error}.",
            "Choose another folder.",
        ) from error


_MAX_BYTES = 64_000_000

T = TypeVar("T", bound=Record)


class ResultCache:
    """Results of tools by the hashes of their inputs; a lost result is computed again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(
        self,
        key: tuple[str, ...],
        parse: Callable[[dict[str, Any]], T],
        compute: Callable[[], T],
    ) -> T:
        """Return the cached result, otherwise the result of ``compute``, which is then cached.

        Args:
            key: The name of the tool, and the hashes of its inputs.
            parse: Parses the output of ``to_dict``; raises ValueError for invalid content.
            compute: Returns the result.
        """
        cached_result = self.cached(key, parse)
        if cached_result is not None:
            return cached_result
        result = compute()
        self.put(key, result)
        return result

    def put(self, key: tuple[str, ...], result: Record) -> None:
        """Store a result."""
        # A full disk must not prevent showing the result.
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_json(self.path(key), result.to_dict(), mode=0o600)

    def cached(self, key: tuple[str, ...], parse: Callable[[dict[str, Any]], T]) -> T | None:
        """Return the cached result, None without a readable result."""
        with suppress(OSError, ValueError):
            return parse(read_json(self.path(key), _MAX_BYTES))
        return None

    def path(self, key: tuple[str, ...], suffix: str = ".json") -> Path:
        """Return the path of a result; with another suffix, of a file beside the result."""
        return self._folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()}{suffix}"
