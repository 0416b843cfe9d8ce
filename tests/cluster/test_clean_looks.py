"""Fifty looks at nodes that are well, several at once, as when many start at the same hour."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import pytest

from backend.records.preflight import Preflight
from tests.cluster.ready import ReadyCluster
from tests.cluster.test_preflight import LIMIT_S, config

LOOKS, AT_ONCE = 50, 3
SHAPES = (("node1",), ("node2",), ("node3",), ("node2", "node1"), ("node3", "node1", "node2"))


@pytest.mark.timeout(900)
def test_x1_of_fifty_clean_looks_none_blocks_anybody(ready_cluster: ReadyCluster) -> None:
    def look(nodes: tuple[str, ...]) -> Preflight:
        return ready_cluster.services.preflight.run(config(*nodes))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(look, islice(cycle(SHAPES), LOOKS)))
    assert [fault.sentence for one in found for fault in one.faults] == []
    assert all(one.passed for one in found)
    # Three at once on one machine that plays all the nodes; alone, a look has its own test.
    assert max(one.took_s for one in found) < 2 * LIMIT_S
    assert not list(ready_cluster.cluster.share.glob("jobs/.*")), "something was left behind"
