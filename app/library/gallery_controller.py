"""Serve the dialog of the gallery, for the pages of the library and for a new job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.base import log
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.library.gallery import DataShape, GalleryEntry
from backend.records.library.item import Kind, LibraryItem
from backend.records.library.layer_graph import LayerGraph
from backend.services.jobs.inspection import InspectionService
from backend.services.library.gallery import GalleryService
from widgets.common.dialog import DialogHolder
from widgets.library.gallery_dialog import GalleryChoice, GalleryDialog, GalleryPreset

_QUEUE = "gallery"


class GalleryController(Controller):
    """Open the dialog, draw its pictures one at a time, and add what is chosen.

    Attributes:
        dialog: Holds the open dialog.

    Signals:
        plan_requested: Open the depth planner.
    """

    plan_requested = Signal()

    def __init__(
        self,
        gallery: GalleryService,
        inspection: InspectionService,
        runner: Runner,
        items: Callable[[Kind], Sequence[LibraryItem]],
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        """Make the controller. ``items`` returns the items of the library."""
        super().__init__(runner, window, parent)
        self._gallery = gallery
        self._inspection = inspection
        self._items = items
        self._progress: Progress | None = None
        self.dialog: DialogHolder[GalleryDialog] = DialogHolder()

    def choose(
        self,
        kind: Kind,
        preset: GalleryPreset,
        on_added: Callable[[LibraryItem], object],
    ) -> None:
        """Open the gallery. ``on_added`` takes the added item."""
        versions: dict[str, int] = {}
        for item in self._items(kind):
            versions[item.name] = max(item.version, versions.get(item.name, 0))
        dialog = GalleryDialog(kind, versions, preset, self._window)
        dialog.add_requested.connect(partial(self._add, dialog, on_added))
        dialog.cancel_requested.connect(self._cancel)
        dialog.plan_requested.connect(dialog.reject)
        dialog.plan_requested.connect(self.plan_requested)
        self.dialog.open(dialog)

        def show(entries: Sequence[GalleryEntry]) -> None:
            dialog.show_entries(entries)
            self._draw(dialog, [e for e in entries if e.figures is not None])

        self._run(dialog, partial(self._gallery.list, kind), show)

    def choose_for_job(
        self, dataset: str, loader: str, on_added: Callable[[LibraryItem], object]
    ) -> None:
        """Open the models with the settings that the data of a new job needs, where known."""
        datasets = [
            item for item in self._items(Kind.DATASET) if dataset in (item.name, item.reference)
        ]

        def read() -> DataShape:
            shape = self._gallery.data_shape(dataset, loader) if datasets else DataShape()
            # A preview has counted the classes; the files only suggest them.
            class_count = max((item.details.get("classes", 0) for item in datasets), default=0)
            sizes = {**shape.sizes, **({"classes": class_count} if class_count else {})}
            return replace(shape, sizes=sizes)

        def show(shape: DataShape) -> None:
            self.choose(Kind.MODEL, GalleryPreset(data=shape), on_added)

        def show_unknown(error: BackendError) -> None:
            log.swallowed(error)
            show(DataShape())

        self._runner.run(_QUEUE, read, show, show_unknown)

    def _draw(self, dialog: GalleryDialog, models: Sequence[GalleryEntry]) -> None:
        """Lay the graphs out one after the other, while the dialog is open."""
        figures = models[0].figures if models else None
        if figures is None:
            return

        def show(graph: LayerGraph | str) -> None:
            dialog.show_graph(models[0].name, graph)
            self._draw(dialog, models[1:])

        def show_error(error: BackendError) -> None:
            show(error.with_remedy)

        if_open = partial(self.dialog.guard_callback, dialog)
        draw = partial(self._inspection.graph, figures.layers)
        self._runner.run("gallery pictures", draw, if_open(show), if_open(show_error))

    def _run(
        self, dialog: GalleryDialog, work: Callable[[], object], on_success: Callable[..., None]
    ) -> None:
        def show_error(error: BackendError) -> None:
            dialog.show_error(error.with_remedy)

        if_open = partial(self.dialog.guard_callback, dialog)
        self._runner.run(_QUEUE, work, if_open(on_success), if_open(show_error))

    def _add(
        self,
        dialog: GalleryDialog,
        on_added: Callable[[LibraryItem], object],
        choice: GalleryChoice,
    ) -> None:
        progress = self._runner.progress(self.dialog.guard_callback(dialog, dialog.show_progress))
        self._progress = progress

        def finish(item: LibraryItem) -> None:
            dialog.accept()
            on_added(item)

        add = partial(self._gallery.add, choice.entry, choice.settings, choice.name, progress)
        self._run(dialog, add, finish)

    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()
