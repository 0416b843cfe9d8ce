"""A stack of pages, and a list beside its open item, in the available space."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, QSize, Qt, Signal, Slot
from PySide6.QtWidgets import QSplitter, QStackedWidget, QWidget


def restyle(widget: QWidget) -> None:
    """Style a widget and its children again, and notify them; hidden pages of a stack later."""
    if widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):
        widget.style().polish(widget)
        QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.StyleChange))
        widget.update()
    deferred_pages = widget.defer_restyling() if isinstance(widget, PageStack) else ()
    for child in widget.children():
        if isinstance(child, QWidget) and child not in deferred_pages:
            restyle(child)


class PageStack(QStackedWidget):
    """A stack that takes the available space without querying size hints.

    Qt's own stack demands the size of its largest page, visible or not: the jobs page alone would
    make the window 1081 pixels wide.
    """

    def __init__(self, min_width: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._min_size = QSize(min_width, 0)
        self._unstyled: set[QWidget] = set()
        self.currentChanged.connect(self._style_page)

    def defer_restyling(self) -> set[QWidget]:
        """Return the hidden pages, each of which is styled again when it is shown."""
        pages = (self.widget(index) for index in range(self.count()))
        self._unstyled = {page for page in pages if page and page is not self.currentWidget()}
        return self._unstyled

    @Slot()
    def _style_page(self) -> None:
        page = self.currentWidget()
        if page is not None and page in self._unstyled:
            self._unstyled.remove(page)
            restyle(page)

    def hasHeightForWidth(self) -> bool:
        return False

    def sizeHint(self) -> QSize:
        return self._min_size

    def minimumSizeHint(self) -> QSize:
        return self._min_size


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
