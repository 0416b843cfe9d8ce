"""Jobs across machines, from Start to what is left of them, and what breaks on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.errors import BackendError
from backend.records.files import read_json
from backend.records.job_view import JobView
from backend.records.state import JobState
from backend.services.preflight import NotFit
from tests.cluster.commands import wait_for
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    ends_by_name_when_killed,
    grows,
    is_one,
    makes_steps,
    of_runs,
    stops_and_goes_on_elsewhere,
)
from tests.integration.tiny import raw_job

pytest_plugins = ["tests.cluster.runs_fixtures"]


@pytest.mark.timeout(600)
def test_m12_a_job_trains_on_three_nodes_stops_and_goes_on_on_two_others(
    stocked: ReadyCluster, run: Callable[..., JobView], tmp_path: Path
) -> None:
    jobs = stocked.services.jobs
    view = run("node1", "node2", "node3", processes=2)
    assert makes_steps(view)
    assert (view.world_size, view.error) == (6, None)
    view = stops_and_goes_on_elsewhere(stocked, view)
    exported = jobs.export(view.id, "latest", "pt", tmp_path / "model.pt")
    assert {"layer.weight", "layer.bias"} <= torch.load(exported, weights_only=True).keys()
    assert jobs.clone(view.id)["placement"][0]["node"] == "node3"


def test_f57_what_a_user_writes_reaches_far_ranks_as_it_is_and_no_shell(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    odd = "-mca plm_rsh_agent 'touch /tmp/owned' $(touch /tmp/owned); \"`touch /tmp/owned`\" ✓"
    view = run("node2", "node1", environment={"ODD": odd}, name="; touch /tmp/owned", epochs=1)
    assert stocked.services.jobs.wait(view.id).state is JobState.FINISHED
    for name, rank in (("node2", 0), ("node1", 1)):
        assert f'"ODD": {_json(odd)}' in stocked[name].read(f"/tmp/told-{rank}")
        assert stocked[name].run(["test", "-e", "/tmp/owned"]).returncode == 1


def _json(text: str) -> str:
    import json

    return json.dumps(text)


def test_f18_a_child_that_left_its_session_on_a_far_node_goes_with_the_run(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2", environment={"LEAVES_A_CHILD": "1"})
    assert any("signal.pause()" in " ".join(p.argv) for _, p in of_runs(stocked))
    stocked.services.jobs.stop(view.id)
    stocked.services.jobs.wait(view.id)
    wait_for(lambda: not of_runs(stocked), "the children to be gone", 10)


@pytest.mark.parametrize("victim", ["mpirun", "backend.node.supervise", "backend.node.guard"])
def test_f03_f04_whatever_is_killed_the_run_ends_by_name_and_nothing_is_left(
    stocked: ReadyCluster, run: Callable[..., JobView], victim: str
) -> None:
    view = run("node1", "node2")
    # The far node's guard, the head's mpirun and supervisor.
    name = "node2" if victim.endswith("guard") else "node1"
    ends_by_name_when_killed(stocked, view, name, victim)


@pytest.mark.timeout(400)
def test_f07_a_cut_of_15_s_is_survived_and_leaves_no_gap(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2")
    stocked["node1"].cut()
    threading.Event().wait(15)
    stocked["node1"].mend()
    reached = stocked.services.jobs.show(view.id).step
    view = grows(stocked, view.id, reached + 20)
    assert view.state.is_live
    assert view.step > reached
    stocked.services.jobs.stop(view.id)
    view = stocked.services.jobs.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert list(stocked.services.jobs.history(view.id).steps) == list(range(1, view.step + 1))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("late", [False, True], ids=["before-mpirun-was-there", "in-its-set-up"])
def test_f08_a_node_that_is_lost_while_a_run_starts_is_named_and_holds_nothing(
    stocked: ReadyCluster, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    jobs = stocked.services.jobs
    view = jobs.create(raw_job(placement=[{"node": n, "processes": 1} for n in ("node1", "node2")]))
    look = stocked.services.preflight.insist

    def look_and_lose(*given: Any) -> None:
        look(*given)
        stocked["node2"].cut()

    if late:
        jobs.start(view.id)
        wait_for(
            lambda: any(
                name == "node2" and is_one(p, "backend.node.guard") for name, p in of_runs(stocked)
            ),
            "No guard came to node2",
        )
        stocked["node2"].cut()
    else:
        monkeypatch.setattr(stocked.services.preflight, "insist", look_and_lose)
        jobs.start(view.id)
    began = time.monotonic()
    view = jobs.wait(view.id)
    assert time.monotonic() - began < 90
    assert (view.state, view.step) == (JobState.ERROR, 0)
    assert view.error is not None
    assert view.error.node == "node2"
    assert "node2" in view.error.sentence
    wait_for(lambda: not of_runs(stocked), "both sides to be free", 90 - time.monotonic() + began)


def test_f10_a_run_whose_head_lost_power_is_recognised_as_ended(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2")
    stocked["node1"].power_off()
    stocked["node1"].boot()
    # Nothing starts an agent on these nodes after a boot: the next contact does.
    stocked.services.set_up.wake("node1")
    view = stocked.services.jobs.wait(view.id)
    assert view.state is JobState.ERROR
    assert "restarted" in view.message
    wait_for(lambda: not of_runs(stocked), "the other node to be free", 60)


def test_f11_without_sshd_a_run_goes_on_and_can_be_stopped(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2")
    for name in ("node1", "node2"):
        stocked[name].stop_sshd()
    reached = stocked.services.jobs.show(view.id).step
    assert makes_steps(grows(stocked, view.id, reached + 20))
    stocked.services.jobs.stop(view.id)
    assert stocked.services.jobs.wait(view.id).state is JobState.INTERRUPTED


def test_f44_a_node_whose_clock_is_ten_minutes_ahead_is_well_and_trains(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    stocked["node2"].set_clock(600)
    view = run("node2", "node1", epochs=2)
    view = stocked.services.jobs.wait(view.id)
    assert (view.state, view.doubt) == (JobState.FINISHED, "")
    states = {node.name: node.presence.value for node in stocked.services.nodes.list()}
    assert states["node2"] == "ONLINE"


def test_m06_a_job_does_not_start_smaller_when_a_node_is_away(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = stocked.services.jobs
    raw = raw_job(placement=[{"node": n, "processes": 1} for n in ("node1", "node2", "node3")])
    view = jobs.create(raw)
    stocked["node3"].power_off()
    wait_for(lambda: "node3" not in _online(stocked), "the agent of node3 to be missed", 20)
    with pytest.raises(NotFit, match="node3") as refused:
        jobs.start(view.id)
    assert [one.node for one in refused.value.found.smaller] == ["node1", "node2"]
    assert refused.value.remedy.endswith("Or run on node1, node2 alone.")
    assert jobs.show(view.id).state is JobState.CREATED
    assert not (stocked.services.data_root.job(view.id).attempts / "1").exists()


def _online(stocked: ReadyCluster) -> set[str]:
    return {n.name for n in stocked.services.nodes.list() if n.presence.value == "ONLINE"}


def test_a_run_that_cannot_reach_its_head_is_not_claimed(stocked: ReadyCluster) -> None:
    jobs = stocked.services.jobs
    view = jobs.create(raw_job(placement=[{"node": "node1", "processes": 1}]))
    stocked["node1"].stop_sshd()
    with pytest.raises(BackendError, match=r"10\.77\.\d+\.2"):
        jobs.start(view.id)
    assert jobs.show(view.id).state is JobState.CREATED
    stocked["node1"].start_sshd()
    assert jobs.start(view.id).state.is_live
    assert jobs.wait(view.id).state is JobState.FINISHED
    record = read_json(stocked.services.data_root.job(view.id).attempt(1).exit)
    assert record["leftovers"] == []
