"""Runs whose head is lost, and nodes that stand still: who continues, and when nothing may."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.node.queue import entries
from backend.node.run import finalize, head_watch, remote_cleanup
from backend.node.run.head_watch import SilenceWatch
from backend.node.run.unrecorded_runs import RunWatch
from backend.node.system import process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from tests.backend.node.queue.test_retry import make_launch
from tests.backend.node.queue.test_scheduler import READING

NODES = ("gpu01", "gpu02", "gpu03")


class Cluster:
    """Three nodes that share a data root; the agent of one of them polls every 2 s."""

    def __init__(self, path: Path, node: str, **settings: Any) -> None:
        self.root = DataRoot(path)
        self.folder = JobFolder(self.root.job("a-job").path)
        for made_folder in (self.folder.checkpoints, self.folder.attempt(1).path):
            made_folder.mkdir(parents=True)
        previous_launch = make_launch(self.folder.path, **settings)
        replace_json(self.folder.launch, previous_launch.to_dict())
        head = replace(process_identity.own_process(), host="gpu01-host", boot_id="another")
        replace_json(self.folder.attempt(1).supervisor, head.to_dict())
        self.now, self.beat = 0.0, 0
        self.alive, self.trains = set(NODES), True
        self.watch = RunWatch(self.root, node, lambda: self.now)

    def round(self) -> tuple[str, ...]:
        self.now += 2.0
        self.beat += 1
        for node in self.alive:
            self.root.node(node).path.mkdir(parents=True, exist_ok=True)
            reading = replace(READING, name=node, heartbeat=self.beat)
            replace_json(self.root.node(node).status, reading.to_dict())
        if self.trains:
            status = RunStatus(JobState.TRAINING, run=1, step=9, heartbeat=self.beat)
            replace_json(self.folder.status, status.to_dict())
        return self.watch.poll()

    def rounds(self, count: int) -> tuple[str, ...]:
        return sum((self.round() for _ in range(count)), ())


@pytest.mark.parametrize(
    ("node", "alive", "trains", "settings", "closes"),
    [
        ("gpu02", {"gpu02", "gpu03"}, False, {"shrink": True}, True),
        ("gpu02", {"gpu02", "gpu03"}, False, {"retries": 1}, True),
        ("gpu03", {"gpu03"}, False, {"shrink": True}, True),
        # Another node is to do it.
        ("gpu03", {"gpu02", "gpu03"}, False, {"shrink": True}, False),
        ("gpu01", {"gpu01"}, False, {"shrink": True}, False),
        ("gpu09", {"gpu02", "gpu03"}, False, {"shrink": True}, False),
        # The head leads it still, or a user is to decide.
        ("gpu02", {"gpu02", "gpu03"}, True, {"shrink": True}, False),
        ("gpu02", {"gpu01", "gpu02"}, False, {"shrink": True}, False),
        ("gpu02", {"gpu02", "gpu03"}, False, {}, False),
    ],
)
def test_the_first_live_node_continues_a_job_with_a_lost_head(
    tmp_path: Path, node: str, alive: set[str], trains: bool, settings: dict[str, Any], closes: bool
) -> None:
    cluster = Cluster(tmp_path, node, **settings)
    assert cluster.rounds(5) == ()
    assert cluster.watch.watches_heads is (bool(settings) and node != "gpu09")
    cluster.alive, cluster.trains = alive, trains

    assert cluster.rounds(15) == (("a-job",) if closes else ())

    queue_entries = entries.entries(cluster.root)
    assert len(queue_entries) == closes
    assert cluster.folder.attempt(1).exit.exists() is closes
    if closes:
        record = read_json(cluster.folder.attempt(1).exit)
        assert record["error"]["node"] == "gpu01"
        assert "gpu01 no longer answers, and led the run." in queue_entries[0].reason


def test_a_slow_head_keeps_its_run(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "gpu02", shrink=True)
    cluster.rounds(3)
    for _ in range(5):
        cluster.alive, cluster.trains = {"gpu02", "gpu03"}, False
        assert cluster.rounds(5) == ()
        cluster.alive, cluster.trains = set(NODES), True
        assert cluster.rounds(2) == ()


def test_a_node_whose_ranks_still_work_does_not_continue_the_job_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path, "gpu02", shrink=True)
    cluster.rounds(3)
    cluster.alive, cluster.trains = {"gpu02", "gpu03"}, False
    with monkeypatch.context() as patch:
        rank = process_identity.own_process()
        patch.setattr(head_watch.process_cleanup, "tagged", lambda tag: (rank,))
        assert cluster.rounds(20) == ()
    assert cluster.rounds(1) == ("a-job",)


@pytest.mark.parametrize(
    ("settings", "answers", "rounds"),
    [
        ({"shrink": True}, False, 31),
        ({"retries": 1, "silent_limit_s": 30}, False, 16),
        ({"shrink": True}, True, None),
        ({"shrink": True, "silent_limit_s": 500}, False, None),
        ({}, False, None),
    ],
)
def test_a_head_that_stands_still_is_given_up_although_ranks_wait_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    answers: bool,
    rounds: int | None,
) -> None:
    cluster = Cluster(tmp_path, "gpu02", **settings)
    cluster.rounds(3)
    cluster.alive, cluster.trains = {"gpu02", "gpu03"}, False
    rank = process_identity.own_process()
    monkeypatch.setattr(head_watch.process_cleanup, "tagged", lambda tag: (rank,))
    monkeypatch.setattr(
        remote_cleanup, "unreachable_nodes", lambda launch, nodes: () if answers else nodes
    )
    monkeypatch.setattr(finalize.process_cleanup, "end_tagged", lambda tag, grace_s: ())
    assert cluster.rounds((rounds or 60) - 1) == ()
    assert cluster.rounds(2) == (() if rounds is None else ("a-job",))


_READING, _STATUS = READING.to_dict(), RunStatus(JobState.TRAINING, run=1).to_dict()


class SilentCluster:
    """A run on three nodes, led by gpu01, whose supervisor looks every 4 s."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        root = DataRoot(path)
        self.root, self.job = root, root.job("a-job")
        self.job.path.mkdir(parents=True)
        for node in NODES:
            root.node(node).path.mkdir(parents=True)
        self.now, self.step = 5000.0, 1
        self.heartbeats = dict.fromkeys(NODES, 1)
        self.frozen: set[str] = set()
        self.without_agent: set[str] = set()
        self.is_moving = False
        self.asked_nodes: list[str] = []
        monkeypatch.setattr(remote_cleanup, "unreachable_nodes", self._unreached)
        self.watch = SilenceWatch(
            self.job, make_launch(self.job.path, **settings), lambda: self.now
        )

    def _unreached(self, launch: object, nodes: list[str]) -> tuple[str, ...]:
        self.asked_nodes += nodes
        return tuple(node for node in nodes if node in self.frozen)

    def lost_after_s(self, limit_s: float = 132.0) -> tuple[float, tuple[str, ...]]:
        """Return after how many seconds nodes are lost, and which; (limit_s, ()) if none is."""
        started_s = self.now
        while self.now < started_s + limit_s:
            self.now += 4.0
            for node in set(NODES) - self.frozen - self.without_agent:
                self.heartbeats[node] += 1
            self.step += self.is_moving
            for node, heartbeat in self.heartbeats.items():
                text = json.dumps({**_READING, "name": node, "heartbeat": heartbeat})
                self.root.node(node).status.write_text(text)
            status = {**_STATUS, "step": self.step, "heartbeat": int(self.now)}
            self.job.status.write_text(json.dumps(status))
            if silent_nodes := self.watch.find_silent_nodes():
                return self.now - started_s, silent_nodes
        return limit_s, ()


@pytest.mark.parametrize(
    ("frozen", "settings", "expected_s"),
    [
        ({"gpu02"}, {"shrink": True}, 60),
        ({"gpu03"}, {"retries": 1}, 60),
        ({"gpu02", "gpu03"}, {"shrink": True}, 60),
        ({"gpu03"}, {"shrink": True, "silent_limit_s": 30}, 30),
        ({"gpu03"}, {"shrink": True, "silent_limit_s": 120}, 120),
        # A user decides, or its own head is meant.
        ({"gpu03"}, {}, None),
        ({"gpu01"}, {"shrink": True}, None),
        (set(), {"shrink": True}, None),
    ],
)
def test_a_node_that_stands_still_is_lost_after_the_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    frozen: set[str],
    settings: dict[str, Any],
    expected_s: float | None,
) -> None:
    cluster = SilentCluster(tmp_path, monkeypatch, **settings)
    assert cluster.lost_after_s(20) == (20, ())
    cluster.frozen = frozen
    after_s, silent_nodes = cluster.lost_after_s()
    if expected_s is None:
        assert silent_nodes == ()
    else:
        assert set(silent_nodes) == frozen
        assert expected_s <= after_s <= expected_s + 8


def test_a_run_that_makes_steps_keeps_a_silent_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SilentCluster(tmp_path, monkeypatch, shrink=True)
    cluster.is_moving, cluster.frozen = True, {"gpu02"}
    assert cluster.lost_after_s()[1] == ()
    assert cluster.asked_nodes == []
    cluster.is_moving = False
    assert cluster.lost_after_s()[1] == ("gpu02",)


def test_a_node_whose_agent_alone_ended_is_not_lost_and_seldom_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SilentCluster(tmp_path, monkeypatch, shrink=True)
    cluster.without_agent = {"gpu02"}
    assert cluster.lost_after_s()[1] == ()
    assert cluster.asked_nodes == ["gpu02"] * 3


def test_a_node_that_thaws_in_time_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SilentCluster(tmp_path, monkeypatch, shrink=True)
    for _ in range(3):
        cluster.frozen = {"gpu02"}
        assert cluster.lost_after_s(56)[1] == ()
        cluster.frozen = set()
        assert cluster.lost_after_s(4)[1] == ()


@pytest.mark.parametrize(
    ("ssh", "is_reached"),
    [
        ("exit 0", True),
        ("exit 1", True),  # the filter of the key refused it: sshd answers
        ("exit 255", False),
        ("exec tail -f /dev/null", False),
        (None, True),  # this computer cannot ask, which proves nothing
    ],
)
def test_an_answer_over_ssh_is_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh: str | None, is_reached: bool
) -> None:
    monkeypatch.setattr(remote_cleanup, "_CONNECT_S", -1.7)
    folder = tmp_path / "bin"
    folder.mkdir()
    if ssh is not None:
        (folder / "ssh").write_text(f"#!/bin/sh\n{ssh}\n")
        (folder / "ssh").chmod(0o755)
    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda command, **options: popen([str(folder / command[0]), *command[1:]], **options),
    )
    monkeypatch.setattr(remote_cleanup.time, "monotonic", lambda: 0.0)
    reached = remote_cleanup.unreachable_nodes(
        make_launch(tmp_path, shrink=True), ("gpu02", "gpu03")
    )
    assert reached == (() if is_reached else ("gpu02", "gpu03"))
