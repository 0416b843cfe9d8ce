"""Look into a model: its layers. Cached by the hashes of the files that the answer comes from."""

from __future__ import annotations

from pathlib import Path

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.library.item import Kind
from backend.records.library.layers import ModelLayers
from backend.services.library.service import LibraryService
from backend.services.tools.kept_results import KeptResults
from backend.services.tools.tool_process import run_tool

_LIMIT_S = 120.0
_MOST_BATCH = 1_000_000


class InspectionService:
    """Every call blocks and may run on any thread; users' code runs in a process of its own."""

    def __init__(self, library: LibraryService, cache: Path) -> None:
        self._library = library
        self._kept = KeptResults(cache)

    def layers(
        self,
        model: str,
        dataset: str,
        loader: str,
        batch_size: int = 1,
        progress: Progress | None = None,
    ) -> ModelLayers:
        """Return the layers of a model, from one forward pass of a batch of the dataset."""
        if not 1 <= batch_size <= _MOST_BATCH:
            raise BackendError(f"A batch size of {batch_size} is not possible.", "Give 1 or more.")
        items = (
            self._library.show(Kind.MODEL, model),
            self._library.show(Kind.DATASET, dataset),
            self._library.show(Kind.LOADER, loader),
        )

        def look() -> ModelLayers:
            folders = {
                item.kind.value: str(
                    self._library.open_content(item.kind, item.reference, progress)
                )
                for item in items
            }
            request = {**folders, "batch_size": batch_size}
            what = "Reading the layers"
            return run_tool("layers", request, ModelLayers.from_dict, what, _LIMIT_S, progress)

        key = ("layers", *(item.sha256 for item in items), str(batch_size))
        return self._kept.get(key, ModelLayers.from_dict, look)
