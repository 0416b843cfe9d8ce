"""Turn user actions on the page New job into calls of the services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.jobs.job_proposal import (
    DEFAULT_TRAINING,
    ProposedTraining,
    fitting_parts,
    training_of,
)
from app.jobs.probe_controller import ProbeController
from app.jobs.start_controller import StartController, StartRequest
from app.jobs.sweep_controller import SweepController
from app.jobs.template_controller import TemplateController, draft_of
from app.library.package_controller import PackageController
from app.runtime.background import Runner
from app.runtime.controller import Controller, LatestRequest
from app.shell.help import read_terms
from backend.base import log
from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.bundles.job_archive import SUFFIX
from backend.records.jobs.metric_names import USUAL_METRICS, measures_quality
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.script import is_session, session_length_s
from backend.records.jobs.view import JobCheck, JobView
from backend.records.library.item import PARTS, Kind
from backend.records.queue.entry import QueueEntry
from backend.services.context.container import Services
from backend.services.jobs.job_file import read_job_file
from backend.services.tools.packages import install_command
from backend.services.tools.tool_process import ToolError
from widgets.common import formats
from widgets.common.dialog import DialogHolder, Question
from widgets.jobs.actions.job_questions import queue_question
from widgets.jobs.form.job_fields import JobDraft, Origin
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.trial_status import BatchTrial, TrialState
from widgets.jobs.page.jobs_page import JobsPage

_NEW_JOB: Mapping[str, Any] = {
    **DEFAULT_TRAINING,
    "schedule": {"name": "cosine", "warmup_epochs": 1},
}
_LOCAL_PLACEMENT = {"placement": [{"node": THIS_COMPUTER, "processes": 1}]}
_RECENT_JOBS = 50
"""The number of jobs that a search returns."""
_TRIAL_MESSAGE = "One batch was tried"
_MAX_FOUND_JOBS = 50
"""File names that the search for weights offers."""
_WEIGHTS_FILTER = "Weights (*.pt *.pth *.ckpt *.bin *.safetensors);;All files (*)"
_VALIDATION_KEYS = ("validation_dataset", "validation_loader")


class FormController(Controller):
    """Serve the form, and everything that opens it.

    Attributes:
        sweeps: Serves the form when it describes several jobs.
        templates: Serves the start of the form.
        packages: Installs packages that a model lacks.
        probes: Measures the job of the form.

    Signals:
        form_requested: Show the page New job.
        job_created: The `JobView` of a new job to show.
        bundle_opened: The path of a bundle that was chosen or dropped.
    """

    form_requested = Signal()
    job_created = Signal(object)
    bundle_opened = Signal(object)

    def __init__(
        self,
        services: Services,
        runner: Runner,
        start_controller: StartController,
        page: JobsPage,
        form: JobForm,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(runner, parent)
        self._window = window
        self._services = services
        self._jobs = services.jobs
        self._start_controller = start_controller
        self._page = page
        self._form = form
        self._create_request = LatestRequest(runner)
        self._check_request = LatestRequest(runner)
        self._queue_dialog: DialogHolder[Question] = DialogHolder()
        self._proposed_name = self._named_model = ""
        self._counted_parts: set[tuple[str, ...]] = set()
        self._checked_draft = JobDraft()
        self._combination: tuple[str, ...] = ()
        self._trials: dict[tuple[str, ...], BatchTrial] = {}
        self._trial_request = LatestRequest(runner)
        self._help_request = LatestRequest(runner)
        self._training = ProposedTraining()
        self.sweeps = SweepController(services.sweeps, runner, form, self)
        self.templates = TemplateController(services, runner, form, window)
        self.templates.job_load_requested.connect(self.load_job)
        self.templates.draft_requested.connect(self._show_template)
        self.probes = ProbeController(services, runner, form, window)
        form.check_requested.connect(self._check)
        form.try_requested.connect(partial(self._try_batch, fetch=True))
        form.try_cancelled.connect(self._trial_request.cancel)
        form.install_requested.connect(self._install)
        form.help_requested.connect(self._read_help)
        form.help_cancelled.connect(self._help_request.drop)
        self.packages = PackageController(services.packages, runner, window, self)
        form.package_requested.connect(
            lambda module: self.packages.ask(module, self._trial_nodes(), self._check_again)
        )
        form.start_requested.connect(self._start_draft)
        form.start_cancelled.connect(self._cancel_draft)
        form.queue_requested.connect(self._queue_draft)
        form.queue_later_requested.connect(self._ask_time)
        form.partitions_requested.connect(self._read_partitions)
        form.save_requested.connect(partial(self._create, finish=lambda view, _progress: view))
        form.open_requested.connect(self._choose_job_file)
        form.start_from.searched.connect(self._find_jobs)
        form.start_from.checkpoints_requested.connect(self._read_checkpoints)
        form.start_from.file_requested.connect(self._choose_weights)
        self.serve("help", read_terms, form.show_terms, self._show_form_error)

    # The initial contents of the form.

    @Slot()
    def new_job(self) -> None:
        """Open the form with defaults that train: the parts of the newest job that still exist."""
        self.new_job_of({})

    def new_job_with(self, kind: Kind, reference: str) -> None:
        """Open the form with this dataset, model or loader, and with parts of the same name."""
        self.new_job_of({kind.value: reference.partition("@")[0]})

    def new_job_of(self, chosen_names: Mapping[str, str]) -> None:
        """Open the form with these names, by their keys in the job file."""

        def show(proposal: Mapping[str, Any]) -> None:
            is_script = Kind.SCRIPT.value in chosen_names
            raw = {**({} if is_script else {**_NEW_JOB, **proposal}), **chosen_names}
            self.show_draft(JobDraft({**raw, "name": self._free_name(raw)}))
            self._form.propose_placement()
            self._training.reset(raw)

        self._runner.run(
            "form", partial(self._proposal, chosen_names), show, lambda _error: show({})
        )

    def _proposal(self, chosen_names: Mapping[str, str]) -> dict[str, Any]:
        """Return parts that fit, and settings with which their model was seen to train.

        They are from the catalogue on this disk, so that a new job never waits for a share.
        """
        items = {kind: self._services.catalogue.items(kind) for kind in PARTS}
        jobs = self._jobs.queries.search("", _RECENT_JOBS)
        parts = fitting_parts(
            chosen_names, items, self._services.library.known_combinations(), jobs
        )
        return {**training_of(parts.get("model", ""), items[Kind.MODEL]), **parts}

    def _known_metrics(self) -> list[str]:
        """Return the metrics that recent jobs measured, from the catalogue on this disk."""
        jobs = self._jobs.queries.search("", _RECENT_JOBS)
        metrics = {name for job in jobs for name in job.status.metrics if measures_quality(name)}
        return [*USUAL_METRICS, *sorted(metrics.difference(USUAL_METRICS))]

    def _free_name(self, raw: Mapping[str, Any]) -> str:
        """Return a free name: the model's and a number, "resnet50 7"."""
        self._named_model = _model_of(raw)
        self._proposed_name = self._page.model.free_name(self._named_model or "job")
        return self._proposed_name

    def _rename(self, raw: Mapping[str, Any]) -> None:
        """Rename the job after another model is chosen, unless the user named it."""
        is_proposed = self._proposed_name and raw.get("name") == self._proposed_name
        if is_proposed and _model_of(raw) not in ("", self._named_model):
            self._form.rename(self._free_name(raw))

    @Slot(object)
    def _show_template(self, draft: JobDraft) -> None:
        """Open the form with a template; settings that it omits have the defaults of a new job."""
        raw = {**_NEW_JOB, **_LOCAL_PLACEMENT, **draft.raw}
        raw["name"] = self._free_name(raw)
        self.show_draft(JobDraft(raw, draft.axes, draft.draws, draft.seed, draft.origin))

    def show_draft(self, draft: JobDraft) -> None:
        self._training.reset({})
        self._form.show_draft(draft)
        self._runner.run("metrics", self._known_metrics, self._form.show_metrics, log.swallowed)
        self._name_weights(str(draft.raw.get("start_from", "")))
        self.templates.refresh()
        self.form_requested.emit()

    @Slot(str)
    def load_job(self, job_id: str) -> None:
        """Load the settings of an existing job into the form."""
        self.show_job(job_id, {}, lambda error: self._show_form_error(error.with_remedy))

    def show_job(
        self,
        job_id: str,
        changes: Mapping[str, Any],
        on_error: Callable[[BackendError], None],
    ) -> None:
        """Open the form with the settings of a job, with ``changes``."""

        def read() -> JobDraft:
            raw = self._jobs.clone(job_id)
            origin = Origin(f"“{self._jobs.queries.show(job_id).name}”", raw)
            return JobDraft({**raw, **changes}, origin=origin)

        self._runner.run("form", read, self.show_draft, on_error)

    def replay(self, job_id: str, on_error: Callable[[BackendError], None]) -> None:
        """Train a job again: its nodes can be chosen, everything else is unchanged."""

        def read() -> JobDraft:
            view = self._jobs.queries.show(job_id)
            try:
                raw = self._services.replays.draft(job_id)
            except BackendError:
                # Its nodes do not exist here: the user must choose nodes, and the check says so.
                raw = self._services.replays.draft(job_id, view.config.placement)
            return JobDraft(raw, origin=Origin(f"“{view.name}”", raw, job_id))

        self._runner.run("form", read, self.show_draft, on_error)

    def open_job_file(self, path: Path) -> None:
        """Open a job file, a sweep file or a bundle that was chosen or dropped."""
        if path.suffix.lower() == SUFFIX:
            self.bundle_opened.emit(path)
            return
        self.serve(
            "form",
            lambda: draft_of(read_job_file(path), path.name),
            self.show_draft,
            self._show_form_error,
        )

    def _show_form_error(self, message: str) -> None:
        self.form_requested.emit()
        self._form.show_error(message)

    @Slot()
    def _choose_job_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self._window, "Job file", "", f"Job files, sweeps and bundles (*.toml *{SUFFIX})"
        )
        if path:
            self.open_job_file(Path(path))

    @Slot(str)
    def _read_partitions(self, cluster: str) -> None:
        read, show = self._services.launchers.partitions, self._form.show_partitions
        self.serve("cluster", partial(read, cluster), partial(show, cluster), self._form.show_error)

    # The initial weights.

    @Slot(str)
    def _find_jobs(self, text: str) -> None:
        start_from, search = self._form.start_from, self._jobs.queries.search
        search_jobs = partial(search, text, _MAX_FOUND_JOBS)
        self.serve("weights", search_jobs, start_from.show_jobs, start_from.show_error)

    @Slot(str)
    def _read_checkpoints(self, job_id: str) -> None:
        start_from, read = self._form.start_from, self._jobs.queries.checkpoints
        show = partial(start_from.show_checkpoints, job_id)
        self.serve("weights", partial(read, job_id), show, start_from.show_error)

    @Slot()
    def _choose_weights(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self._window, "Weights", "", _WEIGHTS_FILTER)
        if path:
            self._form.start_from.choose(path)

    def _name_weights(self, start_from: str) -> None:
        """Show a checkpoint with the name of its job; the file holds the id."""
        job_id, _, checkpoint = start_from.partition("/")
        if job_id and checkpoint and "@" not in job_id:
            self._runner.run(
                "weights",
                lambda: self._jobs.queries.show(job_id).name,
                lambda name: self._form.start_from.set_label(start_from, f"{name}, {checkpoint}"),
                log.swallowed,
            )

    # The check.

    @Slot(object)
    def _check(self, draft: JobDraft) -> None:
        self._rename(draft.raw)
        if not draft.axes and self._training.is_of_other_model(draft.raw):
            self._propose_training(draft.raw)

        def check(_progress: Progress) -> JobCheck:
            return self.sweeps.check(draft) if draft.axes else self._jobs.check(draft.raw)

        def show_error(error: BackendError) -> None:
            self._form.show_error(str(error))

        self._check_request.run("check", check, partial(self._show_check, draft), show_error)

    def _propose_training(self, raw: Mapping[str, Any]) -> None:
        """Propose the settings with which the chosen model was seen to train."""

        def read() -> dict[str, Any]:
            return training_of(str(raw["model"]), self._services.catalogue.items(Kind.MODEL))

        def propose(training: Mapping[str, Any]) -> None:
            self._form.propose(self._training.follow_model(raw, training))

        self._runner.run("form", read, propose, log.swallowed)

    def _show_check(self, draft: JobDraft, check: JobCheck) -> None:
        if not draft.axes:
            self._form.propose(self._training.propose_epochs(draft.raw, check.steps_per_epoch))
        self._checked_draft = draft
        self._choose_combination(check.content_hashes)
        self._form.show_check(check, self._known_trial(check))
        # Nothing in a hidden form was chosen by the user.
        if not self._form.isVisible():
            return
        if check.content_hashes and not check.is_counted:
            self._count_samples(draft)
        if (
            check.content_hashes
            and check.trial is None
            and check.content_hashes not in self._trials
        ):
            self._try_batch(fetch=False)

    def _count_samples(self, draft: JobDraft) -> None:
        """Count the samples of the dataset, which only its loader knows, for steps and time."""
        key = (*self._combination, *(str(draft.raw.get(part, "")) for part in _VALIDATION_KEYS))
        if key in self._counted_parts:
            return
        # Only once. A loader that fails is reported when the job starts.
        self._counted_parts.add(key)

        def finish_count(is_known: bool) -> None:
            self._form.show_counting(False)
            if is_known:
                self._check(self._form.draft())

        def handle_error(error: BackendError) -> None:
            self._form.show_counting(False)
            log.swallowed(error)

        self._form.show_counting(True)
        self._runner.run(
            "count", partial(self._jobs.count_items, draft.raw), finish_count, handle_error
        )

    # The arguments of a script.

    @Slot(object)
    def _read_help(self, raw: Mapping[str, Any]) -> None:
        """Run the script with ``--help``, in a process of its own."""
        self._help_request.run(
            "script help",
            partial(self._services.inspection.script_help, raw),
            self._form.show_arguments,
            lambda error: self._form.show_arguments_error(error.with_remedy),
        )

    # One batch.

    def _known_trial(self, check: JobCheck) -> BatchTrial:
        trial = check.trial
        if trial is None:
            default_state = TrialState.UNTRIED if check.content_hashes else TrialState.UNKNOWN
            return self._trials.get(check.content_hashes, BatchTrial(default_state))
        loss = "" if trial.loss is None else f": loss {formats.metric(trial.loss)}"
        return BatchTrial(TrialState.SUCCEEDED, f"{_TRIAL_MESSAGE}{loss}")

    def _try_batch(self, *, fetch: bool) -> None:
        """Train one batch of the chosen parts; another choice cancels the trial."""
        combination, draft = self._combination, self._checked_draft
        if not combination or self._trial_request.is_open:
            return

        def show(state: TrialState, message: str = "", **details: str) -> None:
            trial = BatchTrial(state, message, **details)
            if self._trials.get(combination) != trial:
                self._trials[combination] = trial
                self._form.show_trial(trial)

        def show_outcome(has_run: bool) -> None:
            if has_run:
                show(TrialState.SUCCEEDED, _TRIAL_MESSAGE)
                self._check(self._form.draft())
            else:
                show(TrialState.UNTRIED, "its files or PyTorch are not on this computer")

        def show_error(error: BackendError) -> None:
            if isinstance(error, Cancelled):
                show(TrialState.UNTRIED)
            else:
                tool_error = error if isinstance(error, ToolError) else ToolError(str(error))
                # The button is the way out, and its command is long.
                message = str(error) if tool_error.package else error.with_remedy
                show(
                    TrialState.FAILED,
                    message,
                    field=tool_error.part or Kind.MODEL.value,
                    package=tool_error.package,
                    module=tool_error.module,
                )

        def work(progress: Progress) -> bool:
            progress.step(0, 0, "Starting Python")
            return self._jobs.try_batch(draft.raw, progress, fetch=fetch)

        def show_progress(_share: float | None, step: str) -> None:
            show(TrialState.RUNNING, step)

        show(TrialState.RUNNING)
        # In the queue of the count: each of them starts Python with PyTorch.
        self._trial_request.run("count", work, show_outcome, show_error, show_progress)

    @Slot(str)
    def _install(self, package: str) -> None:
        """Install a package of the loader or model, here and on the job's nodes; try again."""
        combination, previous_trial = self._combination, self._trials.get(self._combination)
        if previous_trial is None or self._trial_request.is_open:
            return

        def show(trial: BatchTrial) -> None:
            self._trials[combination] = trial
            self._form.show_trial(trial)

        def show_progress(_share: float | None, step: str) -> None:
            show(BatchTrial(TrialState.RUNNING, step))

        def show_error(error: BackendError) -> None:
            if isinstance(error, Cancelled):
                show(previous_trial)
            else:
                command = install_command(package)
                show(
                    replace(
                        previous_trial, message=f"{previous_trial.message} {error}", command=command
                    )
                )

        show(BatchTrial(TrialState.RUNNING, f"Installing {package}"))
        install = partial(self._services.packages.install, package, self._trial_nodes())
        self._trial_request.run(
            "count", install, lambda _: self._check_again(), show_error, show_progress
        )

    def _trial_nodes(self) -> tuple[str, ...]:
        """Return this computer, which tries a batch, and the nodes of the job."""
        placement = self._form.draft().raw.get("placement", ())
        return tuple(dict.fromkeys((THIS_COMPUTER, *(str(p["node"]) for p in placement))))

    def _check_again(self) -> None:
        """Try the combination again that failed without a package."""
        self._trials.pop(self._combination, None)
        # Samples that could not be counted without the package can be now.
        self._counted_parts.clear()
        self._check(self._form.draft())

    def _choose_combination(self, combination: tuple[str, ...]) -> None:
        """Take other files; cancel the trial of the earlier ones."""
        if combination == self._combination:
            return
        if self._trial_request.is_open:
            # Its result stays unknown, and the trial can be repeated.
            self._trial_request.drop()
            self._trials.pop(self._combination)
        self._combination = combination

    # The job.

    @Slot(object)
    def _queue_draft(self, draft: JobDraft) -> None:
        if draft.axes:
            self.sweeps.queue(draft)
        else:
            self._create(draft, finish=partial(self._queue_new, self._services.queue.enqueue))

    @Slot(object)
    def _ask_time(self, draft: JobDraft) -> None:
        """Ask for the earliest start of a new job, and the hours for which it reserves its GPUs."""

        def queue(priority: int, start_time: datetime | None, hours: float) -> None:
            enqueue = partial(
                self._services.queue.enqueue,
                priority=priority,
                not_before=start_time,
                length_s=hours * 3600,
            )
            self._create(draft, finish=partial(self._queue_new, enqueue))

        arguments, script = draft.raw.get("arguments", ()), str(draft.raw.get("script", ""))
        length_s = session_length_s(arguments) if is_session(script) else 0.0
        entry = QueueEntry("", str(draft.raw.get("name", "")), 1, (), "", length_s=length_s)
        self._queue_dialog.open(queue_question(entry, queue, self._window))

    def _queue_new(
        self, enqueue: Callable[..., object], view: JobView, progress: Progress
    ) -> JobView:
        try:
            enqueue(view.id, progress=progress)
        except BackendError:
            self._jobs.remove(view.id)
            raise
        return self._jobs.queries.show(view.id)

    def _create(self, draft: JobDraft, finish: Callable[[JobView, Progress], JobView]) -> None:
        """Create a job without starting it, then run ``finish`` with its view on the worker."""
        self._form.set_busy("Creating…")

        def create(progress: Progress) -> JobView:
            view = self._jobs.create(draft.raw, progress, _replayed_id(draft))
            return finish(view, progress)

        self._create_request.run(
            "create",
            create,
            self._show_created,
            self._show_create_error,
            lambda _share, step: self._form.set_busy(formats.with_ellipsis(step)),
        )

    @Slot()
    def _cancel_draft(self) -> None:
        self._start_controller.cancel("")
        self.sweeps.cancel()
        self._create_request.cancel()

    @Slot(object)
    def _start_draft(self, draft: JobDraft) -> None:
        def start(placement: tuple[Placement, ...], progress: Progress) -> JobView:
            raw = dict(draft.raw)
            if placement:
                raw["placement"] = [p.to_dict() for p in placement]
            return self._jobs.create_and_start(raw, progress, _replayed_id(draft))

        self._start_controller.start(
            StartRequest(
                "", start, self._form.set_busy, self._show_created, self._show_create_error
            )
        )

    def _show_create_error(self, error: BackendError) -> None:
        self._form.show_error(error.with_remedy)

    def _show_created(self, view: JobView) -> None:
        self._form.set_busy("")
        self.job_created.emit(view)


def _model_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("model") or raw.get("script", "")).partition("@")[0]


def _replayed_id(draft: JobDraft) -> str:
    return draft.origin.replayed_id if draft.origin is not None else ""


def is_job_file(path: Path) -> bool:
    """Return True if a dropped file is a job file or a bundle, by its name; reads nothing."""
    return path.suffix.lower() in (".toml", SUFFIX)
