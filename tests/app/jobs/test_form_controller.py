"""New job tries one batch of model, dataset and loader before it calls a job ready to start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.jobs.form_controller import FormController
from backend.base.errors import BackendError, Cancelled
from backend.records.library.item import Kind
from backend.records.library.preview import DataSize, ModelCheck
from backend.services.jobs import service as job_service
from backend.services.jobs.validation import DataSizeCounter
from backend.services.tools import tool_process
from backend.services.tools.tool_process import ToolError
from tests.app.conftest import MODEL_CHECK
from tests.backend.services.sweeps.test_sweep_service import paths, services
from tests.conftest import SynchronousRunner
from tests.integration.tiny import MODEL, raw_job
from tests.windows import (
    find_button,
    find_only,
    finish_timers,
    setting_field,
    shows_text,
    side_of,
    start_buttons,
)
from widgets.common.fields import LineEdit
from widgets.common.labels import Label
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.form_side import FormFoot
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage

__all__ = ["paths", "services"]

MISFIT = ToolError("The model's forward raised RuntimeError: mat1 and mat2.", "Check line 9.")


class DelayedRunner(SynchronousRunner):
    """Does all at once, but for trials and counts, which wait until they are let go."""

    def __init__(self):
        super().__init__()
        self.tasks = []

    def run(self, queue_name, *task):
        if queue_name == "count":
            self.tasks.append(task)
        else:
            super().run(queue_name, *task)

    def run_tasks(self):
        while self.tasks:
            super().run("count", *self.tasks.pop(0))


@pytest.fixture
def runner():
    return DelayedRunner()


@pytest.fixture
def form(qtbot, services, runner, monkeypatch):
    monkeypatch.setattr(DataSizeCounter, "cached_size", lambda *_: DataSize(512, 64))
    page, form = JobsPage(), JobForm()
    for widget in (page, form):
        qtbot.addWidget(widget)
    form.started = []
    starts = SimpleNamespace(start=form.started.append, cancel=lambda job_id: None)
    form.controller = FormController(services, runner, starts, page, form, form)
    form.resize(1200, 800)
    form.show()
    form.show_nodes(services.nodes.list())
    form.show_draft(JobDraft(raw_job(1)))
    return form


def result_of(form):
    assert side_of(form).result.text() == find_only(FormFoot, form).result.text()
    return side_of(form).result.text()


def line(form):
    return find_only(Label, find_only(FormSections, form).trial).text()


def test_only_parts_that_were_tried_together_are_ready_to_start(form, runner, qtbot):
    finish_timers(form)
    assert result_of(form) == "Trying one batch…"
    assert start_buttons(form).start.isEnabled(), "the user may know better"
    runner.run_tasks()
    assert result_of(form) == "Ready to start"
    assert line(form) == "One batch was tried: loss 0.700"
    qtbot.keyClick(form, Qt.Key.Key_F5)
    finish_timers(form)
    assert runner.tasks == [], "it is known by the hashes of the files"


def test_a_misfit_is_shown_at_its_field_and_is_not_called_ready(form, runner, monkeypatch):
    monkeypatch.setattr(tool_process, "check_model", _raise(MISFIT))
    finish_timers(form)
    runner.run_tasks()
    assert result_of(form) == "One batch fails"
    assert setting_field(form, "model").error() == MISFIT.with_remedy
    assert find_only(FormFoot, form).figures.text() == MISFIT.with_remedy
    assert line(form) == "One batch was tried and failed"
    assert start_buttons(form).start.text() == "Start anyway"
    message = side_of(form).findings.itemAt(0).layout().itemAt(1).widget().text()
    assert message == MISFIT.with_remedy
    finish_timers(form)
    assert runner.tasks == [], "the same files fail again"
    start_buttons(form).start.click()
    assert len(form.started) == 1, "this computer may lack what the nodes have"


def test_the_error_of_a_loader_is_shown_at_the_loader(form, runner, monkeypatch):
    monkeypatch.setattr(tool_process, "check_model", _raise(ToolError("No files.", part="loader")))
    finish_timers(form)
    runner.run_tasks()
    assert setting_field(form, "loader").error() == "No files."
    assert setting_field(form, "model").error() == ""


def test_a_button_repeats_a_failed_trial(form, runner, monkeypatch, qtbot):
    monkeypatch.setattr(tool_process, "check_model", _raise(MISFIT))
    finish_timers(form)
    runner.run_tasks()
    monkeypatch.setattr(tool_process, "check_model", lambda *_, **__: MODEL_CHECK)
    button = find_only(FormSections, form).trial.button
    assert button.text() == "Try again"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    runner.run_tasks()
    assert result_of(form) == "Ready to start"
    assert setting_field(form, "model").error() == ""


def test_another_choice_ends_the_trial_and_is_tried_itself(
    form, services, runner, tmp_path, monkeypatch
):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/bks_model.py").write_text(f"# another\n{MODEL}")
    services.library.import_item(Kind.MODEL, tmp_path / "other", "other")
    finish_timers(form)
    form.show_draft(JobDraft(raw_job(1, model="other")))
    finish_timers(form)
    tried_models = []
    monkeypatch.setattr(
        tool_process,
        "check_model",
        lambda model, *_, **__: tried_models.append(model.parts[-3]) or MODEL_CHECK,
    )
    runner.run_tasks()
    assert tried_models == ["other"]
    assert result_of(form) == "Ready to start"
    form.show_draft(JobDraft(raw_job(1)))
    finish_timers(form)
    runner.run_tasks()
    assert tried_models == ["other", "tiny"], "the one that was cancelled is not taken for tried"


def test_a_cancelled_trial_waits_for_its_button(form, runner, qtbot):
    finish_timers(form)
    button = find_only(FormSections, form).trial.button
    assert button.text() == "Cancel"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    runner.run_tasks()
    assert (line(form), button.text()) == ("One batch shows whether they fit", "Try one batch")
    finish_timers(form)
    assert runner.tasks == []
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    runner.run_tasks()
    assert result_of(form) == "Ready to start"


def test_a_job_without_local_pytorch_is_tried_only_on_request(form, runner, monkeypatch):
    monkeypatch.setattr(job_service, "training_error", lambda: ToolError("No PyTorch here."))
    finish_timers(form)
    runner.run_tasks()
    assert line(form).startswith("Not tried: its files or PyTorch are not on this")
    assert find_only(FormSections, form).trial.button.text() == "Try one batch"


def test_a_hidden_form_tries_nothing(form, runner):
    form.hide()
    finish_timers(form)
    assert runner.tasks == []
    form.show()
    assert form._check_timer.isActive(), "it is checked when it is seen"


def test_a_warning_of_the_trial_is_shown_as_a_hint(form, runner, monkeypatch):
    model_check = ModelCheck(10, 9, 40, loss=0.7, batch="[4]", warnings=("1 parameter is idle.",))
    monkeypatch.setattr(tool_process, "check_model", lambda *_, **__: model_check)
    finish_timers(form)
    runner.run_tasks()
    rows = [
        side_of(form).findings.itemAt(n).layout() for n in range(side_of(form).findings.count())
    ]
    assert any("1 parameter is idle." in _label_texts(row) for row in rows)


def _raise(error):
    def check(*_, **__):
        raise error

    return check


def _label_texts(layout):
    return [
        layout.itemAt(n).layout().itemAt(0).widget().text()
        for n in range(layout.count())
        if layout.itemAt(n).layout() is not None
    ]


MISSING_PACKAGE = ToolError(
    "The loader needs Pillow (a.py, line 3).", "Install it.", "", "", "loader", "Pillow"
)


def test_one_button_installs_a_missing_package_and_repeats_the_trial(
    form, runner, monkeypatch, qtbot
):
    installed = []
    monkeypatch.setattr(tool_process, "check_model", _raise(MISSING_PACKAGE))
    monkeypatch.setattr(
        form.controller._services.packages,
        "install",
        lambda name, nodes, _progress: installed.append((name, nodes)),
    )
    finish_timers(form)
    runner.run_tasks()
    trial = find_only(FormSections, form).trial
    assert setting_field(form, "loader").error() == str(MISSING_PACKAGE), (
        "the button is the way out"
    )
    assert (trial.button.text(), trial.copy.isVisible()) == ("Install Pillow", False)
    monkeypatch.setattr(tool_process, "check_model", lambda *_, **__: MODEL_CHECK)
    qtbot.mouseClick(trial.button, Qt.MouseButton.LeftButton)
    assert "Installing Pillow" in line(form)
    runner.run_tasks()
    assert installed == [("Pillow", ("this-computer",))]
    assert result_of(form) == "Ready to start"
    assert setting_field(form, "loader").error() == ""


@pytest.mark.parametrize(
    "error", [BackendError("Pillow could not be installed: no network."), Cancelled()]
)
def test_the_command_of_a_package_that_cannot_be_installed_can_be_copied(
    form, runner, monkeypatch, qtbot, error
):
    monkeypatch.setattr(tool_process, "check_model", _raise(MISSING_PACKAGE))
    monkeypatch.setattr(form.controller._services.packages, "install", _raise(error))
    finish_timers(form)
    runner.run_tasks()
    trial = find_only(FormSections, form).trial
    qtbot.mouseClick(trial.button, Qt.MouseButton.LeftButton)
    runner.run_tasks()
    was_cancelled = isinstance(error, Cancelled)
    assert trial.button.text() == "Install Pillow", "it can be tried again"
    assert trial.copy.isVisible() is not was_cancelled
    if not was_cancelled:
        assert "no network" in setting_field(form, "loader").error()
        qtbot.mouseClick(trial.copy, Qt.MouseButton.LeftButton)
        assert (
            QGuiApplication.clipboard()
            .text()
            .endswith("install --no-input --disable-pip-version-check Pillow")
        )


@pytest.mark.parametrize("answer", [True, False, MISSING_PACKAGE])
def test_the_form_says_that_samples_are_counted_only_while_they_are(
    form, runner, monkeypatch, answer
):
    def count(*_):
        if isinstance(answer, ToolError):
            raise answer
        return answer

    monkeypatch.setattr(DataSizeCounter, "cached_size", lambda *_: None)
    monkeypatch.setattr(form.controller._jobs, "count_items", count)
    finish_timers(form)
    assert shows_text(side_of(form), "Counting samples")
    runner.run_tasks()
    assert not shows_text(side_of(form), "Counting samples")


def test_an_unknown_package_is_asked_for_by_name_and_then_tried_again(
    form, runner, monkeypatch, qtbot
):
    unknown = ToolError("a.py needs the module “my_lib”.", "Install it.", module="my_lib")
    monkeypatch.setattr(tool_process, "check_model", _raise(unknown))
    monkeypatch.setattr(form.controller._services.packages, "install", lambda *_: None)
    finish_timers(form)
    runner.run_tasks()
    trial = find_only(FormSections, form).trial
    assert trial.button.text() == "Install a package…"
    qtbot.mouseClick(trial.button, Qt.MouseButton.LeftButton)
    dialog = form.controller.packages.dialog
    monkeypatch.setattr(tool_process, "check_model", lambda *_, **__: MODEL_CHECK)
    qtbot.mouseClick(find_button(dialog, "Install"), Qt.MouseButton.LeftButton)
    runner.run_tasks()
    assert result_of(form) == "Ready to start"


def test_only_the_result_line_changes_after_a_trial(form, runner, monkeypatch):
    monkeypatch.setattr(tool_process, "check_model", lambda *_, **__: MODEL_CHECK)

    def findings():
        rows = [
            side_of(form).findings.itemAt(n).layout() for n in range(side_of(form).findings.count())
        ]
        return [_label_texts(row) for row in rows]

    finish_timers(form)
    assert result_of(form) == "Trying one batch…"
    previous_findings = findings()
    runner.run_tasks()
    assert result_of(form) == "Ready to start"
    assert findings() == previous_findings, "the settings are as valid as before"


def test_a_new_job_is_queued_for_later_with_a_reservation_and_an_overlap_leaves_no_job(
    form, runner, services
):
    finish_timers(form)
    runner.run_tasks()
    services.queue.pause()

    def queue_for_later(time_text, hours):
        start_buttons(form).queue_later.click()
        dialog = form.controller._queue_dialog.dialog
        for edit, text in zip(dialog.findChildren(LineEdit), (time_text, hours), strict=True):
            edit.setText(text)
        find_button(dialog, "Queue").click()

    queue_for_later("+2h", "3")
    (queued_job,) = services.queue.read().jobs
    assert (queued_job.entry.length_s, bool(queued_job.entry.not_before)) == (3 * 3600, True)
    queue_for_later("+4h", "1")
    assert "is reserved for" in side_of(form).refusal.text()
    assert len(services.queries.list()) == 1
