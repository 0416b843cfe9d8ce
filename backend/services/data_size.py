"""How many items a dataset has through a loader: counted once, kept by hash.

The loader is a user's code, so the number costs a process that imports torch; the same files give
the same number, so it is asked for once.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path

from backend.progress import Progress
from backend.records.files import read_json, replace_json
from backend.records.library import Kind, Pin
from backend.records.preview import DataSize
from backend.services import tool_process
from backend.services.library import LibraryService

_KEYS = ("dataset", "loader", "validation_dataset", "validation_loader")


class DataSizes:
    def __init__(self, library: LibraryService, folder: Path) -> None:
        self._library = library
        self._folder = folder

    def known(self, pins: Mapping[str, Pin]) -> DataSize | None:
        """The size, if it was counted before."""
        if not {"dataset", "loader"} <= pins.keys():
            return None
        with contextlib.suppress(OSError, ValueError):
            return DataSize.from_dict(read_json(self._file(pins)))
        return None

    def count(self, pins: Mapping[str, Pin], progress: Progress) -> DataSize:
        """The size, counted if need be.

        Raises:
            BackendError: The loader cannot be used, or did not come to an end.
        """
        known = self.known(pins)
        if known is not None:
            return known

        def content(key: str, kind: Kind) -> Path | None:
            return self._library.content(kind, pins[key].reference) if key in pins else None

        size = tool_process.measure(
            self._library.content(Kind.LOADER, pins["loader"].reference),
            self._library.content(Kind.DATASET, pins["dataset"].reference),
            content("validation_loader", Kind.LOADER),
            content("validation_dataset", Kind.DATASET),
            progress=progress,
        )
        # A full disk here costs only that it is counted again.
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_json(self._file(pins), size.to_dict(), mode=0o600)
        return size

    def _file(self, pins: Mapping[str, Pin]) -> Path:
        proof = "\n".join(pins[key].sha256 if key in pins else "" for key in _KEYS)
        return self._folder / f"{hashlib.sha256(proof.encode()).hexdigest()}.json"
