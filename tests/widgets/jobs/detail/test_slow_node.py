"""A node that slows a job is named with its cost and its cause, and is one click away."""

from dataclasses import replace

import pytest

from backend.records.jobs.state import JobState
from tests.pictures import lab
from widgets.common.buttons import Button
from widgets.jobs.actions.job_actions import JobActions
from widgets.jobs.detail.job_detail import JobDetail
from widgets.jobs.detail.slow_node import slow_node
from widgets.nodes.page.attention import attentions
from widgets.nodes.row.node_row import node_row

NODES = {state.name: state for state in lab.nodes()}
SENTENCE = "gpu07 slows this job by 25 %: GPU 3 slowed by heat, 91 °C."


def words(text):
    return text.replace("\xa0", " ")


def steps(*slow, usual=100.0, ms=125.0):
    """Times of 16 ranks, eight on gpu06 and eight on gpu07."""
    return tuple(ms if rank in slow else usual for rank in range(16))


SLOWED = replace(lab.LIVE, rank_step_ms=steps(11), slow_ranks=(11,))


def test_the_sentence_has_node_cost_and_cause():
    found = slow_node(SLOWED, NODES)
    assert words(found.sentence) == SENTENCE
    assert (found.name, found.ranks) == ("gpu07", (11,))
    assert words(found.reasons[11]) == "slowed by heat, 91 °C"


def test_where_no_cause_is_known_none_is_made_up():
    assert words(slow_node(SLOWED, {}).sentence) == "gpu07 slows this job by 25 %."


def test_workers_that_do_not_wait_for_each_other_are_not_slowed():
    strategy = replace(SLOWED.config.strategy, name="downpour", settings={})
    view = replace(SLOWED, config=replace(SLOWED.config, strategy=strategy))
    assert words(slow_node(view, {}).sentence) == "A step takes 25 % longer on gpu07."


@pytest.mark.parametrize(
    "view",
    [
        replace(SLOWED, slow_ranks=()),
        replace(SLOWED, slow_ranks=tuple(range(16))),
        replace(SLOWED, state=JobState.FINISHED),
        replace(SLOWED, rank_step_ms=()),
    ],
    ids=["none is slow", "all are", "it is over", "no times"],
)
def test_no_node_is_blamed(view):
    assert slow_node(view, NODES) is None


def test_the_banner_shows_it_with_a_button_to_the_node_and_goes_with_it(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.open_job(SLOWED)
    detail.show_nodes(lab.nodes())
    banner = detail._banner
    assert words(banner._strong.text()) == SENTENCE
    (button,) = banner.findChildren(Button)
    with qtbot.waitSignal(detail.job_actions.node_requested) as asked:
        button.click()
    assert asked.args == ["gpu07"]
    detail.show_view(replace(SLOWED, slow_ranks=()))
    assert banner.isHidden()


def test_the_reason_stands_in_the_cell_of_the_rank(qtbot):
    detail = JobDetail(JobActions())
    qtbot.addWidget(detail)
    detail.show_nodes(lab.nodes())
    detail.open_job(SLOWED)
    detail.show_view(SLOWED)
    assert words(detail.curves.ranks._cells._reasons[11]) == "slowed by heat, 91 °C"
    assert words(detail.curves.ranks.toolTip()) == "Rank 11: slowed by heat, 91 °C"


def test_the_card_above_the_rack_says_what_the_node_costs():
    rows = {state.name: node_row(state) for state in lab.nodes()}
    (card, *_) = attentions(lab.nodes(), rows, [SLOWED], {})
    assert card.node == "gpu07"
    assert words(card.text).endswith("retinanet-r50 · coco 2x takes 25 % longer for it.")
    (card, *_) = attentions(lab.nodes(), rows, [replace(SLOWED, slow_ranks=())], {})
    assert card.text.endswith("retinanet-r50 · coco 2x and 1 more run on it.")
