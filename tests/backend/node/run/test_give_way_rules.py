"""When a run requests its own pause, and how long the queue waits for quiet afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.node.queue.entries import entry_of
from backend.node.run import give_way
from backend.node.run.give_way import GiveWayWatch
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot
from backend.records.base.schema import json_value
from backend.records.jobs.job_file import with_changes
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit
from backend.records.jobs.stop_request import StopRequest, pause_requested, stop_requested_by
from backend.records.nodes.reading import Cpu, Gpu, GpuProcess, NodeReading
from backend.records.queue.entry import QueueEntry
from tests.backend.node.queue.test_next_run import launch, make_config
from tests.widgets.nodes.samples import entry

ALICE = GpuProcess(7, "alice", 40 * 2**30, "python3")
PAUSE = "Paused: alice uses GPU 2 on gpu02."


class Cluster:
    """A run on gpu01, its head, and on GPU 2 of gpu02, whose agent writes readings."""

    def __init__(
        self,
        folder: Path,
        *,
        gives_way: bool = True,
        gpus: bool = True,
        clock: Callable[[], datetime] = datetime.now,
        **settings: Any,
    ) -> None:
        self.root = DataRoot(folder)
        self.job = self.root.job("a-job")
        self.job.checkpoints.mkdir(parents=True)
        self.job.attempt(1).path.mkdir(parents=True)
        self.root.node("gpu02").path.mkdir(parents=True)
        cpus = launch(self.job.path, make_config((Placement("gpu01", 1), Placement("gpu02", 1))), 1)
        on_gpus = [{"node": node, "gpus": [f"GPU-{node}"]} for node in ("gpu01", "gpu02")]
        changes = {"gives_way": gives_way, **({"placement": on_gpus} if gpus else {})}
        config = with_changes(cpus.config, changes).config
        assert config is not None
        ranks = tuple(replace(plan, gpu=f"GPU-{plan.node}") for plan in cpus.ranks)
        self.launch = replace(cpus, config=config, ranks=ranks, **settings)
        self.now, self._beats = 1000.0, 0
        self.give_way_watch = GiveWayWatch(self.job, self.launch, lambda: self.now, clock)

    def pause_after(self, *processes: GpuProcess, beats: bool = True, at_keyboard: str = "") -> str:
        """Return the pause that is requested after a reading of gpu02's agent."""
        self._beats += beats
        self.now += give_way.EVERY_S
        gpu = Gpu(2, "GPU-gpu02", "H100", memory_total_bytes=80 * 2**30, processes=processes)
        cpu = Cpu("cpu", 8, None, 0.0)
        reading = NodeReading(
            *("gpu02", "gpu02", self._beats, cpu, 1, 1, 0, 0, "/", 10, 5),
            gpus=(gpu,),
            at_keyboard=at_keyboard,
        )
        replace_json(self.root.node("gpu02").status, reading.to_dict())
        self.give_way_watch.watch()
        return pause_requested(self.job.stop_request, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    new_cluster = Cluster(tmp_path)
    assert [new_cluster.pause_after(), new_cluster.pause_after()] == ["", ""]
    return new_cluster


def test_a_process_of_another_user_on_another_node_pauses_the_run_once(cluster: Cluster) -> None:
    assert cluster.pause_after(ALICE) == PAUSE
    cluster.job.stop_request.unlink()
    assert cluster.pause_after(ALICE) == ""


def test_a_user_at_the_keyboard_pauses_the_run(cluster: Cluster) -> None:
    assert cluster.pause_after(at_keyboard="bob") == "Paused: bob is at the keyboard of gpu02."


def test_a_missing_agent_says_nothing_about_now(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert [cluster.pause_after(ALICE, beats=False) for _ in range(20)] == [""] * 20


def test_own_programs_from_before_the_start_do_not_pause_the_run(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    own_program = replace(ALICE, user=user_name())
    later = replace(own_program, pid=8)
    assert [cluster.pause_after(own_program) for _ in range(3)] == [""] * 3
    assert (
        cluster.pause_after(own_program, later)
        == f"Paused: {own_program.user} uses GPU 2 on gpu02."
    )


def test_a_process_of_another_user_from_before_the_start_pauses_the_run(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert [cluster.pause_after(ALICE), cluster.pause_after(ALICE)] == ["", PAUSE]


def test_the_stop_of_a_user_stays_and_that_of_an_earlier_run_does_not(cluster: Cluster) -> None:
    replace_json(cluster.job.stop_request, json_value(StopRequest(1, "ben")))
    assert cluster.pause_after(ALICE) == ""
    assert stop_requested_by(cluster.job.stop_request) == "ben"


def test_a_request_of_an_earlier_run_is_replaced(cluster: Cluster) -> None:
    replace_json(cluster.job.stop_request, json_value(StopRequest(7, "ben")))
    assert cluster.pause_after(ALICE) == PAUSE


def test_a_trial_run_does_not_give_way(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, steps_limit=1)
    assert [cluster.pause_after(ALICE) for _ in range(3)] == [""] * 3


TUESDAY = datetime(2026, 11, 24, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "gives_way", "gpus", "pauses"),
    [
        ("", False, True, False),
        ("", True, True, True),
        ("always", False, True, True),
        ("08:00–18:00 Mon–Fri", False, True, True),
        ("08:00–10:30", False, True, False),
        ("08:00–10:30", True, True, True),
        ("22:00–06:00", False, True, False),
        ("12:00–11:00 Mon", False, True, True),
        ("always", False, False, False),
        ("not hours", False, True, False),
    ],
)
def test_a_run_gives_way_where_its_job_or_its_node_does(
    tmp_path: Path, hours: str, gives_way: bool, gpus: bool, pauses: bool
) -> None:
    cluster = Cluster(tmp_path, gives_way=gives_way, gpus=gpus, clock=lambda: TUESDAY)
    replace_json(cluster.root.node("gpu02").entry, {**entry("gpu02").to_dict(), "gives_way": hours})
    assert [cluster.pause_after(), cluster.pause_after(ALICE)] == ["", PAUSE if pauses else ""]


@pytest.mark.parametrize(
    ("begins_h", "gives_way", "gpu", "pauses"),
    [
        (-1, True, "GPU-gpu02", True),
        (-1, False, "GPU-gpu02", False),
        (-1, True, "GPU-other", False),
        (1, True, "GPU-gpu02", False),
        (-2, True, "GPU-gpu02", False),
    ],
)
def test_a_run_that_gives_way_makes_room_when_a_reserved_time_begins(
    tmp_path: Path, begins_h: int, gives_way: bool, gpu: str, pauses: bool
) -> None:
    cluster = Cluster(tmp_path, gives_way=gives_way, clock=lambda: TUESDAY)
    begin = TUESDAY + timedelta(hours=begins_h)
    thesis = QueueEntry(
        *("thesis", "thesis", 1, (Placement("gpu02", gpus=(gpu,)),), ""),
        not_before=begin.isoformat(),
        length_s=7200,
    )
    cluster.root.queue.mkdir()
    (cluster.root.queue / "thesis").touch()
    cluster.root.job("thesis").path.mkdir()
    replace_json(cluster.root.job("thesis").queued, thesis.to_dict())
    pause = cluster.pause_after()
    assert pause.startswith("Paused: gpu02 is reserved for “thesis” from ") == pauses
    assert bool(pause) == pauses


def test_hours_that_begin_or_change_during_a_run_hold_for_it(tmp_path: Path) -> None:
    now = [TUESDAY.replace(hour=7)]
    cluster = Cluster(tmp_path, gives_way=False, clock=lambda: now[0])
    hours = {**entry("gpu02").to_dict(), "gives_way": "08:00–18:00"}
    replace_json(cluster.root.node("gpu02").entry, {**hours, "gives_way": ""})
    assert cluster.pause_after(at_keyboard="bob") == ""
    replace_json(cluster.root.node("gpu02").entry, hours)
    assert cluster.pause_after(at_keyboard="bob") == ""
    now[0] = TUESDAY
    pause = "Paused: bob is at the keyboard of gpu02."
    assert [cluster.pause_after(at_keyboard="bob") for _ in range(2)] == ["", pause]


def end_run(run: int, minute: int, pause: str = PAUSE) -> RunExit:
    time = (
        f"{datetime(2026, 11, 28, 10, tzinfo=UTC) + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}"
    )
    return RunExit(run, JobState.INTERRUPTED, pause, ended_at=time, pause=pause)


@pytest.mark.parametrize(
    ("minutes", "factor"),
    [
        ([], 1),
        ([0, 10, 20, 30, 40], 1),
        ([3, 9, 18, 27, 36, 45], 2),
        # The first two are more than an hour ago.
        ([0, 1, 30, 40, 50, 60], 1),
        (list(range(12, 60, 4)), 3),
        # The clock was set back by a day, forward by a day, and back by an hour.
        ([1440 + minute for minute in range(0, 60, 4)], 1),
        ([minute - 1440 for minute in range(0, 60, 4)], 1),
        ([90, 95, 100, 105, 110, 115], 2),
    ],
)
def test_the_wait_grows_with_the_pauses_within_an_hour(
    tmp_path: Path, minutes: list[int], factor: int
) -> None:
    cluster = Cluster(tmp_path)
    run = len(minutes) + 1
    for number, minute in enumerate(minutes, 1):
        cluster.job.attempt(number).path.mkdir(exist_ok=True)
        replace_json(cluster.job.attempt(number).exit, end_run(number, minute).to_dict())
    cluster.job.attempt(run).path.mkdir(exist_ok=True)
    give_way_watch = GiveWayWatch(cluster.job, replace(cluster.launch, run=run))

    give_way_watch.continue_run(end_run(run, 62))

    queued = entry_of(cluster.job)
    assert queued is not None
    assert (queued.run, queued.quiet_s) == (run + 1, 300 * factor)
    longer = f" It paused {run} times within an hour, so it waits longer."
    message = re.sub(r" \d+ times", f" {run} times", queued.reason)
    assert message == PAUSE + (longer if factor > 1 else "")


def test_a_run_that_ended_otherwise_is_not_continued(cluster: Cluster) -> None:
    cluster.give_way_watch.continue_run(end_run(1, 0, pause=""))
    assert not cluster.job.queued.exists()
    assert not cluster.job.acts.exists()


def test_a_run_that_another_program_continued_is_not_queued(cluster: Cluster) -> None:
    cluster.job.attempt(2).path.mkdir()
    cluster.give_way_watch.continue_run(end_run(1, 0))
    assert not cluster.job.queued.exists()


def test_the_request_is_readable_by_older_nodes(cluster: Cluster) -> None:
    assert cluster.pause_after(ALICE) == PAUSE
    assert {"run", "user", "host", "time", "at_once"} < read_json(cluster.job.stop_request).keys()
