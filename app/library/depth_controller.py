"""Open the depth planner, and add the planned network to the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QWidget

from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError
from backend.records.library.depth_plan import NETWORK
from backend.records.library.item import LibraryItem
from backend.services.library.gallery import GalleryService
from widgets.common.dialog import DialogHolder
from widgets.library.depth_dialog import DepthDialog


class DepthController(Controller):
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
        self.dialog_holder: DialogHolder[DepthDialog] = DialogHolder()

    @Slot()
    def plan(self) -> None:
        """Open the planner."""
        dialog = DepthDialog(self._window)
        dialog.network_requested.connect(self._add)
        self.dialog_holder.open(dialog)

    @Slot(object, str)
    def _add(self, settings: Mapping[str, str], name: str) -> None:
        add = partial(self._gallery.add, NETWORK, settings, name)
        self._runner.run("gallery", add, self._show_added, self._show_error)

    def _show_added(self, item: LibraryItem) -> None:
        if self.dialog_holder.dialog is not None:
            self.dialog_holder.dialog.accept()
        self._show(item)

    def _show_error(self, error: BackendError) -> None:
        if self.dialog_holder.dialog is not None:
            self.dialog_holder.dialog.show_error(error.with_remedy)
        else:
            self._runner.notify(error.with_remedy)
