"""The curves of the open job: what the run did stands on the axis, and everything can be taken."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QRect
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication

from backend.records.jobs.history import HistoryUpdate, RunStart
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import NOT_A_NUMBER, Alarm, Continuation
from tests.asks import expect_request, open_menu_entries
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import LIVE, checkpoint
from tests.windows import find_only, pick, visible_texts
from widgets.common import formats
from widgets.common.buttons import SegmentedControl
from widgets.common.fields import Slider
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.curves.curves_layout import LargePlot, SmallPlot
from widgets.jobs.curves.curves_tab import CurvesTab
from widgets.jobs.detail.job_detail import JobDetail
from widgets.plots.annotations import AxisSpan
from widgets.plots.curve_panel import CurvePanel
from widgets.plots.plot_view import PlotView
from widgets.plots.run_curves import metric_title

STEPS = list(range(1, 61))
RATES = [0.1] * 30 + [0.01] * 30
NAN = float("nan")


def small_plots(tab):
    """The small plots by their titles, in their order on the page."""
    plots = [plot for plot in tab.findChildren(SmallPlot) if plot.isVisibleTo(tab)]
    plots.sort(key=lambda plot: (plot.y(), plot.x()))
    return {plot.panel.title: plot for plot in plots}


@pytest.fixture
def tab(qtbot, theme_manager):
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    tab.resize(900, 700)
    tab.show()
    tab.clear("digits")
    tab.append(
        HistoryUpdate(
            STEPS,
            [(step - 1) // 10 + 1 for step in STEPS],
            [float(step) for step in STEPS],
            {
                "loss": [1 / step for step in STEPS],
                "learning_rate": RATES,
                "validation/loss": [1 / step if step % 20 == 0 else NAN for step in STEPS],
            },
            (RunStart(1, 1), RunStart(2, 41)),
            0,
            (),
            1.7e9,
            [step / 10 for step in STEPS],
        )
    )
    return tab


def readout_events(tab, step):
    """What the read-out says happened at a step, behind where that is."""
    return (
        find_only(LargePlot, tab)
        .readout(step)[1]
        .partition(f"epoch {step / 10:g} · ")[2]
        .split(" · ")[1:]
    )


def test_evaluations_and_a_lowered_rate_stand_on_the_axis(tab):
    assert readout_events(tab, 20) == ["evaluated"]
    assert readout_events(tab, 31) == ["learning rate lowered"]
    assert readout_events(tab, 50) == []


def test_a_checkpoint_that_retention_removed_keeps_its_place(tab):
    tab.show_checkpoints((checkpoint(10), checkpoint(50)))
    tab.show_checkpoints((checkpoint(50),))
    assert readout_events(tab, 10) == ["checkpoint of epoch 1, step 10 (deleted)"]
    assert readout_events(tab, 50) == ["checkpoint of epoch 5, step 50"]
    tab.clear("another")
    assert find_only(LargePlot, tab).readout(10) == ([], "")


def test_a_resumed_run_removes_the_marks_of_repeated_checkpoints(tab):
    tab.show_checkpoints((checkpoint(10), checkpoint(50)))
    repeated_steps = HistoryUpdate([41], [5], [41.0], {"loss": [0.5]}, (RunStart(3, 41),), 41)
    tab.append(repeated_steps)
    tab.show_checkpoints((checkpoint(10),))
    assert readout_events(tab, 41) == []
    assert readout_events(tab, 10) == ["checkpoint of epoch 1, step 10"]


def test_a_stop_is_marked_where_the_job_rests_and_stays_when_it_goes_on(tab):
    rests = replace_fields(LIVE, step=60, state=JobState.INTERRUPTED)
    tab.show_view(rests)
    assert "stopped after step 60" in readout_events(tab, 60)
    tab.show_view(replace_fields(rests, state=JobState.TRAINING))
    assert "stopped after step 60" in readout_events(tab, 60)
    start = RunStart(3, 61, JobState.INTERRUPTED)
    tab.append(HistoryUpdate([61], [7], [61.0], {"loss": [0.1]}, (start,), None, (), 1.7e9, [6.1]))
    assert "run 2 stopped" in readout_events(tab, 60)
    assert "stopped after step 60" not in readout_events(tab, 60)
    tab.clear("another")
    tab.append(HistoryUpdate([61], [7], [61.0], {"loss": [0.1]}, (), None, (), 1.7e9, [6.1]))
    assert readout_events(tab, 61) == []


def test_a_post_at_each_resume_says_how_the_earlier_run_ended(tab):
    starts = (RunStart(3, 61, JobState.ERROR), RunStart(4, 62, JobState.FINISHED))
    steps = [61, 62]
    tab.append(
        HistoryUpdate(
            steps, [7, 7], [61.0, 62.0], {"loss": [0.1, 0.1]}, starts, None, (), 1.7e9, [6.1, 6.2]
        )
    )
    assert "run 2 failed" in readout_events(tab, 60)
    assert readout_events(tab, 61) == []


def test_a_job_that_ended_before_its_first_step_waits_for_no_points(qtbot):
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    empty_history = HistoryUpdate([], [], [], {}, (), None, (), 0.0, [])
    first, reading = "Curves appear after the first step.", "Reading curves…"
    no_steps_text = "No curves: the history of this job has no steps."
    for state, step, text, final_text in (
        (JobState.STARTING, 0, first, first),
        (JobState.TRAINING, 0, first, first),
        (JobState.TRAINING, 60, reading, first),
        (JobState.INTERRUPTED, 60, reading, no_steps_text),
        (JobState.ERROR, 60, reading, no_steps_text),
        (JobState.FINISHED, 60, reading, no_steps_text),
        (JobState.ERROR, 0, "No curves: the job ended before its first step.", None),
    ):
        view = replace_fields(LIVE, state=state, step=step)
        tab.clear("a job")
        tab.show_view(view)
        assert find_only(LargePlot, tab)._empty_text == text
        tab.append(empty_history)
        tab.show_view(view)
        assert find_only(LargePlot, tab)._empty_text == (final_text or text)


@pytest.mark.parametrize("state", [JobState.TRAINING, JobState.FINISHED])
def test_a_script_without_values_explains_which_values_become_curves(qtbot, state):
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    job = replace_fields(LIVE, state=state, step=0)
    tab.show_view(replace(job, config=replace(job.config, script="my-program")))
    assert "right-click a number in Log" in find_only(LargePlot, tab)._empty_text


def history(step, **metrics):
    """One step of a job that began at a fixed time."""
    values = {name: [value] for name, value in metrics.items()}
    return HistoryUpdate([step], [1], [float(step)], values, (), None, (), 1.7e9, [1.0])


@pytest.mark.parametrize(
    ("other_metric", "title"), [("reward", "Accuracy"), ("train_loss", "Train_loss")]
)
def test_a_job_without_loss_has_another_metric_large_until_a_loss_comes(qtbot, other_metric, title):
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    tab.show()
    large = find_only(LargePlot, tab)

    def plot_state():
        QApplication.processEvents()
        return large.title, len(large.curves), set(small_plots(tab))

    metric_titles = {"Accuracy", metric_title(other_metric)}
    tab.append(history(1, **{other_metric: 9.5, "accuracy": 0.1, "learning_rate": 0.5}))
    assert plot_state() == (title, 1, {*metric_titles, "Learning rate"} - {title})
    tab.append(
        history(2, **{other_metric: 9.6, "accuracy": 0.2, "learning_rate": 0.5, "loss": 1.0})
    )
    assert plot_state() == ("Loss", 1, {*metric_titles, "Learning rate"})
    tab.clear("another")
    assert plot_state() == ("Loss", 0, set())


def test_a_curve_that_has_another_name_since_leaves_no_empty_plot(qtbot):
    tab = CurvesTab(JobActions())
    qtbot.addWidget(tab)
    tab.append(history(1, loss=1.0, reward=9.5))
    renamed = history(1, **{"fold 1/loss": 1.0, "fold 1/reward": 9.5})
    tab.append(replace(renamed, drop_from=1))
    QApplication.processEvents()
    assert {find_only(LargePlot, tab).title, *small_plots(tab)} == {"Fold 1/loss", "Fold 1/reward"}


@pytest.mark.parametrize("axis", ["step", "epoch", "time", "clock"])
def test_marks_go_with_the_axis(tab, axis):
    tab.show_checkpoints((checkpoint(50),))
    alarm = Alarm(NOT_A_NUMBER, 30, "One batch was no number.")
    tab.show_view(replace_fields(LIVE, step=60, state=JobState.ERROR, alarms=(alarm,)))
    tab.show_problems([AxisSpan(1.7e9 + 10, 1.7e9 + 20, text="GPU 1 was slow")])
    pick(find_only(SegmentedControl, tab), axis)
    x = {"step": 50.0, "epoch": 5.0, "time": 50.0, "clock": 1.7e9 + 50}[axis]
    assert find_only(LargePlot, tab).readout(x)[1].endswith("checkpoint of epoch 5, step 50")
    start, a_step = (0.0, x / 50) if axis != "clock" else (1.7e9, 1.0)
    marks = find_only(LargePlot, tab).marks
    assert [mark.x for mark in marks.boundaries] == pytest.approx([start + 41 * a_step])
    assert [mark.x for mark in marks.vertical_markers] == pytest.approx(
        [start + 30 * a_step, start + 60 * a_step]
    )
    [span] = marks.spans
    assert (span.x0, span.x1) == pytest.approx((start + 10 * a_step, start + 20 * a_step))


def test_at_a_time_of_day_the_read_out_says_the_step_too(tab):
    pick(find_only(SegmentedControl, tab), "clock")
    time_text = f"{formats.day(1.7e9 + 12)} 2023 {formats.clock_s(1.7e9 + 12)}"
    assert find_only(LargePlot, tab).readout(1.7e9 + 12)[1] == f"{time_text} · step 12 · epoch 1.2"


def test_staleness_is_one_plot_with_three_named_lines(tab):
    steps = np.arange(1, 4)
    values = {
        "loss": 1.0 / steps,
        "staleness mean": steps * 1.0,
        "staleness p95": steps * 2.0,
        "staleness max": steps * 3.0,
        "pushes per second": steps * 40.0,
        "server queue": steps - 1.0,
        "mine": steps * 1.0,
    }
    tab.clear("digits")
    tab.append(
        HistoryUpdate(
            steps, np.ones(3), steps * 1.0, values, (RunStart(1, 1),), 0, (), 1.7e9, steps / 10
        )
    )
    plots = small_plots(tab)
    assert set(plots) == {"Staleness", "Pushes/s", "Waiting pushes", "Mine"}
    stale = plots["Staleness"]
    assert stale.panel.readout(3.0)[0] == [("mean", "3.00"), ("p95", "6.00"), ("max", "9.00")]
    assert {"mean", "3.00"} <= set(visible_texts(stale))
    assert next(iter(plots)) == "Mine", "the user's metrics come first"


def test_logarithmic_axes_reach_every_plot_of_the_page(tab, qtbot):
    tab.append(replace(accuracy(0.5), drop_from=None))

    def panels():
        return [panel for panel in tab.findChildren(CurvePanel) if panel.isVisibleTo(tab)]

    assert len(panels()) > 2
    tab.toggle_log_y()
    tab.toggle_log_x()
    qtbot.waitUntil(lambda: all(panel.log_y and panel.log_x for panel in panels()))
    tab.append(HistoryUpdate([61], [7], [61.0], {"dice": [0.5]}, (), None, (), 1.7e9, [6.1]))
    qtbot.waitUntil(lambda: "Dice" in small_plots(tab))
    assert small_plots(tab)["Dice"].panel.log_y, "what comes later, too"
    pick(find_only(SegmentedControl, tab), "clock")
    qtbot.waitUntil(lambda: not any(panel.log_x for panel in panels()))
    assert all(panel.log_y for panel in panels())


def test_every_plot_reads_its_value_where_the_pointer_is(tab, qtbot):
    """Not only the loss: the small ones had a line and a dot, and no number."""
    plot = small_plots(tab)["Learning rate"]
    calm = plot.panel.grab().toImage()
    find_only(LargePlot, tab).move_pointer(20.0)
    QApplication.processEvents()
    frame = find_only(PlotView, plot.panel).frame()
    label_area = QRect(round(frame.px(20)) + find_only(PlotView, plot.panel).x() + 16, 10, 40, 20)
    assert plot.panel.grab().toImage().copy(label_area) != calm.copy(label_area)
    assert dict(plot.panel.readout(20.0)[0]) == {"train": "0.100"}
    assert dict(plot.panel.readout(50.0)[0]) == {"train": "0.0100"}
    assert "0.0100" in visible_texts(plot), "the newest value stays in the head"


def test_validation_is_shown_as_it_was_measured(tab):
    rows = dict(find_only(LargePlot, tab).readout(40)[0])
    assert rows["validation"] == "0.0250"


def test_the_open_job_requests_its_table_and_its_comparison(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(LIVE)
    with expect_request(detail.job_actions, job_actions.COMPARE) as requested:
        open_menu_entries(detail.header.menu_button)["Compare"].trigger()
    assert requested.args == ["a"]
    with expect_request(detail.job_actions, job_actions.SAVE_CSV) as requested:
        (csv,) = (
            action for action in detail.curves.findChildren(QAction) if "CSV" in action.text()
        )
        csv.trigger()
    assert requested.args == ["a"]


def accuracy(value):
    values = {"loss": [1.0], "accuracy": [value]}
    return HistoryUpdate([1], [1], [1.0], values, (RunStart(1, 1),), 0, (), 1.7e9, [0.1])


def test_the_next_job_gets_the_plots_of_the_one_before_and_nothing_of_its_points(tab):
    tab.append(accuracy(0.5))
    plot = small_plots(tab)["Accuracy"]
    tab.clear("other")
    assert not plot.isVisibleTo(tab)
    tab.append(accuracy(0.9))
    assert small_plots(tab)["Accuracy"] is plot
    assert plot.isVisibleTo(tab)
    assert list(tab.curve("accuracy").raw) == [0.9]
    assert "0.900" in visible_texts(plot)


def test_many_changes_are_drawn_once(tab, qtbot):
    redraws = []
    find_only(LargePlot, tab).redraw_finished.connect(lambda: redraws.append(1))
    with find_only(LargePlot, tab).batch_redraws():
        find_only(LargePlot, tab).set_marks(thresholds=())
        find_only(LargePlot, tab).fit()
        find_only(LargePlot, tab).refresh()
        assert redraws == []
    assert redraws == [1]


def test_another_smoothing_reaches_every_plot(tab):
    tab.append(accuracy(0.5))
    small_panels = [plot.panel for plot in small_plots(tab).values()]
    find_only(Slider, tab).set_share(0.8)
    assert find_only(LargePlot, tab).smoothing == pytest.approx(0.8)
    assert all(panel.smoothing == pytest.approx(0.8) for panel in small_panels)


def long_history(first, last, drop_from):
    steps = np.arange(first, last + 1)
    metrics = {"loss": 1 / steps, "accuracy": 1 - 1 / steps}
    seconds = steps / 10
    return HistoryUpdate(steps, steps // 9, seconds, metrics, (), drop_from, (), 1.7e9, steps / 9)


def test_p7_a_long_history_comes_a_piece_a_turn_and_in_order(tab, qtbot):
    tab.clear("long")
    tab.append(long_history(1, 400_000, 0))
    assert 0 < len(tab.curve("loss")) < 400_000
    tab.append(long_history(399_001, 400_001, 399_001))
    qtbot.waitUntil(lambda: tab.curve("loss").steps[-1] == 400_001)
    for name in ("loss", "accuracy"):
        assert list(tab.curve(name).steps) == list(range(1, 400_002))


def test_the_rest_of_a_cleared_history_is_not_added(tab):
    tab.clear("long")
    tab.append(long_history(1, 400_000, 0))
    tab.clear("other")
    tab.append(accuracy(0.5))
    assert list(tab.curve("accuracy").steps) == [1]
    assert list(tab.curve("loss").steps) == [1]


def test_a_mark_shows_that_a_job_continued_with_fewer_nodes(tab):
    chosen_nodes, placement = ("a", "b", "c"), (Placement("a", 1), Placement("b", 1))
    continuation = Continuation("c was lost.", chosen_nodes=chosen_nodes, placement=placement)
    tab.show_view(replace_fields(LIVE, run=2, continuation=continuation))
    assert [
        (marker.x, marker.text) for marker in find_only(LargePlot, tab).marks.vertical_markers
    ] == [(41, "2 of 3 nodes")]
    tab.show_view(replace_fields(LIVE, run=3))
    assert not find_only(LargePlot, tab).marks.vertical_markers
