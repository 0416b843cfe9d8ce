"""Cache of the results of tools, by the hashes of their inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from backend.base.log import suppress
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.schema import Record

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
