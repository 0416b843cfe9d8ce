"""Four causes of a slow job, made on two nodes, and the one that the program names."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from backend.records.jobs.slow_cause import Cause
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.node import Process
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import job_starter, run_processes, wait_for_view
from tests.integration.tiny import write_sources
from tests.waiting import wait_for

_RANK_OF = {Cause.DATA: 1, Cause.COMPUTE: 1, Cause.CPU: 1, Cause.COMMUNICATION: None}
"""Each cause, and the rank at which it is made; rank 1 is on node2."""
_NAME = "slow"
_STEPS = 130
_ROUND_TRIP_MS = 20.0
_NICENESS = -15

_MODEL = """
import os
import torch
from torch import nn


class UserModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.matrix = torch.randn(256, 256)
        rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
        slow = os.environ.get("SLOW")
        self.rounds = 180 if rank == 1 and slow == "compute" else 90
        # With this delay an exchange takes 34 ms: beside 90 rounds, at the limit of 30 % of a step,
        # it was named in 4 of 6 jobs, beside 70 in 6 of 6. The guide has the range.
        if slow == "communication":
            self.rounds = 45
        # Every node takes the cores of this machine for its own.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})

    def forward(self, data):
        for _ in range(self.rounds):
            self.matrix @ self.matrix
        return self.layer(data)

    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)
"""
_LOADER = """
import os
import time
import torch


class UserDataset(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.data = torch.randn(4096, 4)
        self.target = (self.data.sum(1) > 0).long()
        is_here = os.environ.get("OMPI_COMM_WORLD_RANK") == "1"
        self.pause_s = 0.01 if is_here and os.environ.get("SLOW") == "data" else 0.0

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(self.pause_s)
        return self.data[index], self.target[index]
"""
_SPIN = """
import os
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cores[1 % len(cores)]})
while True: pass
"""


def stock_slow_items(ready: ReadyCluster, folder: Path) -> None:
    """Import what the slow jobs train; ``folder`` holds its sources."""
    model, loader, dataset = write_sources(folder)
    (model / "bks_model.py").write_text(_MODEL)
    (loader / "bks_dataset.py").write_text(_LOADER)
    library = ready.services.library
    for kind, path in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        library.import_item(kind, path, _NAME)


def train_with_cause(ready: ReadyCluster, cause: Cause | None) -> JobView:
    """Return a job that has trained with this cause for some steps."""
    environment = {"SLOW": cause.value if cause is not None else "", "HOROVOD_CYCLE_TIME": "1"}
    with contextlib.ExitStack() as stack:
        if cause is Cause.COMMUNICATION:
            stack.callback(ready["node2"].delay, 0)
            ready["node2"].delay(_ROUND_TRIP_MS)
        start = stack.enter_context(job_starter(ready))
        source = {"model": _NAME, "loader": _NAME, "dataset": _NAME}
        view = start("node1", "node2", environment=environment, **source)
        processes = [process for _, process in run_processes(ready)]
        if cause is Cause.CPU:
            processes.append(stack.enter_context(_spinning_program(ready)))
        _raise_priority(processes)
        start_step = ready.services.jobs.queries.show(view.id).step
        view = wait_for_view(
            ready, view.id, lambda v: v.step >= start_step + _STEPS or not v.state.is_live
        )
        assert view.state.is_live, view.error
        return view


def is_named(view: JobView, cause: Cause) -> bool:
    slow_cause = view.status.slow_cause
    return slow_cause is not None and (slow_cause.cause, slow_cause.rank) == (
        cause,
        _RANK_OF[cause],
    )


@contextlib.contextmanager
def _spinning_program(ready: ReadyCluster) -> Iterator[Process]:
    """Take the core of rank 1 on node2 for another program."""
    node = ready["node2"]
    previous_pids = {process.pid for process in node.processes()}
    node.run(["sh", "-c", 'setsid python3 -c "$0" >/dev/null 2>&1 &', _SPIN])
    (spinning,) = wait_for(
        lambda: [
            process
            for process in node.processes()
            if process.pid not in previous_pids and "python3" in process.argv[0]
        ],
        "the other program",
    )
    try:
        yield spinning
    finally:
        os.kill(spinning.host_pid, signal.SIGKILL)


def _raise_priority(processes: list[Process]) -> None:
    """Let them come before what others do on this machine, which is no node of theirs."""
    for process in processes:
        folder = Path("/proc", str(process.host_pid))
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in (folder / "task").iterdir():
                os.setpriority(os.PRIO_PROCESS, int(task.name), _NICENESS)
            if (group := folder / "autogroup").exists():
                group.write_text(str(_NICENESS))
