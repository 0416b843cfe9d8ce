"""Checks of healthy nodes, several at once, as when many jobs start at the same hour.

Fifty of them are ``./installers/bench clean_looks``: each imports PyTorch on every node.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import pytest

from backend.records.nodes.preflight import Preflight
from tests.cluster.ready import ReadyCluster
from tests.cluster.test_preflight import config

pytestmark = pytest.mark.slow

CONCURRENT_CHECKS = 3
SHAPES = (("node1",), ("node2",), ("node3",), ("node2", "node1"), ("node3", "node1", "node2"))


def run_checks(ready: ReadyCluster, count: int) -> list[Preflight]:
    """At one, two and all of the nodes."""

    def check(nodes: tuple[str, ...]) -> Preflight:
        return ready.services.preflight.run(config(*nodes))

    with ThreadPoolExecutor(CONCURRENT_CHECKS) as pool:
        return list(pool.map(check, islice(cycle(SHAPES), count)))


def test_x1_checks_of_healthy_nodes_block_no_start(ready_cluster: ReadyCluster) -> None:
    result = run_checks(ready_cluster, 2 * len(SHAPES))
    assert [finding.message for finding in result for finding in finding.blocking_findings] == []
    assert all(finding.succeeded for finding in result)
    assert not list(ready_cluster.cluster.share.glob("jobs/.*")), "something was left behind"
