"""The hours of a node: what its agent kept, what this window saw, and which job ran when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.nodes.history import PastGpu, PastReading
from backend.records.queue.entry import Queue, QueuedJob, QueueEntry
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.nodes import samples
from tests.windows import find_only, show_widget, shows_text, visible_texts
from widgets.common import theme
from widgets.nodes.history.history_card import HistoryCard, JobPeriod
from widgets.nodes.history.job_timeline import JobBar, arrange_bars, job_bars, reserved_bars
from widgets.nodes.history.node_history import BY_KEY, HOT_C, NodeHistory, to_history_data
from widgets.plots.end_labels import name_width
from widgets.plots.plot_view import PlotView

pytestmark = pytest.mark.usefixtures("theme_manager")
NOON = 1_700_000_000.0
STATE = samples.state("gpu07", "ours", 2)
UUIDS = ("GPU-0", "GPU-1")


def past_reading(age_s, temperature_c=60.0, unhealthy=""):
    gpus = (PastGpu("GPU-0", 58.0), PastGpu("GPU-1", temperature_c, health_problem=unhealthy))
    return PastReading(NOON - age_s, 40.0, 1e9, gpus)


def hours(hot_from_s=3600, hot_to_s=1800, over_s=10_800):
    """A line each 20 seconds; the second GPU was slowed by heat for half an hour."""
    return to_history_data(
        [
            past_reading(age, 91.0, "slowed by heat")
            if hot_to_s < age <= hot_from_s
            else past_reading(age)
            for age in range(over_s, 0, -20)
        ]
    )


@pytest.fixture
def card(qtbot):
    return show_widget(qtbot, HistoryCard(), 900, 600)


def iso_time(time_s):
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def job(name, started_ago_s, ended_ago_s=None, nodes=("gpu07",)):
    config = replace(
        LIVE.config, placement=tuple(replace(LIVE.config.placement[0], node=n) for n in nodes)
    )
    state = JobState.TRAINING if ended_ago_s is None else JobState.FINISHED
    return replace_fields(
        LIVE,
        state=state,
        started_at=iso_time(NOON - started_ago_s),
        updated_at="" if ended_ago_s is None else iso_time(NOON - ended_ago_s),
        name=name,
        config=config,
    )


def test_earlier_hours_precede_the_readings_of_the_window():
    history = NodeHistory()
    history.append(STATE.reading, NOON)
    assert history.set_agent_history(hours())
    history.append(STATE.reading, NOON + 2)
    times = history.times()
    assert times[0] == NOON - 10_800
    assert (np.diff(times) > 0).all()
    temperatures = history.series("GPU-1", "temperature")
    assert list(temperatures[-3:]) == [60.0, 66.0, 66.0]
    assert np.nanmax(temperatures) == 91.0


def test_readings_of_both_agent_and_window_appear_once():
    history = NodeHistory()
    for second in range(0, 600, 2):
        history.append(STATE.reading, NOON - 600 + second)
    history.set_agent_history(hours())
    times = history.times()
    assert (np.diff(times) > 0).all()
    assert (times[times >= NOON - 600] == np.arange(NOON - 600, NOON, 2)).all()


def test_a_time_without_readings_is_a_gap_and_no_line():
    agent_history = to_history_data(
        [past_reading(4000), past_reading(3980), past_reading(200), past_reading(180)]
    )
    history = NodeHistory()
    history.set_agent_history(agent_history)
    history.append(STATE.reading, NOON)
    history.append(STATE.reading, NOON + 500)
    temperatures = history.series("GPU-0", "temperature")
    assert [bool(np.isnan(value)) for value in temperatures] == [
        *(False, False, True, False, False),
        *(True, False, True, False),
    ]


def test_s13_a_slowdown_is_a_span_with_its_reason_and_its_gpu_is_lifted(card, qtbot):
    history = NodeHistory()
    history.set_agent_history(hours())
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    (span,) = card.plot.marks.spans
    assert (round(NOON - span.x0), round(NOON - span.x1)) == (3600, 1800)
    assert span.text == "Slowed by heat"
    labelled_curves = [curve.name for curve in card.plot.curves.values() if curve.with_label]
    assert labelled_curves == ["GPU 1"]
    # And it is painted: the ground in it is another one than beside it.
    for _ in range(3):
        QApplication.processEvents()
    image = card.grab().toImage()
    origin = card.plot.mapTo(card, QPoint(0, card.plot.height() // 2))
    left_px, right_px = card.plot.visible_span_px()
    x0, x1 = card.plot.x_range()

    def background(image: QImage, age_s: float) -> str:
        x = left_px + (NOON - age_s - x0) / (x1 - x0) * (right_px - left_px)
        return image.pixelColor(origin.x() + round(x), origin.y()).name()

    healthy_colour, hot_colour = background(image, 5400.0), background(image, 2650.0)
    assert (healthy_colour, hot_colour != healthy_colour) == (
        theme.current().q("surface").name(),
        True,
    )


def test_s13_a_slowdown_of_a_moment_is_wide_enough_to_be_seen(card):
    history = NodeHistory()
    history.set_agent_history(hours(hot_from_s=3620, hot_to_s=3600))
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    (span,) = card.plot.marks.spans
    left_px, right_px = card.plot.visible_span_px()
    x0, x1 = card.plot.x_range()
    assert (span.x1 - span.x0) / (x1 - x0) * (right_px - left_px) > 2


def test_the_card_shows_only_chosen_and_known_hours(card):
    history = NodeHistory()
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    assert shows_text(card, "Since ")
    history.set_agent_history(hours(over_s=40_000))
    card.show_extended_history()
    assert "Last 3 hours" in visible_texts(card)
    card._period_picker.choose("1")
    card._rebuild()
    assert "Last hour" in visible_texts(card)
    assert card.plot.x_range()[0] == pytest.approx(NOON - 3600)
    assert card.plot.marks.spans[0].x0 >= NOON - 3600
    card._period_picker.choose("24")
    card._rebuild()
    assert shows_text(card, "Since ")


def test_heat_stands_beside_where_it_gets_hot_and_not_beside_its_own_noise(card):
    history = NodeHistory()
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    low, high = card.plot.y_range()
    assert 45 < low <= 50, "a half of the plot is not left to what no GPU at work is"
    assert high >= card.plot.marks.thresholds[0].y
    card._view_picker.choose("use")
    card._rebuild()
    assert not card.plot.marks.thresholds


def test_a_cold_room_is_in_the_picture_however_short_it_was(card):
    history = NodeHistory()
    readings = [past_reading(age, 65.0 if age != 5000 else 11.0) for age in range(10_800, 0, -20)]
    history.set_agent_history(to_history_data(readings))
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    low, _ = card.plot.y_range()
    assert -3 < low <= 1


def test_gpus_at_rest_are_not_on_the_lower_edge_and_their_noise_is_small(card):
    history = NodeHistory()
    history.set_agent_history(
        to_history_data([past_reading(age, 31.0 + age % 3) for age in range(10_800, 0, -20)])
    )
    card.show_history(history, STATE)
    low, high = card.plot.y_range()
    assert 17 < low <= 20
    assert 2 / (high - low) < 0.05


def test_the_name_of_a_hot_gpu_stands_right_of_its_curve_under_the_time_of_a_job(card):
    card.show_job_period(
        JobPeriod("During this job", NOON - 10_800, gpu_names={"GPU-1": "GPU 1, rank 11"})
    )
    history = NodeHistory()
    history.append(STATE.reading, NOON)
    history.set_agent_history(hours(hot_to_s=0))
    card.show_history(history, samples.hot_node(STATE, 1))
    card._rebuild()
    QApplication.processEvents()
    frame = find_only(PlotView, card.plot).frame()
    end_text = card.plot._end_text(card.plot.curves["GPU-1"])
    assert end_text.startswith("GPU 1, rank 11")
    assert frame.px(card.plot.data_end()) + name_width(end_text) <= frame.rect.right() + 1


def test_new_readings_are_added_to_the_plot_that_exists(card):
    history = NodeHistory()
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    plot = card.plot
    history.append(STATE.reading, NOON + 2)
    card.show_history(history, STATE)
    assert card.plot is plot
    assert len(card._data["GPU-0", "temperature"]) == 2
    card.show_history(history, STATE)
    assert len(card._data["GPU-0", "temperature"]) == 2, "jobs changed, no reading came"
    history.append(STATE.reading, NOON + 4)
    history.append(STATE.reading, NOON + 6)
    card.show_history(history, STATE)
    assert len(card._data["GPU-0", "temperature"]) == 4


def test_the_timeline_shows_the_jobs_of_the_node_on_the_same_axis(card):
    history = NodeHistory()
    history.set_agent_history(hours())
    history.append(STATE.reading, NOON)
    jobs = (
        job("over", 9000, 5400),
        job("runs", 3600),
        job("long ago", 90_000, 80_000),
        job("elsewhere", 3600, nodes=("gpu01",)),
    )
    card.show_history(history, STATE, jobs)
    assert card.timeline.bar_names() == ("over", "runs")
    (_, first_rect), (_, second_rect) = card.timeline._bar_rects()
    left_px, right_px = card.plot.visible_span_px()
    x0, x1 = card.plot.x_range()
    assert first_rect.left() == pytest.approx(
        left_px + (NOON - 9000 - x0) / (x1 - x0) * (right_px - left_px)
    )
    assert first_rect.right() < second_rect.left()
    assert second_rect.right() == pytest.approx(
        left_px + (NOON - x0) / (x1 - x0) * (right_px - left_px)
    )
    assert "over, " in card.timeline.accessibleDescription()
    card.show_history(history, STATE, ())
    assert not card.timeline.isVisible()


def reservation(name, in_h, hours, node="gpu07", **fields):
    placement, begin = (Placement(node, 1),), iso_time(NOON + in_h * 3600)
    times = {"not_before": begin, "length_s": hours * 3600, "user": "anna"}
    return QueuedJob(QueueEntry(name, name, 1, placement, "", **{**times, **fields}), 1)


def test_a_coming_reservation_is_a_bar_right_of_now_on_an_axis_that_reaches_it(card):
    history = NodeHistory()
    history.set_agent_history(hours())
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    end_s = card.plot.x_range()[1]
    others = (
        reservation("elsewhere", 1, 1, node="gpu01"),
        reservation("tomorrow", 24, 1),
        reservation("over", -2, 1),
        reservation("no length", 1, 0),
    )
    card.show_queue(Queue(others))
    card.show_history(history, STATE)
    assert (card.timeline.bar_names(), card.plot.x_range()[1]) == ((), end_s)
    card.show_queue(Queue((reservation("thesis", 1, 1.5), reservation("next", 2.5, 9))))
    card.show_history(history, STATE)
    ((thesis, thesis_rect), (_, next_rect)) = card.timeline._bar_rects()
    assert (thesis.name, thesis.is_reserved) == ("thesis", True)
    left_px, right_px = card.plot.visible_span_px()
    x0, x1 = card.plot.x_range()
    assert x1 == pytest.approx(NOON + 3 * 3600, abs=60)
    scale = (right_px - left_px) / (x1 - x0)
    assert thesis_rect.left() == pytest.approx(left_px + (NOON + 3600 - x0) * scale)
    assert (thesis_rect.width(), next_rect.right()) == pytest.approx((5400 * scale, right_px))
    assert "Reserved by anna for thesis, " in card.timeline.accessibleDescription()


def test_a_reservation_of_this_computer_is_not_that_of_another_desktop():
    state = replace(STATE, name="this-computer", reading=replace(STATE.reading, host="desk"))
    jobs = [reservation(host, 1, 1, "this-computer", host=host) for host in ("desk", "other")]
    assert [bar.name for bar in reserved_bars(Queue(tuple(jobs)), state, NOON)] == ["desk"]


def test_jobs_side_by_side_have_a_row_each():
    bars = job_bars((job("b", 3000), job("a", 9000, 5400), job("c", 2000, 1000)), "gpu07")
    assert [bar.name for bar in bars] == ["a", "b", "c"]
    names = [[bar.name for bar in row] for row in arrange_bars(bars, NOON - 10_800)]
    assert names == [["a", "b"], ["c"]]
    many_bars = [JobBar(str(n), NOON + n) for n in range(9)]
    assert [[bar.name for bar in row] for row in arrange_bars(many_bars, 0)] == [
        ["6"],
        ["7"],
        ["8"],
    ]


def test_the_last_minutes_are_evenly_spaced_whatever_recorded_them():
    history = NodeHistory()
    history.set_agent_history(hours(hot_from_s=600, hot_to_s=300))
    history.append(STATE.reading, NOON)
    temperatures = history.recent_values("GPU-1", "temperature")
    assert len(temperatures) == 120
    # A quarter of twenty minutes was hot.
    assert abs(np.count_nonzero(temperatures == 91.0) - 30) <= 2
    short_history = NodeHistory()
    short_history.append(STATE.reading, NOON)
    assert list(short_history.recent_values("GPU-1", "temperature")) == [66.0]


def process_events():
    for _ in range(3):
        QApplication.processEvents()


def test_the_clock_stands_below_the_heat_and_each_moment_at_one_place(card):
    history = NodeHistory()
    history.set_agent_history(hours(hot_to_s=0))
    history.append(STATE.reading, NOON)
    card.show_history(history, samples.hot_node(STATE, 1))
    process_events()
    upper, lower = card.plot, card.lower_plot
    assert (upper.title.partition(",")[0], lower.title.partition(",")[0]) == (
        "Temperature",
        "Clock",
    )
    # The name below is longer than the one above, and leaves as much room beside the curves.
    for _ in range(2):
        assert (upper.x_range(), upper.visible_span_px()) == (
            lower.x_range(),
            lower.visible_span_px(),
        )
        card.resize(600, 560)
        process_events()
    upper.move_pointer(NOON - 60)
    assert lower.pointer_x == NOON - 60
    assert lower.geometry().top() > upper.geometry().bottom()


def test_the_plots_of_heat_and_clock_zoom_together(card):
    history = NodeHistory()
    history.set_agent_history(hours())
    card.show_history(history, STATE)
    process_events()
    full_range = card.plot.x_range()
    for plot, partner in ((card.plot, card.lower_plot), (card.lower_plot, card.plot)):
        plot._set_range(NOON - 3000, NOON - 2000)
        plot._clamp_range()
        assert partner.x_range() == plot.x_range() == (NOON - 3000, NOON - 2000)
        plot._fit_on_request()
        assert partner.x_range() == plot.x_range() == full_range
        assert partner.is_fitted


def test_memory_errors_are_plotted_where_a_gpu_counts_them(card):
    history = NodeHistory()
    history.append(STATE.reading, NOON)
    card.show_history(history, STATE)
    segments = dict(zip(card._view_picker._keys, card._view_picker._group.buttons(), strict=True))
    assert not segments["ecc"].isEnabled()
    reading = STATE.reading
    gpus = tuple(replace(g, ecc_corrected=3 + g.index, ecc_uncorrected=0) for g in reading.gpus)
    counting_state = replace(STATE, reading=replace(reading, gpus=gpus))
    history.append(counting_state.reading, NOON + 2)
    card.show_history(history, counting_state)
    assert segments["ecc"].isEnabled()
    card._view_picker.choose("ecc")
    card._rebuild()
    assert [plot.title.partition(", ")[0] for plot in card._plots.plots] == [
        "Memory errors that were corrected",
        "Memory errors that spoil results",
    ]
    assert list(history.series("GPU-1", "ecc_corrected")) == pytest.approx([np.nan, 4], nan_ok=True)
    assert card._peers_text() == "2 GPUs, 3 errors to 4 errors, 0 errors"
    card.show_history(history, STATE)
    assert card._view_picker.key() == "temperature", "no tab is chosen that shows nothing"


def test_seven_days_are_shown_and_wide_steps_leave_no_gap(card):
    old_readings = [
        replace(past_reading(age), every_s=300.0) for age in range(8 * 86_400, 86_400, -300)
    ]
    history = NodeHistory()
    history.set_agent_history(
        to_history_data([*old_readings, *(past_reading(age) for age in range(86_400, 0, -20))])
    )
    card._period_picker.choose("168")
    card.show_history(history, STATE)
    assert "Last 7 days" in visible_texts(card)
    assert card.plot.x_range()[0] == pytest.approx(NOON - 7 * 86_400, abs=300)
    assert not np.isnan(history.series("GPU-0", "temperature")).any()
    shorter = NodeHistory()
    shorter.set_agent_history(to_history_data(old_readings[-300:]))
    card.show_history(shorter, STATE)
    assert shows_text(card, "Since ")
    assert not card._title.text().removeprefix("Since ")[0].isdecimal(), "another day is named"


def test_the_picture_of_two_plots_shows_both(card):
    history = NodeHistory()
    history.set_agent_history(hours())
    card.show_history(history, STATE)
    process_events()
    picture = card._plots.as_picture()
    assert picture.size.height() == card.plot.height() + card.lower_plot.height()
    image = QImage.fromData(picture.png(1.0))
    surface = theme.current().q("surface").name()
    lower_colours = [
        image.pixelColor(x, y).name()
        for x in range(60, image.width() - 60, 7)
        for y in range(image.height() - card.lower_plot.height(), image.height(), 3)
    ]
    assert set(lower_colours) != {surface}


def test_the_text_above_the_hot_line_has_room_below_the_title_of_the_plot():
    scale = BY_KEY["temperature"].scale
    # 14 pixels of text in a plot of at least 90 pixels.
    assert scale.high - HOT_C > (scale.high - scale.low) * 14 / 90
