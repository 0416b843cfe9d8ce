"""A guard by itself, as on a remote node, where no supervisor cleans up after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from backend.node.run import rank_guard
from backend.node.run.launch_command import command, environment
from backend.node.system import process_cleanup, process_identity
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.status import ProcessIdentity, RankExit
from tests.fakes.runs import FAKES, Run, command_line
from tests.waiting import LIMIT_S, wait_for

SOURCES = (
    "model_source",
    "loader_source",
    "dataset_files",
    "validation_loader_source",
    "validation_dataset_files",
)


class LoneGuard:
    """The guard of a job of one process, started by a parent that can be killed."""

    def __init__(self, run: Run, **variables: str) -> None:
        self.run = run
        parent = "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:]).wait())"
        self.parent = subprocess.Popen(
            [sys.executable, "-c", parent, *command(run.launch)],
            env={
                **os.environ,
                **environment(run.launch),
                "PYTHONPATH": f"{CODE_ROOT}:{FAKES}",
                **variables,
            },
        )

    def itself(self) -> ProcessIdentity:
        return process_cleanup.descendants(self.parent.pid)[0]

    def sleepers(self) -> list[int]:
        """The children of the rank."""
        descendants = process_cleanup.descendants(self.parent.pid)
        return [
            process.pid for process in descendants if command_line(process.pid) == "sleep 987654 "
        ]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path, {0: "setsid"}, ranks=1, strategy="alone", steps=1_000_000)
    yield run
    run.clean()


@contextmanager
def running_guard(run: Run, **variables: str) -> Iterator[LoneGuard]:
    """A guard whose rank has begun; nothing of it is left afterwards."""
    guard = LoneGuard(run, **variables)
    try:
        wait_for(lambda: len(guard.sleepers()) == 2)
        yield guard
    finally:
        guard.parent.kill()
        guard.parent.wait()
        wait_for(lambda: not run.leftovers())


@pytest.fixture
def guard(run: Run) -> Iterator[LoneGuard]:
    with running_guard(run) as guard:
        yield guard


def environment_of_the_rank(run: Run) -> dict[str, str]:
    raw = Path(f"/proc/{run.find('rank_bootstrap.py').pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in raw.split("\0") if entry)


def test_f18_a_guard_ends_orphans_of_its_rank_and_frees_their_memory(
    run: Run, guard: LoneGuard
) -> None:
    sleeper_pids = guard.sleepers()
    (run.shared_memory / "sm_segment.host.0.1.0").touch()
    process_identity.send_signal(run.find("rank_bootstrap.py"), signal.SIGKILL)
    assert guard.parent.wait(LIMIT_S) == 1
    assert [pid for pid in sleeper_pids if process_identity.process(pid)] == []
    assert not run.shared_memory.exists()
    assert run.rank_exit(0).signal == "SIGKILL"


PATIENT = f"""
import sys, backend.node.run.rank_guard as guard
guard._TICK_S = {LIMIT_S}
sys.exit(guard.main(sys.argv[1:]))
"""


def test_a_rank_that_a_sweep_ends_before_its_guard_is_no_cause(run: Run) -> None:
    # The guard waits for the sweep's signal as long as it takes to send one.
    run.run_guards_with(f"shift 2\nexec {sys.executable} -c '{PATIENT}' \"$@\"")
    with running_guard(run) as guard:
        rank, watcher = run.find("rank_bootstrap.py"), guard.itself()
        process_identity.send_signal(rank, signal.SIGTERM)
        wait_for(lambda: not Path(f"/proc/{rank.pid}").exists(), "the end of the rank")
        process_identity.send_signal(watcher, signal.SIGTERM)
        assert guard.parent.wait(LIMIT_S) == 1
        assert run.rank_exit(0).is_secondary


def test_f08_a_guard_without_mpirun_ends_everything_below_it(run: Run, guard: LoneGuard) -> None:
    descendants = [process.pid for process in process_cleanup.descendants(guard.parent.pid)]
    guard.parent.kill()
    wait_for(lambda: [pid for pid in descendants if process_identity.process(pid)] == [])
    assert run.rank_exit(0).is_secondary


def test_ranks_that_thaw_after_their_run_was_given_up_end_themselves(
    run: Run, guard: LoneGuard
) -> None:
    descendants = process_cleanup.descendants(guard.parent.pid)
    for process in descendants:
        process_identity.send_signal(process, signal.SIGSTOP)
    replace_json(run.attempt.exit, {})
    for process in descendants:
        process_identity.send_signal(process, signal.SIGCONT)
    wait_for(lambda: not any(process_identity.is_alive(process) for process in descendants))
    assert run.rank_exit(0).is_secondary


def test_the_rank_sees_the_jobs_environment_and_no_gpu_that_was_not_chosen(
    run: Run, guard: LoneGuard
) -> None:
    variables = environment_of_the_rank(run)
    assert variables["FAKE_STEPS"] == "1000000"
    # Sets have one order in all processes of a job.
    assert variables["PYTHONHASHSEED"] == run.launch.config.hash_seed
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    guards = Path(f"/proc/{guard.itself().pid}/environ").read_bytes()
    assert b"FAKE_STEPS" not in guards


def test_the_jobs_pythonpath_does_not_reach_the_start_of_the_rank(tmp_path: Path) -> None:
    shadowed = tmp_path / "shadowed"
    shadowed.mkdir()
    (shadowed / "logging.py").write_text("raise SystemExit('shadowed')\n")
    doing = json.dumps({"0": "setsid"})
    variables = {"FAKE": doing, "FAKE_STEPS": "1000000", "PYTHONPATH": str(shadowed)}
    run = Run(tmp_path, ranks=1, strategy="alone", environment=variables)
    try:
        with running_guard(run):
            assert environment_of_the_rank(run)["PYTHONPATH"] == f"{CODE_ROOT}:{FAKES}"
    finally:
        run.clean()


@pytest.mark.parametrize(
    ("folder", "is_kept"),
    [("/var/tmp", True), ("/tmp/" + 70 * "t", True), ("/tmp/" + 71 * "t", False)],
)
def test_a_folder_too_long_for_sockets_does_not_reach_the_loader_workers(
    run: Run, folder: str, is_kept: bool
) -> None:
    with running_guard(run, RINGMASTER_TMPDIR=folder):
        assert environment_of_the_rank(run).get("TMPDIR") == (folder if is_kept else None)
        note = f"TMPDIR {folder} is too long"
        assert (note in run.folder.rank_log(0).read_text()) is not is_kept


def test_the_ranks_of_a_node_share_its_cores(run: Run) -> None:
    cores = len(os.sched_getaffinity(0))
    assert threads_of_a_rank(run, ranks_here=1) == (str(cores), "PASSIVE")
    assert threads_of_a_rank(run, ranks_here=2 * cores) == ("1", "PASSIVE")


def threads_of_a_rank(run: Run, ranks_here: int) -> tuple[str, str]:
    with running_guard(run, OMPI_COMM_WORLD_LOCAL_SIZE=str(ranks_here)):
        variables = environment_of_the_rank(run)
        return variables["OMP_NUM_THREADS"], variables["OMP_WAIT_POLICY"]


def test_a_rank_cannot_write_to_its_model_its_loader_and_its_data(run: Run, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c", "d", "e")]
    for folder in folders:
        folder.mkdir()
    run.launch = replace(run.launch, **dict(zip(SOURCES, map(str, folders), strict=True)))
    replace_json(run.folder.launch, run.launch.to_dict())
    with running_guard(run):
        for folder in folders:
            inside = Path(f"/proc/{run.find('rank_bootstrap.py').pid}/root{folder}")
            with pytest.raises(OSError, match="Read-only file system"):
                (inside / "cache").touch()
            (folder / "of this process").touch()


def test_a_rank_works_in_the_jobs_output_folder(run: Run, guard: LoneGuard) -> None:
    rank = run.find("rank_bootstrap.py")
    assert os.readlink(f"/proc/{rank.pid}/cwd") == str(run.folder.output)


@pytest.mark.parametrize(
    ("answers", "is_secondary", "is_head", "is_ended"),
    [
        ([None, None, "over"], True, False, True),
        (["over"], True, False, True),
        ([None, signal.SIGTERM], True, False, False),
        ([signal.SIGTERM], True, False, False),
        (["over"], False, False, False),
        (["over"], True, True, False),
    ],
)
def test_a_lost_node_keeps_mpirun_s_daemon_until_the_run_is_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[signal.Signals | str | None],
    is_secondary: bool,
    is_head: bool,
    is_ended: bool,
) -> None:
    attempt = JobFolder(tmp_path).attempt(1)
    attempt.path.mkdir(parents=True)
    guard = object.__new__(rank_guard.Guard)
    ranks = (RankPlan(0, 0, "a", "a"), RankPlan(1, 0, "a" if is_head else "b", "b"))
    guard._plan, guard._attempt, guard._launcher = ranks[1], attempt, os.getppid()
    guard._launch = SimpleNamespace(can_lose_nodes=True, ranks=ranks)  # type: ignore[assignment]
    killed: list[int] = []

    def send(pid: int, is_it: Callable[[], bool], number: signal.Signals) -> None:
        assert is_it()
        assert number is signal.SIGKILL
        killed.append(pid)

    monkeypatch.setattr(rank_guard.process_signals, "send", send)
    remaining_answers = list(answers)

    def wait(_signals: object, _limit_s: float) -> signal.Signals | None:
        assert not killed
        answer = remaining_answers.pop(0)
        if answer == "over":
            attempt.exit.write_text("{}")
        return answer if isinstance(answer, signal.Signals) else None

    monkeypatch.setattr(rank_guard.signal, "sigtimedwait", wait)
    guard.end_lone_daemon(RankExit(1, 1, "b", "b", "error", is_secondary=is_secondary))
    assert killed == [os.getppid()] * is_ended
