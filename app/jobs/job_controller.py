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
from app.jobs.start_controller import NO_PLACE, StartController, StartRequest
from app.jobs.status_poller import StatusPoller
from app.runtime.background import Controller, Runner
from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.audit_entry import AuditEntry
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.placement import Placement, parse_placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobCommand, JobView
from backend.records.nodes.reading import NodeState
from backend.records.sweeps.spec import SweepMade, SweepTaken
from backend.services.context.container import Services
from backend.services.context.example import create_example
from backend.services.tools.training_python import AWAITS_HOROVOD, awaits_horovod
from widgets.jobs.actions import job_actions as do
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage

T = TypeVar("T")
_SOUND = "just read; its hash matches"


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
        super().__init__(runner, window, parent)
        self._services = services
        self._jobs = services.jobs
        self._poller = poller
        self._page = page
        self._form = form
        self._starts = StartController(services, runner, window, self)
        self.drafts = FormController(services, runner, self._starts, page, form, window, self)
        self.drafts.made.connect(self.show_new)
        self.drafts.sweeps.made.connect(self._sweep_made)
        self.drafts.sweeps.taken.connect(self._sweep_taken)
        self._export: Progress | None = None
        self._moving: dict[str, str] = {}
        page.known.connect(poller.know)
        poller.updated.connect(lambda update: self._move_on(update.view))
        poller.listed.connect(self._poll_moving)
        page.opened.connect(self._open)
        QShortcut(QKeySequence("Ctrl+N"), window, self._new_job)
        page.detail.failure.install_requested.connect(self._ask_package)
        page.first_start.example.clicked.connect(lambda: self.train_example())
        actions = page.job_actions
        actions.add_handler(do.NEW_JOB, self.drafts.new_job)
        actions.add_handler(do.START, self.start)
        actions.add_handler(do.CANCEL, self._starts.cancel)
        actions.add_handler(do.STOP, self.stop)
        actions.add_handler(do.KILL, self.kill)
        actions.add_handler(do.RESUME, self.resume)
        actions.add_handler(do.RESUME_FROM, self.resume)
        actions.add_handler(do.RESUME_ON_NODES, self.resume_elsewhere)
        actions.add_handler(do.RESUME_WITH, self.resume_with)
        actions.add_handler(do.START_OVER, self.start_over)
        actions.add_handler(do.PREFLIGHT, self.check_before_start)
        actions.add_handler(do.CLONE, self.clone)
        actions.add_handler(do.CLONE_WITH, self.clone)
        actions.add_handler(do.REPLAY, self.replay)
        actions.add_handler(do.NEW_FROM, self._new_from)
        actions.add_handler(do.EXPORT_TO, self.export)
        actions.add_handler(do.CANCEL_EXPORT, self._cancel_export)
        actions.add_handler(do.SHOW_FILE, show_in_folder)
        actions.add_handler(do.SET_NAME, lambda job_id, name: self._annotate(job_id, name=name))
        actions.add_handler(do.SET_NOTES, lambda job_id, notes: self._annotate(job_id, notes=notes))
        actions.add_handler(do.SET_TAGS, lambda job_id, tags: self._annotate(job_id, tags=tags))
        actions.add_handler(do.OPEN_FOLDER, self._open_folder)
        actions.add_handler(do.COPY_ID, QGuiApplication.clipboard().setText)
        actions.add_handler(do.COPY_FOLDER, self._copy_folder)
        actions.add_handler(do.READ_RUNS, self._runs)
        actions.add_handler(do.SHOW_EARLIER_RUN, self._earlier)
        actions.add_handler(do.READ_CHECKPOINTS, self._checkpoints)
        actions.add_handler(do.KEEP_CHECKPOINT, self._keep)
        actions.add_handler(do.DRAW_NUMBER, self._draw_number)
        actions.add_handler(do.VERIFY_CHECKPOINT, self._verify)
        actions.add_handler(do.READ_HISTORY, self._history)
        actions.add_handler(do.READ_SETTINGS, self._settings)

    # The life of a job.

    def start(self, job_id: str) -> None:
        self._starts.start(self._request(job_id, self._jobs.lifecycle.start))

    def start_over(self, job_id: str) -> None:
        self._starts.start(
            self._request(job_id, partial(self._jobs.lifecycle.start, start_over=True))
        )

    def stop(self, job_id: str) -> None:
        self._stop(job_id)

    def _stop(self, job_id: str, leaving: str = "") -> None:
        # Another request for the job replaces the pending move.
        self._moving.pop(job_id, None)
        if leaving:
            self._moving[job_id] = leaving
        self._page.detail.show_busy(job_id, "Stopping…")
        self._run("job", job_id, partial(self._jobs.lifecycle.stop, job_id), self._acted)

    def kill(self, job_id: str) -> None:
        """Kill a job that was asked to stop and does not."""
        self._page.detail.show_busy(job_id, "Killing…")
        self._run("job", job_id, partial(self._jobs.lifecycle.kill, job_id), self._acted)

    def resume(self, job_id: str, checkpoint: str = "") -> None:
        resume = partial(self._jobs.lifecycle.resume, checkpoint=checkpoint)
        self._starts.start(self._request(job_id, resume))

    def resume_elsewhere(self, job_id: str, raw: object) -> None:
        placement, faults = parse_placement(raw)
        if faults:
            self._page.detail.show_error(job_id, faults[0].message, "Choose where to resume it.")
            return
        self._starts.start(self._request(job_id, self._jobs.lifecycle.resume, placement))

    def resume_with(self, job_id: str, settings: Mapping[str, Any]) -> None:
        """Resume from the newest checkpoint with another batch size or learning rate."""
        resume = partial(self._jobs.lifecycle.resume, changes=settings)
        self._starts.start(self._request(job_id, resume))

    @Slot(str)
    def _ask_package(self, module: str) -> None:
        """Install what the open job's code needs on its nodes."""
        view, tab = self._page.open_view, self._page.detail.failure
        if view is not None:
            then = partial(tab.show_installed, view.id, module)
            self.drafts.packages.ask(module, view.nodes, then)

    def check_before_start(self, job_id: str) -> None:
        """List everything that would keep the job from starting or resuming."""
        view = self._page.open_view
        if view is not None and view.id == job_id and not view.state.is_live:
            act: Callable[..., JobView] = self._jobs.lifecycle.start
            if view.run and self._page.detail.has_checkpoints is False:
                act = partial(self._jobs.lifecycle.start, start_over=True)
            elif view.run:
                act = self._jobs.lifecycle.resume
            self._starts.check(self._request(job_id, act), view.config)

    def _request(
        self,
        job_id: str,
        act: Callable[..., JobView],
        placement: tuple[Placement, ...] = NO_PLACE,
    ) -> StartRequest:
        self._moving.pop(job_id, None)
        return StartRequest(
            job_id,
            lambda other, progress: act(job_id, placement=other or placement, progress=progress),
            partial(self._page.detail.show_starting, job_id),
            self._acted,
            partial(self._refused, job_id),
        )

    @Slot(str, str)
    def move_off(self, job_id: str, node: str) -> None:
        """Stop a job; once its checkpoint is written, ask where to resume it without this node."""
        self._stop(job_id, leaving=node)
        self.jobs_requested.emit()
        self._page.open_job(job_id)

    @Slot(object)
    def _poll_moving(self, views: tuple[JobView, ...]) -> None:
        for view in views if self._moving else ():
            self._move_on(view)

    def _move_on(self, view: JobView) -> None:
        if view.id not in self._moving or not view.state.is_over:
            return
        node = self._moving.pop(view.id)
        if view.state is JobState.FINISHED:
            self._runner.notify(f"{view.name} has finished, so it was not moved.")
            return

        def ask(found: tuple[Checkpoint, ...]) -> None:
            detail = self._page.detail
            detail.show_checkpoints(view.id, found)
            if not found:
                sentence = f"{view.name} left {node} and has no checkpoint to resume from."
                detail.show_error(view.id, sentence, "Start the job over on other nodes.")
            elif self._page.open_id == view.id:
                detail.open_move_dialog(node)

        self._run("read", view.id, partial(self._jobs.queries.checkpoints, view.id), ask)

    def _acted(self, view: JobView) -> None:
        self._move_on(view)
        self._page.detail.show_busy(view.id, "")
        self._page.show_view(view)

    def _run(
        self, lane: str, job_id: str, work: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Run work on a job; a refusal is shown on its page."""
        self._runner.run(f"{lane} {job_id}", work, then, partial(self._refused, job_id))

    def _refused(self, job_id: str, error: BackendError) -> None:
        self._moving.pop(job_id, None)
        self._page.detail.show_busy(job_id, "")
        self._page.detail.show_error(job_id, str(error), error.remedy)

    # Example.

    @Slot()
    def train_example(self, workers: int = 2) -> None:
        """Import the built-in example, create its job, and start it."""
        first = self._page.first_start
        first.show_busy("Importing the example…")

        def bring() -> JobView:
            view = create_example(self._services, workers)
            return self._jobs.lifecycle.start(view.id)

        self._runner.run(
            "example",
            bring,
            self._example_started,
            lambda error: first.show_error(str(error), error.remedy),
        )

    def _example_started(self, view: JobView) -> None:
        self._page.first_start.show_busy("")
        self.show_new(view)
        if awaits_horovod():
            self._runner.notify(AWAITS_HOROVOD)

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

    def clone(self, job_id: str, other: Mapping[str, Any] | None = None) -> None:
        """Load the settings of an existing job into the form, except the ``other`` ones."""
        self.drafts.begin_with(job_id, other or {}, partial(self._refused, job_id))

    def _new_from(self, job_id: str, checkpoint: str) -> None:
        weights = {"start_from": f"{job_id}/{checkpoint}"}
        self.drafts.begin_with(job_id, weights, partial(self._refused, job_id))

    def replay(self, job_id: str) -> None:
        """Open the form with the same files, settings and seed; the nodes can be chosen."""
        self.drafts.replay(job_id, partial(self._refused, job_id))

    def show_nodes(self, states: tuple[NodeState, ...]) -> None:
        """Show the nodes that can be chosen, and the reason where one cannot."""
        self._form.show_nodes(states)
        self._page.detail.show_nodes(states)

    @Slot(object)
    def _sweep_made(self, made: SweepMade) -> None:
        for view in made.jobs[1:]:
            self._page.show_view(view)
        self.show_new(made.jobs[0])

    @Slot(object)
    def _sweep_taken(self, taken: SweepTaken) -> None:
        for view in taken.taken:
            self._page.remove_job(view.id)

    # The open job.

    @Slot(str)
    def _open(self, job_id: str) -> None:
        self._poller.open(job_id)
        self._checkpoints(job_id)

    def _checkpoints(self, job_id: str) -> None:
        detail = self._page.detail
        self._runner.run(
            f"read {job_id}",
            partial(self._jobs.queries.checkpoints, job_id),
            partial(detail.show_checkpoints, job_id),
            lambda error: detail.show_checkpoints_error(job_id, error.with_remedy),
        )

    def _keep(self, job_id: str, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint permanently, or stop keeping it."""

        def marked(_found: Checkpoint) -> None:
            self._checkpoints(job_id)
            self._history(job_id)

        work = partial(self._jobs.keep, job_id, checkpoint.name, is_kept=not checkpoint.is_kept)
        self._run("job", job_id, work, marked)

    def _draw_number(self, job_id: str, pattern: str) -> None:
        def show(view: JobView) -> None:
            self._settings(job_id)
            if view.state.is_live:
                self._page.detail.show_curves(job_id)

        self._run("job", job_id, partial(self._jobs.lifecycle.draw_number, job_id, pattern), show)

    def _verify(self, job_id: str, checkpoint: str) -> None:
        """Read the file of a checkpoint and compare its hash; a large one takes minutes."""
        show = partial(self._page.detail.show_file_check, job_id, checkpoint)
        show("checking…", "")
        self._runner.run(
            f"verify {job_id}",
            partial(self._jobs.find_damage, job_id, checkpoint),
            lambda found: show("damaged" if found else "checked", found or _SOUND),
            lambda error: show("not checked", error.with_remedy),
        )

    def _history(self, job_id: str) -> None:
        self._runner.run(
            f"read {job_id}",
            partial(self._jobs.audit_entries, job_id),
            partial(self._page.detail.show_audit_entries, job_id),
            lambda error: self._page.detail.show_audit_entries(job_id, (AuditEntry("", error.with_remedy),)),
        )

    def _runs(self, job_id: str) -> None:
        work = partial(self._jobs.queries.runs, job_id)
        self._run("read", job_id, work, partial(self._page.detail.show_runs, job_id))

    def _earlier(self, job_id: str, run: int) -> None:
        work = partial(self._jobs.queries.earlier_run, job_id, run)
        self._run("read", job_id, work, partial(self._page.detail.show_earlier_run, job_id, run))

    def _settings(self, job_id: str) -> None:
        def read() -> tuple[str, JobCommand]:
            view = self._jobs.queries.show(job_id)
            return tomli_w.dumps(view.config.to_dict()), self._jobs.command(job_id)

        show = self._page.detail.show_settings
        self._run("read", job_id, read, lambda found: show(job_id, *found))

    # Edits.

    def _annotate(self, job_id: str, **new: Any) -> None:
        """Change the name, the notes or the tags."""
        self._run("job", job_id, partial(self._jobs.annotate, job_id, **new), self._page.show_view)

    # Exports.

    def export(self, job_id: str, checkpoint: str, kind: str, path: str) -> None:
        exports = self._page.detail.exports
        progress = self._export = self._runner.progress(partial(exports.show_progress, job_id))
        export = partial(self._jobs.export, job_id, checkpoint, kind, Path(path), progress)
        self._run("export", job_id, export, lambda made: exports.show_exported(job_id, str(made)))

    def _cancel_export(self) -> None:
        if self._export is not None:
            self._export.cancel()

    def _folder(self, job_id: str) -> QUrl:
        folder = self._services.data_root.job(job_id)
        return QUrl(folder.files.url(folder.path))

    def _open_folder(self, job_id: str) -> None:
        QDesktopServices.openUrl(self._folder(job_id))

    def _copy_folder(self, job_id: str) -> None:
        """Copy the path on the computer that has the data root."""
        path = self._folder(job_id).path(QUrl.ComponentFormattingOption.FullyDecoded)
        QGuiApplication.clipboard().setText(path)
