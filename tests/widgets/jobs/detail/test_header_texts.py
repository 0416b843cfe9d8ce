"""What the head of a job says in figures is true now, and stays true."""

from dataclasses import replace
from datetime import datetime

import pytest
from PySide6.QtCore import Qt

from backend.datastore.jobs.files import JobFile, view_of
from backend.records.base.timestamps import instant
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import GROWN, Continuation, RunStatus
from backend.records.jobs.summary import summary_of
from backend.records.queue.entry import Cause, QueuedJob, QueueEntry, WaitReason
from backend.records.slurm.placement import SlurmPlacement
from tests.job_views import replace_fields
from tests.widgets.jobs.curves.test_curves_tab import small_plots
from tests.widgets.jobs.detail.test_job_detail import CONFIG, FAILED, LIVE, checkpoint, update
from tests.windows import find_only, visible_texts
from widgets.common import formats
from widgets.common.key_value_row import KeyValueRow
from widgets.jobs.actions.job_actions import JobActions, JobSubject, action_for_state
from widgets.jobs.curves.curves_tab import CurvesTab
from widgets.jobs.detail.header_texts import header_figures, run_details, stop_cost_message
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.warning import ReplayComparison, job_finding
from widgets.jobs.failure.failure_tab import FailureTab
from widgets.jobs.list.job_columns import CELL_ROLES, JobColumn

RESUMED = replace_fields(
    LIVE,
    state=JobState.FINISHED,
    run=3,
    started_at="2026-11-21T08:01:00Z",
    updated_at="2026-11-21T08:02:00Z",
    earlier_s=120.0,
)


def figures(view):
    return {figure.caption: figure.value for figure in header_figures(view)}


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.STOPPING])
def test_the_time_of_the_newest_checkpoint_stays_true_without_an_update(state):
    if state is JobState.CREATED:
        return
    # Of another year: written alike before midnight and after it.
    newest = replace(checkpoint(20), created="2020-11-20T07:30:00Z")
    costs = stop_cost_message(replace_fields(LIVE, state=state), (checkpoint(10), newest))
    saved_time = formats.time_with_day(instant(newest.created), datetime.now().astimezone())
    assert f"Newest checkpoint: epoch 2, {saved_time}." in costs


def test_a_job_took_as_long_as_all_its_runs():
    assert figures(RESUMED)["Took in total"] == formats.duration(180)
    assert figures(replace_fields(RESUMED, earlier_s=0.0))["Took"] == formats.duration(60)
    assert summary_of(RESUMED).took_s(0.0) == 180.0


@pytest.mark.parametrize("state", [state for state in JobState if not state.is_live])
def test_a_job_shows_its_duration_whatever_it_waits_for(state):
    view = replace_fields(RESUMED, state=state)
    assert figures(view)["Took in total"] == formats.duration(180)
    assert summary_of(view).took_s(0.0) == 180.0
    assert view.to_json()["ended"] == "2026-11-21T08:02:00Z"
    assert state.label.casefold() in summary_of(view).text


def test_the_start_is_said_to_be_that_of_the_newest_run():
    assert " · run 3 started " in run_details(RESUMED)
    assert " · started " in run_details(replace_fields(RESUMED, run=1))


def test_a_job_that_lost_a_node_says_how_many_it_has_and_why():
    placement = (Placement("gpu01", 1), Placement("gpu03", 1))
    reason = "gpu02 no longer answers. Continues on gpu01 and gpu03, without gpu02."
    continuation = Continuation(
        reason, "2026-11-28T03:12:00Z", chosen_nodes=("a", "b", "c"), placement=placement
    )
    view = replace_fields(RESUMED, continuation=continuation, state=JobState.TRAINING)
    assert " · 2 of 3 nodes since " in run_details(view)
    finding = job_finding(view, ("", ""), "", None, ReplayComparison())
    assert finding is not None
    assert (finding.family, finding.message) == ("warn", reason)
    all_back = replace(continuation, chosen_nodes=("gpu01", "gpu03"))
    assert "nodes since" not in run_details(replace_fields(view, continuation=all_back))
    grown = replace_fields(view, continuation=replace(all_back, cause=GROWN))
    assert " · 2 of 2 nodes since " in run_details(grown)
    finding = job_finding(grown, ("", ""), "", None, ReplayComparison())
    assert finding is not None
    assert finding.family == "idle"


def test_a_queued_job_says_why_the_program_queued_it():
    entry = QueueEntry("a", "a", 2, (Placement("n", 1),), "m", reason="gpu02 was lost.")
    queued_job = QueuedJob(entry, 1, WaitReason(Cause.NODE_DOWN, "gpu02 is offline."))
    view = replace_fields(RESUMED, state=JobState.QUEUED)
    finding = job_finding(view, ("", ""), "", queued_job, ReplayComparison())
    assert finding is not None
    assert finding.details == "gpu02 was lost. gpu02 is offline."
    tip = CELL_ROLES[Qt.ItemDataRole.ToolTipRole]
    assert tip(summary_of(RESUMED), JobColumn.STARTED, None).startswith("Run 3: ")
    assert not tip(summary_of(replace_fields(RESUMED, run=1)), JobColumn.STARTED, None).startswith(
        "Run"
    )


def test_a_job_that_waits_for_a_scheduler_says_why_and_where_and_is_not_started_by_hand():
    allocation = SlurmPlacement("hpc", 2, gpus=4)
    config = replace(CONFIG, placement=allocation.placements(), allocation=allocation)
    reason = "Waits in Slurm's queue. It waits for nodes or GPUs to become free."
    for state in (JobState.QUEUED, JobState.PAUSED):
        view = replace_fields(replace(LIVE, config=config), state=state, message=reason)
        finding = job_finding(view, ("", ""), "", None, ReplayComparison())
        assert finding is not None
        assert finding.message == reason
        assert run_details(view).startswith("8 GPUs on hpc")
        for subject in (JobSubject(view), JobSubject(summary_of(view))):
            assert not action_for_state(subject).is_enabled(subject)
        own_subject = JobSubject(summary_of(replace_fields(LIVE, state=state)))
        assert action_for_state(own_subject).is_enabled(own_subject)


@pytest.mark.parametrize("step", [0, 40])
def test_an_unknown_number_of_steps_is_not_shown(step, qtbot):
    unknown = {"step": step, "total_steps": 0}
    step_text = "40" if step else "–"
    assert figures(replace_fields(LIVE, **unknown))["Step"] == step_text
    tab = FailureTab(JobActions(), CurvesTab(JobActions()).run_curves)
    qtbot.addWidget(tab)
    tab.show_view(replace_fields(FAILED, **unknown))
    assert {f.caption: f.value for f in find_only(KeyValueRow, tab).items}["At step"] == step_text


def test_a_stopping_job_shows_no_time_left():
    file = JobFile("a", CONFIG, {}, "", "", "a", "", ())
    for state, is_known in ((JobState.TRAINING, True), (JobState.STOPPING, False)):
        view = view_of(file, RunStatus(state, run=1, eta_s=60.0))
        assert {"Ready at", "Left"} & set(figures(view)) == (
            {"Ready at", "Left"} if is_known else set()
        )
        assert (summary_of(view).eta_s is not None) is is_known


def test_after_starting_over_no_figure_of_the_old_runs_is_left(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(LIVE)
    for first in (1, 3):
        latest = update(LIVE, first, [0.5, 0.25], run=first)
        metrics = {**latest.history.metrics, "accuracy": [0.5, 0.75]}
        detail.show_update(
            replace(latest, history=replace(latest.history, metrics=metrics, started_s=1.0))
        )
    qtbot.waitUntil(lambda: "Accuracy" in small_plots(detail.curves))
    plot = small_plots(detail.curves)["Accuracy"]
    assert "0.750" in visible_texts(plot)
    curves = detail.curves.run_curves
    assert curves.run_starts()
    assert curves.started_s == 1.0
    restarted_update = update(
        replace_fields(LIVE, state=JobState.STARTING, run=4), 1, [], drop_from=0
    )
    detail.show_update(
        replace(
            restarted_update, history=replace(restarted_update.history, run_starts=(), metrics={})
        )
    )
    assert "–" in visible_texts(plot)
    assert (curves.run_starts(), curves.started_s) == ((), 0.0)


def test_a_file_of_a_script_that_names_no_step_is_named_itself():
    last = replace(checkpoint(0), name="last.pt")
    costs = stop_cost_message(replace_fields(LIVE, state=JobState.FINISHED), (last,))
    assert costs.startswith("Newest checkpoint: last.pt, ")
