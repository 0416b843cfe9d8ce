"""A real agent in a process of its own: what it writes, what it survives, what it closes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.agent import agent as agent_module
from backend.node.agent.agent import Agent
from backend.node.queue.scheduler import Scheduler
from backend.node.run.unrecorded_runs import RunWatch
from backend.node.system import process_identity
from backend.node.system.background_service import ServiceLock
from backend.node.system.timeout_call import TimeoutCall
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import DataRoot, JobFolder, NodeFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunExit, RunStatus
from backend.records.nodes.reading import NodeReading
from tests.fakes.runs import Run
from tests.waiting import LIMIT_S, wait_for

ROOT = Path(__file__).parents[4]
TRAINING = RunStatus(JobState.TRAINING, run=1, step=40, heartbeat=7)


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    root = DataRoot(tmp_path / "data")
    root.node("gpu1").path.mkdir(parents=True)
    root.jobs.mkdir()
    return root


@pytest.fixture
def folder(root: DataRoot) -> NodeFolder:
    return root.node("gpu1")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(root: DataRoot, folder: NodeFolder) -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def start_agent(*arguments: str, code: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error"]
        command += ["-c", code] if code else ["-m", "backend.node.agent.agent"]
        command += ["--name", "gpu1"]
        command += ["--folder", str(folder.path), "--data-root", str(root.path)]
        processes.append(
            subprocess.Popen(
                [*command, "--interval", "0.1", *arguments],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield start_agent
    holder = ServiceLock(folder.path).holder()
    if holder is not None:
        process_identity.send_signal(holder, signal.SIGKILL)
    for process in processes:
        process.kill()
        process.communicate()
    ServiceLock(folder.path).path.unlink(missing_ok=True)


def reading(folder: NodeFolder) -> NodeReading:
    return NodeReading.from_dict(read_json(folder.status))


def beats(folder: NodeFolder) -> int:
    """0 while there is nothing to be read."""
    with suppress(OSError, ValueError):
        return reading(folder).heartbeat
    return 0


def wait_for_heartbeats(folder: NodeFolder, count: int = 2) -> int:
    beat_count = beats(folder)
    wait_for(lambda: beats(folder) >= beat_count + count, "a heartbeat")
    return beats(folder)


def end(agent: subprocess.Popen[str]) -> str:
    """What it complained of."""
    agent.terminate()
    _, complaint = agent.communicate(timeout=LIMIT_S)
    assert agent.returncode == 0
    return complaint


def test_the_agent_writes_its_identity_and_the_state_of_the_node_until_it_ends(
    start: Start, root: DataRoot, folder: NodeFolder
) -> None:
    agent = start()
    wait_for_heartbeats(folder)
    # Two readings of one moment know no rates.
    wait_for(lambda: reading(folder).cpu.use_percent is not None, "a rate")
    info, current_reading = read_json(folder.info), reading(folder)
    assert ProcessIdentity.from_dict(info) == process_identity.process(agent.pid)
    assert (info["interval_s"], info["bundle"]) == (0.1, str(ROOT))
    assert (current_reading.name, current_reading.disk_path) == ("gpu1", str(root.path))
    assert end(agent) == ""
    names = [".status.json.spare", "info.json", "past.jsonl", "status.json", "week.jsonl"]
    assert sorted(path.name for path in folder.path.iterdir()) == names


def test_the_heartbeat_goes_on_from_where_the_last_agent_left_it(
    start: Start, folder: NodeFolder
) -> None:
    first = start()
    wait_for_heartbeats(folder)
    first.kill()
    first.wait()
    replace_json(folder.status, replace(reading(folder), heartbeat=90_000).to_dict())
    start()
    assert wait_for_heartbeats(folder) > 90_000


@pytest.mark.parametrize("content", [b"", b"[" * 10_000, b'{"heartbeat": "seven"}', b"\xff"])
def test_a_broken_status_of_the_last_agent_is_replaced(
    start: Start, folder: NodeFolder, content: bytes
) -> None:
    folder.status.write_bytes(content)
    agent = start()
    wait_for(lambda: beats(folder) > 0)
    assert end(agent) == ""


def test_an_agent_removes_unfinished_files_of_a_killed_agent(
    start: Start, folder: NodeFolder
) -> None:
    (folder.path / ".status.json.123.abcd.tmp").write_text("half")
    (folder.path / ".node.json.123.abcd.tmp").write_text("a desktop's")
    start()
    wait_for_heartbeats(folder)
    assert not (folder.path / ".status.json.123.abcd.tmp").exists()
    assert (folder.path / ".node.json.123.abcd.tmp").exists()


def test_a_second_agent_leaves_with_a_sentence(start: Start, folder: NodeFolder) -> None:
    first = start()
    wait_for_heartbeats(folder)
    second = start("--detach")
    _, complaint = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 1
    assert complaint == (
        f"An agent (pid {first.pid}) already writes to {folder.path} on this computer.\n"
    )
    wait_for_heartbeats(folder)


def test_a_detached_agent_returns_at_once_and_writes_its_failures_to_its_log(
    start: Start, folder: NodeFolder, tmp_path: Path
) -> None:
    starter = start("--detach", "--log", str(tmp_path / "agent.log"))
    starter.communicate(timeout=LIMIT_S)
    assert starter.returncode == 0
    wait_for_heartbeats(folder)
    agent = ProcessIdentity.from_dict(read_json(folder.info))
    assert agent.pid != starter.pid
    assert os.getsid(agent.pid) == agent.pid
    assert os.readlink(f"/proc/{agent.pid}/fd/2") == str(tmp_path / "agent.log")
    assert os.readlink(f"/proc/{agent.pid}/fd/0") == os.devnull
    process_identity.send_signal(agent, signal.SIGTERM)
    wait_for(lambda: not process_identity.is_alive(agent))


def test_f32_f34_the_agent_waits_for_a_missing_data_root(
    start: Start, root: DataRoot, folder: NodeFolder
) -> None:
    agent = start()
    last = wait_for_heartbeats(folder)
    moved_root = root.path.with_name("away")
    root.path.rename(moved_root)
    root.path.mkdir()  # where nothing is mounted, nothing may be written
    assert agent.poll() is None
    root.path.rmdir()
    moved_root.rename(root.path)
    wait_for(lambda: beats(folder) > last + 1)


HANGING = """
import os, sys
import backend.node.agent.agent as agent
replace = agent.PreallocatedFile.replace_bytes
agent.PreallocatedFile.replace_bytes = lambda *what: (open({fifo!r}).close(), replace(*what))
sys.exit(agent.main(sys.argv[1:]))
"""


def test_a_hanging_share_delays_neither_the_end_nor_the_next_agent(
    start: Start, folder: NodeFolder, tmp_path: Path
) -> None:
    fifo = tmp_path / "share"
    os.mkfifo(fifo)  # opening it hangs until its other end is opened
    hanging = HANGING.format(fifo=str(fifo))
    first = start(code=hanging)
    wait_for(lambda: hangs(first))
    assert end(first) == ""
    second = start(code=hanging)
    wait_for(lambda: hangs(second))
    with fifo.open("wb"):
        wait_for_heartbeats(folder)
    assert end(second) == ""


def hangs(agent: subprocess.Popen[str]) -> bool:
    """Whether one of its threads waits for the other end of a FIFO."""
    for task in Path(f"/proc/{agent.pid}/task").iterdir():
        with suppress(OSError):
            if (task / "wchan").read_text() == "wait_for_partner":
                return True
    return False


def test_a_full_disk_is_waited_for(
    root: DataRoot, folder: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_WRITE_LIMIT_S", LIMIT_S)
    agent = Agent("gpu1", folder, root, 2.0)
    assert agent.beat()
    previous_content = folder.status.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert not agent.beat()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert folder.status.read_bytes() == previous_content
    assert not list(folder.path.glob(".*.tmp"))
    assert agent.beat()
    assert reading(folder).heartbeat == 3


# Runs that ended unrecorded.


def job(root: DataRoot, supervisor: ProcessIdentity | None, name: str = "") -> JobFolder:
    folder = root.job(f"test-{os.getpid()}-{root.path.parent.name}{name}")
    folder.attempt(1).path.mkdir(parents=True)
    replace_json(folder.status, TRAINING.to_dict())
    if supervisor is not None:
        replace_json(folder.attempt(1).supervisor, supervisor.to_dict())
    return folder


def test_f10_a_run_from_before_a_reboot_is_closed_though_its_pid_lives_again(
    root: DataRoot,
) -> None:
    folder = job(root, replace(process_identity.own_process(), boot_id="the boot before"))
    assert RunWatch(root, "gpu1").poll() == (folder.job_id,)
    run_exit = RunExit.from_dict(read_json(folder.attempt(1).exit))
    assert (run_exit.state, run_exit.message) == (
        JobState.ERROR,
        "The computer was restarted during the run.",
    )
    assert RunStatus.from_dict(read_json(folder.status)).step == 40


def test_m07_a_run_with_a_killed_supervisor_is_closed_and_leaves_nothing(
    start: Start, root: DataRoot, folder: NodeFolder
) -> None:
    run = Run(root.path, steps=1_000_000, mpi=True)
    try:
        run.start().wait_until_training()
        start()
        wait_for_heartbeats(folder)
        process_identity.send_signal(run.supervisor, signal.SIGKILL)
        wait_for(run.attempt.exit.exists, "the agent's record of the end")
        run_exit = RunExit.from_dict(read_json(run.attempt.exit))
        assert run_exit.message.startswith("The supervisor of the run ended without a record")
        assert run.leftovers() == ()
    finally:
        run.clean()


@pytest.mark.parametrize("kind", ["living", "elsewhere", "not there yet", "unreadable"])
def test_a_run_that_lives_or_is_anothers_is_left_alone(root: DataRoot, kind: str) -> None:
    supervisor = {
        "living": process_identity.own_process(),
        "elsewhere": replace(process_identity.own_process(), host="gpu2", boot_id="another"),
    }.get(kind)
    folder = job(root, supervisor)
    if kind == "unreadable":
        folder.attempt(1).supervisor.write_text("{")
    watch = RunWatch(root, "gpu1")
    assert (watch.poll(), watch.poll()) == ((), ())
    assert not folder.attempt(1).exit.exists()


def test_a_run_of_another_node_of_the_same_host_name_is_left_alone(root: DataRoot) -> None:
    run = Run(root.path, placement=[{"node": "this-computer", "processes": 1}])
    raw = run.launch.to_dict()
    for rank in raw["ranks"]:
        rank["node"] = "gpu2"
    replace_json(run.folder.launch, raw)
    rebooted = replace(process_identity.own_process(), boot_id="another machine's")
    replace_json(run.attempt.supervisor, rebooted.to_dict())
    assert RunWatch(root, "gpu1").poll() == ()
    assert RunWatch(root, "gpu2").poll() == (run.folder.job_id,)


def test_an_ended_run_is_not_polled_again_until_the_job_is_resumed(
    root: DataRoot,
) -> None:
    folder = job(root, replace(process_identity.own_process(), start_ticks=1))
    watch = RunWatch(root, "gpu1")
    assert watch.poll() == (folder.job_id,)
    folder.attempt(1).exit.unlink()
    assert watch.poll() == ()
    folder.attempt(2).path.mkdir()
    assert watch.poll() == ()
    replace_json(
        folder.attempt(2).supervisor,
        replace(process_identity.own_process(), start_ticks=1).to_dict(),
    )
    assert watch.poll() == (folder.job_id,)


def test_each_round_reads_only_some_of_the_ended_jobs(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(250):
        replace_json(
            job(root, None, f"-{number}").attempt(1).exit,
            RunExit(1, JobState.FINISHED, "").to_dict(),
        )
    watch = RunWatch(root, "gpu1")
    watch.poll()
    read_paths: list[object] = []
    stat = os.stat
    monkeypatch.setattr(
        os, "stat", lambda path, **kwargs: read_paths.append(path) or stat(path, **kwargs)
    )
    for expected_count in (200, 250, 450):
        watch.poll()
        assert (
            len([path for path in read_paths if str(path).endswith("/attempts")]) == expected_count
        )
    assert len(set(read_paths)) == 250


def test_an_end_that_cannot_be_written_is_tried_again_a_minute_later(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    folder = job(root, replace(process_identity.own_process(), start_ticks=1))
    watch = RunWatch(root, "gpu1", lambda: now)
    with monkeypatch.context() as patch:
        patch.setattr("backend.node.run.finalize.PreallocatedFile.replace_json", refuse)
        assert watch.poll() == ()
    assert watch.poll() == ()
    now += 61
    assert watch.poll() == (folder.job_id,)


def refuse(path: Path, value: object) -> None:
    raise OSError(28, "No space left on device")


def test_an_unreadable_data_root_raises_an_error(root: DataRoot) -> None:
    root.jobs.rmdir()
    with pytest.raises(FileNotFoundError):
        RunWatch(root, "gpu1").poll()


def test_the_lock_of_another_kind_of_file_is_refused(folder: NodeFolder, start: Start) -> None:
    lock = ServiceLock(folder.path)
    lock.path.symlink_to(folder.path / "elsewhere")
    agent = start()
    _, complaint = agent.communicate(timeout=LIMIT_S)
    assert agent.returncode == 1
    assert complaint.startswith(f"The agent's lock {lock.path} cannot be opened: ")
    assert not (folder.path / "elsewhere").exists()


class Rounds:
    """A lock that an agent waits for four times."""

    def __init__(self) -> None:
        self.remaining_rounds = 4

    def wait(self, seconds: float) -> bool:
        self.remaining_rounds -= 1
        return self.remaining_rounds == 0


@pytest.mark.parametrize(
    ("is_queued", "watches_heads", "runs", "queue"),
    [(False, False, 1, 0), (True, False, 1, 4), (False, True, 4, 0), (True, True, 4, 4)],
)
def test_jobs_that_must_start_soon_are_polled_with_each_reading(
    root: DataRoot,
    folder: NodeFolder,
    monkeypatch: pytest.MonkeyPatch,
    is_queued: bool,
    watches_heads: bool,
    runs: int,
    queue: int,
) -> None:
    polled: list[str] = []

    def poll_runs(watch: RunWatch) -> tuple[str, ...]:
        polled.append("runs")
        watch.watches_heads = watches_heads
        return ()

    def poll_queue(watch: Scheduler) -> tuple[str, ...]:
        polled.append("queue")
        watch.has_work = True
        return ()

    monkeypatch.setattr(RunWatch, "poll", poll_runs)
    monkeypatch.setattr(Scheduler, "poll", poll_queue)
    monkeypatch.setattr(TimeoutCall, "run_in_background", lambda self, work: work())
    monkeypatch.setattr(agent_module, "_RUNS_EVERY_S", 3600.0)
    root.queue.mkdir()
    if is_queued:
        (root.queue / "a-job").touch()

    Agent("n", folder, root, 2.0).work(Rounds())  # type: ignore[arg-type]

    assert (polled.count("runs"), polled.count("queue")) == (runs, queue)
