"""Local steps on a slow network, and what a plan says of it: needs root.

Two nodes of the test cluster, whose cards send 100 Mbit/s, train a network of LeNet-5's size. The
figures: samples a second with weights averaged every 20 steps, by those of DDP; and the seconds a
step of the plan for two nodes against those of the run with DDP.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from backend.records.jobs.state import JobState
from installers.console import Progress
from tests.benchmarks.figures import Figure
from tests.cluster.cluster import Cluster
from tests.cluster.ready import ReadyCluster, open_ready_cluster, patience
from tests.cluster.runs import job_starter, stock_library, wait_for_end
from tests.integration.tiny import MODEL, raw_job

_NODES = ("node1", "node2")
_LINK_MBIT = 100
_PERIOD = 20
_PAIRS = 3
_WIDTH = 656
"""431,000 parameters: LeNet-5 has 431,080."""
_LARGER_MODEL = MODEL.replace(
    "nn.Linear(4, 2)",
    f"nn.Sequential(nn.Linear(4, {_WIDTH}), nn.Tanh(), nn.Linear({_WIDTH}, {_WIDTH}),"
    f" nn.Tanh(), nn.Linear({_WIDTH}, 2))",
)
_BATCH = 4
_DDP: dict[str, Any] = {"name": "ddp"}
_LOCAL: dict[str, Any] = {"name": "ddp", "average_every": _PERIOD}


def measure() -> list[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(patience())
        cluster = stack.enter_context(
            Cluster(folder / "cluster", _NODES, (), progress=Progress(sys.stderr))
        )
        ready = stack.enter_context(open_ready_cluster(cluster, folder))
        stock_library(ready, folder / "sources", _LARGER_MODEL)
        for node in _NODES:
            rate = f"{_LINK_MBIT}mbit burst 64kb latency 50ms".split()
            ready[node].run_as_root(
                "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", *rate
            )
        pairs = [(_step_s(ready, _DDP), _step_s(ready, _LOCAL)) for _ in range(_PAIRS)]
        plan = ready.services.planner.plan(
            _job_file(strategy=_DDP, placement=[{"node": n, "processes": 1} for n in _NODES]),
            _LINK_MBIT,
        )
    (planned_s,) = (by_nodes.step_s for by_nodes in plan.by_nodes if by_nodes.nodes == len(_NODES))
    measured_s = statistics.median(ddp_s for ddp_s, _ in pairs)
    context = f"DDP {measured_s * 1e3:.0f} ms a step"
    return [
        Figure(
            "X7",
            f"samples a second at {_LINK_MBIT} Mbit/s, {_PERIOD} local steps / DDP",
            tuple(ddp_s / local_s for ddp_s, local_s in pairs),
            5,
            at_least=True,
            context=context,
        ),
        Figure(
            "X8",
            f"seconds a step of two nodes at {_LINK_MBIT} Mbit/s, |planned / measured − 1|",
            (abs(planned_s / measured_s - 1),),
            0.2,
            context=f"planned {planned_s * 1e3:.0f} ms, {context}",
        ),
    ]


def _job_file(**changes: Any) -> dict[str, Any]:
    return raw_job(batch_size=_BATCH, **changes)


def _step_s(ready: ReadyCluster, strategy: dict[str, Any]) -> float:
    """Return the mean time of a step after the first epoch, averages of weights included."""
    changes = {"epochs": 3, "batch_size": _BATCH, "strategy": strategy}
    with job_starter(ready) as start:
        view = start(*_NODES, environment={"PAUSE_S": "0"}, **changes)
        view = wait_for_end(ready, view.id)
    if view.state is not JobState.FINISHED:
        raise RuntimeError(f"It ended as {view.state.label}: {view.error}")
    history = ready.services.queries.history(view.id)
    per_epoch = len(history.steps) // 3
    times = history.seconds[per_epoch:]
    return (times[-1] - times[0]) / (len(times) - 1)
