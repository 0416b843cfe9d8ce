"""Wire the library: its controllers, and the signals between them and the window."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.jobs.form_controller import is_job_file
from app.jobs.wiring import JobControllers
from app.library.gallery_controller import DepthController, GalleryController
from app.library.layers_controller import LayersController
from app.library.library_controller import LibraryController
from app.library.scan_controller import ScanController
from app.runtime.background import Runner
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.library.item import PARTS, Kind, LibraryItem
from widgets.shell.command_palette import PaletteEntry
from widgets.shell.pages import PAGE_ICONS, PAGE_KEYS

if TYPE_CHECKING:
    from app.main.pages import Pages
    from app.shell.window_controller import FrameController
    from backend.services.context.container import Services


def wire(
    services: Services,
    pages: Pages,
    frame: FrameController,
    runner: Runner,
    jobs: JobControllers,
    parent: QObject,
) -> LibraryController:
    """Make the controllers of the library, connect them with the window, and read the items."""
    window, form, drafts = pages.window, pages.form, jobs.jobs.drafts
    model_detail = pages.library[Kind.MODEL].detail
    controller = LibraryController(
        services.library, services.gallery, runner, pages.library, window, parent
    )
    gallery = GalleryController(
        services.gallery, services.inspection, runner, controller.items, window
    )
    depth = DepthController(services.gallery, runner, controller.show_new, window)
    LayersController(services.inspection, runner, model_detail, parent)
    ScanController(services.scans, runner, pages.library, parent)

    def show_items() -> None:
        items = {kind: controller.items(kind) for kind in Kind}
        jobs.onboarding.see_items(items)
        form.show_choices(*(items[kind] for kind in (*PARTS, Kind.SCRIPT)))
        for kind, key in PAGE_KEYS.items():
            window.side_bar.set_count(key, len({item.name for item in items[kind]}))

    def choose_model() -> None:
        """Choose a model of the gallery for the job in the form."""

        def choose_added(model: LibraryItem) -> None:
            controller.open_new(model)
            form.choose_model(model.name)

        raw = form.draft().raw
        gallery.choose_for_job(
            str(raw.get("dataset", "")), str(raw.get("loader", "")), choose_added
        )

    def open_dropped(path: str) -> None:
        if is_job_file(Path(path)):
            drafts.open_job_file(Path(path))
        else:
            controller.import_dropped(Path(path))

    gallery.plan_requested.connect(depth.plan)
    controller.changed.connect(show_items)
    controller.job_requested.connect(drafts.new_job_with)
    controller.new_job_requested.connect(drafts.new_job_of)
    controller.page_requested.connect(lambda kind: window.open_page(PAGE_KEYS[kind]))
    controller.gallery_requested.connect(gallery.choose)
    form.gallery_requested.connect(choose_model)
    model_detail.results.layers.variance.pictures.saved.connect(jobs.file_export.save)
    jobs.lists.uses_changed.connect(controller.show_uses)
    window.dropped.connect(open_dropped)
    window.refresh_requested.connect(controller.refresh)
    _wire_pages(pages, frame, jobs, controller)
    controller.refresh()
    return controller


def _wire_pages(
    pages: Pages, frame: FrameController, jobs: JobControllers, controller: LibraryController
) -> None:
    """Connect what each page of the library offers to other pages."""
    welcome_page, packages = pages.jobs.welcome_page, jobs.jobs.drafts.packages

    def find_items(kind: Kind, _text: str) -> Iterator[PaletteEntry]:
        icon = PAGE_ICONS[PAGE_KEYS[kind]]
        for name in dict.fromkeys(item.name for item in controller.items(kind)):
            yield PaletteEntry(kind.value, name, name, kind.value, icon)

    for kind, button in ((Kind.DATASET, welcome_page.dataset), (Kind.MODEL, welcome_page.model)):
        button.clicked.connect(partial(pages.library[kind].import_requested.emit, ""))
    for kind, page in pages.library.items():
        on_installed = page.detail.try_again
        page.detail.package_requested.connect(
            partial(packages.ask, nodes=(THIS_COMPUTER,), on_installed=on_installed)
        )
        frame.command_search.add_source(
            kind.value, partial(find_items, kind), partial(pages.open_item, kind)
        )
