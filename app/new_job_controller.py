"""The page New job: a draft is read or cloned, checked, and becomes a job that starts or waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.background import Runner
from app.start_controller import StartController, StartWish
from app.status_poller import StatusPoller
from app.sweep_controller import SweepController
from backend.errors import BackendError
from backend.progress import Progress
from backend.records.bundle import SUFFIX
from backend.records.job import Placement
from backend.records.job_view import JobCheck, JobView
from backend.records.library import Kind
from backend.records.sweep import SweepMade, SweepTaken
from backend.services.workplace import Services
from widgets.jobs.job_fields import JobDraft
from widgets.jobs.job_form import JobForm
from widgets.jobs.jobs_page import JobsPage

_NEW_JOB: Mapping[str, Any] = {
    "epochs": 10,
    "batch_size": 32,
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "schedule": {"name": "cosine", "warmup_epochs": 1},
    "placement": [{"node": "this-computer", "processes": 1}],
}


class NewJobController(QObject):
    """Serves the form.

    Signals:
        form_wished: The page New job should be in front.
        made: The `JobView` of a new job, or of the first of several.
        told: A sentence for the toast, about what the user did.
        bundle_opened: The path of a bundle that was chosen or dropped.
    """

    form_wished = Signal()
    made = Signal(object)
    told = Signal(str)
    bundle_opened = Signal(object)

    def __init__(
        self,
        services: Services,
        runner: Runner,
        starts: StartController,
        poller: StatusPoller,
        page: JobsPage,
        form: JobForm,
        window: QWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._services = services
        self._jobs = services.jobs
        self._runner = runner
        self._starts = starts
        self._poller = poller
        self._page = page
        self._form = form
        self._window = window
        self._sweeps = SweepController(services.sweeps, runner, form, self)
        self._sweeps.told.connect(self.told)
        self._sweeps.made.connect(self._sweep_made)
        self._sweeps.taken.connect(self._sweep_taken)
        self._saving: Progress | None = None
        self._check_number = 0
        page.new_requested.connect(self.new_job)
        page.detail.clone_requested.connect(self.clone)
        page.detail.new_from_requested.connect(self._new_from)
        form.check_requested.connect(self._check)
        form.start_requested.connect(self._start_draft)
        form.start_cancelled.connect(self._cancel_draft)
        form.queue_requested.connect(self._queue_draft)
        form.save_requested.connect(partial(self._create, then=lambda view: view))
        form.open_requested.connect(self._choose_job_file)
        form.load_requested.connect(self._load_settings)

    @Slot()
    def new_job(self) -> None:
        self._form.show_draft(JobDraft({**_NEW_JOB, "name": self._free_name()}))
        self.form_wished.emit()

    def _free_name(self) -> str:
        """A name nobody has to think of: "job 7"."""
        model = self._page.model
        number = self._page.total + 1
        while model.has_name(f"job {number}"):
            number += 1
        return f"job {number}"

    def new_job_with(self, kind: Kind, reference: str) -> None:
        """A new job with this dataset, model or loader; its namesakes are chosen beside it."""
        self.new_job()
        raw = dict(self._form.draft().raw)
        raw[kind.value] = reference.partition("@")[0]
        self._form.show_draft(JobDraft(raw))

    def open_job_file(self, path: Path) -> None:
        """A job file or a bundle was chosen or dropped."""
        if path.suffix.lower() == SUFFIX:
            self.bundle_opened.emit(path)
            return
        self._runner.run(
            "form",
            partial(self._jobs.read_file, path),
            self._show_draft,
            lambda error: self._form_refused(error),
        )

    def _show_draft(self, raw: Mapping[str, Any]) -> None:
        self._form.show_draft(JobDraft(raw))
        self.form_wished.emit()

    def _form_refused(self, error: BackendError) -> None:
        self.form_wished.emit()
        self._form.show_error(f"{error} {error.remedy}".strip())

    @Slot()
    def _choose_job_file(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(
            self._window, "Job file", "", f"Job files and bundles (*.toml *{SUFFIX})"
        )
        if chosen:
            self.open_job_file(Path(chosen))

    @Slot()
    def _load_settings(self) -> None:
        if self._page.open_id:
            self.clone(self._page.open_id)
        else:
            self._form.show_error("There is no job yet whose settings could be loaded.")

    @Slot(str)
    def clone(self, job_id: str) -> None:
        """The settings of an old job in the form, to change one and start."""
        self._runner.run(
            "form",
            partial(self._jobs.clone, job_id),
            self._show_draft,
            partial(self._not_cloned, job_id),
        )

    @Slot(str, str)
    def _new_from(self, job_id: str, checkpoint: str) -> None:
        self._runner.run(
            "form",
            partial(self._jobs.clone, job_id),
            lambda raw: self._show_draft({**raw, "start_from": f"{job_id}/{checkpoint}"}),
            partial(self._not_cloned, job_id),
        )

    @Slot(object)
    def _check(self, draft: JobDraft) -> None:
        self._check_number += 1
        self._runner.run(
            "check",
            partial(self._sweeps.check, draft)
            if draft.axes
            else partial(self._jobs.check, draft.raw),
            partial(self._checked, self._check_number),
            lambda error: self._form.show_error(str(error)),
        )

    def _checked(self, number: int, check: JobCheck) -> None:
        if number == self._check_number:
            self._form.show_check(check)

    @Slot(object)
    def _queue_draft(self, draft: JobDraft) -> None:
        if draft.axes:
            self._sweeps.queue(draft)
        else:
            self._create(draft, then=self._queue_new)

    @Slot(object)
    def _sweep_made(self, made: SweepMade) -> None:
        for view in made.jobs[1:]:
            self._page.show_view(view)
            self._poller.know(view)
        self.made.emit(made.jobs[0])

    @Slot(object)
    def _sweep_taken(self, taken: SweepTaken) -> None:
        for view in taken.taken:
            self._page.forget(view.id)

    def _queue_new(self, view: JobView) -> JobView:
        self._services.queue.enqueue(view.id)
        return self._jobs.show(view.id)

    def _create(self, draft: JobDraft, then: Callable[[JobView], JobView]) -> None:
        """Make a job that does not start now, and do ``then`` with it on the worker."""
        self._form.set_busy("Creating…")
        progress = self._runner.progress(lambda _share, what: self._form.set_busy(f"{what}…"))
        self._saving = progress

        def create() -> JobView:
            return then(self._jobs.create(draft.raw, progress))

        self._runner.run(
            "create",
            create,
            self._created,
            self._not_created,
        )

    @Slot()
    def _cancel_draft(self) -> None:
        self._starts.cancel("")
        self._sweeps.cancel()
        if self._saving is not None:
            self._saving.cancel()

    @Slot(object)
    def _start_draft(self, draft: JobDraft) -> None:
        def act(placement: tuple[Placement, ...], progress: Progress) -> JobView:
            raw = dict(draft.raw)
            if placement:
                raw["placement"] = [one.to_dict() for one in placement]
            return self._jobs.create_and_start(raw, progress)

        self._starts.start(
            StartWish("", act, self._form.set_busy, self._created, self._not_created)
        )

    def _not_created(self, error: BackendError) -> None:
        self._form.show_error(f"{error} {error.remedy}".strip())

    def _created(self, view: JobView) -> None:
        self._form.set_busy("")
        self.made.emit(view)

    def _not_cloned(self, job_id: str, error: BackendError) -> None:
        self._page.detail.show_error(job_id, str(error), error.remedy)


def is_job_file(path: Path) -> bool:
    """Whether a dropped file is meant as a job file or a bundle; reads nothing."""
    return path.suffix.lower() in (".toml", SUFFIX)
