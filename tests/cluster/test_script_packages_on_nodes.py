"""A script whose packages three nodes lack: they get them from this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.base.progress import Progress
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import wait_for_no_processes

NODES = ("node1", "node2", "node3")
PROGRAM = """
import json, os, sys
import hydra, torch, torch.distributed
@hydra.main(version_base=None)
def train(settings):
    torch.distributed.init_process_group("gloo")
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    print(json.dumps({"step": 1, "sum": total.item(), "lr": settings.lr}), flush=True)
    print("torch", torch.__file__, "hydra", hydra.__file__, flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
train()
"""


def job_of(ready_cluster: ReadyCluster, folder: Path, python: str) -> JobView:
    (folder / "train.py").write_text(PROGRAM)
    # One of the packages that it needs in turn has a source archive and no wheel.
    (folder / "requirements.txt").write_text("hydra-core==1.3.*\ntorch\n")
    services = ready_cluster.services
    item = services.library.import_item(Kind.SCRIPT, folder, "hydra")
    raw: dict[str, Any] = {
        "name": "hydra",
        "script": item.reference,
        "python": python,
        "arguments": ["+lr=0.5", "hydra.run.dir={output}"],
        "placement": [{"node": node, "processes": 2} for node in NODES],
    }
    return services.jobs.create(raw)


@pytest.mark.slow
def test_three_nodes_get_the_packages_of_a_script_once(
    ready_cluster: ReadyCluster, tmp_path: Path
) -> None:
    services = ready_cluster.services
    job = job_of(ready_cluster, tmp_path, "requirements")
    reports: set[str] = set()

    class RecordedProgress(Progress):
        def report(self, done: float, total: float, step_name: str) -> None:
            reports.add(step_name)

    services.jobs.lifecycle.start(job.id, progress=RecordedProgress())
    view = services.jobs.queries.wait(job.id)
    log = services.data_root.job(job.id).rank_log(0).read_text()
    assert view.state is JobState.FINISHED, (view.error, log)
    assert view.status.metrics == {"sum": 6.0, "lr": 0.5}
    installation = ready_cluster.entry("node1").installation
    assert installation is not None
    assert f"torch {Path(installation.python).parents[1]}/lib" in log
    assert f"hydra {Path(installation.python).parents[1]}-script-" in log
    assert all(any(f"{node}: Installing" in report for report in reports) for node in NODES)
    wait_for_no_processes(ready_cluster)

    reports.clear()
    services.jobs.lifecycle.start(job.id, start_over=True, progress=RecordedProgress())
    assert services.jobs.queries.wait(job.id).state is JobState.FINISHED
    assert not any("Installing" in step_report for step_report in reports)


def test_a_python_that_one_node_lacks_is_named_before_the_start(
    ready_cluster: ReadyCluster, tmp_path: Path
) -> None:
    installation = ready_cluster.entry("node1").installation
    assert installation is not None
    path = str(ready_cluster.home.parent / "own-python")
    job = job_of(ready_cluster, tmp_path, path)
    for node, python in {"node1": installation.python, "node3": "/usr/bin/python3"}.items():
        wrapper = f'#!/bin/sh\nexec {python} "$@"\n'
        write_command = ["sh", "-c", 'cat >"$1" && chmod +x "$1"', "sh", path]
        assert not ready_cluster[node].run(write_command, input=wrapper).returncode
    try:
        with pytest.raises(BackendError) as caught:
            ready_cluster.services.jobs.lifecycle.start(job.id)
    finally:
        for node in ("node1", "node3"):
            ready_cluster[node].run(["rm", path])
    assert f"{path}, the Python of the script, does not exist on node2." in str(caught.value)
    assert f"{path} on node3 has no torch, which the script imports." in str(caught.value)
    assert "node1" not in str(caught.value)
