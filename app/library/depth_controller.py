"""Open the depth planner, and add the planned network to the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.records.library.depth_plan import NETWORK
from backend.records.library.item import LibraryItem
from backend.services.library.gallery import GalleryService
from widgets.library.depth_dialog import DepthDialog


class DepthController(DialogController[DepthDialog]):
    """Serve the dialog of the depth planner; ``show`` opens the added model."""

    def __init__(
        self,
        gallery: GalleryService,
        runner: Runner,
        show: Callable[[LibraryItem], object],
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, window, parent)
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
