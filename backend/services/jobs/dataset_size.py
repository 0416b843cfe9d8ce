"""Number of samples that a loader reads from a dataset: counted once, cached by hash.

The loader is a user's code, so counting costs a process that imports torch. The same files give the
same number, so it is counted once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from backend.base.log import suppress
from backend.base.progress import Progress
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.library.item import Kind, Pin
from backend.records.library.preview import DataSize
from backend.services.library.service import LibraryService
from backend.services.tools import tool_process
from backend.services.tools.training_python import lack_here

_KEYS = ("dataset", "loader", "validation_dataset", "validation_loader")


class DataSizes:
    def __init__(self, library: LibraryService, folder: Path) -> None:
        self._library = library
        self._folder = folder

    def known(self, pins: Mapping[str, Pin]) -> DataSize | None:
        """Return the size if it was counted before."""
        if not {"dataset", "loader"} <= pins.keys():
            return None
        with suppress(OSError, ValueError):
            return DataSize.from_dict(read_json(self._file(pins)))
        return None

    def count(self, pins: Mapping[str, Pin], progress: Progress) -> DataSize | None:
        """Return the size, counted if needed; None if this computer cannot count it.

        Raises:
            BackendError: The loader cannot be used, or did not end.
        """
        known = self.known(pins)
        if known is not None:
            return known

        if not all(
            self._library.is_here(Kind.DATASET, pins[key].reference)
            for key in ("dataset", "validation_dataset")
            if key in pins
        ):
            # The ranks will count it: a dataset is not fetched for a number.
            return None
        if lack_here() is not None:
            return None

        def content(key: str, kind: Kind) -> Path | None:
            if key not in pins:
                return None
            return self._library.open_content(kind, pins[key].reference, progress)

        size = tool_process.measure(
            self._library.open_content(Kind.LOADER, pins["loader"].reference, progress),
            self._library.open_content(Kind.DATASET, pins["dataset"].reference, progress),
            content("validation_loader", Kind.LOADER),
            content("validation_dataset", Kind.DATASET),
            progress=progress,
        )
        # A full disk means only that it is counted again.
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_json(self._file(pins), size.to_dict(), mode=0o600)
        return size

    def _file(self, pins: Mapping[str, Pin]) -> Path:
        proof = "\n".join(pins[key].sha256 if key in pins else "" for key in _KEYS)
        return self._folder / f"{hashlib.sha256(proof.encode()).hexdigest()}.json"
