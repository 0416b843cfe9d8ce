"""What happened: the curve in which the cause is seen, and the way to it in order of time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication, QBoxLayout
from pytestqt.qtbot import QtBot

from backend.records.base.timestamps import instant
from backend.records.jobs.history import HistoryUpdate
from backend.records.jobs.status import DIVERGED, NOT_A_NUMBER, Alarm
from backend.records.jobs.view import RunUpdate
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.windows import find_only, open_tab, shows_text, visible_texts
from widgets.common import formats
from widgets.common.fields import Slider
from widgets.common.theme_manager import ThemeManager, unstyled
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.failure.failure_causes import cause_curves
from widgets.nodes.history.node_history import NodeHistory
from widgets.plots.annotations import AxisSpan
from widgets.plots.curve_data import XAxis

FAILED = lab.FAILED
END_S = lab._end_s(FAILED)
NODES = lab.nodes()


@pytest.fixture
def detail(qtbot: QtBot, qapp: QApplication, theme_manager: ThemeManager) -> JobDetail:
    with unstyled(qapp):
        detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.resize(1000, 900)
    detail.show()
    detail.show_nodes(NODES)
    return detail


def node_histories() -> dict[str, NodeHistory]:
    history = NodeHistory()
    history.set_agent_history(lab.full_memory())
    return {"gpu03": history}


def update_with_metric(name: str) -> RunUpdate:
    """The lab's run, which measured one thing more."""
    update = lab.history(FAILED)
    old = update.history
    metrics = {**old.metrics, name: old.metrics["loss"]}
    return RunUpdate(FAILED, HistoryUpdate(old.steps, old.epochs, old.seconds, metrics, (), 0,
                                           started_s=old.started_s))  # fmt: skip


def test_a_full_gpu_is_shown_with_its_memory_up_to_the_end(detail: JobDetail) -> None:
    detail.open_job(FAILED)
    detail.show_update(lab.history(FAILED))
    detail.show_node_histories(node_histories(), {}, lab.NOW)
    plots = detail.failure.plots
    assert "Memory of GPU 3 on gpu03, GiB" in visible_texts(plots)
    assert plots.cause is not None
    assert plots.loss is not None
    assert plots.cause.axis is XAxis.CLOCK
    assert len(plots.cause.curves) == 8
    assert [(marker.x, marker.text) for marker in plots.cause.marks.vertical_markers] == [
        (END_S, "failed here")
    ]
    assert [threshold.text for threshold in plots.cause.marks.thresholds] == [
        f"full at 80{formats.GAP}GiB"
    ]
    rows, _ = plots.cause.readout(END_S - 10)
    assert [name for name, _ in rows] == ["GPU 3"]
    assert float(rows[0][1].split(formats.GAP)[0]) > 75
    assert [marker.x for marker in plots.loss.marks.vertical_markers] == [FAILED.step]


def test_the_loss_stands_alone_without_a_history_of_the_node(detail: JobDetail) -> None:
    detail.open_job(FAILED)
    detail.show_update(lab.history(FAILED))
    plots = detail.failure.plots
    assert plots.cause is None
    assert plots.loss is not None


def test_the_loss_of_a_long_run_is_shown_up_to_its_failure(detail: JobDetail, qtbot: QtBot) -> None:
    view = replace_fields(FAILED, step=12_000)
    old = lab.history(FAILED).history
    loss = np.where(np.arange(view.step) < 10_000, 1.0, -5.0)
    history = HistoryUpdate(
        np.arange(1, view.step + 1), np.resize(old.epochs, view.step),
        np.resize(old.seconds, view.step), {"loss": loss}, (), 0, started_s=old.started_s,
    )  # fmt: skip
    detail.open_job(view)
    detail.show_update(RunUpdate(view, history))
    plots = detail.failure.plots
    qtbot.waitUntil(lambda: plots.loss is not None and plots.loss.y_range()[0] < -4)


def test_a_run_that_failed_before_its_first_step_has_no_plot(detail: JobDetail) -> None:
    detail.open_job(FAILED)
    detail.show_update(lab.history(FAILED))
    detail.open_job(replace_fields(FAILED, step=0, id="other"))
    plots = detail.failure.plots
    assert plots.cause is None
    assert plots.loss is None
    assert [event.message for event in detail.failure.events.shown_events] == [
        "Run 1 began",
        "Rank 3 raised OutOfMemoryError",
    ]


def test_a_loss_that_ran_away_is_shown_from_before_it_did(detail: JobDetail) -> None:
    rises = Alarm(DIVERGED, FAILED.step - 300, "The loss is 2.31, 4.2 times its best.")
    alarm = Alarm(NOT_A_NUMBER, FAILED.step, "The loss of rank 1 is not a number.")
    detail.open_job(replace_fields(FAILED, alarms=(rises, alarm)))
    detail.show_update(replace(lab.history(FAILED), view=detail._view))
    panel = detail.failure.plots.cause
    assert panel is not None
    assert shows_text(detail.failure.plots, "Loss since step 7")
    assert panel.x_range()[0] == FAILED.step - 600
    assert [(marker.x, marker.text) for marker in panel.marks.vertical_markers] == [
        (FAILED.step - 300, "diverges"),
        (FAILED.step, "not a number"),
    ]


@pytest.mark.parametrize("first", [1, 9, 150, 200])
def test_a_loss_shown_from_its_first_step_is_shown_once(detail: JobDetail, first: int) -> None:
    view = replace_fields(FAILED, step=first, alarms=(Alarm(NOT_A_NUMBER, first, "NaN."),))
    detail.open_job(view)
    detail.show_update(replace(lab.history(FAILED), view=view))
    plots = detail.failure.plots
    assert (plots.cause, plots.loss is not None) == (None, True)


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_card_never_stands_without_its_plot(detail: JobDetail, is_asked: bool) -> None:
    view = (
        replace_fields(FAILED, alarms=(Alarm(NOT_A_NUMBER, FAILED.step, "NaN."),))
        if is_asked
        else FAILED
    )
    detail.open_job(view)
    detail.show_update(replace(lab.history(FAILED), view=view))
    plots = detail.failure.plots
    for card, panel in ((plots._cause_card, plots._cause), (plots._loss_card, plots._loss)):
        if not card.isHidden():
            assert panel is not None
            assert panel.isVisible(), "also before the next turn of the event loop"


@pytest.mark.parametrize(
    ("loss", "last"),
    [
        ([1.0] * 8 + [math.nan], 8),
        ([1.0] * 8 + [math.inf], 8),
        ([1.0] * 9, 9),
        ([1.0, math.nan, 1.0, math.nan, math.nan], 3),
        ([1.0], 1),
        ([math.nan] * 3, None),
    ],
)
def test_the_last_step_with_a_loss_has_a_finite_loss(
    detail: JobDetail, loss: list[float], last: int | None
) -> None:
    steps = list(range(1, len(loss) + 1))
    history = HistoryUpdate(
        steps, [1] * len(steps), [float(step) for step in steps], {"loss": loss}, (), 0,
        started_s=instant(FAILED.status.started_at).timestamp(),
    )  # fmt: skip
    detail.open_job(FAILED)
    detail.show_update(RunUpdate(FAILED, history))
    step_events = [
        event.message
        for event in detail.failure.events.shown_events
        if "with a loss" in event.message
    ]
    assert step_events == ([] if last is None else [f"Last step with a loss: {last}"])


def test_a_recorded_gradient_norm_is_shown_in_place_of_the_loss(detail: JobDetail) -> None:
    view = replace_fields(FAILED, alarms=(Alarm(NOT_A_NUMBER, FAILED.step, "No number."),))
    detail.open_job(view)
    detail.show_update(replace(update_with_metric("gradient_norm"), view=view))
    assert shows_text(detail.failure.plots, "Gradient norm since step")


@pytest.mark.parametrize("node", ["gpu03", "gpu04"])
def test_curves_of_another_node_are_not_taken_for_the_one_that_failed(node: str) -> None:
    histories = {node: node_histories()["gpu03"]}
    states = {state.name: state for state in NODES}
    curves = cause_curves(FAILED, JobDetail(JobActions()).curves.run_curves, states, histories)
    assert (curves is not None) == (node == "gpu03")


def test_events_stand_in_order_of_time_from_the_start_to_the_end(detail: JobDetail) -> None:
    rises = Alarm(DIVERGED, 4_000, "The loss is 2.31.")
    view = replace_fields(FAILED, alarms=(rises,))
    detail.open_job(view)
    detail.show_update(replace(lab.history(FAILED), view=view))
    detail.show_checkpoints(view.id, lab.checkpoints(view))
    events = detail.failure.events.shown_events
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)
    message = [event.message for event in events]
    assert message[0] == "Run 1 began"
    assert f"Step {formats.count(4000)}: The loss is 2.31." in message
    assert f"Checkpoint saved: epoch 19, step {formats.count(7410)}" in message
    assert message[-1] == "Rank 3 raised OutOfMemoryError"
    assert events[-1].time_s == END_S


def test_a_run_of_another_job_leaves_nothing_behind(detail: JobDetail) -> None:
    detail.open_job(FAILED)
    detail.show_update(lab.history(FAILED))
    detail.show_node_histories(node_histories(), {}, lab.NOW)
    detail.show_checkpoints(FAILED.id, lab.checkpoints(FAILED))
    detail.open_job(lab.LOST_JOB)
    assert detail.failure.plots.cause is None
    assert detail.failure.plots.loss is None
    assert [event.message for event in detail.failure.events.shown_events] == [
        "Run 1 began",
        "The run stopped reporting",
    ]


def test_in_a_narrow_window_plots_and_events_stand_below_each_other(
    detail: JobDetail, qtbot: QtBot
) -> None:
    detail.open_job(FAILED)
    detail.show_update(lab.history(FAILED))
    failure = detail.failure
    assert failure._columns.direction() is QBoxLayout.Direction.LeftToRight
    detail.resize(560, 900)
    qtbot.waitUntil(lambda: failure._columns.direction() is QBoxLayout.Direction.TopToBottom)
    assert failure.plots._box.direction() is QBoxLayout.Direction.TopToBottom


def test_in_a_tall_window_the_curves_have_the_room_and_events_no_more_than_they_need(
    detail: JobDetail, qtbot: QtBot
) -> None:
    detail.resize(1400, 1300)
    detail.open_job(FAILED)
    detail.show_update(lab.history(FAILED))
    failure = detail.failure
    qtbot.waitUntil(lambda: failure.plots.loss is not None and failure.plots.loss.height() > 300)
    events = failure.events
    qtbot.waitUntil(lambda: events.height() == events.heightForWidth(events.width()))
    assert failure._evidence_card.x() == events.x(), "what the log says stands below them"
    assert failure._right_side.x() > events.geometry().right()
    assert failure._traceback_card.isVisible()
    detail.open_job(lab.UNKNOWN)
    assert not failure._traceback_card.isVisible()
    assert failure._evidence_card.parentWidget() is failure._right_side
    detail.open_job(lab.LOST_JOB)
    qtbot.waitUntil(lambda: events.width() == failure.plots.width())
    assert not failure._right_side.isVisible()


def test_the_curves_keep_their_smoothing_when_the_failure_shows_the_loss(
    detail: JobDetail,
) -> None:
    detail.open_job(FAILED)
    find_only(Slider, detail.curves).set_share(0.9)
    detail.show_update(lab.history(FAILED))
    data = detail.curves.curve("loss")
    assert data is not None
    assert data.smoothing == 0.9
    open_tab(detail, "curves")
    find_only(Slider, detail.curves).set_share(0.3)
    open_tab(detail, "failure")
    assert data.smoothing == 0.3


def test_an_unhealthy_gpu_is_an_event_of_its_own_job_only(detail: JobDetail) -> None:
    detail.open_job(FAILED)
    message = "gpu03 GPU 3 slowed by heat"
    detail.failure.show_nodes({}, {}, [AxisSpan(END_S - 60, END_S - 30, "warn", message)])
    assert [event.message for event in detail.failure.events.shown_events].count(message) == 1
    detail.open_job(replace(FAILED, id="other"))
    assert message not in [event.message for event in detail.failure.events.shown_events]
