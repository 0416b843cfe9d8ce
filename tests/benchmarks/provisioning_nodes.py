"""P11 with nothing answered from a record: nine nodes of the test cluster set up for real.

Needs root, 8 GB of disk and a calm machine. Nodes are machines, and each has a processor of its
own; here they are namespaces that would take it from each other, eight of them eight times as much
as one. So each node is given an eighth of a core, and this desktop as well: together they leave
almost one of two cores to the kernel, which writes their disks. That is nine machines in slow
motion, the desktop as slow as the nodes, so that what it does for eight of them weighs what it
would weigh at full speed. The context shows how well that held: seconds of a core, and the largest
share of one. `provisioning` measures what is ours at full speed.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from backend.base.errors import BackendError
from backend.records.nodes.entry import NodeAddress
from backend.services.context.container import Services, open_services
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.cluster.processor import Processor

NODE_COUNT = 8
CORES = 1 / 8


@dataclass(frozen=True)
class SetUpTimes:
    """Seconds by the clock; of a core, of each node and of this process."""

    clock_s: float
    nodes_s: tuple[float, ...]
    own_s: float

    @property
    def largest_share(self) -> float:
        """Of a core, of the node that had most of one."""
        return max(self.nodes_s) / self.clock_s


def measure() -> list[Figure]:
    names = tuple(f"gpu{number}" for number in range(NODE_COUNT + 1))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        progress = Progress(sys.stderr)
        cluster = stack.enter_context(Cluster(folder / "cluster", names, names, progress, CORES))
        (folder / "desktop").mkdir()
        services = open_services(cluster.share, folder / "desktop/catalogue.sqlite")
        stack.callback(services.close)
        for name in names:
            _add(services, cluster, name)
        load = os.getloadavg()[0]
        # Wheels are gathered once for good: that is no part of either.
        desktop = Processor(cluster.slot.namespace("desktop"), CORES)
        stack.enter_context(desktop.hold_process(os.getpid()))
        single = _set_up(services, cluster, names[:1])
        parallel = _set_up(services, cluster, names[1:])
        largest_share = max(single.largest_share, parallel.largest_share)
        context = (
            f"one {single.clock_s:.0f} s, {NODE_COUNT} {parallel.clock_s:.0f} s; a node worked "
            f"{single.nodes_s[0]:.1f} s of a core alone and "
            f"{statistics.median(parallel.nodes_s):.1f} s "
            f"beside the others, at most {largest_share:.3f} of a "
            f"core at {CORES:.3f} allowed; our own process "
            f"{single.own_s:.1f} and {parallel.own_s:.1f} s; "
            f"on {os.cpu_count()} cores at a load of {load:.1f}"
        )
        title = f"setting up {NODE_COUNT} real nodes / one, each with a processor of its own"
        return [Figure("P11", title, (parallel.clock_s / single.clock_s,), 1.3, context=context)]


def _add(services: Services, cluster: Cluster, name: str) -> None:
    address = NodeAddress(
        cluster.address_of(name), user=cluster.user, identity=str(cluster.identity)
    )
    services.cluster.add(
        name,
        address,
        accept=lambda key: any(line.endswith(f" {key.text}") for line in cluster.known_hosts),
        node_data_root=cluster.data_root,
    )


def _set_up(services: Services, cluster: Cluster, names: Collection[str]) -> SetUpTimes:
    processors = [p for name in names if (p := cluster[name].processor) is not None]
    starts_s = [processor.used_s() for processor in processors]
    started_s, used_s = time.perf_counter(), time.process_time()
    results = services.provisioning.set_up(tuple(names), lambda update: None)
    clock_s, own_s = time.perf_counter() - started_s, time.process_time() - used_s
    for result in results.values():
        if isinstance(result, BackendError):
            raise result
    nodes_s = (p.used_s() - start_s for p, start_s in zip(processors, starts_s, strict=True))
    return SetUpTimes(clock_s, tuple(nodes_s), own_s)
