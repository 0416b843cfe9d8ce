"""The window on which a screen is drawn: the real one with its real pages, and no services."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QRect
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication, QWidget

from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from backend.records.nodes.reading import NodeState
from tests.pictures import lab
from tests.pictures.flaws import flaws
from tests.pictures.gallery import Size
from widgets.common import theme
from widgets.common.theme_manager import unstyled
from widgets.compare.compare_page import ComparePage
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage
from widgets.library.library_page import LibraryPage
from widgets.nodes.page.nodes_page import NodesPage
from widgets.shell.help_page import HelpPage
from widgets.shell.main_window import MainWindow
from widgets.shell.pages import PAGE_KEYS
from widgets.shell.settings_page import SettingsPage

_Widget = TypeVar("_Widget", bound=QWidget)


class Stage:
    """A window of one size; pages are made when a screen asks for them.

    Attributes:
        overlay: The dialog or menu over the window, in a window of its own.
    """

    def __init__(self, size: Size) -> None:
        self.size = size
        self.window = MainWindow()
        self.overlay: QWidget | None = None
        self.window.resize(*size)
        self.window.show()
        self.window.side_bar.set_root("/lab/ring")
        self.window.side_bar.set_dark(theme.current().name == "dark")
        self.show_cluster(lab.live(), lab.nodes())

    def show_cluster(self, live: tuple[JobView, ...], nodes: tuple[NodeState, ...]) -> None:
        """Fill the side bar, which stands on every page."""
        bar = self.window.side_bar
        bar.show_live(live)
        bar.show_nodes(nodes)
        for key, count in (("jobs", 13), ("datasets", 9), ("models", 14), ("loaders", 6)):
            bar.set_count(key, count)

    @cached_property
    def jobs(self) -> JobsPage:
        return self._page("jobs", JobsPage)

    @cached_property
    def form(self) -> JobForm:
        form = self._page("new-job", JobForm)
        self.window.side_bar.choose("jobs")
        return form

    @cached_property
    def compare(self) -> ComparePage:
        return self._page("compare", ComparePage)

    @cached_property
    def nodes(self) -> NodesPage:
        return self._page("nodes", lambda: NodesPage(lambda: lab.NOW))

    @cached_property
    def settings(self) -> SettingsPage:
        return self._page("settings", lambda: SettingsPage("0.1.0"))

    @cached_property
    def help(self) -> HelpPage:
        return self._page("help", HelpPage)

    def library(self, kind: Kind) -> LibraryPage:
        return self._page(PAGE_KEYS[kind], lambda: LibraryPage(kind))

    def _page(self, key: str, make: Callable[[], _Widget]) -> _Widget:
        app = QCoreApplication.instance()
        assert isinstance(app, QApplication)
        with unstyled(app):
            page = make()
            self.window.add_page(key, page)
        self.window.open_page(key)
        return page

    def lay_over(self, widget: _Widget) -> _Widget:
        """A dialog of the window, shown as the user sees it."""
        widget.show()
        self.overlay = widget
        return widget

    def settle(self) -> None:
        """All that was asked for is laid out and drawn.

        A height that hangs on a width climbs one layout a pass: the form of a new job was still
        squeezed after four.
        """
        for _ in range(10):
            QApplication.processEvents()

    def flaws(self) -> list[str]:
        """Return the flaws of the window and its overlay."""
        messages = list(flaws(self.window))
        if self.overlay is not None:
            messages += flaws(self.overlay)
            if not self.window.rect().contains(self.overlay.rect()):
                messages.append("The dialog is larger than the window")
        return list(dict.fromkeys(messages))

    def picture(self) -> QImage:
        """The window, and over its middle what stands there."""
        image = self.window.grab().toImage()
        if self.overlay is None:
            return image
        overlay_image = self.overlay.grab()
        ratio = image.devicePixelRatio()
        width, height = overlay_image.width() / ratio, overlay_image.height() / ratio
        corner = QPoint(
            round((self.window.width() - width) / 2), round((self.window.height() - height) / 2)
        )
        painter = QPainter(image)
        painter.drawPixmap(corner, overlay_image)
        painter.setPen(theme.current().q("line_strong"))
        painter.drawRect(
            QRect(corner, QPoint(round(corner.x() + width) - 1, round(corner.y() + height) - 1))
        )
        painter.end()
        return image

    def close(self) -> None:
        """Everything of it is gone at once: the next window would be slowed by this one."""
        if self.overlay is not None:
            self.overlay.close()
        self.window.close()
        shiboken6.delete(self.window)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
