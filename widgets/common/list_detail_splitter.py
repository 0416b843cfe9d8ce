"""A list on the left and its open item on the right, with a movable edge."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QSplitter, QWidget

DETAIL_MIN_W = 512
"""The width that the header of the open item needs."""


class ListDetailSplitter(QSplitter):
    """The two halves of a page.

    Signals:
        list_resized: The width that the user gave the list, in pixels.
    """

    list_resized = Signal(int)

    def __init__(
        self, list_pane: QWidget, detail_pane: QWidget, parent: QWidget | None = None
    ) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)
        self.addWidget(list_pane)
        self.addWidget(detail_pane)
        self.setStretchFactor(1, 1)
        self._is_user_sized = False
        self._list_w = 0
        self.splitterMoved.connect(self._record_list_width)

    def restore(self, list_w: int) -> None:
        """Restore the width that the user chose; 0 for none."""
        if list_w > 0:
            self._set_list_width(list_w)
            self._is_user_sized = True

    def suggest(self, list_w: int) -> None:
        """Set a width that suits the window, unless the user chose one."""
        if list_w != self._list_w and not self._is_user_sized:
            self._set_list_width(list_w)

    def _set_list_width(self, list_w: int) -> None:
        self._list_w = list_w
        self.setSizes([list_w, max(1, self.width() - list_w)])

    @Slot()
    def _record_list_width(self) -> None:
        self._is_user_sized = True
        self._list_w = self.sizes()[0]
        self.list_resized.emit(self._list_w)
