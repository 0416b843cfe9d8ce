"""P11 with nothing answered from a record: nine nodes of the test cluster set up for real.

Needs root, 8 GB of disk and a calm machine. What eight nodes do for themselves they do on the cores
of this one, so the ratio falls short of the goal wherever they are not eight times as many as one
node keeps busy; the context tells the work of each in seconds of a core. `provisioning` measures
what is ours.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from backend.errors import BackendError
from backend.records.cluster import NodeAddress
from backend.services.workplace import Services, open_services
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster

MANY = 8


def measure() -> list[Figure]:
    names = tuple(f"gpu{number}" for number in range(MANY + 1))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        progress = Progress(sys.stderr)
        cluster = stack.enter_context(Cluster(folder / "cluster", names, names, progress))
        (folder / "desktop").mkdir()
        services = open_services(cluster.share, folder / "desktop/catalogue.sqlite")
        stack.callback(services.close)
        for name in names:
            _add(services, cluster, name)
        load = os.getloadavg()[0]
        # Wheels are gathered once for good: that is no part of either.
        one = _set_up(services, names[:1])
        many = _set_up(services, names[1:])
        context = (
            f"one {one[0]:.0f} s, {MANY} {many[0]:.0f} s, on {os.cpu_count()} cores at a load of "
            f"{load:.1f}; the whole machine worked {one[1]:.0f} and {many[1]:.0f} s of a core, our "
            f"own process {one[2]:.1f} and {many[2]:.1f} s of it"
        )
        what = f"setting up {MANY} real nodes / one"
        return [Figure("P11", what, (many[0] / one[0],), 1.3, context=context)]


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


def _set_up(services: Services, names: Collection[str]) -> tuple[float, float, float]:
    """Seconds by the clock; of a core, of the whole machine and of this process."""
    before = time.perf_counter(), _busy_s(), time.process_time()
    done = services.set_up.set_up(tuple(names), lambda news: None)
    after = time.perf_counter(), _busy_s(), time.process_time()
    for one in done.values():
        if isinstance(one, BackendError):
            raise one
    clock_s, busy_s, own_s = (now - then for then, now in zip(before, after, strict=True))
    return clock_s, busy_s, own_s


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)
