"""A node that slows a job is named with its cost and its cause, and is one click away."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication

from backend.records.jobs.slow_cause import Cause, SlowCause, StepTimes
from backend.records.jobs.state import JobState
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.pictures import lab
from tests.windows import find_only, shows_text
from widgets.common import theme
from widgets.common.banner import Banner
from widgets.common.buttons import Button
from widgets.jobs.actions import job_actions
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.warning import slow_node, slowdown_message
from widgets.jobs.ranks.rank_rows import rank_rows
from widgets.jobs.ranks.rank_strip import RankStrip
from widgets.nodes.page.attention import attention_cards
from widgets.nodes.row.node_row import node_row
from widgets.plots.curve_panel import CurvePanel

NODES = {state.name: state for state in lab.nodes()}
SLOW_MESSAGE = "gpu07 slows this job by 25 %: GPU 3 slowed by heat, 91 °C."


def without_gaps(text):
    return text.replace("\xa0", " ")


def steps(*slow, usual_ms=100.0, ms=125.0):
    """Times of 16 ranks, eight on gpu06 and eight on gpu07."""
    return tuple(ms if rank in slow else usual_ms for rank in range(16))


SLOWED = replace_fields(lab.LIVE, rank_step_ms=steps(11), slow_ranks=(11,))


def test_the_sentence_has_node_cost_and_cause():
    node = slow_node(SLOWED, NODES)
    assert without_gaps(node.message) == SLOW_MESSAGE
    assert (node.name, node.ranks) == ("gpu07", (11,))
    assert without_gaps(node.reasons[11]) == "slowed by heat, 91 °C"


def test_no_cause_is_named_when_none_is_known():
    assert without_gaps(slow_node(SLOWED, {}).message) == "gpu07 slows this job by 25 %."


def test_workers_that_do_not_wait_for_each_other_are_not_slowed():
    strategy = replace(SLOWED.config.strategy, name="downpour", settings={})
    view = replace(SLOWED, config=replace(SLOWED.config, strategy=strategy))
    assert without_gaps(slow_node(view, {}).message) == "A step takes 25 % longer on gpu07."


@pytest.mark.parametrize(
    "view",
    [
        replace_fields(SLOWED, slow_ranks=()),
        replace_fields(SLOWED, slow_ranks=tuple(range(16))),
        replace_fields(SLOWED, state=JobState.FINISHED),
        replace_fields(SLOWED, rank_step_ms=()),
    ],
    ids=["none is slow", "all are", "it is over", "no times"],
)
def test_no_node_is_blamed(view):
    assert slow_node(view, NODES) is None


def test_the_banner_shows_the_slow_node_with_a_button_while_it_is_slow(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(SLOWED)
    detail.show_nodes(lab.nodes())
    banner = find_only(Banner, detail)
    assert without_gaps(banner._headline.text()) == SLOW_MESSAGE
    (button,) = banner.findChildren(Button)
    with expect_request(detail.job_actions, job_actions.SHOW_NODE) as request:
        button.click()
    assert request.args == ["gpu07"]
    detail.show_view(replace_fields(SLOWED, slow_ranks=()))
    assert banner.isHidden()


def test_the_reason_stands_in_the_cell_of_the_rank(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.show_nodes(lab.nodes())
    detail.open_job(SLOWED)
    detail.show_view(SLOWED)
    assert without_gaps(detail.curves.ranks._cells._reasons[11]) == "slowed by heat, 91 °C"
    assert without_gaps(detail.curves.ranks.toolTip()) == "Rank 11: slowed by heat, 91 °C"


def test_the_card_above_the_rack_shows_the_cost_of_the_node():
    rows = {state.name: node_row(state) for state in lab.nodes()}
    (card, *_) = attention_cards(lab.nodes(), rows, [SLOWED], {})
    assert card.node == "gpu07"
    assert without_gaps(card.text).endswith("retinanet-r50 · coco 2x takes 25 % longer for it.")
    (card, *_) = attention_cards(lab.nodes(), rows, [replace_fields(SLOWED, slow_ranks=())], {})
    assert card.text.endswith("retinanet-r50 · coco 2x and 1 more run on it.")


LOADER = SlowCause(Cause.DATA, 11, 31.0, 130.0, 4.0)
NETWORK = SlowCause(Cause.COMMUNICATION, None, 60.0, 130.0)
TIMES = StepTimes((4.0,) * 16, (96.0,) * 16, (25.0,) * 16, 5.0)


def test_a_measured_cause_is_said_where_the_node_has_no_finding():
    slowed = replace_fields(SLOWED, slow_cause=LOADER)
    assert without_gaps(slow_node(slowed, NODES).message) == SLOW_MESSAGE, (
        "its finding explains more"
    )
    assert without_gaps(slow_node(slowed, {}).message) == (
        "gpu07 slows this job by 25 %: rank 11 waits 31 ms a step for its loader, "
        "the others 4.0 ms."
    )


def test_one_culprit_is_named_the_one_that_costs_most():
    slow = slow_node(SLOWED, NODES)
    network = (
        "The network slows this job: communication takes 60 of the 130 ms of a step on every rank."
    )
    assert slowdown_message(replace_fields(SLOWED, slow_cause=NETWORK), slow) == (network, "")
    other_cause = replace(LOADER, rank=3)
    assert slowdown_message(replace_fields(SLOWED, slow_cause=other_cause), slow) == (
        "gpu06 slows this job: rank 3 waits 31 ms a step for its loader, the others 4.0 ms.",
        "gpu06",
    )
    assert slowdown_message(replace_fields(SLOWED, slow_cause=LOADER), slow)[0] == slow.message
    finished_view = replace_fields(SLOWED, slow_cause=NETWORK, state=JobState.FINISHED)
    assert slowdown_message(finished_view, None) == ("", "")


def test_the_banner_names_the_network_without_a_button_to_a_node(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(replace_fields(SLOWED, slow_ranks=(), slow_cause=NETWORK))
    assert shows_text(find_only(Banner, detail), "The network slows this job: ")
    assert not find_only(Banner, detail).findChildren(Button)


SHARED_CORES = SlowCause(Cause.CPU, None, 280.0, 290.0, 100.0)


def test_other_programs_are_one_click_away_from_the_banner_that_blames_them(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(replace_fields(lab.LIVE, slow_cause=SHARED_CORES))
    banner = find_only(Banner, detail)
    (processes,) = banner.findChildren(Button)
    assert processes.text() == "Show processes"
    with expect_request(detail.job_actions, job_actions.SHOW_PROCESSES) as requested:
        processes.click()
    assert requested.args == [lab.LIVE.nodes[0]]


@pytest.mark.parametrize("width", [580, 780, 1700])
@pytest.mark.parametrize(
    "finding",
    [
        {"slow_cause": SHARED_CORES},
        {"slow_cause": LOADER, "slow_ranks": (11,)},
        {"slow_cause": NETWORK},
        {"alarms": (lab.RISING_LOSS, lab.RISING_LOSS)},
    ],
    ids=["cores", "loader", "network", "alarms"],
)
def test_a_finding_that_comes_and_goes_moves_neither_tabs_nor_plots(qtbot, width, finding):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.resize(width, 860)
    detail.show()
    calm = replace_fields(SLOWED, slow_ranks=())
    detail.open_job(calm)
    widgets = (*detail.curves.findChildren(CurvePanel), detail.tabs.bar)
    banner = find_only(Banner, detail)

    def places():
        for _ in range(10):
            QApplication.processEvents()
        return [(w.mapTo(detail, QPoint()), w.size()) for w in widgets]

    places_before = places()
    assert banner.isHidden()
    detail.show_view(replace_fields(calm, **finding))
    assert (places(), banner.isVisible()) == (places_before, True)
    detail.show_view(calm)
    assert (places(), banner.isVisible()) == (places_before, False)


def test_a_finding_leaves_the_cost_of_stopping_in_sight(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.resize(900, 860)
    detail.show()
    detail.open_job(replace_fields(lab.LIVE, slow_cause=SHARED_CORES))
    assert shows_text(find_only(Banner, detail), "Stopping is safe")


def test_the_parts_of_a_step_are_shown_while_something_slows_the_job(qtbot):
    strip = RankStrip()
    qtbot.addWidget(strip)
    strip.resize(600, 300)
    strip.show()
    strip.show_view(replace_fields(SLOWED, step_times=TIMES))
    low = strip._cells.heightForWidth(600)
    assert not strip._legend.isVisible()
    strip.show_view(replace_fields(SLOWED, step_times=TIMES, slow_cause=LOADER))
    assert strip._legend.isVisible()
    assert strip._cells.heightForWidth(600) > low
    assert strip._legend._shown_names == ("data", "compute", "communication", "waiting")
    on_gpus = replace(TIMES, communication_ms=None)
    strip.show_view(replace_fields(SLOWED, step_times=on_gpus, slow_cause=LOADER))
    assert strip._legend._shown_names == ("data", "compute and communication")
    strip.show_view(
        replace_fields(SLOWED, step_times=TIMES, slow_cause=LOADER, state=JobState.FINISHED)
    )
    assert not strip._legend.isVisible()


def test_a_bar_is_divided_as_the_step_is(qtbot):
    strip = RankStrip()
    qtbot.addWidget(strip)
    strip.resize(1000, 300)
    step_times = StepTimes((50.0,) * 16, (50.0,) * 16, (0.0,) * 16, 0.0)
    strip.show_view(
        replace_fields(SLOWED, slow_ranks=(), step_times=step_times, slow_cause=NETWORK)
    )
    strip.show()
    image = strip._cells.grab().toImage()
    data, compute = (theme.current().curve(number).name() for number in (1, 0))
    part_widths = [
        [image.pixelColor(x, y).name() for x in range(image.width())] for y in range(image.height())
    ]
    (counts, *_) = [(row.count(data), row.count(compute)) for row in part_widths if data in row]
    assert counts[0] == pytest.approx(counts[1], abs=image.width() // 100)


def test_the_table_of_ranks_has_the_parts_in_a_tool_tip():
    row, *_ = rank_rows(replace_fields(SLOWED, step_times=TIMES))
    assert (
        without_gaps(row.whole_step)
        == "data 4.0 ms, compute 96 ms, communication 5.0 ms, waiting 25 ms"
    )
    row, *_ = rank_rows(SLOWED)
    assert row.whole_step == ""
