"""X1: checks of healthy nodes on the test cluster: fifty that block no start, and how long one of
four nodes takes. Needs root."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.cluster.ready import open_ready_cluster
from tests.cluster.test_clean_looks import CONCURRENT_CHECKS, run_checks
from tests.cluster.test_preflight import config

CHECKS = 50
FOUR = ("node1", "node2", "node3", "node4")
SINGLE_CHECKS = 3
LIMIT_S = 20.0


def measure() -> list[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = Cluster(folder / "cluster", FOUR, progress=Progress(sys.stderr))
        ready = stack.enter_context(open_ready_cluster(stack.enter_context(cluster), folder))
        # The first imports PyTorch on every node.
        single_results = [ready.services.preflight.run(config(*FOUR)) for _ in range(SINGLE_CHECKS)]
        results = run_checks(ready, CHECKS)
    blocked_flags = tuple(float(not result.succeeded) for result in (*single_results, *results))
    longest_s = max(result.took_s for result in results)
    context = f"{CONCURRENT_CHECKS} at once; the longest took {longest_s:.1f} s"
    return [
        Figure(
            "X1",
            f"of {len(blocked_flags)} checks of healthy nodes blocked",
            (sum(blocked_flags),),
            0,
            context=context,
        ),
        Figure(
            "X1",
            "for a check of four nodes, the longest",
            (max(result.took_s for result in single_results),),
            LIMIT_S,
            "s",
        ),
    ]
