"""What follows the failure of a machine: whether the job continues by itself, where, and how."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.queue import entries, retry
from backend.node.queue.next_run import next_launch, queue_next
from backend.node.queue.retry import NodeCapacity, RetryPlan, next_growth, next_retry
from backend.node.queue.scheduler import Scheduler
from backend.node.run import remote_cleanup
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.config import OnFailure
from backend.records.jobs.job_file import parse_job, with_changes
from backend.records.jobs.launch import Launch
from backend.records.jobs.lr_schedule import learning_rate
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import Continuation, RankError, RunExit
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInstallation
from tests.backend.node.queue.test_next_run import launch, place_on
from tests.backend.node.queue.test_scheduler import READING
from tests.integration.tiny import raw_job

LOSS_ERROR = RankError("gpu02 no longer answers.", 2, "gpu02", retry="always")
KILLED = replace(LOSS_ERROR, message="Rank 2 was killed.", cause="killed", retry="once")
USER = RankError("ValueError: x", 2, "gpu02")
SPARE = {"gpu04": NodeCapacity("10.0.0.4", cores=8, is_free=True)}
BUSY = {"gpu04": replace(SPARE["gpu04"], is_free=False)}
SMALL = {"gpu04": replace(SPARE["gpu04"], cores=1)}


def make_launch(tmp_path: Path, **overrides: Any) -> Launch:
    settings = {key: overrides.pop(key) for key in list(overrides) if hasattr(OnFailure(), key)}
    placement = [element.to_dict() for element in place_on(*ALL.split())]
    raw = raw_job(**{"placement": placement, "on_failure": settings, **overrides})
    config = parse_job(raw).config
    assert config is not None, parse_job(raw).errors
    return launch(tmp_path, config, 1)


def nodes_of(retry_plan: RetryPlan | None) -> str:
    return (
        ""
        if retry_plan is None
        else " ".join(element.node for element in retry_plan.continuation.placement)
    )


ALL = "gpu01 gpu02 gpu03"
REMAINING = "gpu01 gpu03"


@pytest.mark.parametrize(
    ("settings", "error", "lost_nodes", "capacities", "nodes"),
    [
        ({}, LOSS_ERROR, ["gpu02"], SPARE, ""),
        # Try again.
        ({"retries": 1}, LOSS_ERROR, ["gpu02"], SPARE, ALL),
        ({"retries": 1}, USER, [], SPARE, ""),
        ({"retries": 1}, KILLED, [], {}, ALL),
        ({"retries": 1}, replace(LOSS_ERROR, node=""), [], {}, ALL),
        ({"retries": 1, "nodes": "others"}, LOSS_ERROR, ["gpu02"], SPARE, "gpu01 gpu04 gpu03"),
        ({"retries": 1, "nodes": "others"}, LOSS_ERROR, ["gpu02"], BUSY, REMAINING),
        ({"retries": 1, "nodes": "others"}, LOSS_ERROR, ["gpu02"], SMALL, REMAINING),
        ({"retries": 1, "nodes": "others"}, replace(LOSS_ERROR, node=""), [], SPARE, ALL),
        ({"retries": 1, "nodes": "others"}, USER, ["gpu02"], SPARE, ""),
        # Continue with fewer.
        ({"shrink": True}, LOSS_ERROR, ["gpu02"], SPARE, REMAINING),
        ({"shrink": True}, USER, [], {}, ""),
        ({"shrink": True, "at_least": 3}, LOSS_ERROR, ["gpu02"], {}, ""),
        ({"shrink": True, "at_least": 2}, LOSS_ERROR, ["gpu02", "gpu03"], {}, ""),
        ({"shrink": True}, LOSS_ERROR, ["gpu02", "gpu03"], {}, "gpu01"),
        ({"shrink": True}, replace(LOSS_ERROR, node="gpu01"), ["gpu01"], {}, "gpu02 gpu03"),
        ({"shrink": True}, LOSS_ERROR, ["gpu01", "gpu02", "gpu03"], {}, ""),
        ({"shrink": True}, replace(LOSS_ERROR, node=""), [], {}, ALL),
        ({"shrink": True}, replace(LOSS_ERROR, node=""), ["gpu03"], {}, "gpu01 gpu02"),
        # Both.
        ({"shrink": True, "retries": 1}, LOSS_ERROR, ["gpu02"], {}, REMAINING),
        ({"shrink": True, "retries": 1}, KILLED, [], {}, ALL),
        (
            {"shrink": True, "retries": 1, "nodes": "others"},
            LOSS_ERROR,
            ["gpu02"],
            SPARE,
            "gpu01 gpu04 gpu03",
        ),
        ({"shrink": True, "at_least": 3, "retries": 1}, LOSS_ERROR, ["gpu02"], {}, ALL),
    ],
)
def test_a_retry_takes_the_nodes_that_the_job_allows(
    tmp_path: Path,
    settings: dict[str, Any],
    error: RankError,
    lost_nodes: list[str],
    capacities: dict[str, NodeCapacity],
    nodes: str,
) -> None:
    retry_plan = next_retry(make_launch(tmp_path, **settings), error, 40, lost_nodes, capacities)

    assert nodes_of(retry_plan) == nodes
    if retry_plan is None:
        return
    assert error.message in retry_plan.continuation.reason
    assert set(retry_plan.continuation.avoided_nodes).isdisjoint(nodes.split())
    assert retry_plan.continuation.nodes == (
        "" if nodes.count(" ") == 2 else f"{len(nodes.split())} of 3 nodes"
    )


@pytest.mark.parametrize(
    ("settings", "lost_names", "back", "nodes", "message"),
    [
        ({}, "gpu02", "gpu02", ALL, "3 of 3 nodes"),
        ({}, "gpu01", "gpu01", ALL, "3 of 3 nodes"),
        ({}, "gpu02 gpu03", "gpu03", "gpu01 gpu03", "2 of 3 nodes"),
        ({}, "gpu02 gpu03", "gpu03 gpu02", ALL, "3 of 3 nodes"),
        ({}, "gpu02", "", "", ""),
        ({}, "gpu02", "gpu01", "", ""),
        ({}, "gpu02", "gpu09", "", ""),
        ({"scaling": "process"}, "gpu02", "gpu02", ALL, "3 of 3 nodes"),
        ({"batch_size": 7}, "gpu03", "gpu03", ALL, "3 of 3 nodes"),
    ],
)
def test_a_returned_node_is_taken_back_with_its_earlier_settings(
    tmp_path: Path, settings: dict[str, Any], lost_names: str, back: str, nodes: str, message: str
) -> None:
    full_launch = make_launch(tmp_path, shrink=True, grow=True, **settings)
    fewer = next_retry(
        full_launch, replace(LOSS_ERROR, node=lost_names.split()[0]), 40, lost_names.split()
    )
    assert fewer is not None
    config = with_changes(full_launch.config, {**fewer.changes, "placement": raw_of(fewer)}).config
    assert config is not None
    now = replace(next_launch(full_launch, config, ""), continuation=fewer.continuation)

    retry_plan = next_growth(
        full_launch, now, {name: f"10.0.0.{name[-1]}" for name in back.split()}
    )

    assert nodes_of(retry_plan) == nodes
    if retry_plan is None:
        return
    assert retry_plan.continuation.nodes == message
    assert f"{sorted(back.split())[-1]} can be used again." in retry_plan.continuation.reason
    assert retry_plan.continuation.retries == fewer.continuation.retries
    new_config = with_changes(
        full_launch.config, {**retry_plan.changes, "placement": raw_of(retry_plan)}
    ).config
    assert new_config is not None
    if nodes == ALL:
        assert new_config == full_launch.config
    # It may lose a node again.
    repeated_launch = replace(
        next_launch(now, new_config, "", retry_plan.hosts), continuation=retry_plan.continuation
    )
    once_more = next_retry(repeated_launch, replace(LOSS_ERROR, node="gpu03"), 40, ["gpu03"])
    assert once_more is not None
    assert "gpu03" in once_more.continuation.avoided_nodes


def test_a_node_that_replaced_a_lost_one_is_kept(tmp_path: Path) -> None:
    full_launch = make_launch(tmp_path, retries=1, nodes="others", shrink=True, grow=True)
    config = replace(full_launch.config, placement=place_on("gpu01", "gpu04"))
    continuation = Continuation(
        "Two were lost.", chosen_nodes=("gpu01", "gpu02", "gpu03"), avoided_nodes=("gpu03",)
    )
    now = next_launch(full_launch, config, "", {"gpu04": "10.0.0.4"})

    retry_plan = next_growth(
        full_launch, replace(now, continuation=continuation), dict.fromkeys(ALL.split(), "10.0.0.9")
    )

    assert nodes_of(retry_plan) == "gpu01 gpu02 gpu04"
    assert retry_plan is not None
    assert (retry_plan.hosts["gpu04"], retry_plan.hosts["gpu02"]) == ("10.0.0.4", "10.0.0.9")
    assert retry_plan.continuation.avoided_nodes == ("gpu03",)


def raw_of(retry_plan: RetryPlan) -> list[dict[str, Any]]:
    return [element.to_dict() for element in retry_plan.continuation.placement]


def test_retries_are_counted_from_the_run_that_a_user_started(tmp_path: Path) -> None:
    previous_launch = make_launch(tmp_path, retries=2)
    for used_retries in (1, 2):
        retry_plan = next_retry(previous_launch, LOSS_ERROR, 10 * used_retries, ["gpu02"])
        assert retry_plan is not None
        assert retry_plan.continuation.retries == used_retries
        assert f"{used_retries} of 2" in retry_plan.continuation.reason
        previous_launch = replace(
            previous_launch, run=previous_launch.run + 1, continuation=retry_plan.continuation
        )
    assert next_retry(previous_launch, LOSS_ERROR, 90, ["gpu02"]) is None
    # A user who resumes it has a launch of his own.
    assert (
        next_retry(replace(previous_launch, continuation=None), LOSS_ERROR, 90, ["gpu02"])
        is not None
    )


@pytest.mark.parametrize(
    ("error", "saved", "repeated_launch"),
    [
        (KILLED, 40, False),
        (KILLED, 41, True),
        (replace(KILLED, cause="gpu_memory"), 40, True),
        (LOSS_ERROR, 40, True),
    ],
)
def test_a_possible_fault_of_the_code_is_retried_once_without_a_new_checkpoint(
    tmp_path: Path, error: RankError, saved: int, repeated_launch: bool
) -> None:
    previous_launch = make_launch(tmp_path, retries=9)
    continuation = Continuation("It was killed.", retries=1, step=40, cause="killed")
    retry_plan = next_retry(replace(previous_launch, continuation=continuation), error, saved)
    assert (retry_plan is not None) is repeated_launch


@pytest.mark.parametrize(
    ("overrides", "remaining_count", "batch", "factor", "message"),
    [
        ({"scaling": "batch"}, 2, 6, 6, "is 2 × 6 instead of 8, so that the global batch is 48 as"),
        ({"scaling": "batch"}, 1, 8, 6, "is 3 × 8 instead of 8, so that the global batch is 48 as"),
        ({"scaling": "batch", "batch_size": 7}, 2, 5, 40 / 7, "is rounded to 40 from 42"),
        ({"scaling": "batch", "accumulate": 2}, 1, 8, 12, "is 6 × 8 instead of 2 × 8"),
        ({"scaling": "process"}, 2, 8, 4, "is 32 instead of 48, and the rate is 0.667"),
        ({"scaling": "process", "strategy": {"lr_scaling": "none"}}, 2, 8, 1, "the rate stays"),
        ({"scaling": "batch", "strategy": {"lr_scaling": "none"}}, 2, 6, 1, "48 as before"),
        ({"strategy": {"name": "downpour"}}, 2, 8, 1, ""),
    ],
)
def test_batch_and_rate_with_fewer_nodes(
    tmp_path: Path,
    overrides: dict[str, Any],
    remaining_count: int,
    batch: int,
    factor: float,
    message: str,
) -> None:
    lost_nodes = ["gpu02", "gpu03"][: 3 - remaining_count]
    settings = {"batch_size": 8, "optimizer": {"name": "sgd", "lr": 0.1}, **overrides}
    previous_launch = make_launch(tmp_path, shrink=True, **settings)
    retry_plan = next_retry(previous_launch, LOSS_ERROR, 0, lost_nodes)
    assert retry_plan is not None
    assert message in retry_plan.continuation.reason
    assert retry_plan.continuation.batch_size == batch
    new_launch = run_after(previous_launch, retry_plan)
    assert (new_launch.config.optimizer.lr, new_launch.lr_factor) == (0.1, pytest.approx(factor))


def run_after(launch: Launch, retry_plan: RetryPlan) -> Launch:
    config = with_changes(
        launch.config, {**retry_plan.changes, "placement": raw_of(retry_plan)}
    ).config
    assert config is not None
    return replace(next_launch(launch, config, ""), continuation=retry_plan.continuation)


@given(
    nodes=st.integers(2, 8),
    processes=st.integers(1, 3),
    batch=st.integers(1, 9),
    scaling=st.sampled_from(["none", "linear", "sqrt"]),
    losses=st.lists(st.integers(0, 7), min_size=1, max_size=7),
)
@example(nodes=8, processes=1, batch=2, scaling="linear", losses=[0] * 4)
@example(nodes=4, processes=1, batch=8, scaling="linear", losses=[0, 0, 0])
def test_however_many_nodes_are_lost_one_after_the_other_the_batch_and_rate_stay(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: int,
    processes: int,
    batch: int,
    scaling: str,
    losses: list[int],
) -> None:
    names = [f"gpu0{number}" for number in range(1, nodes + 1)]
    three = make_launch(
        tmp_path_factory.mktemp("job"),
        batch_size=batch,
        optimizer={"name": "sgd", "lr": 0.1},
        strategy={"lr_scaling": scaling},
        schedule={"name": "constant", "warmup_epochs": 2},
        shrink=True,
        scaling="batch",
    )
    placement = [{"node": name, "processes": processes} for name in names]
    config = with_changes(three.config, {"placement": placement}).config
    assert config is not None
    full_launch = launch = next_launch(three, config, "", dict.fromkeys(names, "10.0.0.9"))
    law = {"none": lambda n: 1.0, "linear": float, "sqrt": math.sqrt}[scaling]
    whole_size = batch * nodes * processes
    while losses and len(launch.config.placement) > 1:
        lost_node = launch.config.placement[losses.pop() % len(launch.config.placement)].node
        retry_plan = next_retry(launch, replace(LOSS_ERROR, node=lost_node), 40, [lost_node])
        assert retry_plan is not None
        launch = run_after(launch, retry_plan)
        count = len(launch.config.placement) * processes
        size = launch.config.global_batch_size
        passes = launch.config.accumulate
        # No other whole batch of each pass is nearer to the user's, and none needs more memory.
        assert abs(size - whole_size) <= count * passes / 2 or size == count * passes
        assert launch.config.batch_size <= batch
        factor = law(size / batch)
        for step in (0, 1, 10, 19, 30):
            start = 0.1 if factor > 1 else 0.0
            expected_rate = start + (0.1 * factor - start) * min(1.0, (step + 1) / 20)
            assert learning_rate(launch.config, 10, step, launch.lr_factor) == pytest.approx(
                expected_rate
            )
            if size == whole_size:
                full_rate = learning_rate(full_launch.config, 10, step, full_launch.lr_factor)
                assert learning_rate(launch.config, 10, step, launch.lr_factor) == full_rate
        repeated_launch = Launch.from_dict(json.loads(json.dumps(launch.to_dict())))
        assert repeated_launch.lr_factor == launch.lr_factor


def test_gpus_are_replaced_by_free_ones_of_the_same_kind(tmp_path: Path) -> None:
    placement = [{"node": n, "gpus": [f"{n}-a", f"{n}-b"]} for n in ("gpu01", "gpu02")]
    raw = raw_job(placement=placement, on_failure={"retries": 1, "nodes": "others"})
    config = parse_job(raw).config
    assert config is not None
    continuation = replace(make_launch(tmp_path), config=config)
    own_capacities = {"gpu02": NodeCapacity("10.0.0.2", {"gpu02-a": "A100", "gpu02-b": "A100"})}
    other_capacity = NodeCapacity(
        "10.0.0.3", {"c": "T4", "d": "A100", "e": "A100", "f": "A100"}, is_free=True
    )

    retry_plan = next_retry(
        continuation,
        LOSS_ERROR,
        0,
        ["gpu02"],
        {**own_capacities, "gpu03": replace(other_capacity, used_gpus={"e"})},
    )
    assert retry_plan is not None
    assert retry_plan.continuation.placement[1] == Placement("gpu03", gpus=("d", "f"))
    assert retry_plan.hosts == {"gpu03": "10.0.0.3"}
    retry_plan = next_retry(
        continuation,
        LOSS_ERROR,
        0,
        ["gpu02"],
        {**own_capacities, "gpu03": replace(other_capacity, used_gpus={"e", "f"})},
    )
    assert nodes_of(retry_plan) == "gpu01"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"on_failure": {"retries": -1}}, "on_failure.retries"),
        ({"on_failure": {"shrink": True}, "nodes": 1}, "on_failure.shrink"),
        ({"on_failure": {"shrink": True, "at_least": 4}}, "on_failure.at_least"),
        (
            {"on_failure": {"shrink": True}, "strategy": {"name": "alone"}, "nodes": 1},
            "on_failure.shrink",
        ),
        ({"on_failure": {"shrink": True, "at_least": 0}}, "on_failure.at_least"),
        ({"on_failure": {"nodes": "all"}}, "on_failure.nodes"),
        ({"on_failure": {"shrink": True, "at_least": 3}}, ""),
    ],
)
def test_bad_settings_have_a_sentence_each(overrides: dict[str, Any], field: str) -> None:
    count = overrides.pop("nodes", 3)
    placement = [{"node": f"gpu0{n}", "processes": 1} for n in range(count)]
    config_errors = parse_job(raw_job(placement=placement, **overrides)).errors
    assert [config_error.path for config_error in config_errors] == ([field] if field else [])


@pytest.mark.parametrize("policy", [{"retries": 1}, {"shrink": True}])
def test_a_script_that_cannot_resume_is_not_continued(policy: dict[str, Any]) -> None:
    placement = [{"node": f"gpu0{n}", "processes": 1} for n in range(3)]
    raw = {"name": "a", "script": "s", "entry": "a.py", "placement": placement}
    (config_error,) = parse_job({**raw, "on_failure": policy}).errors
    assert "resume_arguments" in config_error.message
    can_resume = {**raw, "on_failure": policy, "resume_arguments": ["--resume", "{checkpoint}"]}
    assert parse_job(can_resume).errors == ()


def test_the_next_run_is_queued_with_its_reason_and_recorded(tmp_path: Path) -> None:
    root = DataRoot(tmp_path)
    folder = root.job("a-job")
    for path in (folder.checkpoints, folder.attempt(1).path):
        path.mkdir(parents=True)
    previous_launch = make_launch(folder.path, shrink=True)
    record = RunExit(1, JobState.ERROR, LOSS_ERROR.message, LOSS_ERROR)

    retry.carry_out(folder, previous_launch, retry.plan(folder, previous_launch, record, ["gpu02"]))

    (entry,) = entries.entries(root)
    assert entry.reason.startswith(
        "gpu02 no longer answers. Continues on gpu01 and gpu03, without gpu02."
    )
    (act,) = folder.acts.glob("*.json")
    assert "gpu02 no longer answers" in read_json(act)["what"]
    queued = Launch.from_dict(read_json(folder.queued_launch))
    assert queued.continuation is not None
    assert queued.continuation.nodes == "2 of 3 nodes"


def facts_of(number: int) -> NodeEntry:
    """A node as it is after its set-up."""
    installation = NodeInstallation(
        *("/env/bin/python", "/usr/bin/mpirun", "5.0", "a", "/code", "/data/ssh_config")
    )
    address = NodeAddress(f"gpu0{number}")
    entry = NodeEntry(f"gpu0{number}", address, installation=installation)
    return replace(entry, ranks_address=f"10.0.0.{number}/24")


@pytest.mark.parametrize(
    ("change", "is_free"),
    [
        ({}, True),
        ({"in_service": False}, False),
        ({"is_staged": True}, False),
        ({"installation": None}, False),
        ({"ranks_address": "10.0.9.4/24"}, False),
        ({"bundle": "/older"}, False),
        ({"alive": False}, False),
        ({"busy": True}, False),
    ],
)
def test_only_a_suitable_free_node_replaces_a_lost_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], is_free: bool
) -> None:
    root = DataRoot(tmp_path)
    folder = root.job("a-job")
    for path in (folder.checkpoints, folder.attempt(1).path):
        path.mkdir(parents=True)
    entry = facts_of(4)
    alive, busy, bundle = (change.pop(key, None) for key in ("alive", "busy", "bundle"))
    if bundle:
        assert entry.installation is not None
        change = {"installation": replace(entry.installation, bundle=bundle)}
    root.node("gpu04").path.mkdir(parents=True)
    replace_json(root.node("gpu04").entry, replace(entry, **change).to_dict())
    replace_json(root.node("gpu04").status, replace(READING, name="gpu04").to_dict())
    monkeypatch.setattr(retry, "_BEAT_S", 0.1)
    monkeypatch.setattr(
        HeartbeatReader, "read", lambda self, node: (replace(READING, name=node), alive is None)
    )
    if busy:
        other_job = root.job("b-job")
        other_job.attempt(1).path.mkdir(parents=True)
        config = replace(make_launch(other_job.path).config, placement=place_on("gpu04"))
        ranks = tuple(
            replace(element, node="gpu04") for element in make_launch(other_job.path).ranks[:2]
        )
        running = replace(make_launch(other_job.path), config=config, ranks=ranks)
        replace_json(other_job.launch, running.to_dict())
    previous_launch = make_launch(folder.path, retries=1, nodes="others")
    replace_json(folder.launch, previous_launch.to_dict())

    retry_plan = retry.plan(
        folder, previous_launch, RunExit(1, JobState.ERROR, "", LOSS_ERROR), ["gpu02"]
    )

    assert nodes_of(retry_plan) == ("gpu01 gpu04 gpu03" if is_free else REMAINING)
    assert retry_plan is not None
    assert retry_plan.hosts == ({"gpu04": "10.0.0.4"} if is_free else {})


@pytest.mark.parametrize("end_kind", ["stopped", "finished", "newer run"])
def test_a_run_that_a_user_ended_is_not_continued(tmp_path: Path, end_kind: str) -> None:
    root = DataRoot(tmp_path)
    folder = root.job("a-job")
    for path in (folder.checkpoints, folder.attempt(1).path):
        path.mkdir(parents=True)
    previous_launch = make_launch(folder.path, retries=1)
    state = JobState.FINISHED if end_kind == "finished" else JobState.ERROR
    if end_kind == "stopped":
        folder.stop_request.write_text('{"run": 1}')
    retry_plan = retry.plan(folder, previous_launch, RunExit(1, state, "", LOSS_ERROR))
    if end_kind == "newer run":
        folder.attempt(2).path.mkdir()
    retry.carry_out(folder, previous_launch, retry_plan)
    assert not entries.entries(root)


@pytest.mark.parametrize(
    ("settings", "alive", "by_user", "nodes"),
    [
        ({"shrink": True}, "gpu03", False, "gpu01 gpu03"),
        ({"shrink": True, "retries": 2}, "gpu03", False, "gpu01 gpu03"),
        ({"shrink": True}, "", False, "gpu01"),
        ({"shrink": True}, "gpu02 gpu03", False, ALL),
        ({"shrink": True, "at_least": 3, "retries": 2}, "gpu03", False, ALL),
        ({"retries": 2}, "gpu03", False, ALL),
        ({"shrink": True}, "gpu03", True, ALL),
    ],
)
def test_a_queued_run_does_not_wait_for_a_node_that_was_lost_since(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    alive: str,
    by_user: bool,
    nodes: str,
) -> None:
    root = DataRoot(tmp_path)
    folder = root.job("a-job")
    for path in (folder.checkpoints, folder.attempt(1).path):
        path.mkdir(parents=True)
    replace_json(folder.attempt(1).exit, RunExit(1, JobState.INTERRUPTED, "").to_dict())
    previous_launch = make_launch(folder.path, **settings)
    reason = "" if by_user else "gpu02 can be used again."
    queue_next(
        folder,
        previous_launch,
        reason,
        continuation=Continuation(reason, placement=place_on(*ALL.split())),
    )
    now = [0.0]
    woken: list[list[str]] = []
    monkeypatch.setattr(remote_cleanup, "wake_agents", lambda launch, down: woken.append(down))
    own_reading = replace(READING, name="gpu01")
    watch = Scheduler(root, "gpu01", lambda: own_reading, lambda: now[0])
    for number in (1, 2, 3):
        node = root.node(f"gpu0{number}")
        node.path.mkdir(parents=True)
        replace_json(node.entry, facts_of(number).to_dict())
    for beat in range(20):
        now[0] += 5.0
        for name in alive.split():
            reading = replace(READING, name=name, heartbeat=beat)
            replace_json(root.node(name).status, reading.to_dict())
        watch.poll()
    (entry,) = entries.entries(root)
    assert [element.node for element in entry.placement] == nodes.split()
    # The head looks for those that are away, as long as the job waits for them.
    silent_nodes = [name for name in ("gpu02", "gpu03") if name not in alive.split()]
    assert woken[:1] == ([silent_nodes] if silent_nodes and not by_user else [])
    assert entry.run == 2
