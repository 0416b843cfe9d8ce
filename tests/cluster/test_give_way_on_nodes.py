"""A program on three nodes that gives way to another user of a GPU, again and again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.records.base.atomic_files import read_json
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.faults_of_machine import GPUS_FILE, describe_gpus, two_gpus
from tests.cluster.ready import ReadyCluster
from tests.fakes.nvml.driver import build
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
GPUS = [f"GPU-0000000{n}-aaaa-bbbb-cccc-dddddddddddd" for n in range(2)]
PAUSES = 20
STEPS = 6000
PROGRAM = """
import json, os, signal, sys, time
import torch, torch.distributed
out, steps = sys.argv[1], int(sys.argv[2])
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(0)
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(layer.parameters(), 0.01)
first, asked = 0, []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
if len(sys.argv) > 3:
    saved = torch.load(sys.argv[3])
    first = saved["step"]
    layer.load_state_dict(saved["layer"])
    optimizer.load_state_dict(saved["optimizer"])
for step in range(first + 1, steps + 1):
    chance = torch.Generator().manual_seed(step * 100 + rank)
    data = torch.randn(8, 4, generator=chance)
    loss = (layer(data) - data.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    # The ranks stop after the same step, so the request travels with the gradients.
    sent = torch.cat([layer.weight.grad.flatten(), layer.bias.grad, torch.tensor([len(asked)])])
    torch.distributed.all_reduce(sent)
    layer.weight.grad.copy_(sent[:4].view(1, 4) / 6)
    layer.bias.grad.copy_(sent[4:5] / 6)
    optimizer.step()
    is_last = sent[5] > 0 or step == steps
    if rank == 0 and (is_last or step % 10 == 0):
        print(json.dumps({"step": step, "loss": loss.item()}), flush=True)
    if is_last:
        if rank == 0:
            state = {"step": step, "layer": layer.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, f"{out}/model.pt")
        break
    if not os.path.exists(os.environ["NO_LONGER_SLOW"]):
        time.sleep(0.05)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


@pytest.fixture
def with_gpus(ready_cluster: ReadyCluster, tmp_path: Path) -> Iterator[ReadyCluster]:
    library = build(tmp_path, f'STATE_FILE="{GPUS_FILE}"') / "libnvidia-ml.so.1"
    with ExitStack() as stack:
        for node in NODES:
            stack.enter_context(two_gpus(ready_cluster, node, library))

        def gpu_node_count() -> int:
            readings = (node_state.reading for node_state in ready_cluster.services.nodes.remote())
            return sum(bool(reading and reading.gpus) for reading in readings)

        wait_for(lambda: gpu_node_count() == len(NODES), "the agents to see GPUs")
        yield ready_cluster


def _start(ready: ReadyCluster, folder: Path, name: str, **settings: Any) -> JobView:
    script = folder / name
    script.mkdir()
    (script / "train.py").write_text(PROGRAM)
    services = ready.services
    item = services.library.import_item(Kind.SCRIPT, script, name)
    raw: dict[str, Any] = {
        "name": name,
        "script": item.reference,
        "arguments": ["{output}", str(STEPS)],
        "resume_arguments": ["{checkpoint}"],
        "environment": {
            "OMP_NUM_THREADS": "1",
            "NO_LONGER_SLOW": f"{ready.cluster.data_root}/fast-{name}",
        },
        "placement": [{"node": node, "gpus": GPUS} for node in NODES],
        **settings,
    }
    view = services.jobs.create(raw)
    services.jobs.lifecycle.start(view.id)
    return view


def _weights(ready: ReadyCluster, job_id: str) -> dict[str, torch.Tensor]:
    newest_checkpoint = next(
        checkpoint
        for checkpoint in ready.services.jobs.queries.checkpoints(job_id)
        if checkpoint.is_latest
    )
    assert newest_checkpoint.step == STEPS
    saved_state = torch.load(newest_checkpoint.path, weights_only=True)
    return dict(saved_state["layer"])


@pytest.mark.timeout(3600)
def test_20_pauses_on_three_nodes_lose_nothing(with_gpus: ReadyCluster, tmp_path: Path) -> None:
    jobs = with_gpus.services.jobs
    foreign_pids = {
        node: with_gpus[node]
        .run(["sh", "-c", "sleep 100000 >/dev/null 2>&1 & echo $!"], user="root")
        .stdout
        for node in NODES
    }
    view = _start(with_gpus, tmp_path, "paused", gives_way=True, quiet_minutes=0.05)
    gpus = itertools.cycle(itertools.product((0, 1), NODES))
    for number, (gpu, node) in zip(range(1, PAUSES + 1), gpus, strict=False):

        def trains(run: int = number, step: int = view.step) -> bool:
            now = jobs.queries.show(view.id)
            return now.run == run and now.state is JobState.TRAINING and now.step > step

        wait_for(trains, f"steps of run {number}", 300)
        process_line = f"process {gpu} {foreign_pids[node].strip()} 18432"
        describe_gpus(with_gpus, node, "gpus 2", process_line)
        exit_file = jobs.queries.folder(view.id).attempt(number).exit
        wait_for(exit_file.exists, f"the end of run {number}", 300)
        record = RunExit.from_dict(read_json(exit_file))
        assert record.pause == f"Paused: root uses GPU {gpu} on {node}.", record
        describe_gpus(with_gpus, node)
    wait_for(lambda: jobs.queries.show(view.id).state is JobState.TRAINING, "the last run", 300)
    (with_gpus.cluster.share / "fast-paused").touch()
    view = jobs.queries.wait(view.id)
    assert (view.state, view.run) == (JobState.FINISHED, PAUSES + 1), view.error

    (with_gpus.cluster.share / "fast-undisturbed").touch()
    undisturbed_job = _start(with_gpus, tmp_path, "undisturbed")
    assert jobs.queries.wait(undisturbed_job.id).state is JobState.FINISHED
    expected = _weights(with_gpus, undisturbed_job.id)
    weights = _weights(with_gpus, view.id)
    assert all(torch.equal(value, expected[name]) for name, value in weights.items())
