"""One node that swallows every packet, in the window: updates of the others come all the same."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.nodes.reading import NodeState, Presence
from backend.ssh import client as ssh_client
from tests.cluster.ready import ReadyCluster
from tests.waiting import LIMIT_S
from widgets.nodes.page.node_actions import CHECK, RETRY

pytestmark = pytest.mark.slow

OTHER_NODES = ("node1", "node3")
UPDATES = 3


@pytest.mark.usefixtures("soon_missed")
def test_m19_a_node_that_swallows_packets_delays_no_updates_of_the_other_nodes(
    program: Program,
    ready_cluster: ReadyCluster,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    presences: dict[str, Presence] = {}
    updates: Counter[str] = Counter()
    beat_counts: dict[str, int] = {}

    def record_states(states: tuple[NodeState, ...]) -> None:
        for state in states:
            presences[state.name] = state.presence
            if state.reading is not None and beat_counts.get(state.name) != state.reading.heartbeat:
                beat_counts[state.name] = state.reading.heartbeat
                updates[state.name] += 1

    def swallow() -> None:
        ready_cluster["node2"].block_desktop()
        ready_cluster["node2"].unmount_share()

    program.window.open_page("nodes")
    program._node_controller.nodes_listed.connect(record_states)
    qtbot.waitUntil(lambda: list(presences.values()) == [Presence.ONLINE] * 4)
    qtbot.waitUntil(lambda: not program._background._queues)
    # Who asks the silent node waits until the end of the test.
    monkeypatch.setitem(ssh_client.connect.__kwdefaults__, "limit_s", LIMIT_S)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(swallow)
        qtbot.waitUntil(future.done)
    future.result()
    # What the user does then; each of these waits for an answer that does not come.
    program.nodes.node_actions.ask(CHECK, "node2")
    program.nodes.node_actions.ask(RETRY, "node2")
    qtbot.waitUntil(lambda: presences["node2"] is Presence.OFFLINE)
    qtbot.waitUntil(lambda: "wake node2" in program._background._queues)
    updates.clear()
    qtbot.waitUntil(lambda: all(updates[name] >= UPDATES for name in OTHER_NODES))
    assert "wake node2" in program._background._queues, "it had an answer, and held up nothing"
    assert {name: presences[name] for name in OTHER_NODES} == dict.fromkeys(
        OTHER_NODES, Presence.ONLINE
    )
    ready_cluster["node2"].unblock_desktop()
    ready_cluster["node2"].mount_share()
    qtbot.waitUntil(lambda: presences["node2"] is Presence.ONLINE)
