"""Turn user actions on jobs into calls of the job service; show the outcomes on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from app.jobs.file_export import show_in_folder
from app.jobs.form_controller import FormController
from app.jobs.owner_question import OwnerQuestion
from app.jobs.start_controller import NO_PLACEMENT, StartController, StartRequest
from app.jobs.status_poller import StatusPoller
from app.runtime.background import Runner
from app.runtime.controller import Controller
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.placement import Placement, parse_placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCommand, JobView
from backend.records.nodes.reading import NodeState
from backend.records.sweeps.spec import CancelledSweep, QueuedSweep
from backend.services.context.container import Services
from backend.services.context.example import create_example
from backend.services.tools.training_python import AWAITS_HOROVOD, awaits_horovod
from widgets.jobs.actions import job_actions
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage

T = TypeVar("T")
_VALID_HASH = "just read; its hash matches"


class JobController(Controller):
    """Serve the page Jobs.

    Attributes:
        drafts: Serves the form.

    Signals:
        jobs_requested: Show the page Jobs.
    """

    jobs_requested = Signal()

    def __init__(
        self,
        services: Services,
        runner: Runner,
        poller: StatusPoller,
        page: JobsPage,
        form: JobForm,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._window = window
        self._services = services
        self._jobs = services.jobs
        self._poller = poller
        self._page = page
        self._form = form
        self._owner_question = OwnerQuestion(runner, window)
        self._start_controller = StartController(services, runner, window, self)
        self.drafts = FormController(
            services, runner, self._start_controller, page, form, window, self
        )
        self.drafts.job_created.connect(self.show_new)
        self.drafts.sweeps.sweep_queued.connect(self._show_sweep)
        self.drafts.sweeps.sweep_removed.connect(self._remove_sweep_jobs)
        self._export_progress: Progress | None = None
        self._left_nodes: dict[str, str] = {}
        page.job_edited.connect(poller.take_change)
        poller.updated.connect(lambda update: self._offer_move(update.view))
        poller.jobs_listed.connect(self._offer_moves)
        page.job_opened.connect(self._open)
        QShortcut(QKeySequence("Ctrl+N"), window, self._new_job)
        page.detail.failure.install_requested.connect(self._ask_package)
        page.welcome_page.example.clicked.connect(lambda: self.train_example())
        self._serve_life(page.job_actions)
        self._serve_open_job(page.job_actions)

    def _serve_life(self, actions: job_actions.JobActions) -> None:
        actions.add_handler(job_actions.NEW_JOB, self.drafts.new_job)
        actions.add_handler(job_actions.START, self.start)
        actions.add_handler(job_actions.CANCEL, self._start_controller.cancel)
        actions.add_handler(job_actions.STOP, self.stop)
        actions.add_handler(job_actions.KILL, self.kill)
        actions.add_handler(job_actions.RESUME, self.resume)
        actions.add_handler(job_actions.RESUME_FROM, self.resume)
        actions.add_handler(job_actions.RESUME_ON_NODES, self.resume_elsewhere)
        actions.add_handler(job_actions.RESUME_WITH, self.resume_with)
        actions.add_handler(job_actions.START_OVER, self.start_over)
        actions.add_handler(job_actions.PREFLIGHT, self.check_before_start)
        actions.add_handler(job_actions.CLONE, self.clone)
        actions.add_handler(job_actions.CLONE_WITH, self.clone)
        actions.add_handler(job_actions.REPLAY, self.replay)
        actions.add_handler(job_actions.NEW_FROM, self._clone_from)

    def _serve_open_job(self, actions: job_actions.JobActions) -> None:
        actions.add_handler(job_actions.EXPORT_TO, self.export)
        actions.add_handler(job_actions.CANCEL_EXPORT, self._cancel_export)
        actions.add_handler(job_actions.SHOW_FILE, show_in_folder)
        actions.add_handler(job_actions.SET_NAME, partial(self._annotate, "name"))
        actions.add_handler(job_actions.SET_NOTES, partial(self._annotate, "notes"))
        actions.add_handler(job_actions.SET_TAGS, partial(self._annotate, "tags"))
        actions.add_handler(job_actions.OPEN_FOLDER, self._open_folder)
        actions.add_handler(job_actions.COPY_ID, QGuiApplication.clipboard().setText)
        actions.add_handler(job_actions.COPY_FOLDER, self._copy_folder)
        actions.add_handler(job_actions.READ_RUNS, self._read_runs)
        actions.add_handler(job_actions.SHOW_EARLIER_RUN, self._read_earlier_run)
        actions.add_handler(job_actions.READ_CHECKPOINTS, self._read_checkpoints)
        actions.add_handler(job_actions.KEEP_CHECKPOINT, self._toggle_kept)
        actions.add_handler(job_actions.DRAW_NUMBER, self._draw_number)
        actions.add_handler(job_actions.VERIFY_CHECKPOINT, self._verify)
        actions.add_handler(job_actions.READ_HISTORY, self._read_history)
        actions.add_handler(job_actions.READ_SAMPLES, self._read_samples)
        actions.add_handler(job_actions.READ_SETTINGS, self._read_settings)

    # The life of a job.

    def start(self, job_id: str) -> None:
        self._start_controller.start(self._request(job_id, self._jobs.lifecycle.start))

    def start_over(self, job_id: str) -> None:
        self._start_controller.start(
            self._request(job_id, partial(self._jobs.lifecycle.start, start_over=True))
        )

    def stop(self, job_id: str, left_node: str = "") -> None:
        """Stop a job; with ``left_node``, ask later where to resume it without this node."""

        def stop(reason: str) -> None:
            # Another request for the job replaces the pending move.
            self._left_nodes.pop(job_id, None)
            if left_node:
                self._left_nodes[job_id] = left_node
            self.stop_for(job_id, reason)

        self._owner_question.ask((self._page.model.summary(job_id),), "Stop", stop)

    def stop_for(self, job_id: str, reason: str) -> None:
        """Stop a job; the reason is for its owner."""
        self._page.detail.show_busy(job_id, "Stopping…")
        stop = partial(self._jobs.lifecycle.stop, job_id, reason)
        self._run("job", job_id, stop, self._show_outcome)

    def kill(self, job_id: str) -> None:
        """Kill a job that was asked to stop and does not."""

        def kill(reason: str) -> None:
            self._page.detail.show_busy(job_id, "Killing…")
            kill_job = partial(self._jobs.lifecycle.kill, job_id, reason)
            self._run("job", job_id, kill_job, self._show_outcome)

        self._owner_question.ask((self._page.model.summary(job_id),), "Kill", kill)

    def resume(self, job_id: str, checkpoint: str = "") -> None:
        resume = partial(self._jobs.lifecycle.resume, checkpoint=checkpoint)
        self._start_controller.start(self._request(job_id, resume))

    def resume_elsewhere(self, job_id: str, raw: object) -> None:
        placement, errors = parse_placement(raw)
        if errors:
            self._page.detail.show_error(job_id, errors[0].message, "Choose where to resume it.")
            return
        self._start_controller.start(self._request(job_id, self._jobs.lifecycle.resume, placement))

    def resume_with(self, job_id: str, settings: Mapping[str, Any]) -> None:
        """Resume from the newest checkpoint with another batch size or learning rate."""
        resume = partial(self._jobs.lifecycle.resume, changes=settings)
        self._start_controller.start(self._request(job_id, resume))

    @Slot(str)
    def _ask_package(self, module: str) -> None:
        """Install the package that the open job's code needs on its nodes."""
        view, tab = self._page.open_view, self._page.detail.failure
        if view is not None:
            on_installed = partial(tab.show_installed, view.id, module)
            self.drafts.packages.ask(module, view.nodes, on_installed)

    def check_before_start(self, job_id: str) -> None:
        """List everything that would keep the job from starting or resuming."""
        view = self._page.open_view
        if view is not None and view.id == job_id and not view.state.is_live:
            action: Callable[..., JobView] = self._jobs.lifecycle.start
            if view.run and self._page.detail.has_checkpoints is False:
                action = partial(self._jobs.lifecycle.start, start_over=True)
            elif view.run:
                action = self._jobs.lifecycle.resume
            self._start_controller.check(self._request(job_id, action), view.config)

    def _request(
        self,
        job_id: str,
        action: Callable[..., JobView],
        placement: tuple[Placement, ...] = NO_PLACEMENT,
    ) -> StartRequest:
        self._left_nodes.pop(job_id, None)
        return StartRequest(
            job_id,
            lambda new_placement, progress: action(
                job_id, placement=new_placement or placement, progress=progress
            ),
            partial(self._page.detail.show_starting, job_id),
            self._show_outcome,
            partial(self._show_error, job_id),
        )

    @Slot(str, str)
    def move_off(self, job_id: str, node: str) -> None:
        """Stop a job; once its checkpoint is written, ask where to resume it without this node."""
        self.stop(job_id, left_node=node)
        self.jobs_requested.emit()
        self._page.open_job(job_id)

    @Slot(object)
    def _offer_moves(self, views: tuple[JobView, ...]) -> None:
        for view in views:
            self._offer_move(view)

    def _offer_move(self, view: JobView) -> None:
        if view.id not in self._left_nodes or not view.state.is_over:
            return
        node = self._left_nodes.pop(view.id)
        if view.state is JobState.FINISHED:
            self._runner.notify(f"{view.name} has finished, so it was not moved.")
            return

        def ask(checkpoints: tuple[Checkpoint, ...]) -> None:
            detail = self._page.detail
            detail.show_checkpoints(view.id, checkpoints)
            if not checkpoints:
                message = f"{view.name} left {node} and has no checkpoint to resume from."
                detail.show_error(view.id, message, "Start the job over on other nodes.")
            elif self._page.open_id == view.id:
                detail.open_move_dialog(node)

        self._run("read", view.id, partial(self._jobs.queries.checkpoints, view.id), ask)

    def _show_outcome(self, view: JobView) -> None:
        self._offer_move(view)
        self._page.detail.show_busy(view.id, "")
        self._page.show_view(view)

    def _run(
        self, queue_name: str, job_id: str, work: Callable[[], T], on_success: Callable[[T], None]
    ) -> None:
        """Run work on a job; a refusal is shown on its page."""
        self._runner.run(
            f"{queue_name} {job_id}", work, on_success, partial(self._show_error, job_id)
        )

    def _show_error(self, job_id: str, error: BackendError) -> None:
        self._left_nodes.pop(job_id, None)
        self._page.detail.show_busy(job_id, "")
        self._page.detail.show_error(job_id, str(error), error.remedy)

    # Example.

    @Slot()
    def train_example(self, workers: int = 2) -> None:
        """Import the built-in example, create its job, and start it."""
        first_start = self._page.welcome_page
        first_start.show_busy("Importing the example…")

        def import_and_start() -> JobView:
            view = create_example(self._services, workers)
            return self._jobs.lifecycle.start(view.id)

        def show(view: JobView) -> None:
            first_start.show_busy("")
            self.show_new(view)
            if awaits_horovod():
                self._runner.notify(AWAITS_HOROVOD)

        def show_error(error: BackendError) -> None:
            first_start.show_error(str(error), error.remedy)

        self._runner.run("example", import_and_start, show, show_error)

    @Slot(object)
    def show_new(self, view: JobView) -> None:
        self.jobs_requested.emit()
        self._page.show_view(view)
        self._page.open_job(view.id)

    # The form.

    @Slot()
    def _new_job(self) -> None:
        # A key press must not discard a form that is being filled in.
        if not self._form.isVisible():
            self.drafts.new_job()

    def clone(self, job_id: str, changes: Mapping[str, Any] | None = None) -> None:
        """Load the settings of an existing job into the form, with ``changes``."""
        self.drafts.show_job(job_id, changes or {}, partial(self._show_error, job_id))

    def _clone_from(self, job_id: str, checkpoint_name: str) -> None:
        self.clone(job_id, {"start_from": f"{job_id}/{checkpoint_name}"})

    def replay(self, job_id: str) -> None:
        """Open the form with the same files, settings and seed; the nodes can be chosen."""
        self.drafts.replay(job_id, partial(self._show_error, job_id))

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Show the nodes that can be chosen, and the reason where one cannot."""
        self._form.show_nodes(states)
        self._page.detail.show_nodes(states)

    @Slot(object)
    def _show_sweep(self, sweep: QueuedSweep) -> None:
        for view in sweep.jobs[1:]:
            self._page.show_view(view)
        self.show_new(sweep.jobs[0])

    @Slot(object)
    def _remove_sweep_jobs(self, sweep: CancelledSweep) -> None:
        for view in sweep.removed_jobs:
            self._page.remove_job(view.id)

    # The open job.

    @Slot(str)
    def _open(self, job_id: str) -> None:
        self._poller.open_job(job_id)
        self._read_checkpoints(job_id)

    def _read_checkpoints(self, job_id: str) -> None:
        self.serve(
            f"read {job_id}",
            partial(self._jobs.queries.checkpoints, job_id),
            partial(self._page.detail.show_checkpoints, job_id),
            self._page.detail.if_open(job_id, self._page.detail.checkpoints.show_error),
        )

    def _toggle_kept(self, job_id: str, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint permanently, or stop keeping it."""

        def refresh(_checkpoint: Checkpoint) -> None:
            self._read_checkpoints(job_id)
            self._read_history(job_id)

        work = partial(self._jobs.keep, job_id, checkpoint.name, is_kept=not checkpoint.is_kept)
        self._run("job", job_id, work, refresh)

    def _draw_number(self, job_id: str, pattern: str) -> None:
        def show(view: JobView) -> None:
            self._read_settings(job_id)
            if view.state.is_live:
                self._page.detail.if_open(job_id, self._page.detail.tabs.choose)("curves")

        self._run("job", job_id, partial(self._jobs.lifecycle.draw_number, job_id, pattern), show)

    def _verify(self, job_id: str, checkpoint: str) -> None:
        """Read the file of a checkpoint and compare its hash; a large one takes minutes."""
        show_check = partial(self._page.detail.checkpoints.show_file_check, checkpoint)
        show = self._page.detail.if_open(job_id, show_check)
        show("checking…", "")
        self.serve(
            f"verify {job_id}",
            partial(self._jobs.find_damage, job_id, checkpoint),
            lambda damage: show("damaged" if damage else "checked", damage or _VALID_HASH),
            partial(show, "not checked"),
        )

    def _read_history(self, job_id: str) -> None:
        show = self._page.detail.if_open(job_id, self._page.detail.notes.show_audit_entries)
        read = partial(self._jobs.audit_entries, job_id)
        self.serve(f"read {job_id}", read, show, lambda message: show((AuditEntry("", message),)))

    def _read_samples(self, job_id: str) -> None:
        show = self._page.detail.if_open(job_id, self._page.detail.curves.samples.show_samples)
        self._run("read", job_id, partial(self._jobs.queries.sample_history, job_id), show)

    def _read_runs(self, job_id: str) -> None:
        work = partial(self._jobs.queries.runs, job_id)
        self._run("read", job_id, work, partial(self._page.detail.show_runs, job_id))

    def _read_earlier_run(self, job_id: str, run: int) -> None:
        work = partial(self._jobs.queries.earlier_run, job_id, run)
        self._run("read", job_id, work, partial(self._page.detail.show_earlier_run, job_id, run))

    def _read_settings(self, job_id: str) -> None:
        def read() -> tuple[str, JobCommand]:
            view = self._jobs.queries.show(job_id)
            return tomli_w.dumps(view.config.to_dict()), self._jobs.command(job_id)

        show = self._page.detail.if_open(job_id, self._page.detail.settings.show_file)
        self._run("read", job_id, read, lambda result: show(*result))

    # Edits.

    def _annotate(self, field: str, job_id: str, value: object) -> None:
        """Change the name, the notes or the tags."""
        changes: dict[str, Any] = {field: value}
        annotate = partial(self._jobs.annotate, job_id, **changes)
        self._run("job", job_id, annotate, self._page.show_view)

    # Exports.

    def export(self, job_id: str, checkpoint: str, kind: str, path: str) -> None:
        """Export from the open dialog."""
        holder = self._page.detail.exporter.dialog
        dialog = holder.dialog
        assert dialog is not None
        progress = self._runner.progress(holder.guard_callback(dialog, dialog.show_progress))
        self._export_progress = progress
        export = partial(self._jobs.export, job_id, checkpoint, kind, Path(path), progress)
        self._run("export", job_id, export, holder.guard_callback(dialog, dialog.show_exported))

    def _cancel_export(self) -> None:
        if self._export_progress is not None:
            self._export_progress.cancel()

    def _folder_url(self, job_id: str) -> QUrl:
        folder = self._services.data_root.job(job_id)
        return QUrl(folder.files.url(folder.path))

    def _open_folder(self, job_id: str) -> None:
        QDesktopServices.openUrl(self._folder_url(job_id))

    def _copy_folder(self, job_id: str) -> None:
        """Copy the path on the computer that has the data root."""
        path = self._folder_url(job_id).path(QUrl.ComponentFormattingOption.FullyDecoded)
        QGuiApplication.clipboard().setText(path)
