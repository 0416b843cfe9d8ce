"""Serve the dialogs of the gallery and of the depth planner, which add models and loaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base import log
from backend.base.errors import BackendError
from backend.records.library.depth_plan import NETWORK
from backend.records.library.gallery import DataShape, GalleryEntry
from backend.records.library.item import Kind, LibraryItem
from backend.records.library.layers import LayerGraph
from backend.services.jobs.inspection import InspectionService
from backend.services.library.gallery import GalleryService
from widgets.library.depth_dialog import DepthDialog
from widgets.library.gallery_dialog import GalleryChoice, GalleryDialog, GalleryPreset

_QUEUE = "gallery"


class GalleryController(DialogController[GalleryDialog]):
    """Open the dialog, draw its pictures one at a time, and add what is chosen.

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
    ) -> None:
        """Make the controller. ``items`` returns the items of the library."""
        super().__init__(runner, window)
        self._gallery = gallery
        self._inspection = inspection
        self._items = items

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
        dialog.cancel_requested.connect(self.cancel_task)
        dialog.plan_requested.connect(dialog.reject)
        dialog.plan_requested.connect(self.plan_requested)
        self.open(dialog)

        def show(entries: Sequence[GalleryEntry]) -> None:
            dialog.show_entries(entries)
            self._draw(dialog, [e for e in entries if e.figures is not None])

        self.serve_dialog(dialog, _QUEUE, partial(self._gallery.list, kind), show)

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

        show_if_open = self.if_open(dialog, show)
        draw = partial(self._inspection.graph, figures.layers)
        self.serve("gallery pictures", draw, show_if_open, show_if_open)

    def _add(
        self,
        dialog: GalleryDialog,
        on_added: Callable[[LibraryItem], object],
        choice: GalleryChoice,
    ) -> None:
        def finish(item: LibraryItem) -> None:
            dialog.accept()
            on_added(item)

        add = partial(self._gallery.add, choice.entry, choice.settings, choice.name)
        self.run_task(dialog, _QUEUE, add, finish, dialog.show_progress)


class DepthController(DialogController[DepthDialog]):
    """Serve the dialog of the depth planner; ``show`` opens the added model."""

    def __init__(
        self,
        gallery: GalleryService,
        runner: Runner,
        show: Callable[[LibraryItem], object],
        window: QWidget,
    ) -> None:
        super().__init__(runner, window)
        self._gallery = gallery
        self._show = show

    @Slot()
    def plan(self) -> None:
        """Open the planner."""
        dialog = DepthDialog(self._window)
        dialog.network_requested.connect(self._add)
        self.open(dialog)

    @Slot(object, str)
    def _add(self, settings: Mapping[str, str], name: str) -> None:
        def show(item: LibraryItem) -> None:
            if self.dialog is not None:
                self.dialog.accept()
            self._show(item)

        self.serve("gallery", partial(self._gallery.add, NETWORK, settings, name), show)
