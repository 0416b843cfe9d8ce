"""Share of slow jobs whose cause is named rightly: needs root.

Two nodes of the test cluster train; a slow loader, a busy core, a delayed link beside steps half as
long as those of the other causes, or double work on one rank slows them. Each cause is made ten
times, in jobs of their own.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections import Counter
from pathlib import Path

from backend.records.jobs.slow_cause import Cause
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.cluster.ready import open_ready_cluster
from tests.cluster.seeded_causes import is_named, stock_slow_items, train_with_cause

RUNS = 10


def measure(runs: int = RUNS) -> list[Figure]:
    figures = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        nodes = ("node1", "node2")
        cluster = stack.enter_context(
            Cluster(folder / "cluster", nodes, (), progress=Progress(sys.stderr))
        )
        ready = stack.enter_context(open_ready_cluster(cluster, folder))
        stock_slow_items(ready, folder / "sources")
        for cause in Cause:
            views = [train_with_cause(ready, cause) for _ in range(runs)]
            correct_count = sum(is_named(view, cause) for view in views)
            named_causes = Counter(
                view.status.slow_cause.cause.value
                if view.status.slow_cause is not None
                else "nothing"
                for view in views
            )
            counts = ", ".join(f"{name} {count}" for name, count in named_causes.items())
            context = f"{runs} runs: {counts}; such as “{views[-1].slow_message()}”"
            figures.append(
                Figure(
                    "X4",
                    f"named rightly, {cause.value}",
                    (correct_count / runs,),
                    0.9,
                    at_least=True,
                    context=context,
                )
            )
    return figures
