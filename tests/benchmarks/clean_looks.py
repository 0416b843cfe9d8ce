"""X1: fifty looks at nodes that are well, on the test cluster: needs root."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.cluster.ready import made_ready
from tests.cluster.test_clean_looks import AT_ONCE, looks

LOOKS = 50


def measure() -> list[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster(folder / "cluster", progress=Progress(sys.stderr)))
        ready = stack.enter_context(made_ready(cluster, folder))
        found = looks(ready, LOOKS)
    blocked = tuple(float(not one.passed) for one in found)
    took = max(one.took_s for one in found)
    context = f"{AT_ONCE} at once; the longest took {took:.1f} s"
    return [Figure("X1", f"of {LOOKS} clean looks blocked", (sum(blocked),), 0, context=context)]
