"""Runs whose head is lost: which node continues them, and when none may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.node.queue import entries
from backend.node.run import finalize, head_watch, remote_cleanup
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
