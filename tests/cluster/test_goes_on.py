"""A job that continues by itself after a node of it was lost, with those that are left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from backend.records.jobs.state import JobState
from backend.records.jobs.view import JobView
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    NODE_LOSSES,
    run_processes,
    wait_for_end,
    wait_for_no_processes,
    wait_for_step_after,
    wait_for_view,
)
from tests.waiting import wait_for

pytest_plugins = ["tests.cluster.runs_fixtures"]

ALL = ("node1", "node2", "node3")
SHRINK = {"shrink": True, "at_least": 2}
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("lose", "victim"),
    [
        ("power", "node3"),
        pytest.param("processes", "node2", marks=slow),
        pytest.param("cable", "node2", marks=slow),
        pytest.param("power", "node1", marks=slow, id="head"),
    ],
)
def test_a_job_that_loses_a_node_continues_on_the_others(
    stocked: ReadyCluster,
    run: Callable[..., JobView],
    lose: str,
    victim: str,
) -> None:
    queries = stocked.services.jobs.queries
    view = run(*ALL, on_failure=SHRINK, checkpoint={"every_steps": 5})
    view = wait_for_step_after(stocked, view.id, view.step + 12)

    started_s = time.monotonic()
    NODE_LOSSES[lose](stocked[victim])

    view = wait_for_view(stocked, view.id, lambda v: v.run == 2 and v.state is JobState.TRAINING)
    view = wait_for_step_after(stocked, view.id, view.step)
    sys.stderr.write(
        f"\n{victim}: {time.monotonic() - started_s:.1f} s to a step of the next run\n"
    )
    remaining_nodes = [name for name in ALL if name != victim]
    continuation = view.status.continuation
    assert continuation is not None
    if lose == "processes" and not continuation.avoided_nodes:
        # Of all that was killed there at once, mpirun may not say where it was; the node is well.
        assert list(view.nodes) == list(ALL)
    else:
        assert list(view.nodes) == remaining_nodes
        assert (continuation.nodes, continuation.avoided_nodes) == ("2 of 3 nodes", (victim,))
        assert victim in continuation.reason
    assert [run_record.number for run_record in queries.runs(view.id)] == [2, 1]
    (act, *_) = stocked.services.jobs.audit_entries(view.id)
    assert act.action.startswith("Continued without a user: ")
    stocked.services.jobs.lifecycle.stop(view.id)
    view = queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert list(queries.history(view.id).steps) == list(range(1, view.step + 1))


@slow
@pytest.mark.parametrize("victim", ["node3", "node1"], ids=["worker", "head"])
def test_a_job_continues_without_a_node_that_stands_still_and_the_node_changes_nothing_later(
    stocked: ReadyCluster, run: Callable[..., JobView], victim: str
) -> None:
    policy = {**SHRINK, "silent_limit_s": 40}
    view = run(*ALL, on_failure=policy, checkpoint={"every_steps": 5})
    view = wait_for_step_after(stocked, view.id, view.step + 12)
    stocked[victim].freeze()
    try:
        warning = f"{victim} gives no sign of life"
        view = wait_for_view(stocked, view.id, lambda v: v.contact_warning == warning or v.run == 2)
        assert (view.contact_warning, view.run, view.status.eta_s) == (warning, 1, None)
        view = wait_for_view(
            stocked, view.id, lambda v: v.run == 2 and v.state is JobState.TRAINING
        )
        view = wait_for_step_after(stocked, view.id, view.step)
    finally:
        stocked[victim].thaw()
    assert view.status.continuation is not None
    assert (list(view.nodes), view.status.continuation.avoided_nodes) == (
        [name for name in ALL if name != victim],
        (victim,),
    )
    assert victim in view.status.continuation.reason

    wait_for(
        lambda: victim not in {name for name, _ in run_processes(stocked)}, "the end of its ranks"
    )
    view = wait_for_step_after(stocked, view.id, view.step + 5)
    stocked.services.jobs.lifecycle.stop(view.id)
    view = stocked.services.jobs.queries.wait(view.id)
    assert (view.state, view.run) == (JobState.INTERRUPTED, 2)
    history = stocked.services.jobs.queries.history(view.id)
    assert list(history.steps) == list(range(1, view.step + 1))


@slow
def test_the_loss_is_that_of_a_job_that_lost_no_node(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    settings = {"on_failure": SHRINK, "epochs": 8, "checkpoint": {"every_steps": 5}}
    calm = wait_for_end(stocked, run(*ALL, **settings).id)
    assert calm.state is JobState.FINISHED
    view = run(*ALL, **settings)
    view = wait_for_step_after(stocked, view.id, view.step + 8)
    stocked["node3"].power_off()
    view = wait_for_view(stocked, view.id, lambda v: v.run == 2 and not v.state.is_live)
    assert view.state is JobState.FINISHED
    assert view.config.batch_size * 2 == calm.config.batch_size * 3
    assert view.step == calm.step
    assert view.status.metrics["validation/loss"] == pytest.approx(
        calm.status.metrics["validation/loss"], rel=1e-3
    )


@slow
def test_an_error_of_the_code_is_not_tried_again(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run(*ALL, on_failure={**SHRINK, "retries": 3}, environment={"PAUSE_S": "no number"})
    view = wait_for_end(stocked, view.id)
    assert view.state is JobState.ERROR
    wait_for_no_processes(stocked)
    # The supervisor has ended, which would have queued it.
    assert (view.run, stocked.services.queue.read().jobs) == (1, ())


@slow
def test_a_lost_node_is_waited_for(stocked: ReadyCluster, run: Callable[..., JobView]) -> None:
    view = run("node1", "node2", on_failure={"retries": 1}, checkpoint={"every_steps": 5})
    view = wait_for_step_after(stocked, view.id, view.step + 12)
    stocked["node2"].power_off()
    view = wait_for_view(stocked, view.id, lambda v: v.state is JobState.QUEUED)
    queue_position = stocked.services.queue.read().find_job(view.id)
    assert queue_position is not None
    assert "Tries again on the same nodes, 1 of 1." in queue_position.entry.reason
    stocked["node2"].boot()
    stocked.revive()
    view = wait_for_view(stocked, view.id, lambda v: v.run == 2 and v.state is JobState.TRAINING)
    assert list(view.nodes) == ["node1", "node2"]
    wait_for(
        lambda: stocked.services.jobs.queries.show(view.id).step > queue_position.entry.run,
        "a step",
    )


@slow
def test_a_returned_node_is_taken_back_at_the_next_epoch(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    is_fast = "is-fast"
    environment = {"PAUSE_S": "0.1", "PAUSED_UNTIL": f"{stocked.cluster.data_root}/{is_fast}"}
    settings = {"epochs": 8, "checkpoint": {"every_steps": 5}, "environment": environment}
    view = run(*ALL, on_failure={**SHRINK, "grow": True}, **settings)
    view = wait_for_step_after(stocked, view.id, view.step + 8)
    stocked["node2"].power_off()
    view = wait_for_view(stocked, view.id, lambda v: v.run == 2 and v.state is JobState.TRAINING)
    assert list(view.nodes) == ["node1", "node3"]

    # Nothing on it starts its agent, and no desktop does: the head finds it.
    stocked["node2"].boot()

    view = wait_for_view(stocked, view.id, lambda v: v.run == 3 and v.state is JobState.TRAINING)
    continuation = view.status.continuation
    assert continuation is not None
    assert (continuation.nodes, list(view.nodes)) == ("3 of 3 nodes", list(ALL))
    assert "node2 can be used again." in continuation.reason
    (stocked.cluster.share / is_fast).touch()
    view = wait_for_end(stocked, view.id)
    assert (view.state, view.run) == (JobState.FINISHED, 3)
    history = stocked.services.jobs.queries.history(view.id)
    assert list(history.steps) == list(range(1, view.step + 1))
    calm = wait_for_end(stocked, run(*ALL, **settings).id)
    assert view.step == calm.step
    assert view.status.metrics["validation/loss"] == pytest.approx(
        calm.status.metrics["validation/loss"], rel=1e-3
    )
    (act, *_) = stocked.services.jobs.audit_entries(view.id)
    assert "node2 can be used again" in act.action
