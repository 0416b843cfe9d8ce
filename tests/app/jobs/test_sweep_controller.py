"""S10 from the form to the best row: several values become named jobs in the queue, and Compare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.jobs.sweep_controller import SweepController
from backend.records.jobs.comparison import ComparedUpdate, RunFigures
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.state import JobState
from tests.backend.services.sweeps.test_sweep_service import (
    BATCH,
    RATE,
    SIX,
    paths,
    services,
    waiting_names,
)
from tests.integration.tiny import raw_job
from tests.job_views import replace_fields
from tests.windows import setting_field, show_widget, side_of, start_buttons
from widgets.compare.compare_page import ComparePage
from widgets.jobs.form.job_fields import JobDraft
from widgets.jobs.form.job_form import JobForm

__all__ = ["paths", "services"]


@pytest.fixture
def form(qtbot):
    return show_widget(qtbot, JobForm())


@pytest.fixture
def controller(services, form, immediately):
    controller = SweepController(services.sweeps, immediately, form)
    controller.notifications = immediately.notifications
    return controller


DRAFT = JobDraft(raw_job(1), (BATCH, RATE))


def test_s10_a_grid_in_the_form_is_checked_queued_and_its_best_row_is_marked(
    controller, form, services, qtbot
):
    form.show_check(controller.check(DRAFT))
    with qtbot.waitSignal(controller.sweep_queued) as signal:
        controller.queue(DRAFT)
    assert controller.notifications == ["Queued 6 jobs"]
    assert waiting_names(services) == SIX
    assert start_buttons(form).start.text() != "Checking…"

    # They have trained, and their checkpoints say how well.
    accuracies = dict(zip(SIX, (0.71, 0.93, 0.80, 0.70, 0.90, 0.78), strict=True))
    jobs = tuple(
        replace_fields(
            view,
            state=JobState.FINISHED,
            best_metric=("validation/loss", 1 - accuracies[view.name]),
        )
        for view in services.jobs.queries.list()
        if view.id in {j.id for j in signal.args[0].jobs}
    )
    page = show_widget(qtbot, ComparePage())
    page.set_jobs((jobs[0].id,))
    page.show_update(ComparedUpdate(jobs[0], HistoryUpdate(drop_from=0), RunFigures()))
    page.show_siblings(jobs)
    rows = page.parallel._model
    assert rows.rowCount() == 6
    assert [line.name for line in rows.rows if line.is_best] == ["tiny batch=8 lr=0.03"]
    assert rows.data(rows.index(0, 0)) == "tiny batch=8 lr=0.03"
    assert rows.data(rows.index(0, 3)).endswith("best")


def test_an_invalid_value_is_an_error_at_its_field(controller, form):
    batch = replace(BATCH, values=(8, 0))
    form.show_draft(JobDraft(raw_job(1), (batch,)))
    form.show_check(controller.check(form.draft()))
    assert setting_field(form, "batch_size").error().startswith("Batch size “0” must be between 1")


def test_a_sweep_cancelled_halfway_is_reported_and_undone_by_a_click(
    controller, form, services, immediately, monkeypatch, qtbot
):
    create = services.jobs.create

    def create_three(raw, progress=None):
        if len(services.jobs.queries.list()) == 2:
            controller.cancel()
        return create(raw, progress)

    monkeypatch.setattr(services.jobs, "create", create_three)
    controller.queue(DRAFT)
    (message,) = controller.notifications
    assert message == "Cancelled: 3 of 6 jobs were made, 0 of them are queued."
    assert side_of(form).refusal.text() == message
    assert len(services.jobs.queries.list()) == 3
    with qtbot.waitSignal(controller.sweep_removed):
        start_buttons(form).cancel.click()
    assert services.jobs.queries.list() == ()
    assert controller.notifications[-1] == "Moved 3 jobs to the trash"
    assert not start_buttons(form).cancel.isVisible()
