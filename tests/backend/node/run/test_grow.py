"""When a run on fewer nodes stops to take a lost node back, and what it continues on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.node.queue import retry
from backend.node.queue.entries import entry_of
from backend.node.queue.next_run import next_launch
from backend.node.run import grow
from backend.node.run.grow import GrowthWatch
from backend.node.run.launch_command import command
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.launch import Launch
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.jobs.stop_request import pause_requested
from tests.backend.node.queue.test_retry import LOSS_ERROR, facts_of, make_launch
from tests.backend.node.queue.test_scheduler import READING

PAUSE = "gpu02 can be used again."


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The runs and nodes for which agents were to be started; nothing is connected to."""
    wake_calls: list[tuple[str, list[str]]] = []

    def wake(launch: Launch, nodes: list[str]) -> None:
        wake_calls.append((f"{launch.job_id}/{launch.run}", nodes))

    monkeypatch.setattr(grow.remote_cleanup, "wake_agents", wake)
    return wake_calls


class Cluster:
    """Run 2 of a job, which lost gpu02; its epochs have any number of rounds of 5 s."""

    def __init__(self, folder: Path, grow: bool = True, **settings: Any) -> None:
        self.root = DataRoot(folder)
        self.job = self.root.job("a-job")
        self.job.checkpoints.mkdir(parents=True)
        for run in (1, 2):
            self.job.attempt(run).path.mkdir(parents=True)
        full_launch = make_launch(self.job.path, shrink=True, grow=grow, **settings)
        record = RunExit(1, JobState.ERROR, LOSS_ERROR.message, LOSS_ERROR)
        retry_plan = retry.plan(self.job, full_launch, record, ["gpu02"])
        self.job.attempt(2).path.rmdir()
        retry.carry_out(self.job, full_launch, retry_plan)
        self.job.attempt(2).path.mkdir()
        self.launch = Launch.from_dict(read_json(self.job.queued_launch))
        replace_json(self.job.launch, self.launch.to_dict())
        self.entry = facts_of(2)
        self.now, self.beat, self.epoch, self.is_alive = 1000.0, 0, 1, True
        for node in ("gpu01", "gpu02", "gpu03"):
            self.root.node(node).path.mkdir(parents=True, exist_ok=True)
        self.grow = GrowthWatch(self.job, self.launch, lambda: self.now)

    def round(self, **status: Any) -> str:
        """Return the pause that is requested after one."""
        self.now += grow.EVERY_S
        self.beat += self.is_alive
        replace_json(self.root.node("gpu02").entry, self.entry.to_dict())
        reading = replace(READING, name="gpu02", heartbeat=self.beat)
        replace_json(self.root.node("gpu02").status, reading.to_dict())
        status_values = {"epoch": self.epoch, "epochs": 9, "is_planned": True, **status}
        replace_json(
            self.job.status, RunStatus(JobState.TRAINING, **{"run": 2, **status_values}).to_dict()
        )
        self.grow.watch()
        return pause_requested(self.job.stop_request, 2)

    def rounds(self, count: int = 4) -> str:
        return [self.round() for _ in range(count)][-1]

    def next_epoch(self) -> str:
        self.epoch += 1
        return self.round()


def test_a_returned_node_is_taken_back_as_the_next_epoch_begins(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert cluster.rounds() == ""

    assert cluster.next_epoch() == PAUSE

    assert cluster.grow.continue_run(RunExit(2, JobState.INTERRUPTED, PAUSE, pause=PAUSE))
    entry = entry_of(cluster.job)
    assert entry is not None
    assert entry.run == 3
    assert entry.reason == (
        f"{PAUSE} The batch per process is 8 instead of 2 × 6, so that the global batch is 48 as "
        "before."
    )
    queued = Launch.from_dict(read_json(cluster.job.queued_launch))
    assert queued.config == Launch.from_dict(read_json(cluster.job.whole_launch)).config
    assert queued.continuation is not None
    assert (queued.continuation.nodes, queued.continuation.avoided_nodes) == ("3 of 3 nodes", ())
    assert [plan.host for plan in queued.ranks] == [f"10.0.0.{n}" for n in (1, 1, 2, 2, 3, 3)]
    expected = next_launch(cluster.launch, queued.config, "", {"gpu02": "10.0.0.2"})
    assert command(queued) == command(expected)
    acts = [read_json(path)["what"] for path in cluster.job.acts.glob("*.json")]
    assert any(PAUSE in act for act in acts)


@pytest.mark.parametrize(
    "change",
    [
        {"in_service": False},
        {"is_staged": True},
        {"installation": None},
        {"ranks_address": "10.0.9.4/24"},
        {"bundle": "/newer"},
        {"is_alive": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_node_that_cannot_take_the_job_is_left(tmp_path: Path, change: dict[str, Any]) -> None:
    cluster = Cluster(tmp_path)
    cluster.is_alive = change.pop("is_alive", True)
    bundle = change.pop("bundle", "")
    if bundle:
        assert cluster.entry.installation is not None
        change = {"installation": replace(cluster.entry.installation, bundle=bundle)}
    cluster.entry = replace(cluster.entry, **change)
    assert [cluster.rounds(), cluster.next_epoch(), cluster.next_epoch()] == ["", "", ""]


def test_a_node_that_another_job_has_is_taken_back_after_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    other_job = cluster.root.job("b-job")
    other_job.attempt(1).path.mkdir(parents=True)
    raw = [{"node": "gpu02", "processes": 4}]
    config = with_changes(cluster.launch.config, {"placement": raw, "on_failure": {}}).config
    assert config is not None
    previous_launch = replace(cluster.launch, job_id="b-job", run=0)
    running = next_launch(previous_launch, config, "", {"gpu02": "10.0.0.2"})
    replace_json(other_job.launch, running.to_dict())
    assert [cluster.rounds(), cluster.next_epoch()] == ["", ""]
    replace_json(other_job.attempt(1).exit, RunExit(1, JobState.FINISHED, "").to_dict())
    assert [cluster.rounds(), cluster.next_epoch()] == ["", PAUSE]


def test_a_node_lost_again_must_return_first(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.rounds()
    cluster.is_alive = False
    cluster.rounds(10)
    assert cluster.next_epoch() == ""
    cluster.is_alive = True
    assert [cluster.rounds(), cluster.next_epoch()] == ["", PAUSE]


def test_a_node_lost_during_the_stop_is_left_out(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.rounds()
    assert cluster.next_epoch() == PAUSE
    cluster.is_alive = False
    cluster.rounds(10)
    assert cluster.grow.continue_run(RunExit(2, JobState.INTERRUPTED, PAUSE, pause=PAUSE))
    entry = entry_of(cluster.job)
    assert entry is not None
    assert [use.node for use in entry.uses] == ["gpu01", "gpu03"]


@pytest.mark.parametrize("pause", ["", "Paused: alice uses GPU 2 on gpu03."])
def test_a_run_that_ended_otherwise_is_not_continued_by_it(tmp_path: Path, pause: str) -> None:
    cluster = Cluster(tmp_path)
    cluster.rounds()
    cluster.next_epoch()
    assert not cluster.grow.continue_run(RunExit(2, JobState.INTERRUPTED, "", pause=pause))
    assert entry_of(cluster.job) is None


@pytest.mark.parametrize(
    "status",
    [{"epoch": 9}, {"is_planned": False}, {"run": 1}],
    ids=lambda changes: next(iter(changes)),
)
def test_no_epoch_is_left_or_known(tmp_path: Path, status: dict[str, Any]) -> None:
    cluster = Cluster(tmp_path)
    cluster.rounds()
    cluster.epoch += 1
    assert [cluster.round(**status), cluster.round(**status)] == ["", ""]


@pytest.mark.parametrize(("pauses", "requested"), [(5, PAUSE), (6, "")])
def test_a_run_grows_only_a_few_times_an_hour(tmp_path: Path, pauses: int, requested: str) -> None:
    cluster = Cluster(tmp_path)
    run = 2 * pauses + 2
    for number in range(1, run):
        cluster.job.attempt(number).path.mkdir(exist_ok=True)
        # A loss follows each time that a node is taken back.
        state, pause = (JobState.ERROR, "") if number % 2 else (JobState.INTERRUPTED, PAUSE)
        record = RunExit(number, state, "", ended_at=timestamps.utc_now(), pause=pause)
        replace_json(cluster.job.attempt(number).exit, record.to_dict())
    cluster.grow = GrowthWatch(cluster.job, replace(cluster.launch, run=run), lambda: cluster.now)
    for _ in range(3):
        cluster.round(run=run)
    cluster.epoch += 1
    cluster.round(run=run)
    assert pause_requested(cluster.job.stop_request, run) == requested


def test_a_job_without_growth_keeps_its_nodes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, grow=False)
    assert [cluster.rounds(), cluster.next_epoch(), cluster.next_epoch()] == ["", "", ""]


def test_the_head_starts_the_agents_of_lost_nodes(
    tmp_path: Path, woken: list[tuple[str, list[str]]]
) -> None:
    cluster = Cluster(tmp_path)
    cluster.rounds(20)
    assert woken == []
    cluster.is_alive = False
    cluster.rounds(30)
    assert [nodes for _, nodes in woken] == [["gpu02"]] * 5
    # The cleanup of the run that had the node ends what it left there.
    assert {tag for tag, _ in woken} == {"a-job/1"}
    cluster.is_alive = True
    cluster.rounds(20)
    assert len(woken) == 5
