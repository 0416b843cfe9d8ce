"""The place Nodes: one computer by itself, several as a rack, and the ways between them."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QStackedWidget, QWidget

from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from backend.records.nodes.history import PastReading
from backend.records.nodes.reading import Finding, NodeState, Presence
from tests.asks import expect_request
from tests.job_views import replace_fields
from tests.widgets.jobs.detail.test_job_detail import LIVE
from tests.widgets.nodes import samples
from tests.windows import (
    add_widget,
    find_button,
    find_by_name,
    find_only,
    pick,
    show_widget,
    shows_text,
    visible_texts,
)
from widgets.common.actions import MoreButton
from widgets.common.buttons import Button, SegmentedControl
from widgets.common.cards import PageHeader
from widgets.common.fields import SearchField
from widgets.common.key_value_row import KeyValueRow
from widgets.nodes.history.history_card import HistoryCard
from widgets.nodes.history.node_history import to_history_data
from widgets.nodes.page import node_actions
from widgets.nodes.page.attention import AttentionCards, attention_cards
from widgets.nodes.page.gpu_card import GpuCard
from widgets.nodes.page.node_lists import FindingsCard, JobsCard, ProcessesCard
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.page.rack import DIMMED_ROLE
from widgets.nodes.row.node_row import node_row

pytestmark = pytest.mark.usefixtures("theme_manager")
LOCAL_STATE = NodeState(THIS_COMPUTER, Presence.ONLINE, samples.reading(THIS_COMPUTER, count=0))
VIEWS = tuple(replace(LIVE, id=key, name=name) for key, name in samples.JOBS.items())


class Clock:
    now = 1_700_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def page(qtbot, clock):
    page = show_widget(qtbot, NodesPage(clock), 1176, 900)
    page.show_jobs(VIEWS)
    return page


def press_button(qtbot, widget, text):
    # A button that has just joined a layout is shown with the next events.
    qtbot.waitUntil(
        lambda: text in [b.text() for b in widget.findChildren(Button) if b.isVisible()]
    )
    qtbot.mouseClick(find_button(widget, text), Qt.MouseButton.LeftButton)


def dimmed_names(page):
    model = page.rack.rows_model
    return [r.name for n, r in enumerate(model.rows) if model.index(n).data(DIMMED_ROLE)]


def test_this_computer_alone_has_no_rack_but_a_way_to_add_a_node(page, qtbot):
    page.show_nodes((LOCAL_STATE,))
    assert page.detail.isVisible()
    assert page.detail.node == THIS_COMPUTER
    with expect_request(page.node_actions, node_actions.ADD):
        press_button(qtbot, page, "Add a node")


def test_several_nodes_are_a_rack_with_counts_in_words(page):
    page.show_nodes(samples.cluster(12))
    assert page.rack.isVisible()
    assert "10 healthy, 1 needs attention, 1 offline · 42 of 96 GPUs free" in visible_texts(page)
    assert page.rack.rows_model.rows[0].gpus[0].owner == samples.JOBS["j2"]


def test_a_second_node_makes_the_rack_and_the_last_but_one_ends_it(page):
    page.show_nodes((LOCAL_STATE,))
    page.show_nodes((LOCAL_STATE, samples.state("gpu01")))
    assert page.rack.isVisible()
    page.open_node("gpu01")
    page.show_nodes((LOCAL_STATE,))
    assert page.detail.node == THIS_COMPUTER
    assert page.open_name == ""


def test_cards_name_the_fault_its_time_and_the_job_that_it_costs(page, clock):
    page.show_nodes(samples.cluster(12), {"gpu07": clock.now - 120})
    unhealthy, offline = find_only(AttentionCards, page).cards
    assert unhealthy.title == "gpu07: GPU 3 slowed by heat"
    assert unhealthy.text.replace("\xa0", " ").endswith(
        ", now 91 °C. retinanet-r50 · coco 2x runs on it."
    )
    assert unhealthy.text.startswith("Since ")
    assert (offline.title, offline.action) == ("gpu11 is offline", node_actions.RETRY)


def test_the_job_on_a_missing_node_is_named(page):
    placement = replace(LIVE.config.placement[0], node="gpu11")
    page.show_jobs((replace(LIVE, config=replace(LIVE.config, placement=(placement,))),))
    page.show_nodes(
        (samples.hot_node(samples.state("gpu07")), samples.offline_node(samples.state("gpu11")))
    )
    first_card = find_only(AttentionCards, page).cards[0]
    assert first_card.node == "gpu11", "what costs a job comes first"
    assert f"{LIVE.name} ran on it." in first_card.text


def test_twelve_nodes_are_seen_without_scrolling(page):
    """Cards whose words wrap are highest at their least width, which is not theirs here."""
    page.show_nodes(samples.cluster(12))
    QApplication.processEvents()
    assert find_only(AttentionCards, page).isVisible()
    assert page._scroll.verticalScrollBar().maximum() == 0
    page.resize(1176, 500)
    QApplication.processEvents()
    assert page._scroll.verticalScrollBar().maximum() > 0


def test_the_page_shows_at_most_three_cards_and_none_for_healthy_nodes(page):
    page.show_nodes(tuple(samples.offline_node(state) for state in samples.cluster(9)))
    assert len(find_only(AttentionCards, page).cards) == 3
    page.show_nodes((samples.state("a"), samples.state("b")))
    assert find_only(AttentionCards, page).cards == ()
    assert not find_only(AttentionCards, page).isVisible()


@pytest.mark.parametrize(
    ("action", "name"),
    [(node_actions.SHOW, "gpu07"), (node_actions.RETRY, "gpu11")],
    ids=["show", "retry"],
)
def test_the_button_of_a_card_does_its_action(page, qtbot, action, name):
    page.show_nodes(samples.cluster(12))
    with expect_request(page.node_actions, action) as requested:
        press_button(qtbot, find_only(AttentionCards, page), action.text)
    assert requested.args == [name]


def test_an_added_node_asks_for_its_set_up_and_then_shows_its_step(page, qtbot):
    new_node = NodeState("gpu13", Presence.NEW, entry=samples.entry("gpu13", is_ready=False))
    page.show_nodes((samples.state("gpu01"), new_node))
    with expect_request(page.node_actions, node_actions.SET_UP) as requested:
        press_button(qtbot, find_only(AttentionCards, page), "Set up")
    assert requested.args == ["gpu13"]
    steps = (SetUpStep("Reach", StepState.DONE), SetUpStep("Inspect", StepState.RUNNING))
    page.show_set_up(SetUp("gpu13", steps))
    assert page.rack.rows_model.rows[1].subtitle == "Inspect, 2 of 2"
    assert find_only(AttentionCards, page).cards == (), "a running set-up needs no card"


def test_filter_and_search_dim_other_nodes(page, qtbot):
    page.show_nodes(samples.cluster(12))
    assert dimmed_names(page) == []
    pick(find_by_name(SegmentedControl, page, "Show nodes"), "unwell")
    assert set(dimmed_names(page)) == {f"gpu{n:02d}" for n in range(1, 13)} - {"gpu07", "gpu11"}
    pick(find_by_name(SegmentedControl, page, "Show nodes"), "free")
    assert "gpu03" in dimmed_names(page)
    assert "gpu02" not in dimmed_names(page)
    pick(find_by_name(SegmentedControl, page, "Show nodes"), "all")
    with qtbot.waitSignal(find_only(SearchField, page).searched):
        qtbot.keyClicks(find_only(SearchField, page), "chen")
    assert set(dimmed_names(page)) == {f"gpu{n:02d}" for n in range(1, 13)} - {"gpu03", "gpu09"}
    assert len(page.rack.rows_model.rows) == 12


def test_a_search_that_finds_nothing_says_so(page, qtbot):
    page.show_nodes(samples.cluster(4))
    with qtbot.waitSignal(find_only(SearchField, page).searched):
        qtbot.keyClicks(find_only(SearchField, page), "resnt")
    assert shows_text(page, "“resnt”")


def test_a_node_opens_and_esc_leads_back_to_its_row(page, qtbot):
    page.show_nodes(samples.cluster(12))
    page.open_node("gpu07")
    assert page.detail.isVisible()
    assert (
        find_only(PageHeader, page.detail).subtitle.text()
        == "Needs attention: GPU 3 slowed by heat"
    )
    assert not find_button(page.detail, "Add a node").isVisible()
    with qtbot.waitSignal(page.node_opened) as signal:
        qtbot.keyClick(page.detail, Qt.Key.Key_Escape)
    assert signal.args == [""]
    assert page.rack.isVisible()
    assert page.rack.currentIndex().row() == 6


def test_only_an_advancing_heartbeat_is_fresh(page, clock):
    page.show_nodes(samples.cluster(3))
    clock.now += 60
    page.show_nodes(samples.cluster(3))
    assert page.rack.rows_model.rows[0].heartbeat.replace("\xa0", " ") == "1 min"
    state = samples.cluster(3)[0]
    page.show_nodes((replace(state, reading=replace(state.reading, heartbeat=2)), LOCAL_STATE))
    assert page.rack.rows_model.rows[0].heartbeat == "now"


def test_the_history_of_a_node_begins_before_it_is_opened(page, clock):
    for heartbeat in range(5):
        page.show_nodes(
            tuple(
                replace(s, reading=replace(s.reading, heartbeat=heartbeat))
                for s in samples.cluster(7)
            )
        )
        clock.now += 2
    page.open_node("gpu07")
    QApplication.processEvents()
    plot = find_only(HistoryCard, page.detail).plot
    assert len(plot.curves) == 8
    entries, _ = plot.readout(clock.now - 4)
    assert [(name.replace("\xa0", " "), value.replace("\xa0", " ")) for name, value in entries] == [
        ("GPU 3", "91 °C"),
        ("Slowed by heat, runs hot, 91 °C", ""),
    ]


def test_findings_reach_only_the_open_node(page, qtbot):
    page.show_nodes(samples.cluster(12))
    page.open_node("gpu01")
    with expect_request(page.node_actions, node_actions.CHECK) as requested:
        press_button(qtbot, page.detail, "Check")
    assert requested.args == ["gpu01"]
    page.show_findings("gpu02", (Finding("a", False, "broken"),))
    assert find_only(FindingsCard, page.detail)._findings == ()
    page.show_check_error("gpu01", "gpu01 did not answer.")
    assert find_only(FindingsCard, page.detail).isVisible()
    page.open_node("gpu02")
    assert not find_only(FindingsCard, page.detail).isVisible()


def test_out_of_service_and_back(page, qtbot):
    state = samples.state("gpu01")
    page.show_nodes((LOCAL_STATE, state))
    page.open_node("gpu01")
    service_button = find_button(page.detail, "Take out of service")
    with expect_request(page.node_actions, node_actions.TAKE_OUT) as requested:
        press_button(qtbot, page.detail, "Take out of service")
    assert requested.args == ["gpu01"]
    page.show_nodes((LOCAL_STATE, replace(state, presence=Presence.OUT_OF_SERVICE)))
    assert find_button(page.detail, "Put back") is service_button, "it keeps the focus"
    with expect_request(page.node_actions, node_actions.PUT_BACK) as requested:
        press_button(qtbot, page.detail, "Put back")
    assert requested.args == ["gpu01"]


def test_remove_asks_once(page, qtbot):
    page.show_nodes((LOCAL_STATE, samples.state("gpu01")))
    page.open_node("gpu01")
    removed_nodes = []
    page.node_actions.add_handler(node_actions.REMOVE_NOW, removed_nodes.append)
    page.node_actions.ask(node_actions.REMOVE, "gpu01")
    press_button(qtbot, page.detail, "Keep")
    assert removed_nodes == []
    page.node_actions.ask(node_actions.REMOVE, "gpu01")
    with expect_request(page.node_actions, node_actions.REMOVE_NOW) as requested:
        press_button(qtbot, page.detail, "Remove")
    assert requested.args == ["gpu01"]


def test_this_computer_cannot_be_removed_or_set_up(page):
    page.show_nodes((LOCAL_STATE, samples.state("gpu01")))
    page.open_node(THIS_COMPUTER)
    button_texts = {
        b.text() for b in page.detail.findChildren(Button) if b.isVisible() and b.text()
    }
    assert "Check" in button_texts
    assert not button_texts & {"Set up", "Take out of service", "Add a node"}
    assert not find_only(MoreButton, page.detail).isVisible()


def test_an_offline_node_says_why_and_shows_no_stale_figures(page, qtbot):
    page.show_nodes(samples.cluster(12))
    page.open_node("gpu11")
    assert "Try again" in visible_texts(page.detail)
    assert not any(card.isVisible() for card in page.detail.findChildren(GpuCard))
    details = {item.caption: item.value for item in find_only(KeyValueRow, page.detail).items}
    assert details["Processor"] == "128 cores"
    with expect_request(page.node_actions, node_actions.RETRY) as requested:
        press_button(qtbot, page.detail, "Try again")
    assert requested.args == ["gpu11"]


def test_an_offline_node_s_card_says_once_since_when():
    state = samples.offline_node(samples.state("gpu11"), "no news since 14:02")
    (card,) = attention_cards((state,), {"gpu11": node_row(state)}, (), {"gpu11": 0.0}, 60.0)
    assert card.text == "No news since 14:02."


def test_processes_of_one_run_are_one_line(page):
    page.show_nodes((LOCAL_STATE, samples.state("gpu06", "ours")))
    page.open_node("gpu06")
    card = find_only(ProcessesCard, page.detail)
    assert {"python, 8 processes", "mai"} <= set(visible_texts(card))
    assert shows_text(card, "GPU 0–7")


def test_the_row_that_keys_lead_to_is_scrolled_into_view(page, qtbot):
    page.resize(1176, 420)
    page.show_nodes(samples.cluster(24))
    page.rack.setFocus()
    page.rack.setCurrentIndex(page.rack.rows_model.index(0))
    bar = page._scroll.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    qtbot.keyClick(page.rack, Qt.Key.Key_End)
    assert bar.value() > bar.maximum() / 2


def test_a_job_is_off_a_node_by_two_clicks(page, qtbot):
    page.show_nodes(samples.cluster(12))
    placement = replace(LIVE.config.placement[0], node="gpu07")
    view = replace(LIVE, name="coco", config=replace(LIVE.config, placement=(placement,)))
    page.show_jobs((view, replace_fields(view, state=JobState.FINISHED, id="x", name="over")))
    press_button(qtbot, page, "Show node")
    with expect_request(page.node_actions, node_actions.MOVE_OFF) as requested:
        press_button(qtbot, page, "Move it off gpu07…")
    assert requested.args == [view.id, "gpu07"]
    page.open_node("gpu01")
    assert not find_only(JobsCard, page.detail).isVisible()


def test_the_hours_of_a_node_are_asked_for_when_it_is_opened(page, qtbot):
    page.show_nodes(samples.cluster(12))
    with expect_request(page.node_actions, node_actions.READ_HISTORY) as requested:
        page.open_node("gpu07")
    assert requested.args == ["gpu07"]
    page.show_agent_history(
        "gpu07", to_history_data([PastReading(page._clock() - 7200, 40.0, 1e9, ())])
    )
    assert shows_text(find_only(HistoryCard, page.detail), "Since ")
    page.show_agent_history("gone", to_history_data([]))


def test_a_node_without_gpus_shows_its_hours_as_soon_as_they_are_longer_than_its_meters(page):
    page.show_nodes((LOCAL_STATE, samples.state("cpu01", count=0)))
    page.open_node("cpu01")
    assert not find_only(HistoryCard, page.detail).isVisible()
    now_s = page._clock()
    page.show_agent_history(
        "cpu01", to_history_data([PastReading(now_s - age, 40.0) for age in (7200, 7180, 60)])
    )
    assert find_only(HistoryCard, page.detail).isVisible()
    assert tuple(find_only(HistoryCard, page.detail).plot.curves) == ("node",)


def test_updates_of_a_hidden_page_wait_until_it_is_shown(qtbot, clock):
    stack = add_widget(qtbot, QStackedWidget())
    page = NodesPage(clock)
    stack.addWidget(QWidget())
    stack.addWidget(page)
    with qtbot.waitExposed(stack):
        stack.show()
    nodes = samples.cluster(12)
    page.show_nodes(nodes)
    assert page.rack.model().rowCount() == 0
    online_names = {node.name for node in nodes if node.presence is not Presence.OFFLINE}
    assert set(page.histories) == online_names, "what was not seen is lost"
    assert len(page.heartbeats()) == 12
    stack.setCurrentWidget(page)
    assert page.rack.model().rowCount() == 12
