"""When a search gets a turn, and what a trial without values waits for."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from backend.node.queue.scheduler import Scheduler
from backend.node.queue.searches import Searches
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.history import Block, encode
from backend.records.jobs.placement import Placement
from backend.records.queue.entry import Cause, NodeUse, QueueEntry, RunningJob
from backend.records.queue.scheduling import ClusterState, NodeView, wait_reasons
from backend.records.sweeps.search import Proposal, Search, SearchProgress, StoredSearch
from tests.backend.node.queue.test_scheduler import (
    Clock,
    clock,
    end_run,
    poll,
    queued,
    root,
    started,
    watch,
)

__all__ = ["clock", "root", "started", "watch"]
TAG = "sweep:shapes-k3pf"
TRIAL: dict[str, Any] = {"sweep": TAG, "at_once": 2, "processes": 1}


class Turn:
    """A process that ends when the test says so."""

    def __init__(self) -> None:
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Turn]]:
    """The jobs that wait in each turn, and the turn."""
    begun_turns: list[tuple[list[str], Turn]] = []

    def begin(command: Sequence[str], **_: object) -> Turn:
        begun_turns.append(([*command[3:-1]], Turn()))
        return begun_turns[-1][1]

    monkeypatch.setattr(subprocess, "Popen", begin)
    return begun_turns


def store(root: DataRoot, head: str = "gpu1", open_jobs: tuple[str, ...] = ()) -> None:
    folder = root.search("shapes-k3pf")
    folder.path.mkdir(parents=True, exist_ok=True)
    stored = StoredSearch(TAG, head, 1, Search("loss"), (), ("a", "b", "c"))
    replace_json(folder.definition, stored.to_dict())
    replace_json(folder.progress, SearchProgress(open_jobs).to_dict())


def propose(folder: JobFolder) -> None:
    replace_json(folder.proposal, Proposal("", 1, {}).to_dict())


def test_a_trial_starts_when_it_has_values_and_so_many_run_at_once(
    root: DataRoot,
    watch: Scheduler,
    clock: Clock,
    started: list[tuple[str, int]],
    turns: list[tuple[list[str], Turn]],
) -> None:
    store(root)
    folders = [queued(root, job_id, position=n, **TRIAL) for n, job_id in enumerate("abc")]
    assert poll(watch, clock) == poll(watch, clock) == ()
    assert [waiting for waiting, _ in turns] == [["a", "b"]], "one turn at a time, of two trials"
    for folder in folders[:2]:
        propose(folder)
    store(root, open_jobs=("a", "b"))
    turns[0][1].returncode = 0
    assert poll(watch, clock) == ("a", "b")
    assert poll(watch, clock) == ()
    end_run(folders[0], 1)
    turns[-1][1].returncode = 0
    poll(watch, clock)
    assert turns[-1][0] == ["c"], "its end and the next proposal are one turn"


def test_a_turn_follows_what_changes_and_a_failed_one_is_repeated_later(
    root: DataRoot, watch: Scheduler, clock: Clock, turns: list[tuple[list[str], Turn]]
) -> None:
    store(root, open_jobs=("a",))
    folder = root.job("a")
    folder.history.parent.mkdir(parents=True)
    poll(watch, clock)
    assert watch.has_work, "the keeper stays until the sampler knows the end"
    turns[0][1].returncode = 0
    poll(watch, clock)
    assert len(turns) == 1, "nothing changed"
    blocks = [Block("TRAINING", 1, epoch, 1, epoch, "t", {"loss": [1.0]}) for epoch in (1, 1, 2)]
    folder.history.write_bytes(encode(blocks[0]))
    poll(watch, clock)
    assert len(turns) == 2
    turns[1][1].returncode = 0
    folder.history.write_bytes(encode(blocks[0]) + encode(blocks[1]))
    poll(watch, clock)
    assert len(turns) == 2, "the epoch goes on"
    folder.history.write_bytes(b"".join(map(encode, blocks)))
    poll(watch, clock)
    assert len(turns) == 3
    del turns[1]
    turns[1][1].returncode = 1
    poll(watch, clock)
    assert len(turns) == 2, "it waits"
    clock.now += 5.0
    poll(watch, clock)
    assert len(turns) == 3


@pytest.mark.parametrize("head", ["gpu2", "this-computer 7"])
def test_only_the_first_node_of_the_trials_keeps_the_journal(
    root: DataRoot,
    watch: Scheduler,
    clock: Clock,
    turns: list[tuple[list[str], Turn]],
    head: str,
) -> None:
    store(root, head, open_jobs=("a",))
    poll(watch, clock)
    assert turns == []
    assert not watch.has_work
    assert not Searches(root, "gpu1").has_open_trials()
    assert Searches(root, "gpu2").has_open_trials() is (head == "gpu2")


def test_trials_beyond_the_limit_let_other_jobs_pass() -> None:
    def entry(name: str, **changes: Any) -> QueueEntry:
        return replace(QueueEntry(name, name, 1, (Placement("gpu1", 1),), "7"), **changes)

    running = (RunningJob("r", "r", (NodeUse("gpu1", processes=1),), None, TAG),)
    state = ClusterState(datetime.now(UTC), {"gpu1": NodeView(cores=8)}, running)
    trials = [entry(name, sweep=TAG, at_once=2) for name in ("t1", "t2", "t3")]
    reasons = wait_reasons([*trials, entry("user", position=9.0)], state)
    assert reasons["t1"] is reasons["user"] is None
    reason = reasons["t2"]
    assert reason is not None
    assert reason.cause is Cause.AT_ONCE
    assert reason.message == "2 trials of its search run; at most 2 may run at once."
