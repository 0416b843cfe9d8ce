"""Each strategy across machines: train, stop, resume on others, lose a process, lose a node."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from backend.records.library.item import Kind
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    CALM,
    continue_on_other_nodes,
    kill_process_of_run,
    makes_steps,
    wait_for_end,
    wait_for_message,
    wait_for_no_processes,
    wait_for_step_after,
)
from tests.integration.tiny import MODEL
from tests.waiting import wait_for

pytest_plugins = ["tests.cluster.runs_fixtures"]
pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
LOST_WITHIN_S = 90.0
CHAIN = MODEL.replace(
    "nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 2))"
)
"""A network that can be cut into parts."""
ALONE_TO_FAIL = ("ddp", "consensus")
ABLE_TO_LOSE = ("downpour", "dc-asgd", "sandblaster")


@pytest.fixture(scope="module")
def chain(stocked: ReadyCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("chain")
    (folder / "bks_model.py").write_text(CHAIN)
    stocked.services.library.import_item(Kind.MODEL, folder, "chain")


@pytest.fixture
def train(chain: None, run: Callable[..., JobView]) -> Callable[..., JobView]:
    """Starts a job of a strategy on the three nodes; it trains when this returns."""

    def start(strategy: str, **settings: Any) -> JobView:
        if strategy == "sandblaster":
            settings["optimizer"] = {"name": "lbfgs", "lr": 1.0}
        view = run(*NODES, model="chain", strategy={"name": strategy}, **settings)
        assert makes_steps(view), view.error
        return view

    return start


Train = Callable[..., JobView]


@pytest.mark.parametrize("strategy", [*ALONE_TO_FAIL, *ABLE_TO_LOSE])
def test_a_job_trains_on_three_nodes_stops_and_goes_on_on_two_others(
    stocked: ReadyCluster, train: Train, strategy: str
) -> None:
    continue_on_other_nodes(stocked, train(strategy))


@pytest.mark.parametrize("strategy", ALONE_TO_FAIL)
def test_a_killed_rank_ends_the_job_and_is_named(
    stocked: ReadyCluster, train: Train, strategy: str
) -> None:
    error = kill_process_of_run(stocked, train(strategy), "node2", "rank_bootstrap.py")
    assert (error.rank, error.node) == (1, "node2")
    assert "signal 9" in error.message


@pytest.mark.parametrize("strategy", ABLE_TO_LOSE)
def test_a_job_goes_on_without_a_worker_on_another_node(
    stocked: ReadyCluster, train: Train, strategy: str
) -> None:
    view = train(strategy)
    victim = next(
        p for p in stocked["node3"].processes() if "rank_bootstrap.py" in " ".join(p.argv)
    )
    stocked["node3"].run(["kill", "-9", str(victim.pid)])
    lost_view = wait_for_message(
        stocked, view.id, "Rank 2 on node3 has ended; 1 of 2 workers train on."
    )
    assert wait_for_step_after(stocked, view.id, lost_view.step + 2).state.is_live
    stocked.services.jobs.lifecycle.stop(view.id)
    assert stocked.services.jobs.queries.wait(view.id).state is JobState.INTERRUPTED


@pytest.mark.parametrize("strategy", ABLE_TO_LOSE)
def test_a_job_goes_on_without_a_node_that_has_only_workers_and_finishes(
    stocked: ReadyCluster, train: Train, strategy: str
) -> None:
    # It lasts until the loss was noticed, and is fast then.
    go = Path(stocked.cluster.data_root, f"go-{strategy}")
    view = train(strategy, epochs=60, environment={**CALM, "PAUSED_UNTIL": str(go)})
    stocked["node3"].cut()
    started_s = time.monotonic()
    lost_view = wait_for_message(
        stocked, view.id, "Rank 2 on node3 is lost; 1 of 2 workers train on."
    )
    assert time.monotonic() - started_s < LOST_WITHIN_S
    assert lost_view.state.is_live
    wait_for_end_of_rank(stocked, "node3")
    (stocked.cluster.share / go.name).touch()
    view = wait_for_end(stocked, view.id)
    assert (view.state, view.status.epoch) == (JobState.FINISHED, 60), view.status.message
    assert view.status.message == "Rank 2 on node3 was lost: its connection to the others broke."
    wait_for_no_processes(stocked)


def test_a_lost_node_that_comes_back_does_not_end_the_job(
    stocked: ReadyCluster, train: Train
) -> None:
    go = Path(stocked.cluster.data_root, "go-again")
    view = train("downpour", epochs=60, environment={**CALM, "PAUSED_UNTIL": str(go)})
    daemon = next(p for p in stocked["node3"].processes() if "prted" in " ".join(p.argv[:1]))
    stocked["node3"].cut()
    wait_for_message(stocked, view.id, "Rank 2 on node3 is lost; 1 of 2 workers train on.")
    wait_for_end_of_rank(stocked, "node3")
    stocked["node3"].repair()
    assert daemon.pid in {p.pid for p in stocked["node3"].processes()}
    (stocked.cluster.share / go.name).touch()
    view = wait_for_end(stocked, view.id)
    assert (view.state, view.status.epoch) == (JobState.FINISHED, 60), view.status.message
    wait_for_no_processes(stocked)


@pytest.mark.parametrize(
    ("strategy", "cut"),
    [*((strategy, "node3") for strategy in ALONE_TO_FAIL), ("sandblaster", "node1")],
)
def test_a_job_that_cannot_go_on_without_a_node_names_it_and_is_resumed_elsewhere(
    stocked: ReadyCluster, train: Train, strategy: str, cut: str
) -> None:
    jobs = stocked.services.jobs
    view = train(strategy, checkpoint={"every_epochs": 1})
    wait_for(lambda: jobs.queries.checkpoints(view.id), "a checkpoint")
    stocked[cut].cut()
    started_s = time.monotonic()
    view = wait_for_end(stocked, view.id)
    assert time.monotonic() - started_s < LOST_WITHIN_S
    assert view.state is JobState.ERROR
    # The head node sees that it is alone.
    lost_nodes = [cut] if cut != "node1" else ["node2", "node3"]
    assert all(node in view.status.message for node in lost_nodes), view.status.message
    wait_for_no_processes(stocked)
    other_nodes = [Placement(node, 1) for node in NODES if node != cut]
    saved_step = next(
        checkpoint.step for checkpoint in jobs.queries.checkpoints(view.id) if checkpoint.is_latest
    )
    jobs.lifecycle.resume(view.id, placement=tuple(other_nodes))
    view = wait_for_step_after(stocked, view.id, saved_step)
    assert (view.world_size, view.run) == (2, 2), view.error
    assert makes_steps(view), view.error


def wait_for_end_of_rank(stocked: ReadyCluster, name: str) -> None:
    node = stocked[name]
    wait_for(
        lambda: not any("rank_bootstrap.py" in " ".join(p.argv) for p in node.processes()),
        f"the end of the rank on {name}",
    )
