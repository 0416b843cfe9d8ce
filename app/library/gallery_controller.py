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
from widgets.common.dialog_holder import DialogHolder
from widgets.library.gallery_dialog import GalleryChoice, GalleryDialog, GalleryPreset

_LANE = "gallery"


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
        """Make the controller. ``items`` returns what the library has."""
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
        then: Callable[[LibraryItem], object],
    ) -> None:
        """Open the gallery. ``then`` takes what was added."""
        taken: dict[str, int] = {}
        for item in self._items(kind):
            taken[item.name] = max(item.version, taken.get(item.name, 0))
        dialog = GalleryDialog(kind, taken, preset, self._window)
        dialog.add_requested.connect(partial(self._add, dialog, then))
        dialog.cancel_requested.connect(self._cancel)
        dialog.plan_requested.connect(dialog.reject)
        dialog.plan_requested.connect(self.plan_requested)
        self.dialog.open(dialog)

        def show(entries: Sequence[GalleryEntry]) -> None:
            dialog.show_entries(entries)
            self._draw(dialog, [one for one in entries if one.figures is not None])

        self._run(dialog, partial(self._gallery.list, kind), show)

    def choose_for_job(
        self, dataset: str, loader: str, then: Callable[[LibraryItem], object]
    ) -> None:
        """Open the models with the settings that the data of a new job needs, where known."""
        items = [one for one in self._items(Kind.DATASET) if dataset in (one.name, one.reference)]

        def read() -> DataShape:
            data = self._gallery.data_shape(dataset, loader) if items else DataShape()
            # A preview has counted the classes; the files only suggest them.
            counted = max((one.facts.get("classes", 0) for one in items), default=0)
            sizes = {**data.sizes, **({"classes": counted} if counted else {})}
            return replace(data, sizes=sizes)

        def show(data: DataShape) -> None:
            self.choose(Kind.MODEL, GalleryPreset(data=data), then)

        def unknown(error: BackendError) -> None:
            log.swallowed(error)
            show(DataShape())

        self._runner.run(_LANE, read, show, unknown)

    def _draw(self, dialog: GalleryDialog, models: Sequence[GalleryEntry]) -> None:
        """Lay the graphs out one after the other, while the dialog is open."""
        figures = models[0].figures if models else None
        if figures is None:
            return

        def show(graph: LayerGraph | str) -> None:
            dialog.show_graph(models[0].name, graph)
            self._draw(dialog, models[1:])

        def failed(error: BackendError) -> None:
            show(error.with_remedy)

        if_open = partial(self.dialog.while_open, dialog)
        draw = partial(self._inspection.graph, figures.layers)
        self._runner.run("gallery pictures", draw, if_open(show), if_open(failed))

    def _run(
        self, dialog: GalleryDialog, work: Callable[[], object], then: Callable[..., None]
    ) -> None:
        def refused(error: BackendError) -> None:
            dialog.show_error(error.with_remedy)

        if_open = partial(self.dialog.while_open, dialog)
        self._runner.run(_LANE, work, if_open(then), if_open(refused))

    def _add(
        self,
        dialog: GalleryDialog,
        then: Callable[[LibraryItem], object],
        choice: GalleryChoice,
    ) -> None:
        progress = self._runner.progress(self.dialog.while_open(dialog, dialog.show_progress))
        self._progress = progress

        def added(item: LibraryItem) -> None:
            dialog.accept()
            then(item)

        add = partial(self._gallery.add, choice.entry, choice.settings, choice.name, progress)
        self._run(dialog, add, added)

    def _cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancel()
