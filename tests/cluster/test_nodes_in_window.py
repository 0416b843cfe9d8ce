"""The page Nodes with real nodes: figures without an agent, and the orphans of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.records.base.layout import RUN_VARIABLE
from backend.records.nodes.entry import NodeAddress
from backend.records.nodes.reading import Presence
from tests.cluster.node import Process
from tests.cluster.ready import ReadyCluster
from tests.cluster.windows import node_row
from tests.integration.tiny import raw_job
from tests.programs import services_of
from tests.waiting import wait_for
from widgets.common.buttons import Button
from widgets.nodes.row.node_row import Condition, NodeRow

pytest_plugins = ["tests.cluster.runs_fixtures"]


def is_shown(program: Program, node: str) -> bool:
    return any(row.name == node for row in program.nodes.rack.rows_model.rows)


def shows_figures(row: NodeRow) -> bool:
    """Whether it shows figures."""
    return row.processor is not None and bool(row.memory) and not row.notice


@pytest.mark.slow
@pytest.mark.usefixtures("soon_missed")
def test_a_node_with_an_ended_agent_is_read_over_ssh_until_its_next_heartbeat(
    program: Program, ready_cluster: ReadyCluster, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the window would start it.
    monkeypatch.setattr(services_of(program).provisioning, "wake", lambda name: None)
    program.window.open_page("nodes")
    qtbot.waitUntil(lambda: is_shown(program, "node2"))
    qtbot.waitUntil(lambda: node_row(program, "node2").condition is Condition.WELL)
    ready_cluster.stop_agent("node2")
    qtbot.waitUntil(lambda: node_row(program, "node2").subtitle == "Agent stopped")
    row = node_row(program, "node2")
    assert (row.condition, row.heartbeat, shows_figures(row)) == (
        Condition.OFFLINE,
        "over SSH",
        True,
    )
    ready_cluster.start_agent("node2")
    qtbot.waitUntil(lambda: node_row(program, "node2").heartbeat == "now")


@pytest.mark.slow
def test_an_unprovisioned_node_is_read_over_ssh(
    program: Program, ready_cluster: ReadyCluster, qtbot: QtBot
) -> None:
    nodes = ready_cluster.cluster
    address = NodeAddress(nodes.address_of("node3"), user=nodes.user, identity=str(nodes.identity))
    cluster = services_of(program).cluster
    cluster.add("bare", address, accept=lambda _key: False, node_data_root=nodes.data_root)
    try:
        program.window.open_page("nodes")
        qtbot.waitUntil(
            lambda: is_shown(program, "bare") and shows_figures(node_row(program, "bare"))
        )
        assert node_row(program, "bare").condition is Condition.NEW
        assert program.nodes._states["bare"].presence is Presence.NEW
    finally:
        cluster.remove("bare")


@pytest.fixture
def planted(stocked: ReadyCluster) -> Iterator[None]:
    """On node1: what a run left behind, and what no run started."""
    node = stocked["node1"]
    # Where no job ever was, it is unknown what is left of one.
    job = stocked.services.jobs.create(raw_job(placement=[{"node": "node1", "processes": 1}]))
    for tag in (f"{RUN_VARIABLE}=long-gone/x", "OTHER=1"):
        node.run(["sh", "-c", f"{tag} setsid sleep 3717 > /dev/null 2>&1 < /dev/null &"])
    wait_for(lambda: len(_planted_processes(stocked)) == 2, "what is planted")
    yield
    for process in _planted_processes(stocked):
        node.run(["kill", "-9", str(process.pid)])
    stocked.services.jobs.remove(job.id)


def _planted_processes(ready_cluster: ReadyCluster) -> list[Process]:
    return [process for process in ready_cluster["node1"].processes() if "3717" in process.argv]


@pytest.mark.slow
def test_s14_only_the_orphan_of_a_run_is_offered_and_ended(
    program: Program, ready_cluster: ReadyCluster, planted: None, qtbot: QtBot
) -> None:
    program.window.open_page("nodes")
    qtbot.waitUntil(lambda: is_shown(program, "node1"))
    program.nodes.open_node("node1")
    qtbot.waitUntil(lambda: bool(_offered_buttons(program)))
    (end,) = _offered_buttons(program)
    qtbot.mouseClick(end, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not _offered_buttons(program))
    assert len(_planted_processes(ready_cluster)) == 1


def _offered_buttons(program: Program) -> list[Button]:
    buttons = program.nodes.findChildren(Button)
    return [b for b in buttons if b.isVisible() and b.text() in ("End process", "Ending…")]
