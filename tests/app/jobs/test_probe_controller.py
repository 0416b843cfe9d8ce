"""New job measures its job before it exists: the search for the rate, and the needs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from app.jobs.probe_controller import ProbeController
from backend.base.errors import BackendError
from backend.records.jobs.plan import BatchFit, JobPlan, MemoryPlan, NodesPlan
from backend.records.jobs.rate_search import RateSearch, RateStep
from backend.records.jobs.view import JobCheck
from backend.records.sweeps.values import parse_axis
from tests.integration.tiny import raw_job
from tests.windows import find_button, find_only, setting_field, shows_text
from widgets.common.dialog import TaskStatus
from widgets.common.fields import ComboBox
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.form_side import FormSide
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm

RATES = [10.0 ** (n / 10 - 6) for n in range(60)]
STEPS = tuple(
    RateStep(rate, loss + 0.05 * (-1) ** n, loss)
    for n, rate in enumerate(RATES)
    for loss in [2.0 - 1.5 * math.exp(-((math.log10(rate) + 1) ** 2))]
)
MEMORY = MemoryPlan(100 << 20, 100 << 20, 200 << 20, 600 << 20, 300 << 20, 2 << 30)
BY_NODES = (NodesPlan(1, 64, 900, 0.2, 0, 180.0), NodesPlan(2, 128, 450, 1.0, 100_000_000, 450.0))
PLAN = JobPlan("gpu1", MEMORY, 64, None, 0.2, 40, 12.0, by_nodes=BY_NODES, checkpoint_bytes=10**6)


class Jobs:
    """Answers, or refuses."""

    def __init__(self):
        self.raws, self.error, self.search = [], None, RateSearch(STEPS, 0.01)
        self.on_progress = lambda: None
        self.job_plan = PLAN

    def plan(self, raw, *, progress):
        self.find_rate(raw, progress)
        return self.job_plan

    def find_rate(self, raw, progress):
        self.raws.append(raw)
        progress.step(1, 2, "Training…")
        self.on_progress()
        progress.step(2, 2, "Training…")
        if self.error is not None:
            raise self.error
        return self.search


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def form(qtbot, jobs, immediately):
    form = JobForm()
    qtbot.addWidget(form)
    form.controller = ProbeController(
        SimpleNamespace(jobs=jobs, planner=jobs), immediately, form, form
    )
    form.resize(1200, 800)
    form.show()
    form.show_draft(JobDraft(raw_job(1)))
    form.show_check(JobCheck(global_batch=16))
    yield form
    if (dialog := form.controller.dialog) is not None:
        dialog.reject()


def search(form):
    find_only(FormSections, form).rate_button.click()
    return form.controller.dialog


def message(dialog):
    return find_only(TaskStatus, dialog).message.text()


def test_the_proposal_of_a_search_goes_into_the_form(form, jobs):
    dialog = search(form)
    assert jobs.raws == [form.draft().raw], "the form's own settings are tried"
    assert message(dialog) == "Proposal: 0.01, a tenth of the rate with the lowest loss."
    find_button(dialog, "Use 0.01").click()
    assert form.draft().raw["optimizer"]["lr"] == 0.01
    assert form.controller.dialog is None


@pytest.mark.parametrize("width", [800, 1200])
def test_one_button_starts_a_search(form, width):
    form.resize(width, 800)
    buttons = [find_only(part, form).rate_button for part in (FormSections, FormSide)]
    assert [button.isVisible() for button in buttons].count(True) == 1


def test_the_proposal_replaces_the_values_of_a_sweep(form):
    form.show_draft(JobDraft(raw_job(1), (parse_axis("optimizer.lr", "0.1, 0.2"),)))
    form.show_check(JobCheck(global_batch=16))
    find_button(search(form), "Use 0.01").click()
    assert form.draft().axes == ()
    assert setting_field(form, "optimizer.lr").control.text() == "0.01"


def test_without_a_falling_loss_there_is_nothing_to_use(form, jobs):
    jobs.search = RateSearch(STEPS)
    dialog = search(form)
    assert message(dialog).startswith("The loss did not fall at any rate;")
    assert not find_button(dialog, "Use it").isEnabled()


def test_an_error_of_the_users_code_is_shown_in_the_dialog(form, jobs):
    jobs.error = BackendError("The loader's training raised OSError.", "Check line 9.")
    dialog = search(form)
    assert message(dialog) == "The loader's training raised OSError. Check line 9."


def test_closing_the_dialog_cancels_the_search(form, jobs):
    jobs.on_progress = lambda: form.controller.dialog.reject()
    find_only(FormSections, form).rate_button.click()
    assert form.controller.dialog is None
    assert form.draft().raw["optimizer"]["lr"] == raw_job(1)["optimizer"]["lr"]


def test_cancelling_keeps_the_dialog_and_says_so(form, jobs):
    jobs.on_progress = lambda: find_button(form.controller.dialog, "Cancel").click()
    dialog = search(form)
    assert message(dialog) == "Cancelled."


def test_a_job_with_errors_is_not_searched(form):
    form.show_check(JobCheck())
    assert not find_only(FormSections, form).rate_button.isEnabled()


def plan(form):
    find_button(form, "Plan…").click()
    return form.controller.dialog


def test_the_needs_of_the_job_are_shown_for_each_number_of_nodes(form, jobs):
    dialog = plan(form)
    assert jobs.raws == [form.draft().raw]
    for text in ("1.3 GiB", "2.0 GiB", "3 min", "7 min 30 s", "1.0 s, sends 100 MB"):
        assert shows_text(dialog, text), text
    assert not shows_text(dialog, "Energy"), "it is not known on CPUs"


def test_a_faster_network_shortens_only_what_is_sent(form):
    dialog = plan(form)
    find_only(ComboBox, dialog).choose("10000")
    assert shows_text(dialog, "280 ms, sends 100 MB")
    assert shows_text(dialog, "3 min")
    assert not shows_text(dialog, "7 min 30 s")


@pytest.mark.parametrize(
    ("button", "settings"),
    [("Batch 48", {"batch_size": 48}), ("2 × 32", {"batch_size": 32, "accumulate": 2})],
)
def test_a_batch_that_fits_is_one_press_away(form, jobs, button, settings):
    jobs.job_plan = JobPlan("gpu1", MEMORY, 64, BatchFit(48, 32, 2, 2))
    dialog = plan(form)
    message = "Batch 64 does not fit into 2.0 GiB; 48 does, or 32 in 2 passes of a step."
    assert shows_text(dialog, message)
    find_button(dialog, button).click()
    raw = form.draft().raw
    assert {key: raw[key] for key in settings} == settings
    assert form.controller.dialog is None
