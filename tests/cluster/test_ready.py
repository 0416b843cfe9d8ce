"""Conditions of other tests: the nodes were set up, and each test finds their agents alive."""

from __future__ import annotations

import pytest

from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import everyone_is_online
from tests.waiting import wait_for


def test_every_node_is_set_up_and_online(ready_cluster: ReadyCluster) -> None:
    remote = [node for node in ready_cluster.services.nodes.list() if node.entry is not None]
    assert [node.name for node in remote] == list(ready_cluster.cluster.nodes)
    wait_for(lambda: everyone_is_online(ready_cluster), "every node to be online")


@pytest.mark.slow
def test_an_agent_that_ended_lives_again(ready_cluster: ReadyCluster) -> None:
    ready_cluster["node2"].power_off()
    ready_cluster.stop_agent("node1")
    ready_cluster.cluster.heal()
    assert not ready_cluster.agent_lives("node1")
    assert not ready_cluster.agent_lives("node2")
    ready_cluster.revive()
    for name in ready_cluster.cluster.nodes:
        assert ready_cluster.agent_lives(name)
