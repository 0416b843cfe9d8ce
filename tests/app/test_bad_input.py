"""M2: every bad input turns Start off and is shown at its field, in one sentence."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import shiboken6

from app.jobs.form_controller import FormController
from backend.base.errors import BackendError
from backend.records.base.number_format import count
from backend.records.library.preview import DataSize
from backend.services.jobs.validation import DataSizeCounter
from tests.backend.services.sweeps.test_sweep_service import paths, services
from tests.integration.tiny import raw_job
from tests.windows import (
    add_widget,
    all_fields,
    find_button,
    find_only,
    finish_timers,
    job_fields,
    press_start,
    setting_field,
    side_of,
    start_buttons,
)
from widgets.common.fields import ErrorLine, LineEdit
from widgets.jobs.form.form_side import FormFoot
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm
from widgets.jobs.page.jobs_page import JobsPage
from widgets.jobs.placement.placement_picker import PlacementPicker

__all__ = ["paths", "services"]

SGD = {"name": "sgd", "lr": 0.05}
LOCAL_NODE = "this-computer"
TYPED_ERRORS = [
    ("name", "", "Enter a name for the job."),
    ("name", "x" * 256, "A job's name can have at most 255 bytes; choose a shorter one."),
    (
        "start_from",
        "gone/best",
        (
            "No checkpoint or file is named “gone/best”; use JOB/CHECKPOINT, "
            "or a .pt or .safetensors file."
        ),
    ),
    ("epochs", "0", f"Epochs must be between 1 and {count(1_000_000)}."),
    ("epochs", "many", "Epochs must be a whole number, not text."),
    ("epochs", "", "Epochs is missing."),
    ("batch_size", "-4", f"Batch size must be between 1 and {count(10_000_000)}."),
    (
        "batch_size",
        "600",
        ("One step takes 600 samples, but the dataset has 512; choose 512 or less."),
    ),
    ("gradient_norm", "0", "Gradient norm limit must be above 0."),
    ("optimizer.lr", "0", "Learning rate must be above 0."),
    ("optimizer.lr", "fast", "Learning rate must be a number, not text."),
    ("optimizer.momentum", "1", "Momentum must be 0 or more and below 1."),
    ("optimizer.weight_decay", "-1", "Weight decay must be 0 or more."),
    ("schedule.warmup_epochs", "-1", "Warm-up must be 0 or more."),
    ("checkpoint.every_epochs", "0", "Checkpoint every must be 1 or more."),
    ("checkpoint.keep_latest", "0", "Keep latest must be 1 or more."),
    ("early_stop.patience_epochs", "0", "Stop early after must be 1 or more."),
    (
        "seed",
        "-1",
        f"Seed must be between 0 and {count(2**63 - 1)}.",
    ),
    ("loader_workers", "1000", "Loader workers must be between 0 and 256."),
    ("stall_limit_s", "1", "Stall limit must be 5 or more."),
]
LOADED_ERRORS = [
    ("model", {"model": "gone"}, "There is no model “gone”"),
    ("dataset", {"dataset": "tiny@7"}, "tiny@7"),
    ("loader", {"loader": "gone@1"}, "There is no loader “gone"),
    ("validation_dataset", {"validation_dataset": "gone"}, "There is no dataset “gone”"),
    ("optimizer.name", {"optimizer": {**SGD, "name": "lion"}}, "Optimizer must be one of sgd,"),
    (
        "optimizer.nesterov",
        {"optimizer": {**SGD, "nesterov": True}},
        "Nesterov needs momentum above 0 and no dampening.",
    ),
    (
        "strategy.n_push",
        {
            "strategy": {"name": "downpour", "n_push": 0},
            "placement": [{"node": LOCAL_NODE, "processes": 2}],
        },
        "Push every must be 1 or more.",
    ),
    (
        "strategy.servers",
        {"strategy": {"name": "downpour"}},
        "Servers must be fewer than the processes, so that one trains; the job has 1.",
    ),
    (
        "strategy.policy",
        {
            "strategy": {"name": "dc-asgd", "policy": "quorum"},
            "placement": [{"node": LOCAL_NODE, "processes": 3}],
        },
        "A quorum of 75 % needs 4 workers or more; it has 2.",
    ),
    (
        "strategy.lambda",
        {
            "strategy": {"name": "dc-asgd", "lambda": -1.0},
            "placement": [{"node": LOCAL_NODE, "processes": 2}],
        },
        "Lambda must be 0 or more.",
    ),
    (
        "batch_size",
        {
            "strategy": {"name": "downpour"},
            "batch_size": 300,
            "placement": [{"node": LOCAL_NODE, "processes": 3}],
        },
        "One batch of each worker takes 2 × 300 samples, but the dataset has 512; choose 256 or",
    ),
    (
        "precision",
        {"precision": "float16"},
        "Precision “tf32” and “float16” need GPUs; the job runs on CPUs.",
    ),
    (
        "start_from_except",
        {"start_from_except": ["fc."]},
        "Start new layers needs weights to start from (start_from).",
    ),
]
PLACEMENT_ERRORS = [
    ([], "Choose where to run: a node or some of its GPUs."),
    ([{"node": "gone", "processes": 1}], "There is no node “gone”"),
    ([{"node": LOCAL_NODE, "processes": 60}], "processes at most"),
    ([{"node": LOCAL_NODE, "gpus": ["GPU-gone"]}], "has no GPU “GPU-gone”"),
]


@pytest.fixture(scope="module")
def page(qapp):
    """No test uses it, except as the page that the controller knows."""
    page = JobsPage()
    yield page
    shiboken6.delete(page)


@pytest.fixture
def form(qtbot, services, immediately, monkeypatch, page):
    """The form over a real data root, whose dataset was counted before."""
    monkeypatch.setattr(DataSizeCounter, "cached_size", lambda *_: DataSize(512, 64))
    form = add_widget(qtbot, JobForm())
    starts = SimpleNamespace(start=lambda request: pytest.fail("a job with a fault was started"))
    form.controller = FormController(services, immediately, starts, page, form, form)
    form.resize(1200, 800)
    form.show()
    form.show_nodes(services.nodes.list())
    return form


def errors_of(form):
    """What is said after the check; nothing else was said."""
    finish_timers(form)
    assert not start_buttons(form).start.isEnabled()
    assert not start_buttons(form).queue.isEnabled()
    assert not find_button(form, "Save draft").isEnabled()
    assert (
        start_buttons(form).start.text()
        == find_only(FormFoot, form).start_buttons.start.text()
        == "1 problem to fix"
    )
    press_start(form)
    find_only(FormFoot, form).start_buttons.start.click()
    at_fault = {path: f.error() for path, f in all_fields(form).items() if f.error()}
    placement_error = find_only(ErrorLine, find_only(PlacementPicker, form)).text()
    return at_fault | ({"placement": placement_error} if placement_error else {})


def is_one_sentence(text):
    return text.count(". ") == 0 and text.endswith(".") and "\n" not in text


def test_faults_of_every_part_are_shown_at_once(form, services):
    """What the file says by itself keeps nothing back that the library or the nodes know."""
    missing_parts = {"dataset": "gone", "start_from": "gone/best"}
    placement = [{"node": "gone", "processes": 1}]
    form.show_draft(JobDraft(raw_job(1, epochs=0, placement=placement, **missing_parts)))
    finish_timers(form)
    invalid_paths = {path for path, field in all_fields(form).items() if field.error()}
    assert invalid_paths == {"epochs", "dataset", "start_from"}
    assert (
        find_only(ErrorLine, find_only(PlacementPicker, form))
        .text()
        .startswith("There is no node “gone”")
    )
    form.show_draft(JobDraft(raw_job(1, epochs=0, batch_size=600)))
    finish_timers(form)
    invalid_paths = {path for path, field in all_fields(form).items() if field.error()}
    assert invalid_paths == {"epochs", "batch_size"}, "the size of the dataset waits for no other"


def test_the_items_are_counted_although_something_else_is_wrong(form, services, monkeypatch):
    polled = []
    monkeypatch.setattr(DataSizeCounter, "cached_size", lambda *_: None)
    monkeypatch.setattr(services.jobs, "count_items", lambda raw: polled.append(raw["dataset"]))
    form.show_draft(JobDraft(raw_job(1, epochs=0)))
    finish_timers(form)
    assert polled == ["tiny"]


def test_a_job_without_faults_may_start(form):
    form.show_draft(JobDraft(raw_job(1)))
    finish_timers(form)
    assert start_buttons(form).start.text() == "Start on 1 process"
    assert start_buttons(form).start.isEnabled()


def test_the_settings_determine_servers_and_batches(form):
    placement = [{"node": LOCAL_NODE, "processes": 3}]
    strategy = {"name": "downpour", "n_push": 2}
    form.show_draft(JobDraft(raw_job(1, batch_size=32, placement=placement, strategy=strategy)))
    finish_timers(form)
    check = form._check
    assert (check.workers, check.servers) == (2, 1)
    assert (check.global_batch, check.steps_per_epoch) == (64, 8)


@pytest.mark.parametrize(("path", "text", "message"), TYPED_ERRORS)
def test_m2_a_typed_fault_is_shown_at_its_field(form, path, text, message):
    form.show_draft(JobDraft(raw_job(1)))
    control = setting_field(form, path).control
    assert isinstance(control, LineEdit)
    control.setText(text)
    assert errors_of(form) == {path: message}
    assert is_one_sentence(message)
    assert setting_field(form, path).control.property("bad") == "true"
    assert job_fields(form).first_invalid_control() is control


@pytest.mark.parametrize(
    ("path", "settings"),
    [e[:2] for e in LOADED_ERRORS if e[0].startswith(("strategy", "batch_size"))],
)
@pytest.mark.usefixtures("form")
def test_a_job_file_of_a_strategy_at_fault_creates_nothing(services, path, settings):
    with pytest.raises(BackendError) as caught:
        services.jobs.create(raw_job(1, **settings))
    assert str(caught.value).startswith(f"{path}: ")
    assert is_one_sentence(str(caught.value))
    assert list(services.jobs.queries.list()) == []


@pytest.mark.parametrize(
    ("path", "settings", "message"), LOADED_ERRORS, ids=[e[0] for e in LOADED_ERRORS]
)
def test_m2_a_loaded_fault_is_shown_at_its_field(form, path, settings, message):
    form.show_draft(JobDraft(raw_job(1, **settings)))
    (error,) = errors_of(form).items()
    assert error[0] == path
    assert message in error[1]
    assert is_one_sentence(error[1])


@pytest.mark.parametrize(
    ("placement", "message"), PLACEMENT_ERRORS, ids=["none", "gone", "many", "gpu"]
)
def test_m2_an_unusable_placement_is_shown_at_the_nodes(form, placement, message):
    form.show_draft(JobDraft(raw_job(1, placement=placement)))
    errors = errors_of(form)
    assert set(errors) == {"placement"}
    assert message in errors["placement"]
    assert is_one_sentence(errors["placement"])


def test_m2_a_fault_without_a_field_is_shown_among_the_checks(form):
    form.show_draft(JobDraft(raw_job(1, environment={"A B": "1"})))
    assert errors_of(form) == {}
    label_text = side_of(form).findings.itemAt(0).layout().itemAt(1).widget().text()
    assert label_text.startswith("Environment variable “A B”: names have ")


def test_all_faults_are_counted_and_the_first_is_jumped_to(form):
    form.show_draft(JobDraft(raw_job(1, epochs=0, seed=-1)))
    finish_timers(form)
    assert start_buttons(form).start.text() == "2 problems to fix"
    assert job_fields(form).first_invalid_control() is setting_field(form, "epochs").control
