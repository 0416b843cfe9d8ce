"""A stack of pages in the available space."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, QSize, Qt, Slot
from PySide6.QtWidgets import QStackedWidget, QWidget


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
