"""Jobs across machines, from Start to what is left of them, and what breaks on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from pytestqt.qtbot import QtBot

from app.main.bootstrap import Program
from backend.base.errors import BackendError
from backend.records.base.atomic_files import read_json
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.services.preflight.service import PreflightFailed
from tests.cluster.faults_of_machine import GPUS_FILE, describe_gpus, two_gpus
from tests.cluster.node import Node
from tests.cluster.ready import ReadyCluster
from tests.cluster.runs import (
    continue_on_other_nodes,
    is_program,
    kill_process_of_run,
    makes_steps,
    require_cut_node_is_named,
    run_processes,
    wait_for_end,
    wait_for_no_processes,
    wait_for_step_after,
)
from tests.cluster.windows import node_row
from tests.fakes.nvml.driver import build
from tests.integration.tiny import raw_job
from tests.waiting import wait_for
from widgets.nodes.row.node_row import Condition

CUT_S = 15.0
SILENT_S = 16.0
slow = pytest.mark.slow

pytest_plugins = ["tests.cluster.runs_fixtures"]


def test_m12_a_job_trains_on_three_nodes_stops_and_goes_on_on_two_others(
    stocked: ReadyCluster, run: Callable[..., JobView], tmp_path: Path
) -> None:
    jobs = stocked.services.jobs
    view = run("node1", "node2", "node3")
    assert makes_steps(view)
    assert (view.world_size, view.error) == (3, None)
    view = continue_on_other_nodes(stocked, view)
    exported = jobs.export(view.id, "latest", "pt", tmp_path / "model.pt")
    assert {"layer.weight", "layer.bias"} <= torch.load(exported, weights_only=True).keys()
    assert jobs.clone(view.id)["placement"][0]["node"] == "node3"


@slow
def test_f57_text_of_users_reaches_remote_ranks_unchanged_and_no_shell(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    hostile_text = (
        "-mca plm_rsh_agent 'touch /tmp/owned' $(touch /tmp/owned); \"`touch /tmp/owned`\" ✓"
    )
    view = run(
        "node2", "node1", environment={"ODD": hostile_text}, name="; touch /tmp/owned", epochs=1
    )
    assert stocked.services.jobs.queries.wait(view.id).state is JobState.FINISHED
    for name, rank in (("node2", 0), ("node1", 1)):
        assert f'"ODD": {json_text(hostile_text)}' in stocked[name].read(f"/tmp/environment-{rank}")
        assert stocked[name].run(["test", "-e", "/tmp/owned"]).returncode == 1


def json_text(text: str) -> str:
    import json

    return json.dumps(text)


@slow
def test_f18_a_child_that_left_its_session_on_a_remote_node_ends_with_the_run(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2", environment={"LEAVES_A_CHILD": "1"})
    assert any("signal.pause()" in " ".join(p.argv) for _, p in run_processes(stocked))
    stocked.services.jobs.lifecycle.stop(view.id)
    stocked.services.jobs.queries.wait(view.id)
    wait_for_no_processes(stocked)


@pytest.mark.parametrize(
    ("victim", "name"),
    [
        ("rank_bootstrap.py", "node2"),
        pytest.param("backend.node.run.rank_guard", "node2", marks=slow),
        pytest.param("prted", "node2", marks=slow),
        pytest.param("mpirun", "node1", marks=slow),
        pytest.param("backend.node.run.supervisor", "node1", marks=slow),
    ],
)
def test_f02_f03_f04_a_run_names_any_killed_process_and_leaves_nothing(
    stocked: ReadyCluster, run: Callable[..., JobView], victim: str, name: str
) -> None:
    # Open MPI ends what it started; what left its session is found by the guards and the sweep.
    view = run("node1", "node2", environment={"LEAVES_A_CHILD": "1"})
    error = kill_process_of_run(stocked, view, name, victim)
    if victim == "rank_bootstrap.py":
        assert (error.rank, error.node) == (1, "node2"), error.message
        assert "signal 9" in error.message


def test_f08_a_node_lost_in_mid_run_is_named_and_holds_nothing(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    require_cut_node_is_named(stocked, run("node1", "node2"))


@slow
def test_f07_a_cut_of_15_s_is_survived_and_leaves_no_gap(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    view = run("node1", "node2")
    stocked["node1"].cut()
    threading.Event().wait(CUT_S)
    stocked["node1"].repair()
    reached_step = stocked.services.jobs.queries.show(view.id).step
    view = wait_for_step_after(stocked, view.id, reached_step + 5)
    assert view.state.is_live
    assert view.step > reached_step
    stocked.services.jobs.lifecycle.stop(view.id)
    view = stocked.services.jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED
    assert list(stocked.services.jobs.queries.history(view.id).steps) == list(
        range(1, view.step + 1)
    )


@slow
@pytest.mark.parametrize(
    "in_set_up", [False, True], ids=["before-mpirun-was-there", "in-its-set-up"]
)
def test_f08_a_node_lost_during_the_start_is_named_and_holds_nothing(
    stocked: ReadyCluster, monkeypatch: pytest.MonkeyPatch, in_set_up: bool
) -> None:
    jobs = stocked.services.jobs
    view = jobs.create(raw_job(placement=[{"node": n, "processes": 1} for n in ("node1", "node2")]))
    check = stocked.services.preflight.require

    def check_and_cut(*args: Any) -> None:
        check(*args)
        stocked["node2"].cut()

    if in_set_up:
        jobs.lifecycle.start(view.id)
        wait_for(
            lambda: any(
                name == "node2" and is_program(p, "backend.node.run.rank_guard")
                for name, p in run_processes(stocked)
            ),
            "a guard on node2",
        )
        stocked["node2"].cut()
    else:
        monkeypatch.setattr(stocked.services.preflight, "require", check_and_cut)
        jobs.lifecycle.start(view.id)
    view = wait_for_end(stocked, view.id)
    assert (view.state, view.step) == (JobState.ERROR, 0)
    assert view.error is not None
    assert view.error.node == "node2"
    assert "node2" in view.error.message
    wait_for_no_processes(stocked)


@slow
@pytest.mark.parametrize("in_order", [False, True], ids=["without-power", "in-order"])
def test_f10_a_run_with_a_restarted_head_is_over_and_its_reused_pid_is_left_alone(
    stocked: ReadyCluster, run: Callable[..., JobView], in_order: bool
) -> None:
    view = run("node1", "node2")
    attempt = stocked.services.data_root.job(view.id).attempt(1)
    supervisor = ProcessIdentity.from_dict(read_json(attempt.supervisor))
    node = stocked["node1"]
    if in_order:
        node.reboot()
    else:
        node.power_off()
        node.boot()
    node.run_as_root("sh", "-c", _TAKE_PID.format(pid=supervisor.pid))
    # It is setpriv until that has executed it.
    wait_for(lambda: is_foreign(node, supervisor.pid), "another process with its pid")
    # Nothing starts an agent on these nodes after a boot: the next contact does.
    status = stocked.services.data_root.node("node1").status
    wait_for(lambda: time.time() - status.stat().st_mtime > SILENT_S, "silence")
    assert stocked.services.reaper.agent_nodes(view.id) == ("node1", "node2")
    check_banner = stocked.services.cluster.check_banner
    assert stocked.services.provisioning.wake_silent_nodes(view.nodes, check_banner) == {
        "node1": True
    }
    view = stocked.services.jobs.queries.wait(view.id)
    assert view.state is JobState.ERROR
    # In order, its supervisor may have had the time to say so itself.
    messages = ("restarted", "its supervisor got SIGTERM") if in_order else ("restarted",)
    assert any(message in view.status.message for message in messages), view.status.message
    wait_for(
        lambda: all(p.argv == _FOREIGN for _, p in run_processes(stocked)),
        "the other node to be free",
    )
    assert is_foreign(node, supervisor.pid)


_FOREIGN = ("sleep", "98765")
_TAKE_PID = """
for try in 1 2 3 4 5; do
    echo $(({pid} - 1)) >/proc/sys/kernel/ns_last_pid
    setpriv --reuid=lab --regid=lab --clear-groups sleep 98765 </dev/null >/dev/null 2>&1 &
    [ $! = {pid} ] && exit
    kill $!
done
exit 1
"""
"""A process of the same user's gets the number that the supervisor had."""


def is_foreign(node: Node, pid: int) -> bool:
    return any((p.pid, p.argv) == (pid, _FOREIGN) for p in node.processes())


@slow
def test_f11_a_run_without_sshd_continues_can_be_stopped_and_shows_its_nodes(
    stocked: ReadyCluster,
    run: Callable[..., JobView],
    program: Program,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.nodes.ssh_poller.QUERY_INTERVAL_S", 2.0)
    program.window.open_page("nodes")
    rows_model = program.nodes.rack.rows_model
    qtbot.waitUntil(lambda: len(rows_model.rows) == 4)
    view = run("node1", "node2")
    for name in ("node1", "node2"):
        stocked[name].stop_sshd()
    reached_step = stocked.services.jobs.queries.show(view.id).step
    assert makes_steps(wait_for_step_after(stocked, view.id, reached_step + 5))
    for name in ("node1", "node2"):
        qtbot.waitUntil(lambda name=name: "No SSH since" in node_row(program, name).subtitle)
        assert node_row(program, name).condition is Condition.UNHEALTHY
        qtbot.waitUntil(lambda name=name: program.nodes.heartbeats()[name] == "now")
    qtbot.waitUntil(lambda: node_row(program, "node3").condition is Condition.WELL)
    stocked.services.jobs.lifecycle.stop(view.id)
    assert stocked.services.jobs.queries.wait(view.id).state is JobState.INTERRUPTED


@slow
@pytest.mark.parametrize("offset_s", [600, -600], ids=["ahead", "behind"])
def test_f44_a_node_with_a_clock_ten_minutes_wrong_is_healthy_and_trains(
    stocked: ReadyCluster, run: Callable[..., JobView], offset_s: int
) -> None:
    stocked["node2"].set_clock(offset_s)
    contact_warnings = set()
    view = run("node2", "node1", epochs=2)
    view = stocked.services.jobs.queries.wait(
        view.id, lambda update: contact_warnings.add(update.view.contact_warning)
    )
    assert (view.state, contact_warnings) == (JobState.FINISHED, {""})
    wait_for(lambda: "node2" in online_node_names(stocked), "node2 to be online")


@slow
def test_f44_a_clock_that_jumps_in_mid_run_changes_nothing(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = stocked.services.jobs
    view = run("node2", "node1")
    for offset_s in (600, -600, 0):
        stocked["node2"].set_clock(offset_s)
        view = wait_for_step_after(stocked, view.id, jobs.queries.show(view.id).step + 5)
        assert (makes_steps(view), view.contact_warning) == (True, "")
        wait_for(lambda: "node2" in online_node_names(stocked), "node2 to be online")
    jobs.lifecycle.stop(view.id)
    view = jobs.queries.wait(view.id)
    assert (view.state, view.contact_warning) == (JobState.INTERRUPTED, "")
    assert list(jobs.queries.history(view.id).steps) == list(range(1, view.step + 1))


@slow
@pytest.mark.usefixtures("soon_missed")
def test_m06_a_job_does_not_start_smaller_when_a_node_is_away(
    stocked: ReadyCluster, run: Callable[..., JobView]
) -> None:
    jobs = stocked.services.jobs
    raw = raw_job(placement=[{"node": n, "processes": 1} for n in ("node1", "node2", "node3")])
    view = jobs.create(raw)
    stocked["node3"].power_off()
    wait_for(lambda: "node3" not in online_node_names(stocked), "the agent of node3 to be missed")
    with pytest.raises(PreflightFailed, match="node3") as error_info:
        jobs.lifecycle.start(view.id)
    assert [placement.node for placement in error_info.value.preflight.smaller_placement] == [
        "node1",
        "node2",
    ]
    assert error_info.value.remedy.endswith("Or run on node1, node2 only.")
    assert jobs.queries.show(view.id).state is JobState.CREATED
    assert not (stocked.services.data_root.job(view.id).attempts / "1").exists()


@slow
def test_m03_on_each_node_a_rank_sees_the_gpu_that_was_chosen_for_it_and_no_other(
    stocked: ReadyCluster, tmp_path: Path
) -> None:
    library = build(tmp_path, f'STATE_FILE="{GPUS_FILE}"') / "libnvidia-ml.so.1"
    first_gpu, second_gpu = (f"GPU-0000000{index}-aaaa-bbbb-cccc-dddddddddddd" for index in (0, 1))
    gpu_by_node = {"node1": second_gpu, "node2": first_gpu}
    with ExitStack() as stack:
        for name in gpu_by_node:
            stack.enter_context(two_gpus(stocked, name, library))
        wait_for(lambda: _gpu_nodes(stocked) == set(gpu_by_node), "the agents to see GPUs")
        # A display is on both, and keeps neither from a job.
        for name in gpu_by_node:
            describe_gpus(stocked, name, "gpus 2", "graphics 0 4194000 300", "graphics 1 1 300")
        placement = [{"node": name, "gpus": [uuid]} for name, uuid in gpu_by_node.items()]
        view = stocked.services.jobs.create(raw_job(placement=placement))
        stocked.services.jobs.lifecycle.start(view.id)
        wait_for(lambda: _visible_gpus(stocked) == gpu_by_node, "ranks with a GPU each")
        # There is no CUDA on these nodes, which ends it.
        assert stocked.services.jobs.queries.wait(view.id).state is JobState.ERROR


def _gpu_nodes(stocked: ReadyCluster) -> set[str]:
    return {
        node_state.name
        for node_state in stocked.services.nodes.remote()
        if node_state.reading and node_state.reading.gpus
    }


def _visible_gpus(stocked: ReadyCluster) -> dict[str, str]:
    """Return ``CUDA_VISIBLE_DEVICES`` of the rank on each node."""
    visible_gpus = {}
    for name, process in run_processes(stocked):
        if any(word.endswith("/rank_bootstrap.py") for word in process.argv):
            with suppress(OSError):
                entries = Path(f"/proc/{process.host_pid}/environ").read_bytes().split(b"\0")
                key = b"CUDA_VISIBLE_DEVICES="
                visible_gpus[name] = b" ".join(
                    entry.removeprefix(key) for entry in entries if entry.startswith(key)
                ).decode()
    return visible_gpus


def online_node_names(stocked: ReadyCluster) -> set[str]:
    return {n.name for n in stocked.services.nodes.list() if n.presence.value == "ONLINE"}


@slow
def test_a_run_that_cannot_reach_its_head_is_not_claimed(stocked: ReadyCluster) -> None:
    jobs = stocked.services.jobs
    view = jobs.create(raw_job(placement=[{"node": "node1", "processes": 1}]))
    stocked["node1"].stop_sshd()
    with pytest.raises(BackendError, match=r"10\.77\.\d+\.2"):
        jobs.lifecycle.start(view.id)
    assert jobs.queries.show(view.id).state is JobState.CREATED
    stocked["node1"].start_sshd()
    assert jobs.lifecycle.start(view.id).state.is_live
    assert jobs.queries.wait(view.id).state is JobState.FINISHED
    record = read_json(stocked.services.data_root.job(view.id).attempt(1).exit)
    assert record["leftovers"] == []
