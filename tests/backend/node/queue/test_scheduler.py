"""What a node does with the queue: real files, and a supervisor that only says its name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.node.metrics.heartbeats import HeartbeatReader
from backend.node.queue import entries as queue_entries
from backend.node.queue import starter as queue_starter
from backend.node.queue.running_jobs import LiveRuns
from backend.node.queue.scheduler import Scheduler
from backend.node.system import process_identity
from backend.node.system.process_identity import machine
from backend.records.base import timestamps
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder
from backend.records.jobs.audit_entry import OwnerNotice
from backend.records.jobs.launch import Launch
from backend.records.jobs.placement import Placement
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunExit, RunStatus
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.records.nodes.reading import Cpu, Gpu, GpuProcess, NodeReading
from backend.records.queue.entry import NodeUse, QueueEntry
from tests.fakes.runs import Run
from tests.waiting import Clock

READING = NodeReading("n", "n", 1, Cpu("cpu", 4, None, 0.0), 1, 1, 0, 0, "/", 10**12, 10**12)
DEAD = replace(process_identity.own_process(), start_ticks=1)


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0, step_s=0.001)


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    root = DataRoot(tmp_path)
    for folder in (root.jobs, root.queue, root.node("gpu1").path):
        folder.mkdir(parents=True)
    replace_json(root.node("gpu1").entry, NodeEntry("gpu1", NodeAddress("gpu1")).to_dict())
    return root


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Job and run of each supervisor that was started."""
    started_runs: list[tuple[str, int]] = []

    def start(folder: JobFolder, launch: Launch) -> None:
        started_runs.append((folder.job_id, launch.run))
        supervisor = folder.attempt(launch.run).supervisor
        replace_json(supervisor, process_identity.own_process().to_dict())

    monkeypatch.setattr(queue_starter, "start_supervisor", start)
    return started_runs


@pytest.fixture
def watch(root: DataRoot, clock: Clock) -> Scheduler:
    return Scheduler(root, "gpu1", lambda: READING, clock)


def poll(watch: Scheduler, clock: Clock) -> tuple[str, ...]:
    clock.now += 5.0
    return watch.poll()


def queued(
    root: DataRoot,
    job_id: str,
    run: int = 1,
    node: str = "gpu1",
    processes: int = 4,
    launch: Callable[[Launch], Launch] = lambda launch: launch,
    **kwargs: object,
) -> JobFolder:
    queued_run = Run(root.path, job_id=job_id, run=run, ranks=processes)
    folder = queued_run.folder
    queued_run.attempt.path.rmdir()
    folder.status.unlink()
    folder.launch.unlink()
    ranks = tuple(replace(plan, node=node) for plan in queued_run.launch.ranks)
    replace_json(folder.queued_launch, launch(replace(queued_run.launch, ranks=ranks)).to_dict())
    entry = QueueEntry(job_id, job_id, run, (Placement(node, processes),), machine(), queued="2026")
    replace_json(folder.queued, replace(entry, **kwargs).to_dict())
    (root.queue / job_id).touch()
    return folder


def end_run(folder: JobFolder, run: int) -> None:
    folder.attempt(run).path.mkdir(exist_ok=True)
    replace_json(folder.attempt(run).exit, RunExit(run, JobState.INTERRUPTED, "").to_dict())


def refusal(folder: JobFolder) -> str:
    return str(read_json(folder.queued)["refusal"])


def test_the_next_job_is_claimed_and_started(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a")
    second = queued(root, "b", position=2.0)
    assert poll(watch, clock) == ("a",)
    assert started == [("a", 1)]
    assert read_json(folder.status)["state"] == "STARTING"
    assert Launch.from_dict(read_json(folder.launch)).run == 1
    assert read_json(folder.attempt(1).claimer)["pid"] == os.getpid()
    assert not folder.queued.exists()
    assert [path.name for path in root.queue.iterdir()] == ["b"]
    # All its processors are taken until the first one is over.
    assert poll(watch, clock) == ()
    end_run(folder, 1)
    assert poll(watch, clock) == ("b",)
    assert second.attempt(1).path.is_dir()


def test_only_one_of_two_starters_starts_a_job(
    root: DataRoot, clock: Clock, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a")
    launch = folder.queued_launch.read_bytes()
    assert queue_starter.start(root, folder, 1)
    folder.queued_launch.write_bytes(launch)
    assert not queue_starter.start(root, folder, 1)
    assert started == [("a", 1)]


def test_jobs_of_other_heads_and_a_paused_queue_are_left_alone(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    other_job = queued(root, "theirs", node="gpu2")
    queued(root, "desk", node="this-computer")
    queued(root, "mine")
    replace_json(root.pause_file, {"user": "ben"})
    assert poll(watch, clock) == ()
    root.pause_file.unlink()
    assert poll(watch, clock) == ("mine",)
    assert other_job.queued.exists()


@pytest.mark.parametrize(("begins_h", "has_intruder"), [(-1, True), (1, False), (-3, False)])
def test_who_reserved_gpus_and_who_has_the_data_root_learn_of_anothers_process_once(
    root: DataRoot,
    clock: Clock,
    started: list[tuple[str, int]],
    begins_h: int,
    has_intruder: bool,
) -> None:
    alice = GpuProcess(7, "alice", 2**30, "python3")
    gpu = Gpu(0, "GPU-0", "H100", memory_total_bytes=2**36, processes=(alice,))
    watch = Scheduler(root, "gpu1", lambda: replace(READING, gpus=(gpu,)), clock)
    times = {"not_before": utc_in(begins_h), "length_s": 7200.0}
    queued(root, "thesis", placement=(Placement("gpu1", 0, ("GPU-0",)),), user="anna", **times)
    for _ in range(2):
        poll(watch, clock)
    message = "Its reserved time has begun, but it waits: GPU 0 of gpu1 is in use by alice"
    notices = {
        path: OwnerNotice.from_dict(read_json(path)) for path in root.notices.rglob("*.json")
    }
    assert {(path.parent.name, notice.owner) for path, notice in notices.items()} == (
        {("anna", ""), (root.path.owner(), "anna")} if has_intruder else set()
    )
    assert all(notice.message.startswith(message) for notice in notices.values())
    assert len(notices) == 2 * has_intruder
    assert started == []


def utc_in(hours: float) -> str:
    return timestamps.stamp(datetime.now(UTC) + timedelta(hours=hours))


def test_on_a_shared_computer_each_ones_jobs_run_as_their_own(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch, started: list[tuple[str, int]]
) -> None:
    queued(root, "a", node="this-computer")
    keeper = Scheduler(root, "this-computer", lambda: READING, clock)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert poll(keeper, clock) == ()
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert poll(keeper, clock) == ("a",)


def test_a_node_without_a_reading_of_itself_starts_nothing_yet(
    root: DataRoot, clock: Clock, started: list[tuple[str, int]]
) -> None:
    queued(root, "a")
    assert poll(Scheduler(root, "gpu1", lambda: None, clock), clock) == ()
    assert started == []


def test_a_job_on_two_nodes_waits_for_a_heartbeat_of_the_other_agent(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    placement = (Placement("gpu1", 1), Placement("gpu2", 1))
    queued(root, "a", placement=placement)
    other_folder = root.node("gpu2")
    other_folder.path.mkdir()
    replace_json(other_folder.entry, NodeEntry("gpu2", NodeAddress("gpu2")).to_dict())
    for heartbeat in (7, 7):
        replace_json(other_folder.status, replace(READING, heartbeat=heartbeat).to_dict())
        assert poll(watch, clock) == ()
    for spoiled in ({"interval_s": "soon", "heartbeat": 8}, {"gpus": [{"processes": 3}]}):
        replace_json(other_folder.status, {**READING.to_dict(), **spoiled})
        assert poll(watch, clock) == ()
    replace_json(other_folder.status, replace(READING, heartbeat=9).to_dict())
    assert poll(watch, clock) == ("a",)


def test_a_heartbeat_counts_by_the_clock_of_this_computer(root: DataRoot, clock: Clock) -> None:
    beats = HeartbeatReader(root, clock)
    assert beats.read("gpu1") == (None, False)
    for heartbeat, alive in ((1, False), (2, True), (3, True)):
        replace_json(root.node("gpu1").status, replace(READING, heartbeat=heartbeat).to_dict())
        last_beat, is_alive = beats.read("gpu1")
        assert (last_beat is not None, is_alive) == (True, alive)
        clock.now += 2.0
    clock.now += 10.0
    assert not beats.read("gpu1")[1]
    root.node("gpu1").status.write_text("spoiled")
    assert beats.read("gpu1")[0] is not None


def test_the_next_run_waits_until_the_end_of_the_one_before_is_recorded(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a", run=2)
    folder.attempt(1).path.mkdir()
    replace_json(folder.attempt(1).supervisor, process_identity.own_process().to_dict())
    replace_json(folder.launch, replace(Run(root.path, job_id="b").launch, job_id="a").to_dict())
    assert poll(watch, clock) == ()
    end_run(folder, 1)
    assert poll(watch, clock) == ("a",)
    assert started == [("a", 2)]


@pytest.mark.parametrize(("pause_s", "alive"), [(2.0, True), (20.0, True), (40.0, False)])
def test_a_heartbeat_after_a_pause_of_the_reader_may_be_old(
    root: DataRoot, clock: Clock, pause_s: float, alive: bool
) -> None:
    beats = HeartbeatReader(root, clock)
    for heartbeat in (1, 2):
        replace_json(root.node("gpu1").status, replace(READING, heartbeat=heartbeat).to_dict())
        beats.read("gpu1")
    clock.now += pause_s
    replace_json(root.node("gpu1").status, replace(READING, heartbeat=3).to_dict())
    assert beats.read("gpu1")[1] is alive
    clock.now += 2.0
    replace_json(root.node("gpu1").status, replace(READING, heartbeat=4).to_dict())
    assert beats.read("gpu1")[1]


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_job_with_a_dead_claimer_is_started_later(
    root: DataRoot,
    watch: Scheduler,
    clock: Clock,
    started: list[tuple[str, int]],
    rebooted: bool,
) -> None:
    folder = queued(root, "a")
    folder.attempt(1).path.mkdir()
    claimer = replace(DEAD, boot_id="another") if rebooted else DEAD
    replace_json(folder.attempt(1).claimer, claimer.to_dict())
    first = poll(watch, clock)
    assert first == (("a",) if rebooted else ())
    assert watch.has_work is not rebooted
    # A supervisor that was started in its last moment would have said so by then.
    clock.now += 0 if rebooted else 11.0
    assert (first or poll(watch, clock)) == ("a",)
    assert started == [("a", 1)]
    assert poll(watch, clock) == ()
    assert list(root.queue.iterdir()) == []


def test_a_claim_of_a_live_process_is_not_taken_over(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a")
    folder.attempt(1).path.mkdir()
    replace_json(folder.attempt(1).claimer, process_identity.own_process().to_dict())
    for _ in range(5):
        assert poll(watch, clock) == ()
    assert started == []


def test_s1_a_job_is_not_started_of_other_files_than_it_was_queued_with(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    version = root.models / "m" / "v1"
    source = version / "source"
    source.mkdir(parents=True)
    (source / "model.py").write_text("1")
    listing = f"{hashlib.sha256(b'1').hexdigest()}  model.py\n".encode()
    (version / "files.sha256").write_bytes(listing)
    pinned = {"model": hashlib.sha256(listing).hexdigest()}

    def with_source(launch: Launch) -> Launch:
        return replace(launch, model_source=str(source), hashes=pinned)

    (source / "model.py").write_text("2")
    folder = queued(root, "a", launch=with_source)
    assert poll(watch, clock) == ()
    assert "The model has changed since the job was queued" in refusal(folder)
    assert "model.py was changed" in refusal(folder)
    assert not folder.attempt(1).path.exists()
    (source / "model.py").write_text("1")
    queued(root, "b", launch=with_source)
    assert poll(watch, clock) == ("b",)


def test_a_start_names_parts_removed_after_queueing(root: DataRoot, watch: Scheduler) -> None:
    missing_path = str(root.path / "gone")
    for job_id, change in (
        ("python", {"python": missing_path}),
        ("packages", {"script_python": missing_path}),
        ("weights", {"start_from": missing_path}),
        ("checkpoint", {"resume_from": missing_path}),
    ):
        folder = queued(root, job_id, launch=lambda launch, c=change: replace(launch, **c))
        with pytest.raises(BackendError, match="was removed after the job was queued"):
            queue_starter.start(root, folder, 1)
    folder = queued(root, "spoiled")
    folder.queued_launch.write_text("{")
    with pytest.raises(BackendError, match="cannot be read"):
        queue_starter.start(root, folder, 1)
    folder = queued(root, "another", run=2)
    with pytest.raises(BackendError, match="belongs to another run"):
        queue_starter.start(root, folder, 1)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("queued", {"fresh": 1}),
        ("queued", {"schema": 99}),
        ("queued_launch", {"fresh": 1}),
        ("queued_launch", {"continued": {"reason": "", "fresh": 1}}),
        ("queued_launch", {"config": {"on_failure": {"fresh": True}}}),
        ("queued_launch", {"config": {"fresh": {}}}),
    ],
)
def test_a_job_of_a_newer_version_says_so_and_keeps_its_place(
    root: DataRoot,
    watch: Scheduler,
    clock: Clock,
    started: list[tuple[str, int]],
    file: str,
    change: dict[str, Any],
) -> None:
    folder = queued(root, "a")
    path = getattr(folder, file)
    raw = read_json(path)
    config = {**raw.get("config", {}), **change.get("config", {})}
    replace_json(path, {**raw, **change, **({"config": config} if config else {})})
    queued(root, "b", position=2.0)

    while not started:
        poll(watch, clock)

    assert started == [("b", 1)]
    assert refusal(folder).startswith(
        "Another version of Ringmaster queued the job than its first node has: "
    )
    assert refusal(folder).endswith("Set that node up again, then queue the job again.")
    assert not folder.attempt(1).path.exists()
    assert path.name != "queued.json" or change.items() <= read_json(path).items()


def test_a_run_of_a_newer_version_keeps_its_gpus_and_stops_no_other_job(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    newer = queued(root, "newer", processes=3)
    assert poll(watch, clock) == ("newer",)
    raw = read_json(newer.launch)
    replace_json(newer.launch, {**raw, "fresh": 1, "config": {**raw["config"], "fresh": 1}})
    queued(root, "large", processes=2)
    queued(root, "small", processes=1, position=2.0, priority=1)
    assert poll(watch, clock) == ("small",)


def test_only_the_owner_starts_programs_on_a_root_that_all_may_write(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a")
    foreign, stat = 4711, os.stat

    def fake_stat(path: object, **kwargs: object) -> os.stat_result:
        status = stat(path, **kwargs)
        is_theirs = str(path) == str(folder.queued_launch)
        return os.stat_result((*status[:4], foreign, *status[5:])) if is_theirs else status

    monkeypatch.setattr(os, "stat", fake_stat)
    root.jobs.chmod(0o777)
    with pytest.raises(BackendError, match="All users may write to"):
        queue_starter.start(root, folder, 1)
    root.jobs.chmod(0o775)
    assert queue_starter.start(root, folder, 1)


def test_starting_over_twice_keeps_the_files_of_the_earlier_run(
    root: DataRoot, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a", run=2)
    end_run(folder, 1)
    (folder.checkpoints).mkdir()
    (folder.checkpoints / "old.pt").write_text("weights")
    replace_json(folder.status, RunStatus(JobState.INTERRUPTED, run=1, heartbeat=6).to_dict())
    launch = folder.queued_launch.read_bytes()
    assert queue_starter.start(root, folder, 2)
    assert (folder.started_over_runs / "1" / "checkpoints" / "old.pt").read_text() == "weights"
    assert (folder.started_over_runs / "1" / "attempts" / "1" / "exit.json").exists()
    assert list(folder.checkpoints.iterdir()) == []
    status = RunStatus.from_dict(read_json(folder.status))
    assert (status.run, status.step, status.heartbeat) == (2, 0, 7)
    # As after an end right before the supervisor.
    folder.queued_launch.write_bytes(launch)
    queue_starter.continue_start(root, folder, 2)
    assert (folder.started_over_runs / "1" / "checkpoints" / "old.pt").read_text() == "weights"


def test_a_resumed_run_shows_its_earlier_progress(
    root: DataRoot, started: list[tuple[str, int]]
) -> None:
    checkpoint = root.path / "c.pt"
    checkpoint.touch()
    folder = queued(
        root, "a", run=2, launch=lambda launch: replace(launch, resume_from=str(checkpoint))
    )
    end_run(folder, 1)
    replace_json(folder.stop_request, {"run": 1})
    replace_json(
        folder.status, RunStatus(JobState.INTERRUPTED, run=1, step=40, total_steps=90).to_dict()
    )
    assert queue_starter.start(root, folder, 2)
    status = RunStatus.from_dict(read_json(folder.status))
    assert (status.state, status.step, status.total_steps) == (JobState.STARTING, 40, 90)
    assert not folder.stop_request.exists()
    assert folder.attempt(1).exit.exists()


def test_a_run_that_goes_on_knows_how_long_those_before_it_took(
    root: DataRoot, started: list[tuple[str, int]]
) -> None:
    checkpoint = root.path / "c.pt"
    checkpoint.touch()
    folder = queued(
        root, "a", run=3, launch=lambda launch: replace(launch, resume_from=str(checkpoint))
    )
    end_run(folder, 2)
    os.utime(root.queue / "a", (1e9, 1e9))
    previous_status = RunStatus(
        JobState.INTERRUPTED,
        run=2,
        started_at="2026-11-21T08:01:00Z",
        updated_at="2026-11-21T08:03:30Z",
        earlier_s=60.0,
        earlier_gpu_s=480.0,
        gpus=4,
        earlier_energy_j=1_000.0,
        energy_j=500.0,
    )
    replace_json(folder.status, previous_status.to_dict())
    launch = folder.queued_launch.read_bytes()
    assert queue_starter.start(root, folder, 3)
    goes_on = RunStatus.from_dict(read_json(folder.status))
    assert goes_on.earlier_s == 210.0
    claimed_s = folder.attempt(3).path.stat().st_mtime
    assert goes_on.waited_s == pytest.approx(claimed_s - 1e9, abs=60), "it waited in the queue"
    assert (goes_on.earlier_gpu_s, goes_on.earlier_energy_j) == (480.0 + 4 * 150.0, 1_500.0)
    assert (goes_on.gpus, goes_on.energy_j) == (0, None), "it goes on without GPUs"
    # As after an end right before the supervisor.
    folder.queued_launch.write_bytes(launch)
    queue_starter.continue_start(root, folder, 3)
    new_status = RunStatus.from_dict(read_json(folder.status))
    assert replace(
        new_status, **dict.fromkeys(("started_at", "updated_at"), ""), heartbeat=0
    ) == replace(goes_on, **dict.fromkeys(("started_at", "updated_at"), ""), heartbeat=0)


def test_a_supervisor_that_does_not_start_ends_the_run_with_the_reason(
    root: DataRoot, watch: Scheduler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise BackendError("The supervisor of run 1 could not be started with python: gone.")

    monkeypatch.setattr(queue_starter, "start_supervisor", fails)
    folder = queued(root, "a")
    poll(watch, clock)
    record = RunExit.from_dict(read_json(folder.attempt(1).exit))
    assert record.state is JobState.ERROR
    assert "could not be started" in record.message
    assert queue_entries.entries(root) == ()


def test_a_job_started_by_hand_or_trashed_leaves_the_queue(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    folder = queued(root, "a")
    end_run(folder, 1)
    (root.queue / "trashed").touch()
    assert queue_entries.entry_of(folder) is None
    assert poll(watch, clock) == ()
    assert list(root.queue.iterdir()) == []
    assert not folder.queued.exists()


def test_a_spoiled_entry_hides_no_other(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    queued(root, "spoiled").queued.write_text("{")
    queued(root, "newer").queued.write_text('{"schema": 99}')
    queued(root, "good", position=9.0)
    assert poll(watch, clock) == ("good",)


def test_a_run_holds_the_resources_of_its_ranks_from_claim_to_end(
    root: DataRoot, clock: Clock
) -> None:
    folder = queued(root, "a", processes=2)
    live = LiveRuns(root, clock)
    assert live.read().running_jobs == ()
    folder.attempt(1).path.mkdir()
    (live_run,) = live.read().running_jobs
    assert live_run.uses == (NodeUse("gpu1", processes=2),)
    folder.queued_launch.unlink()
    # It is unknown what it has; nothing is started next to it.
    assert not live.read().is_complete
    clock.now += 130.0
    assert live.read().is_complete
    assert live.read().running_jobs == ()


def test_nothing_is_started_while_the_gpus_of_a_new_run_are_unknown(
    root: DataRoot, watch: Scheduler, clock: Clock, started: list[tuple[str, int]]
) -> None:
    (root.job("new").attempt(1).path).mkdir(parents=True)
    queued(root, "a")
    assert poll(watch, clock) == ()
    clock.now += 130.0
    assert poll(watch, clock) == ("a",)


def test_an_ended_run_is_checked_once(
    root: DataRoot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = queued(root, "a")
    end_run(folder, 1)
    live = LiveRuns(root, clock)
    live.read()
    listed_paths: list[object] = []
    newest = JobFolder.newest_run
    monkeypatch.setattr(
        JobFolder, "newest_run", lambda self: listed_paths.append(self.job_id) or newest(self)
    )
    live.read()
    assert listed_paths == []
    folder.attempt(2).path.mkdir()
    live.read()
    assert listed_paths == ["a"]


def test_a_missing_data_root_raises_an_error(root: DataRoot, watch: Scheduler) -> None:
    moved_root = DataRoot(root.path / "away")
    with pytest.raises(OSError, match="No such file"):
        Scheduler(moved_root, "gpu1", lambda: READING).poll()
