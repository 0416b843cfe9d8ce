"""Templates and earlier jobs that provide the settings of a new job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.runtime.background import Runner
from app.runtime.controller import DialogController
from backend.base.errors import BackendError
from backend.records.jobs.template import SUFFIX, Template
from backend.records.jobs.view import JobView
from backend.records.sweeps.spec import read_sweep, sweep_file
from backend.services.context.container import Services
from backend.services.jobs.job_file import write_job_file
from widgets.common.dialog import Question
from widgets.jobs.form.job_fields import JobDraft, Origin
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.form.load_dialog import JOBS, LoadDialog, name_question

_QUEUE = "templates"
_MAX_JOBS = 100
_SAVE_HINT = (
    "Everything in the form except the name, for all users of this data root. You can change, "
    "rename and remove it later."
)


class TemplateController(DialogController[LoadDialog | Question]):
    """Serve the form at its beginning, and save its settings for later.

    Signals:
        job_load_requested: Load the settings of this job into the form.
        draft_requested: A `JobDraft` to show in the form; its job has no name yet.
    """

    job_load_requested = Signal(str)
    draft_requested = Signal(object)

    def __init__(self, services: Services, runner: Runner, form: JobForm, window: QWidget) -> None:
        super().__init__(runner, window)
        self._services = services
        self._templates = services.templates
        self._form = form
        self._known_templates: tuple[Template, ...] = ()
        self._last_name = ""
        form.template_requested.connect(self.load)
        form.load_requested.connect(self.choose)
        form.template_save_requested.connect(self.ask_name)
        form.file_requested.connect(self.save_file)

    @Slot()
    def refresh(self) -> None:
        """Read the list of templates; another desktop may have added some."""
        self.serve(_QUEUE, self._templates.list, self._show_templates, self._form.show_error)

    def _show_templates(self, templates: tuple[Template, ...]) -> None:
        self._known_templates = templates
        self._form.show_templates(templates)
        if isinstance(self.dialog, LoadDialog):
            self.dialog.show_templates(templates)

    def _show_first_templates(self, templates: tuple[Template, ...]) -> None:
        self._show_templates(templates)
        if isinstance(self.dialog, LoadDialog) and not templates:
            self.dialog.show_kind(JOBS)

    def list_templates(self, on_result: Callable[[tuple[Template, ...]], None]) -> None:
        """Call ``on_result`` with the templates, or with none if they cannot be read."""
        self.serve(_QUEUE, self._templates.list, on_result, lambda _message: on_result(()))

    # Start from a template.

    @Slot(str)
    def load(self, name: str) -> None:
        def show_draft(raw: Mapping[str, Any]) -> None:
            self._last_name = name
            self._close()
            self.draft_requested.emit(draft_of(raw, f"the template “{name}”"))

        def read() -> dict[str, Any]:
            raw = self._templates.load(name)
            # On the worker: report errors in the template before the form changes.
            draft_of(raw, "")
            return raw

        self.serve(_QUEUE, read, show_draft)

    @Slot()
    def choose(self) -> None:
        """Offer everything that a job can start from."""
        dialog = LoadDialog(self._window)
        dialog.template_chosen.connect(self.load)
        dialog.job_chosen.connect(self._load_job)
        dialog.searched.connect(self._search)
        dialog.rename_requested.connect(self._rename)
        dialog.remove_requested.connect(self._remove)
        self.open(dialog)
        self.serve(_QUEUE, self._templates.list, self._show_first_templates)

    @Slot(str)
    def _load_job(self, job_id: str) -> None:
        self._close()
        self.job_load_requested.emit(job_id)

    @Slot(str)
    def _search(self, text: str) -> None:
        def show(views: tuple[JobView, ...]) -> None:
            if isinstance(self.dialog, LoadDialog):
                self.dialog.show_jobs(views)

        search = partial(self._services.jobs.queries.search, text, _MAX_JOBS)
        self.serve(_QUEUE, search, show)

    # Save a template.

    @Slot(object)
    def ask_name(self, draft: JobDraft) -> None:
        dialog = name_question(
            "Save as template",
            "Save",
            self._last_name,
            [t.name for t in self._known_templates],
            partial(self._save_template, draft),
            self._window,
            note=_SAVE_HINT,
            may_replace=True,
        )
        self.open(dialog)

    def _save_template(self, draft: JobDraft, name: str, may_replace: bool) -> None:
        def confirm(template: Template) -> None:
            self._last_name = template.name
            self._runner.notify(f"Saved the template “{template.name}”")
            self.refresh()

        raw = sweep_file(draft.sweep)
        save = partial(self._templates.save, name, raw, overwrite=may_replace)
        self.serve(_QUEUE, save, confirm, self._form.show_error)

    @Slot(str, str)
    def _rename(self, name: str, new_name: str) -> None:
        self.serve(_QUEUE, partial(self._templates.rename, name, new_name), self._show_change)

    @Slot(str)
    def _remove(self, name: str) -> None:
        def confirm(template: Template) -> None:
            self._runner.notify(f"Moved the template “{template.name}” to the trash")
            self._show_change(template)

        self.serve(_QUEUE, partial(self._templates.remove, name), confirm)

    def _show_change(self, _template: Template) -> None:
        if isinstance(self.dialog, LoadDialog):
            self.dialog.show_error("")
        self.refresh()

    @Slot(object)
    def save_file(self, draft: JobDraft) -> None:
        """Save the form as a job file, or as a sweep file if fields hold several values."""
        name = str(draft.raw.get("name", "")) or "job"
        stem = "".join(c if c.isalnum() or c in " -_" else "-" for c in name).strip() or "job"
        title = "Sweep file" if draft.axes else "Job file"
        # Qt asks before it overwrites a file.
        target, _ = QFileDialog.getSaveFileName(
            self._window, title, f"{stem}{SUFFIX}", f"Job files (*{SUFFIX})"
        )
        if target:
            raw = sweep_file(draft.sweep)
            self.serve(
                _QUEUE,
                partial(write_job_file, raw, Path(target), overwrite=True),
                lambda path: self._runner.notify(f"Wrote {path}"),
                self._form.show_error,
            )

    def _close(self) -> None:
        if self.dialog is not None:
            self.dialog.reject()

    def show_error(self, message: str) -> None:
        """Show an error in the list of templates while it is open, or in the form."""
        if isinstance(self.dialog, LoadDialog):
            self.dialog.show_error(message)
        else:
            self._form.show_error(message)


def draft_of(raw: Mapping[str, Any], origin_text: str = "") -> JobDraft:
    """Turn a job file or a sweep file into a draft for the form.

    Args:
        origin_text: The origin that its settings are compared with, "" for none.

    Raises:
        BackendError: The sweep is invalid; the message has the first errors.
    """
    origin = (
        Origin(origin_text, {k: v for k, v in raw.items() if k != "sweep"}) if origin_text else None
    )
    if "sweep" not in raw:
        return JobDraft(raw, origin=origin)
    sweep, errors = read_sweep(raw)
    if sweep is None:
        message = " ".join(error.message for error in errors[:3])
        raise BackendError(message, "Change the sweep file.")
    return JobDraft(sweep.base, sweep.axes, sweep.draws, sweep.seed, origin, sweep.search)
