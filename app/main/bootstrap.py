"""The composition root: build every object and connect every signal, on one page.

The window is painted first, with nothing behind it. Meanwhile a worker thread imports its
controllers and pages, the catalogue and SQLAlchemy, because a window that appears within a second
is better than one that appears complete within two.
"""

from __future__ import annotations

import gc
import importlib
import time
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
from app.runtime.paths import settings_file
from app.runtime.settings import Settings
from app.runtime.settings_writer import SettingsWriter
from app.shell.window_geometry import WindowGeometry
from backend.base import log
from backend.records.base.account import expand_home
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.view import JobView, RunUpdate
from backend.records.library.item import PARTS, Kind, LibraryItem
from backend.records.nodes.reading import Finding, NodeState
from backend.services.tools import tool_process
from widgets.common import formats
from widgets.common.state_badge import logo_icon
from widgets.common.theme_manager import ThemeManager
from widgets.common.throttle import Throttle
from widgets.shell.main_window import MainWindow
from widgets.shell.pages import PAGE_KEYS

if TYPE_CHECKING:
    from app.shell.window_controller import FrameController
    from backend.services.context.container import Services
    from widgets.jobs.form.job_form import JobForm
    from widgets.jobs.page.jobs_page import JobsPage
    from widgets.library.library_page import LibraryPage
    from widgets.nodes.page.nodes_page import NodesPage

POLL_INTERVAL_MS = 500
NODE_INTERVAL_MS = 2000
LIVE_INTERVAL_MS = 250
"""Interval of refreshes of side bar and tray; twenty jobs send forty updates a second."""
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
    "app.shell.palette_commands",
    "app.shell.window_controller",
    "app.library.library_controller",
    "app.nodes.node_controller",
    "app.jobs.job_controller",
    "app.jobs.bulk_controller",
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
        self._data_root = data_root
        self._demo_workers = demo_workers
        self._services: Services | None = None
        self._frame: FrameController | None = None
        settings = Settings(settings_file())
        preferences = settings.preferences
        formats.set_units(preferences.units)
        keep_heaps_small()
        self._background = Background(parent=self)
        self._settings_writer = SettingsWriter(settings, self._background, self)
        # Python collects in whichever thread allocates, and a widget in a cycle is then destroyed
        # there while it may be painted: a segmentation fault. `_garbage` collects on this thread.
        gc.disable()
        self._live_refresh = Throttle(LIVE_INTERVAL_MS, self._show_live, self)
        self._node_names: tuple[str, ...] = ()
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
        self._first_page = first_page(preferences)
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
        self.window.side_bar.job_opened.connect(self._open_job)

    def show(self) -> None:
        """Show the window now, and build everything after its first frame."""
        self._module_names = iter(_QT_MODULES)
        self.window.installEventFilter(self)
        self.window.show()
        self._first_frame_timer.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Import nothing while the first frame of the window waits to be painted."""
        if event.type() == QEvent.Type.UpdateRequest:
            watched.removeEventFilter(self)
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
        self._pages = Pages()
        self._make_frame()
        self._page_iterator = self._pages.build()
        self._build_next()

    @Slot()
    def _build_next(self) -> None:
        """Build one page, process the waiting events, then build the next page."""
        keyed_page = next(self._page_iterator, None)
        if keyed_page is not None:
            self.window.add_page(*keyed_page)
            if keyed_page[0] == self._first_page:
                self.window.open_page(self._first_page)
            QTimer.singleShot(0, self._build_next)
            return
        self.jobs.welcome_page.nodes.clicked.connect(partial(self.window.open_page, "nodes"))
        self.frame.take_pages(self._pages.settings, self._pages.help)
        preferences = self._settings_writer.preferences
        restore_session(preferences, self.window, self._pages, self._settings_writer.remember)
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

    def close(self) -> bool:
        """Clean up after the window closed. Jobs keep running; they do not need this process.

        No timer of the program outlives this: the window that it would update is gone.
        Return False if a thread is in a call that may never return (see `Background.close`).
        """
        self._first_frame_timer.stop()
        self._live_refresh.stop()
        if self._services is not None:
            self._poller.stop()
            self._node_controller.stop()
            self._compare_controller.stop()
        has_ended = self._background.close()
        tool_process.stop_warm_process()
        if self._services is not None:
            self._checkpoint_drag.close()
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
        frame.job_opened.connect(self._open_job)
        frame.node_opened.connect(self._open_node)

    @Slot()
    def _open_root(self) -> None:
        root = self._data_root
        address = root.url(root.path) if isinstance(root, RemoteRoot) else root.absolute().as_uri()
        QDesktopServices.openUrl(QUrl(address))

    @Slot(str)
    def _open_job(self, job_id: str) -> None:
        self.window.open_page("jobs")
        self.jobs.reveal(job_id)
        # Its shortcuts work where the focus is, so a user who came by keyboard continues by
        # keyboard.
        self.jobs.setFocus()

    def _open_sweep(self, tag: str) -> None:
        self.window.open_page("jobs")
        self.jobs.show_list()
        self.jobs.open_sweep(tag)
        self.jobs.setFocus()

    @Slot(str)
    def _open_node(self, name: str) -> None:
        self.window.open_page("nodes")
        self.nodes.open_node(name)
        self.nodes.setFocus()

    def _show_processes(self, name: str) -> None:
        self._open_node(name)
        self.nodes.detail.show_processes()

    def _open_item(self, kind: Kind, name: str) -> None:
        self.window.open_page(PAGE_KEYS[kind])
        self.library[kind].show_item(name)
        self.library[kind].setFocus()

    # The services.

    @Slot(object)
    def _start_services(self, services: Services) -> None:
        self._services = services
        tool_process.start_warm_process()
        if self.window.page_key == "refusal":
            self.window.open_page(self._first_page)
        self._make_controllers(services)
        self._wire_jobs()
        self._wire_compare()
        self._wire_library()
        self._wire_nodes()
        self._offer_commands(services)
        self._library_controller.refresh()
        self._node_controller.start()
        self._compare_controller.start()
        self._poller.start()
        self.jobs.begin_reading()
        self._background.run("doctor", services.nodes.doctor, self._show_checks, log.swallowed)
        if self._demo_workers is not None:
            self._job_controller.train_example(self._demo_workers)
        # The 140,000 objects of the modules stay: scanning them each time takes 100 ms.
        gc.freeze()

    def _make_controllers(self, services: Services) -> None:
        from app.jobs.bulk_controller import BulkController
        from app.jobs.bundle_controller import BundleController
        from app.jobs.checkpoint_drag import CheckpointDragSource
        from app.jobs.compare_controller import CompareController
        from app.jobs.events_controller import EventsController
        from app.jobs.file_export import FileExport
        from app.jobs.inspection_controller import InspectionController
        from app.jobs.job_controller import JobController
        from app.jobs.list_controller import ListController
        from app.jobs.log_controller import LogController
        from app.jobs.onboarding import Onboarding
        from app.jobs.prediction_controller import PredictionController
        from app.jobs.queue_controller import QueueController
        from app.jobs.status_poller import StatusPoller
        from app.jobs.study_controller import StudyController
        from app.jobs.trash_controller import TrashController
        from app.library.depth_controller import DepthController
        from app.library.gallery_controller import GalleryController
        from app.library.layers_controller import LayersController
        from app.library.library_controller import LibraryController
        from app.library.scan_controller import ScanController
        from app.nodes.node_controller import NodeController
        from backend.services.jobs.feed import JobFeed

        runner, window, jobs = self._background, self.window, self.jobs
        self._poller = StatusPoller(
            services.jobs.queries.poll,
            JobFeed(services.jobs.queries).poll,
            services.reaper.reap,
            runner,
            POLL_INTERVAL_MS,
            self,
        )
        self._list_controller = ListController(runner, jobs, self)
        self._job_controller = JobController(
            services, runner, self._poller, jobs, self.form, window, self
        )
        self._bulk_controller = BulkController(
            services, runner, jobs, self._job_controller, window, self
        )
        self._job_trash = TrashController(services, runner, jobs, window, self)
        self._checkpoint_drag = CheckpointDragSource(services.jobs, runner, jobs.job_actions, self)
        self._bundle_controller = BundleController(services, runner, jobs, window, self)
        self._prediction_controller = PredictionController(
            services, runner, jobs.job_actions, window, self
        )
        self._log_controller = LogController(services.logs, runner, jobs.detail.log, self)
        self._library_controller = LibraryController(
            services.library, services.gallery, runner, self.library, window, self
        )
        items = self._library_controller.items
        self._gallery_controller = GalleryController(
            services.gallery, services.inspection, runner, items, window, self
        )
        show_new = self._library_controller.show_new
        self._depth_controller = DepthController(services.gallery, runner, show_new, window, self)
        self._gallery_controller.plan_requested.connect(self._depth_controller.plan)
        inspection_args = services.inspection, runner
        self._layers_controller = LayersController(
            *inspection_args, self.library[Kind.MODEL].detail, self
        )
        self._inspection_controller = InspectionController(
            *inspection_args, jobs.job_actions, window, self
        )
        self._events_controller = EventsController(
            services.event_viewers, services.inspection, runner, jobs.job_actions, window, self
        )
        self._scan_controller = ScanController(services.scans, runner, self.library, self)
        self._node_controller = NodeController(
            services, runner, self.nodes, window, NODE_INTERVAL_MS, self
        )
        self._onboarding = Onboarding(
            jobs.onboarding_strip,
            lambda kind: self.library[kind].import_requested.emit(""),
            self._node_controller.add,
            self,
        )
        self._study_controller = StudyController(services, runner, jobs, window, self)
        self._queue_controller = QueueController(services.queue, runner, self._poller, jobs, self)
        self._file_export = FileExport(services.comparison, runner, window, self)
        self._compare_controller = CompareController(
            services.comparison,
            runner,
            self._pages.compare,
            self._file_export,
            self._list_controller.find_rows,
            self,
        )
        self._job_trash.undoable.connect(
            lambda text, tag: window.toast.show_message(text, undo_tag=tag)
        )
        window.toast.undone.connect(self._job_trash.undo)
        runner.notified.connect(window.toast.show_message)

    def _wire_jobs(self) -> None:
        side_bar, poller, drafts = self.window.side_bar, self._poller, self._job_controller.drafts
        poller.all_listed.connect(self._list_controller.take_listing)
        poller.all_listed.connect(self.frame.bell.see_listing)
        poller.jobs_listed.connect(self._show_jobs)
        poller.jobs_listed.connect(self._queue_controller.show_jobs)
        poller.updated.connect(self._show_update)
        poller.updated.connect(self._bundle_controller.compare_replay)
        poller.job_failed.connect(self.jobs.detail.show_read_error)
        poller.job_failed.connect(self._show_unreadable)
        poller.list_failed.connect(side_bar.show_error)
        poller.list_failed.connect(self.jobs.show_error)
        self._list_controller.count_changed.connect(partial(side_bar.set_count, "jobs"))
        self._queue_controller.queue_shown.connect(side_bar.show_queue)
        drafts.form_requested.connect(partial(self.window.open_page, "new-job"))
        drafts.bundle_opened.connect(self._bundle_controller.unbundle)
        self._job_controller.jobs_requested.connect(partial(self.window.open_page, "jobs"))
        self._bundle_controller.job_created.connect(self._job_controller.show_new)
        self._study_controller.study_queued.connect(lambda _sweep: self.window.open_page("jobs"))
        self.window.refresh_requested.connect(self._refresh)

    def _wire_compare(self) -> None:
        from widgets.jobs.actions import job_actions
        from widgets.nodes.page import node_actions

        controller, actions = self._compare_controller, self.jobs.job_actions
        controller.page_requested.connect(partial(self.window.open_page, "compare"))
        self._poller.all_listed.connect(controller.see_listing)
        self.window.side_bar.accept_jobs(self._pages.compare.offer_for)
        self.window.side_bar.jobs_dropped.connect(controller.add_dropped)
        actions.add_handler(job_actions.COMPARE, lambda job_id: controller.compare((job_id,)))
        actions.add_handler(job_actions.COMPARE_ALL, controller.compare)
        actions.add_handler(job_actions.CSV_ALL, partial(self._file_export.save_csv, "curves"))
        self._pages.compare.job_opened.connect(self._open_job)
        actions.add_handler(job_actions.SAVE_FILE, self._file_export.save)
        actions.add_handler(job_actions.SAVE_CSV, self._save_csv_of)
        actions.add_handler(job_actions.SHOW_NODE, self._open_node)
        actions.add_handler(job_actions.SHOW_PROCESSES, self._show_processes)
        self.nodes.node_actions.add_handler(node_actions.SAVE, self._file_export.save)
        self.form.picture_requested.connect(self._file_export.save)
        variances = self.library[Kind.MODEL].detail.results.layers.variance
        variances.pictures.saved.connect(self._file_export.save)
        self.frame.command_search.add_action(controller.csv_action)

    def _wire_library(self) -> None:
        controller, drafts = self._library_controller, self._job_controller.drafts
        controller.changed.connect(self._library_changed)
        controller.job_requested.connect(drafts.new_job_with)
        controller.new_job_requested.connect(drafts.new_job_of)
        controller.page_requested.connect(lambda kind: self.window.open_page(PAGE_KEYS[kind]))
        controller.gallery_requested.connect(self._gallery_controller.choose)
        self.form.gallery_requested.connect(self._choose_model)
        for page in self.library.values():
            try_again = page.detail.try_again
            page.detail.package_requested.connect(
                partial(drafts.packages.ask, nodes=(THIS_COMPUTER,), on_installed=try_again)
            )
        self._list_controller.uses_changed.connect(controller.show_uses)
        self._list_controller.uses_changed.connect(self._onboarding.see_uses)
        self.window.dropped.connect(self._open_dropped)
        first_start = self.jobs.welcome_page
        for kind, button in ((Kind.DATASET, first_start.dataset), (Kind.MODEL, first_start.model)):
            button.clicked.connect(partial(self.library[kind].import_requested.emit, ""))

    def _wire_nodes(self) -> None:
        from widgets.nodes.page.node_actions import MOVE_OFF

        self._node_controller.nodes_listed.connect(self._show_nodes)
        self.window.side_bar.node_opened.connect(self._open_node)
        self.nodes.node_actions.add_handler(MOVE_OFF, self._job_controller.move_off)

    def _offer_commands(self, services: Services) -> None:
        """Register what the command palette offers."""
        from app.shell.palette_commands import (
            ObjectSources,
            offer_commands,
            offer_objects,
            offer_pages,
        )

        self.frame.use_services(services)
        offer_commands(
            self.frame, self._job_controller, self._node_controller, self._study_controller
        )
        offer_pages(self.frame, self.window, self._pages, self._open_job, self._open_sweep)
        templates = self._job_controller.drafts.templates
        offer_objects(
            self.frame,
            ObjectSources(
                jobs=self._list_controller.find_by_name,
                nodes=lambda: self._node_names,
                items=self._library_controller.items,
                templates=templates.list_templates,
            ),
            open_job=self._open_job,
            open_sweep=self._open_sweep,
            open_node=self._open_node,
            open_item=self._open_item,
            load_template=templates.load,
        )

    @Slot()
    def _choose_model(self) -> None:
        """Choose a model of the gallery for the job in the form."""

        def choose_added(model: LibraryItem) -> None:
            self._library_controller.open_new(model)
            self.form.choose_model(model.name)

        raw = self.form.draft().raw
        data = str(raw.get("dataset", "")), str(raw.get("loader", ""))
        self._gallery_controller.choose_for_job(*data, choose_added)

    @Slot(str)
    def _open_dropped(self, path: str) -> None:
        from app.jobs.form_controller import is_job_file

        if is_job_file(Path(path)):
            self._job_controller.drafts.open_job_file(Path(path))
        else:
            self._library_controller.import_dropped(Path(path))

    def _save_csv_of(self, job_id: str) -> None:
        line = self.jobs.model.summary(job_id)
        if line is not None:
            self._file_export.save_csv(line.name, (job_id,))

    def _show_checks(self, findings: tuple[Finding, ...]) -> None:
        self.jobs.welcome_page.show_findings(findings)
        self.frame.show_checks(findings)

    @Slot()
    def _refresh(self) -> None:
        """Read again the data that other desktops and nodes may have changed."""
        self._poller.poll()
        self._poller.poll_list()
        self._node_controller.refresh()
        self._library_controller.refresh()
        self.window.toast.show_message("Refreshing…")

    # Updates.

    @Slot(object)
    def _show_jobs(self, views: tuple[JobView, ...]) -> None:
        self.window.side_bar.show_error("")
        self.frame.see_jobs(views)
        self._node_controller.show_jobs(views)
        self.form.show_jobs(views)
        self._live_refresh.request()

    @Slot(RunUpdate)
    def _show_update(self, update: RunUpdate) -> None:
        self.frame.see_jobs((update.view,))
        self.jobs.show_update(update)
        self._live_refresh.request()

    def _show_live(self) -> None:
        live = sorted(self._poller.live_views(), key=lambda view: (view.status.started_at, view.id))
        self.window.side_bar.show_live(tuple(live))
        self.frame.tray.show_live(tuple(live))

    @Slot(str, str)
    def _show_unreadable(self, job_id: str, message: str) -> None:
        if job_id == self.jobs.open_id and self.jobs.open_view is None:
            self.jobs.show_open_error(job_id, message)
            if not self.jobs.shows_unreadable:
                self.window.toast.show_message(message)

    @Slot()
    def _library_changed(self) -> None:
        items = {kind: self._library_controller.items(kind) for kind in Kind}
        self._onboarding.see_items(items)
        self.form.show_choices(*(items[kind] for kind in (*PARTS, Kind.SCRIPT)))
        for kind, key in PAGE_KEYS.items():
            names = {item.name for item in items[kind]}
            self.window.side_bar.set_count(key, len(names))

    @Slot(object)
    def _show_nodes(self, states: tuple[NodeState, ...]) -> None:
        self._node_names = tuple(state.name for state in states)
        self._onboarding.see_nodes(len(states))
        local_reading = states[0].reading
        self.window.side_bar.show_nodes(states)
        self.window.side_bar.set_count("nodes", len(states))
        self._job_controller.show_nodes(states)
        self.frame.notice_rules.see_nodes(states)
        if local_reading is not None:
            self.jobs.welcome_page.show_reading(local_reading)
        self.jobs.detail.show_node_histories(
            self.nodes.histories, self.nodes.heartbeats(), time.time()
        )
        self._node_controller.watch(self.jobs.detail.job_nodes)


def _short_path(path: Path | RemoteRoot) -> str:
    """Return a path in short form: ``~/ringmaster``, ``gpu1:/lab/ring``."""
    if isinstance(path, RemoteRoot):
        return path.label
    try:
        return f"~/{expand_home(path).absolute().relative_to(Path.home())}"
    except ValueError:  # It is not in the home folder.
        return str(path)
