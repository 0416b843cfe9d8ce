"""What tools found, kept on this computer by the hashes of all that went into it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from backend.base.log import suppress
from backend.records.base.atomic_files import read_json, replace_json


class _Found(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


T = TypeVar("T", bound=_Found)
_MOST_BYTES = 64_000_000


class KeptResults:
    """A folder of results. Losing it costs only that they are found out again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(
        self,
        key: tuple[str, ...],
        read: Callable[[dict[str, Any]], T],
        find: Callable[[], T],
    ) -> T:
        """What is kept under this key; else what ``find`` finds, which is kept from now on.

        Args:
            read: Makes a result of what its ``to_dict`` gave; raises ValueError where it cannot.
        """
        known = self.known(key, read)
        if known is not None:
            return known
        found = find()
        # A full disk is no reason to show nothing.
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_json(self._place(key), found.to_dict(), mode=0o600)
        return found

    def known(self, key: tuple[str, ...], read: Callable[[dict[str, Any]], T]) -> T | None:
        """What is kept under this key, None where nothing is that can be read."""
        with suppress(OSError, ValueError):
            return read(read_json(self._place(key), _MOST_BYTES))
        return None

    def _place(self, key: tuple[str, ...]) -> Path:
        return self._folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()}.json"
