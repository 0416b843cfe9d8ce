"""Each strategy across machines: train, stop, go on with another number, lose a worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import grows, makes_steps, stops_and_goes_on_elsewhere
from tests.waiting import wait_for

pytest_plugins = ["tests.cluster.runs_fixtures"]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("strategy", ["ddp", "downpour", "dc-asgd", "sandblaster"])
def test_a_job_trains_on_three_nodes_stops_and_goes_on_on_two_others(
    stocked: ReadyCluster, run: Callable[..., JobView], strategy: str
) -> None:
    optimizer = {} if strategy != "sandblaster" else {"optimizer": {"name": "lbfgs", "lr": 1.0}}
    view = run("node1", "node2", "node3", strategy={"name": strategy}, **optimizer)
    assert makes_steps(view), view.error
    stops_and_goes_on_elsewhere(stocked, view)


def test_a_downpour_job_goes_on_without_a_worker_on_another_node(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2", "node3", strategy={"name": "downpour"})
    victim = next(
        p for p in stocked["node3"].processes() if "rank_bootstrap.py" in " ".join(p.argv)
    )
    stocked["node3"].run(["kill", "-9", str(victim.pid)])
    queries = stocked.services.jobs.queries
    wait_for(lambda: "1 of 2 workers" in queries.show(view.id).message, "the lost worker")
    reached = queries.show(view.id).step
    assert grows(stocked, view.id, reached + 5).state.is_live
    stocked.services.jobs.lifecycle.stop(view.id)
    assert queries.wait(view.id).state is JobState.INTERRUPTED
