"""A program of one's own on three nodes: it stops, resumes, and a killed process is named."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.node import Process
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import is_program, run_processes, wait_for_no_processes
from tests.waiting import wait_for

NODES = ("node1", "node2", "node3")
PROGRAM = """
import argparse, json, os, time
import torch, torch.distributed
given = argparse.ArgumentParser()
given.add_argument("--out")
given.add_argument("--resume", default="")
given = given.parse_args()
torch.distributed.init_process_group("gloo")
rank, layer = torch.distributed.get_rank(), torch.nn.Linear(4, 1)
step = 0
if given.resume:
    saved = torch.load(given.resume)
    step = saved["step"]
    layer.load_state_dict(saved["layer"])
trained = torch.nn.parallel.DistributedDataParallel(layer)
optimizer = torch.optim.SGD(trained.parameters(), 0.01)
print("interface", os.environ["GLOO_SOCKET_IFNAME"], os.environ["LOCAL_RANK"], flush=True)
while True:
    step += 1
    data = torch.randn(8, 4)
    loss = (trained(data) - data.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
        if step % 5 == 0:
            path = f"{given.out}/model-{step}.pt"
            torch.save({"step": step, "layer": layer.state_dict()}, path + ".part")
            os.replace(path + ".part", path)
    time.sleep(0.1)
"""


@pytest.fixture
def job(ready_cluster: ReadyCluster, tmp_path: Path) -> JobView:
    (tmp_path / "train.py").write_text(PROGRAM)
    services = ready_cluster.services
    item = services.library.import_item(Kind.SCRIPT, tmp_path, "distributed")
    raw: dict[str, Any] = {
        "name": "distributed",
        "script": item.reference,
        "arguments": ["--out", "{output}"],
        "resume_arguments": ["--resume", "{checkpoint}"],
        "placement": [{"node": node, "processes": 2} for node in NODES],
    }
    return services.jobs.create(raw)


def test_a_script_trains_on_three_nodes_stops_resumes_and_names_the_killed_process(
    ready_cluster: ReadyCluster, job: JobView
) -> None:
    jobs = ready_cluster.services.jobs
    jobs.lifecycle.start(job.id)
    view = jobs.queries.wait(job.id, is_finished=lambda v: v.step > 10 or v.state.is_over)
    assert view.state is JobState.TRAINING, (view.error, view.status.message)
    jobs.lifecycle.stop(job.id)
    view = jobs.queries.wait(job.id)
    assert view.state is JobState.INTERRUPTED, view.error
    wait_for_no_processes(ready_cluster)
    saved = next(
        checkpoint for checkpoint in jobs.queries.checkpoints(job.id) if checkpoint.is_latest
    ).step
    assert saved >= 5

    jobs.lifecycle.resume(job.id)
    # Until it trains, the figures are those of the run before.
    view = jobs.queries.wait(
        job.id, is_finished=lambda v: v.state is JobState.TRAINING or v.state.is_over
    )
    assert view.state is JobState.TRAINING, (view.error, view.status.message)

    def find_process() -> Process | None:
        processes = [process for node, process in run_processes(ready_cluster) if node == "node3"]
        return next(
            (process for process in processes if is_program(process, "train.py")),
            None,
        )

    process = wait_for(find_process, "the program on node3")
    os.kill(process.host_pid, signal.SIGKILL)
    view = jobs.queries.wait(job.id)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert view.error.node == "node3"
    assert "killed by signal 9 (SIGKILL)" in view.error.message
    wait_for_no_processes(ready_cluster)
