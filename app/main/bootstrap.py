"""The composition root: the window, its pages, and the features in their folders.

Each of `app/jobs`, `app/nodes` and `app/library` has a module ``wiring``, whose function ``wire``
makes the controllers of the feature and connects their signals.

The window is painted first, with nothing behind it. Meanwhile a worker thread imports its
controllers and pages, the catalogue and SQLAlchemy, because a window that appears within a second
is better than one that appears complete within two.
"""

from __future__ import annotations

import gc
import importlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QTimer, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from app.main.data_root_opener import DataRootOpener
from app.main.session_restore import first_page, restore_session
from app.runtime.background import Background
from app.runtime.malloc_tuning import keep_heaps_small
from app.runtime.settings import Settings, SettingsWriter, preferences_in, settings_file
from app.shell.window_geometry import WindowGeometry
from backend.records.base.account import expand_home
from backend.records.base.remote_root import RemoteRoot
from backend.records.library.item import Kind
from backend.services.tools import tool_process
from widgets.common import formats
from widgets.common.state_badge import logo_icon
from widgets.common.theme_manager import ThemeManager, unstyled
from widgets.shell.main_window import MainWindow

if TYPE_CHECKING:
    from app.nodes.node_controller import NodeController
    from app.shell.window_controller import FrameController
    from backend.services.context.container import Services
    from widgets.jobs.form.job_form import JobForm
    from widgets.jobs.page.jobs_page import JobsPage
    from widgets.library.library_page import LibraryPage
    from widgets.nodes.page.nodes_page import NodesPage

NO_FRAME_MS = 1000
"""A window that nothing shows, as on another desktop, is not painted and is built all the same."""


_QT_MODULES = (
    "numpy",
    "pyqtgraph",
    "widgets.plots.curve_panel",
    "widgets.jobs.curves.curves_tab",
    "widgets.nodes.history.history_card",
    "widgets.jobs.detail.settings_tab",
    "widgets.jobs.detail.job_detail",
    "widgets.jobs.form.job_form",
    "widgets.jobs.page.jobs_page",
    "widgets.compare.compare_page",
    "widgets.library.library_page",
    "widgets.nodes.page.nodes_page",
    "app.main.pages",
    "app.shell.page_commands",
    "app.shell.window_controller",
    "app.jobs.job_controller",
    "app.jobs.wiring",
    "app.nodes.wiring",
    "app.library.wiring",
)
"""The modules of the pages and their controllers: at most 80 ms each, half a second together.

Not on a worker: PySide 6.11 keeps its classes in a table that Qt reads without Python's lock. While
a worker defined a class, a layout on the GUI thread crashed in `MetaObjectBuilder::update`, in 4 of
27 runs of tests/widgets/compare with tests/app/nodes.
"""


class Program(QObject):
    """Everything that lives as long as the application.

    Attributes:
        is_built: All pages exist; before that only the frame does.
        window, geometry: The frame, and the keeper of its size and position.
        data_root_opener: Opens the data root.
    """

    def __init__(
        self,
        app: QApplication,
        data_root: Path | RemoteRoot,
        catalogue: Path | None,
        demo_workers: int | None,
    ) -> None:
        super().__init__()
        self._app = app
        self._data_root = data_root
        self._demo_workers = demo_workers
        self._services: Services | None = None
        self._frame: FrameController | None = None
        self._node_controller: NodeController | None = None
        settings = Settings(settings_file())
        preferences = settings.preferences
        formats.set_units(preferences.units)
        keep_heaps_small()
        self._background = Background(parent=self)
        self._settings_writer = SettingsWriter(settings, self._background, self)
        # Python collects in whichever thread allocates, and a widget in a cycle is then destroyed
        # there while it may be painted: a segmentation fault. `_garbage` collects on this thread.
        gc.disable()
        self._first_frame_timer = QTimer(self, singleShot=True, interval=NO_FRAME_MS)
        self._first_frame_timer.timeout.connect(self._import_next)
        self.is_built = False

        self.window = MainWindow()
        # After the window: each widget that joins a styled one is styled by itself.
        self._themes = ThemeManager(
            app,
            preferences.theme_choice,
            preferences.reduced_motion,
            preferences.high_contrast,
        )
        self.window.setWindowIcon(logo_icon())
        self.window.side_bar.set_root(_short_path(data_root))
        self._root_address = (
            data_root.url(data_root.path)
            if isinstance(data_root, RemoteRoot)
            else str(data_root.absolute())
        )
        self._first_page = first_page(preferences_in(self._root_address, preferences))
        self.window.side_bar.choose(self._first_page)
        self.window.side_bar.set_dark(self._themes.is_dark)
        self.data_root_opener = DataRootOpener(
            data_root, catalogue, self._background, self.window, self
        )
        self.data_root_opener.services_opened.connect(self._start_services)
        self.data_root_opener.open_failed.connect(partial(self.window.open_page, "refusal"))
        self.geometry = WindowGeometry(
            app, self.window, settings, self._settings_writer.remember, self
        )
        self.window.side_bar.folder.clicked.connect(self._open_root)

    def show(self) -> None:
        """Show the window now, and build everything after its first frame."""
        self._module_names = iter(_QT_MODULES)
        self.window.installEventFilter(self)
        self.window.show()
        self._first_frame_timer.start()

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        """Import nothing while the first frame of the window waits to be painted."""
        if event.type() == QEvent.Type.UpdateRequest:
            receiver.removeEventFilter(self)
            self._first_frame_timer.start(0)
        return False

    def quit(self) -> None:
        """Quit as if the user closed the window; jobs keep running."""
        if self._frame is None:
            self.window.close()
        else:
            self._frame.quit()

    # The pages.

    @Slot()
    def _import_next(self) -> None:
        """Import a module, process the waiting events, then import the next one."""
        module_name = next(self._module_names, None)
        if module_name is not None:
            importlib.import_module(module_name)
            QTimer.singleShot(0, self._import_next)
            return
        from pyqtgraph.util.garbage_collector import GarbageCollector

        from app.main.pages import Pages

        self._garbage = GarbageCollector()
        self._pages = Pages(self.window)
        self.window.side_bar.job_opened.connect(self._pages.open_job)
        self._make_frame()
        self._page_iterator = self._pages.build()
        self._build_next()

    @Slot()
    def _build_next(self) -> None:
        """Build one page, process the waiting events, then build the next page."""
        with unstyled(self._app):
            keyed_page = next(self._page_iterator, None)
            if keyed_page is not None:
                self.window.add_page(*keyed_page)
        if keyed_page is not None:
            if keyed_page[0] == self._first_page:
                self.window.open_page(self._first_page)
            QTimer.singleShot(0, self._build_next)
            return
        self.jobs.welcome_page.nodes.clicked.connect(partial(self.window.open_page, "nodes"))
        self.frame.take_pages(self._pages.settings, self._pages.help)
        preferences = preferences_in(self._root_address, self._settings_writer.preferences)
        remember = partial(self._settings_writer.remember_in, self._root_address)
        restore_session(preferences, self.window, self._pages, remember)
        self.is_built = True
        self.data_root_opener.start(self._pages.refusal)

    @property
    def jobs(self) -> JobsPage:
        return self._pages.jobs

    @property
    def form(self) -> JobForm:
        return self._pages.form

    @property
    def library(self) -> dict[Kind, LibraryPage]:
        return self._pages.library

    @property
    def nodes(self) -> NodesPage:
        return self._pages.nodes

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of all nodes, this computer first; none before the nodes were listed."""
        return self._node_controller.names if self._node_controller is not None else ()

    def close(self) -> bool:
        """Clean up after the window closed. Jobs keep running; they do not need this process.

        No timer of the program outlives this: the window that it would update is gone.
        Return False if a thread is in a call that may never return (see `Background.close`).
        """
        self._first_frame_timer.stop()
        if self._node_controller is not None:
            self._job_controllers.stop()
            self._node_controller.stop()
        has_ended = self._background.close()
        tool_process.stop_warm_process()
        if self._services is not None:
            self._job_controllers.checkpoint_drag.close()
        self._settings_writer.save()
        if self._frame is not None:
            self._frame.tray.close()
            self._garbage.timer.stop()
        self._themes.deleteLater()
        if self._services is not None and has_ended:
            self._services.close()
        self.deleteLater()
        return has_ended

    # The frame.

    @property
    def frame(self) -> FrameController:
        """Built shortly after the first frame of the window, before the first page."""
        assert self._frame is not None, "needed before the pages are built"
        return self._frame

    def _make_frame(self) -> None:
        from app.shell.window_controller import FrameController

        self._frame = frame = FrameController(
            self._settings_writer, self._themes, self.window, self._background, logo_icon(), self
        )
        frame.window_shown.connect(self.geometry.bring_in)
        frame.job_opened.connect(self._pages.open_job)
        frame.node_opened.connect(self._pages.open_node)

    @Slot()
    def _open_root(self) -> None:
        root = self._data_root
        address = root.url(root.path) if isinstance(root, RemoteRoot) else root.absolute().as_uri()
        QDesktopServices.openUrl(QUrl(address))

    # The services.

    @Slot(object)
    def _start_services(self, services: Services) -> None:
        from app.jobs import wiring as job_wiring
        from app.library import wiring as library_wiring
        from app.nodes import wiring as node_wiring
        from app.shell.page_commands import offer_pages

        self._services = services
        tool_process.start_warm_process()
        if self.window.page_key == "refusal":
            self.window.open_page(self._first_page)
        self.frame.use_services(services)
        parts = services, self._pages, self.frame, self._background
        self._job_controllers = job_wiring.wire(*parts, self)
        self._node_controller = node_wiring.wire(*parts, self._job_controllers, self)
        self._library_controller = library_wiring.wire(*parts, self._job_controllers, self)
        offer_pages(self.frame, self._pages)
        show_refreshing = partial(self.window.toast.show_message, "Refreshing…")
        self.window.refresh_requested.connect(show_refreshing)
        self._background.notified.connect(self.window.toast.show_message)
        if self._demo_workers is not None:
            self._job_controllers.jobs.train_example(self._demo_workers)
        # The 140,000 objects of the modules stay: scanning them each time takes 100 ms.
        gc.freeze()


def _short_path(path: Path | RemoteRoot) -> str:
    """Return a path in short form: ``~/ringmaster``, ``gpu1:/lab/ring``."""
    if isinstance(path, RemoteRoot):
        return path.label
    try:
        return f"~/{expand_home(path).absolute().relative_to(Path.home())}"
    except ValueError:  # It is not in the home folder.
        return str(path)
