"""Number of samples that a loader reads from a dataset: counted once, cached by hash.

The loader is a user's code, so counting costs a process that imports torch. The same files give the
same number, so it is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from backend.base.progress import Progress
from backend.records.library.item import Kind, Pin
from backend.records.library.preview import DataSize
from backend.services.library.service import LibraryService
from backend.services.tools import tool_process
from backend.services.tools.result_cache import ResultCache
from backend.services.tools.training_python import training_error

_KEYS = ("dataset", "loader", "validation_dataset", "validation_loader")


class DataSizeCounter:
    """Counts the samples of a job's data, and remembers the numbers."""

    def __init__(self, library: LibraryService, folder: Path) -> None:
        self._library = library
        self._cache = ResultCache(folder)

    def cached_size(self, pins: Mapping[str, Pin]) -> DataSize | None:
        """Return the size that was counted before, if any."""
        if not {"dataset", "loader"} <= pins.keys():
            return None
        return self._cache.cached(_key(pins), DataSize.from_dict)

    def count(self, pins: Mapping[str, Pin], progress: Progress) -> DataSize | None:
        """Return the size, counted if needed; None if this computer cannot count it.

        Raises:
            BackendError: The loader cannot be used, or did not finish.
        """
        cached_size = self.cached_size(pins)
        if cached_size is not None or "loader" not in pins:
            return cached_size

        if not all(
            self._library.is_local(Kind.DATASET, pins[key].reference)
            for key in ("dataset", "validation_dataset")
            if key in pins
        ):
            # The ranks will count it: a dataset is not fetched for a number.
            return None
        if training_error() is not None:
            return None

        def content(key: str, kind: Kind) -> Path | None:
            if key not in pins:
                return None
            return self._library.open_content(kind, pins[key].reference, progress)

        return self._cache.get(
            _key(pins),
            DataSize.from_dict,
            lambda: tool_process.count_samples(
                self._library.open_content(Kind.LOADER, pins["loader"].reference, progress),
                self._library.open_content(Kind.DATASET, pins["dataset"].reference, progress),
                content("validation_loader", Kind.LOADER),
                content("validation_dataset", Kind.DATASET),
                progress=progress,
            ),
        )


def _key(pins: Mapping[str, Pin]) -> tuple[str, ...]:
    return tuple(pins[key].sha256 if key in pins else "" for key in _KEYS)
