"""The cluster in the side bar: counts, a sentence each, a map; less of it where room is short."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt

from backend.records.nodes.reading import Presence
from tests.widgets.nodes import samples
from tests.windows import show_widget, visible_texts
from widgets.common.labels import Note
from widgets.common.painting import text_width
from widgets.common.theme import SIDEBAR_W, SIDEBAR_WIDE_W
from widgets.nodes.row.node_row import node_row
from widgets.shell import cluster_summary
from widgets.shell.cluster_summary import ClusterSummary, HealthCounts
from widgets.shell.side_bar import SideBar


@pytest.fixture
def summary(qtbot):
    return show_widget(qtbot, ClusterSummary(), 220, 600)


def note_texts(summary):
    notes = [summary.notes.itemAt(n).widget() for n in range(summary.notes.count())]
    return [note.accessibleName() for note in notes if isinstance(note, Note)]


def test_the_summary_shows_counts_and_a_sentence_for_each_node_that_needs_attention(summary):
    summary.show_nodes(samples.cluster(12))
    assert summary.counts.accessibleName() == "1 needs attention, 1 offline"
    assert note_texts(summary) == [
        "gpu07 GPU 3 slowed by heat",
        "gpu11 no news since 03:12, no route to host",
    ]
    assert "42 of 96 free" in visible_texts(summary)


def test_a_healthy_cluster_is_one_calm_line(summary):
    summary.show_nodes((samples.state("a"), samples.state("b")))
    assert summary.counts.accessibleName() == "Nodes: all healthy"
    assert note_texts(summary) == []
    assert not summary._notes.isVisible()


@pytest.mark.parametrize(
    ("presences", "accessible_name"),
    [
        ((Presence.ONLINE, Presence.NEW), "Nodes: 1 not set up"),
        ((Presence.ONLINE, Presence.OUT_OF_SERVICE), "Nodes: all healthy"),
        ((Presence.OUT_OF_SERVICE, Presence.OUT_OF_SERVICE), "Nodes: none in service"),
    ],
)
def test_unusable_nodes_are_not_called_healthy(summary, presences, accessible_name):
    states = (samples.state(name) for name in "ab")
    summary.show_nodes(
        tuple(
            replace(state, presence=is_so) for state, is_so in zip(states, presences, strict=True)
        )
    )
    assert summary.counts.accessibleName() == accessible_name


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize(
    ("unhealthy", "offline"), [(1, 1), (12, 1), (1, 12), (48, 16), (148, 116), (0, 7)]
)
def test_no_count_of_the_summary_is_cut(qtbot, monkeypatch, unhealthy, offline, is_wide):
    nodes = [samples.hot_node(samples.state(f"hot{n}")) for n in range(unhealthy)]
    nodes += [samples.offline_node(samples.state(f"gone{n}")) for n in range(offline)]
    room_of_texts = []
    monkeypatch.setattr(
        cluster_summary,
        "paint_text",
        lambda _painter, rect, text, role, *_options: (
            room_of_texts.append((rect.right() - rect.left(), text_width(text, role)))
            or float(text_width(text, role))
        ),
    )
    counts = HealthCounts()
    qtbot.addWidget(counts)
    counts.set_wide(is_wide)
    counts.show_rows(tuple(map(node_row, nodes)))
    counts.resize(SIDEBAR_WIDE_W - 40 if is_wide else SIDEBAR_W - 40, 40)
    counts.grab()
    assert room_of_texts
    assert all(width <= rect + 1 for rect, width in room_of_texts)


def test_the_summary_shows_at_most_three_sentences(summary):
    summary.show_nodes(tuple(samples.offline_node(state) for state in samples.cluster(6)))
    assert len(note_texts(summary)) == 3
    assert summary.counts.accessibleName() == "6 offline"


def test_one_computer_is_one_sentence(summary):
    summary.show_nodes((samples.state("this-computer"),))
    assert note_texts(summary) == ["This computer healthy"]
    assert not summary.counts.isVisible()
    assert summary.map.isVisible()


def test_a_low_window_hides_the_map_first_then_the_sentences(summary):
    summary.show_nodes(samples.cluster(12))

    def visible_parts():
        return summary.map.isVisible(), summary._notes.isVisible(), summary.counts.isVisible()

    summary.set_available_height(900)
    assert visible_parts() == (True, True, True)
    summary.set_available_height(800)
    assert visible_parts() == (False, True, True)
    summary.set_available_height(620)
    assert visible_parts() == (False, False, True)


def test_the_rail_keeps_the_counts(summary):
    summary.show_nodes(samples.cluster(12))
    summary.set_narrow(True)
    assert summary.counts.isVisible()
    assert not summary.map.isVisible()
    assert not summary._notes.isVisible()


@pytest.mark.parametrize("count", [2, 12, 20, 21, 64])
def test_each_node_of_the_map_is_found_where_it_is_drawn(summary, qtbot, count):
    states = samples.cluster(count)
    summary.show_nodes(states)
    picture = summary.map
    qtbot.waitUntil(lambda: picture.height() == picture.maximumHeight())
    assert picture.height() <= 14 * 20
    names = {
        picture.node_at(QPoint(x, y))
        for x in (5, picture.width() - 5)
        for y in range(picture.height())
    }
    assert names - {""} == {state.name for state in states}
    with qtbot.waitSignal(summary.node_opened) as signal:
        qtbot.mouseClick(picture, Qt.MouseButton.LeftButton, pos=QPoint(5, 2))
    assert signal.args == [states[0].name]
    assert not picture.grab().isNull()


def test_rows_of_the_map_shrink_where_room_is_short(qtbot):
    bar = show_widget(qtbot, SideBar(), 264, 640)
    bar.show_nodes(samples.cluster(20))
    bar.set_available_height(900)
    picture = bar.cluster.map
    qtbot.waitUntil(lambda: 0 < picture.height() < 14 * 20)
    assert picture.mapTo(bar, QPoint(0, picture.height())).y() <= bar.height()
    names = {picture.node_at(QPoint(5, y)) for y in range(picture.height())}
    assert len(names - {""}) == 20


def test_a_screen_reader_gets_the_whole_of_a_long_name(summary):
    name = "node-rack3-row7-machine-007.cluster.example.org"
    summary.show_nodes((samples.offline_node(samples.state(name)), samples.state("b")))
    assert note_texts(summary)[0].startswith(name)
    assert name in summary.notes.itemAt(0).widget().toolTip()


def test_figures_that_the_map_does_not_show_repaint_nothing(summary, monkeypatch):
    states = samples.cluster(12)
    summary.show_nodes(states)
    update_calls = []
    monkeypatch.setattr(type(summary.map), "update", lambda _self: update_calls.append(1))
    warmer = replace(states[0], reading=replace(states[0].reading, memory_used_bytes=1))
    summary.show_nodes((warmer, *states[1:]))
    assert update_calls == []
    summary.show_nodes((samples.offline_node(states[0]), *states[1:]))
    assert update_calls == [1]


def test_a_node_of_the_map_opens_its_place_and_itself(qtbot):
    bar = show_widget(qtbot, SideBar(), 264, 900)
    bar.show_nodes(samples.cluster(12))
    heard = []
    bar.page_chosen.connect(heard.append)
    bar.node_opened.connect(heard.append)
    qtbot.mouseClick(bar.cluster.map, Qt.MouseButton.LeftButton, pos=QPoint(100, 14 * 6 + 5))
    assert heard == ["nodes", "gpu07"]
