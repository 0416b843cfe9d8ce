"""Wire the jobs: their controllers, and the signals between them and the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.jobs.bulk_controller import BulkController
from app.jobs.bundle_controller import BundleController
from app.jobs.checkpoint_controllers import (
    CheckpointDragSource,
    InspectionController,
    PredictionController,
)
from app.jobs.compare_controller import CompareController
from app.jobs.events_controller import EventsController
from app.jobs.file_export import FileExport
from app.jobs.job_controller import JobController
from app.jobs.list_controller import ListController
from app.jobs.log_controller import LogController
from app.jobs.onboarding import Onboarding
from app.jobs.queue_controller import QueueController
from app.jobs.report_controller import ReportController
from app.jobs.session_controller import SessionController
from app.jobs.status_poller import StatusPoller
from app.jobs.study_controller import StudyController
from app.jobs.trash_controller import TrashController
from app.runtime.background import Runner
from app.shell.command_search import MAX_RESULTS
from backend.records.jobs.summary import JobSummary
from backend.records.jobs.template import Template
from backend.records.jobs.view import JobView, RunUpdate
from backend.services.jobs.feed import JobFeed
from widgets.common import formats
from widgets.common.throttle import Throttle
from widgets.jobs.actions import job_actions
from widgets.nodes.page import node_actions
from widgets.shell.command_palette import PaletteEntry
from widgets.shell.pages import PAGE_ICONS

if TYPE_CHECKING:
    from app.main.pages import Pages
    from app.shell.window_controller import FrameController
    from backend.services.context.container import Services

POLL_INTERVAL_MS = 500
LIVE_INTERVAL_MS = 250
"""Interval of refreshes of side bar and tray; twenty jobs send forty updates a second."""
PaletteCallback = Callable[[tuple[PaletteEntry, ...]], None]


@dataclass(frozen=True)
class JobControllers:
    """The controllers of the jobs that other features and the program use."""

    poller: StatusPoller
    jobs: JobController
    lists: ListController
    bundles: BundleController
    compare: CompareController
    file_export: FileExport
    onboarding: Onboarding
    checkpoint_drag: CheckpointDragSource
    live_refresh: Throttle

    def stop(self) -> None:
        """Update nothing more."""
        self.live_refresh.stop()
        self.poller.stop()
        self.compare.stop()


def wire(
    services: Services, pages: Pages, frame: FrameController, runner: Runner, parent: QObject
) -> JobControllers:
    """Make the controllers of the jobs, connect them with the window, and start to poll."""
    window, page = pages.window, pages.jobs
    side_bar, actions = window.side_bar, page.job_actions
    poller = StatusPoller(
        services.jobs.queries.poll,
        JobFeed(services.jobs.queries).poll,
        services.reaper.reap,
        runner,
        POLL_INTERVAL_MS,
        parent,
    )
    lists = ListController(runner, page, parent)
    jobs = JobController(services, runner, poller, page, pages.form, window, parent)
    BulkController(services, runner, page, jobs, window)
    checkpoint_drag = CheckpointDragSource(services.jobs, runner, actions, parent)
    bundles = BundleController(services, runner, page, window)
    reports = ReportController(services, runner, page, window)
    pages.compare.report_requested.connect(reports.ask)
    PredictionController(services, runner, actions, window)
    LogController(services.logs, runner, page.detail.log, parent)
    InspectionController(services.inspection, runner, actions, window)
    EventsController(services.event_viewers, services.inspection, runner, actions, window)
    sessions = SessionController(services.sessions, runner, actions, jobs.drafts, window)
    pages.nodes.node_actions.add_handler(node_actions.SESSION, sessions.prepare)
    studies = StudyController(services, runner, page, window)
    queue = QueueController(services.queue, runner, poller, page, parent)
    onboarding = Onboarding(
        page.onboarding_strip,
        lambda kind: pages.library[kind].import_requested.emit(""),
        lambda: pages.nodes.node_actions.ask(node_actions.ADD),
        parent,
    )
    trash = TrashController(services, runner, page, window)
    trash.undoable.connect(lambda text, tag: window.toast.show_message(text, undo_tag=tag))
    window.toast.undone.connect(trash.undo)

    file_export = FileExport(services.comparison, runner, window, parent)
    compare = CompareController(
        services.comparison, runner, pages.compare, file_export, lists.find_rows, parent
    )
    controllers = JobControllers(
        *(poller, jobs, lists, bundles, compare, file_export, onboarding, checkpoint_drag),
        _live_refresh(poller, pages, frame, parent),
    )
    _wire_poller(controllers, pages, frame)
    poller.jobs_listed.connect(queue.show_jobs)
    lists.count_changed.connect(partial(side_bar.set_count, "jobs"))
    lists.uses_changed.connect(onboarding.see_uses)
    queue.queue_shown.connect(side_bar.show_queue)
    queue.queue_shown.connect(pages.nodes.detail.show_queue)
    jobs.drafts.form_requested.connect(partial(window.open_page, "new-job"))
    jobs.drafts.bundle_opened.connect(bundles.unbundle)
    jobs.jobs_requested.connect(partial(window.open_page, "jobs"))
    bundles.job_created.connect(jobs.show_new)
    studies.study_queued.connect(lambda _sweep: window.open_page("jobs"))
    actions.add_handler(job_actions.SHOW_NODE, pages.open_node)
    actions.add_handler(job_actions.SHOW_PROCESSES, pages.show_processes)
    _wire_compare(pages, compare, file_export)
    poller.all_listed.connect(compare.see_listing)
    frame.command_search.add_action(compare.csv_action)
    # By key it does not discard a form that is being filled in.
    frame.add_command("New job", "plus", jobs.drafts.new_job, takes_key=False)
    frame.add_command("New study…", "table", studies.choose)
    frame.add_command("Train the example", "play", jobs.train_example)
    _offer_objects(pages, frame, jobs, lists)
    compare.start()
    poller.start()
    page.begin_reading()
    return controllers


def _live_refresh(
    poller: StatusPoller, pages: Pages, frame: FrameController, parent: QObject
) -> Throttle:
    """Return the timer that shows the live jobs in the side bar and the tray."""

    def show_live() -> None:
        live_views = tuple(
            sorted(poller.live_views(), key=lambda view: (view.status.started_at, view.id))
        )
        pages.window.side_bar.show_live(live_views)
        frame.tray.show_live(live_views)

    return Throttle(LIVE_INTERVAL_MS, show_live, parent)


def _wire_poller(controllers: JobControllers, pages: Pages, frame: FrameController) -> None:
    """Show what the poller reads."""
    poller, window, page = controllers.poller, pages.window, pages.jobs

    def show_jobs(views: tuple[JobView, ...]) -> None:
        window.side_bar.show_error("")
        frame.see_jobs(views)
        pages.nodes.show_jobs(views)
        pages.form.show_jobs(views)
        controllers.live_refresh.request()

    def show_update(update: RunUpdate) -> None:
        frame.see_jobs((update.view,))
        page.show_update(update)
        controllers.live_refresh.request()

    def show_unreadable(job_id: str, message: str) -> None:
        if job_id == page.open_id and page.open_view is None:
            page.show_open_error(job_id, message)
            if not page.shows_unreadable:
                window.toast.show_message(message)

    def refresh() -> None:
        poller.poll()
        poller.poll_list()

    poller.all_listed.connect(controllers.lists.take_listing)
    poller.all_listed.connect(frame.bell.see_listing)
    poller.jobs_listed.connect(show_jobs)
    poller.updated.connect(show_update)
    poller.updated.connect(controllers.bundles.compare_replay)
    poller.job_failed.connect(page.detail.show_read_error)
    poller.job_failed.connect(show_unreadable)
    poller.list_failed.connect(window.side_bar.show_error)
    poller.list_failed.connect(page.show_error)
    window.refresh_requested.connect(refresh)


def _wire_compare(pages: Pages, compare: CompareController, file_export: FileExport) -> None:
    """Wire the page Compare, and everything that is saved to a file."""
    page, actions, side_bar = pages.jobs, pages.jobs.job_actions, pages.window.side_bar

    def save_csv_of(job_id: str) -> None:
        summary = page.model.summary(job_id)
        if summary is not None:
            file_export.save_csv(summary.name, (job_id,))

    compare.page_requested.connect(partial(pages.window.open_page, "compare"))
    side_bar.accept_jobs(pages.compare.offer_for)
    side_bar.jobs_dropped.connect(compare.add_dropped)
    actions.add_handler(job_actions.COMPARE, lambda job_id: compare.compare((job_id,)))
    actions.add_handler(job_actions.COMPARE_ALL, compare.compare)
    actions.add_handler(job_actions.CSV_ALL, partial(file_export.save_csv, "curves"))
    pages.compare.job_opened.connect(pages.open_job)
    actions.add_handler(job_actions.SAVE_FILE, file_export.save)
    actions.add_handler(job_actions.SAVE_CSV, save_csv_of)
    pages.form.picture_requested.connect(file_export.save)


def _offer_objects(
    pages: Pages, frame: FrameController, jobs: JobController, lists: ListController
) -> None:
    """Register the jobs, sweeps and templates for the command palette."""
    templates = jobs.drafts.templates

    def find_jobs(text: str, on_result: PaletteCallback) -> None:
        def offer(summaries: tuple[JobSummary, ...]) -> None:
            on_result(tuple(map(job_entry, summaries)))

        lists.find_by_name(text, MAX_RESULTS, offer)

    def find_templates(_text: str, on_result: PaletteCallback) -> None:
        def offer(all_templates: tuple[Template, ...]) -> None:
            names = (template.name for template in all_templates if not template.error)
            on_result(
                tuple(
                    PaletteEntry("template", name, name, "template for a new job", "stack-simple")
                    for name in names
                )
            )

        templates.list_templates(offer)

    frame.command_search.add_background_source("job", find_jobs, pages.open_job)
    frame.command_search.add_opener("sweep", pages.open_sweep)
    frame.command_search.add_background_source("template", find_templates, templates.load)


def job_entry(summary: JobSummary) -> PaletteEntry:
    """Return the entry of a job or a sweep in the command palette."""
    kind, remark = "job", summary.state_label
    if summary.sweep is not None:
        kind, remark = "sweep", f"sweep of {formats.plural(len(summary.sweep.ids), 'job')}"
    return PaletteEntry(
        kind,
        summary.id,
        summary.name,
        remark,
        PAGE_ICONS["jobs"],
        search_terms=summary.name_and_tags,
    )
