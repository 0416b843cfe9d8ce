"""A guard by itself, as on a far node, where no supervisor clears up behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.system import process_cleanup, process_identity
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.jobs.status import ProcessIdentity
from tests.fakes.runs import FAKES, Run, command_of
from tests.waiting import LIMIT_S, wait_for


class LoneGuard:
    """The guard of a job of one process, started by a parent that can be killed."""

    def __init__(self, run: Run, **variables: str) -> None:
        self.run = run
        parent = "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:]).wait())"
        self.parent = subprocess.Popen(
            [sys.executable, "-c", parent, *run.launch.argv],
            env={
                **os.environ,
                **run.launch.environment,
                "PYTHONPATH": f"{CODE_ROOT}:{FAKES}",
                **variables,
            },
        )

    def itself(self) -> ProcessIdentity:
        return process_cleanup.descendants(self.parent.pid)[0]

    def sleepers(self) -> list[int]:
        """The children of the rank."""
        below = process_cleanup.descendants(self.parent.pid)
        return [one.pid for one in below if command_of(one.pid) == "sleep 987654 "]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path, {0: "setsid"}, ranks=1, strategy="alone", steps=1_000_000)
    yield run
    run.clean()


@contextmanager
def begun(run: Run, **variables: str) -> Iterator[LoneGuard]:
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
    with begun(run) as guard:
        yield guard


def environment_of_the_rank(run: Run) -> dict[str, str]:
    raw = Path(f"/proc/{run.find('rank_bootstrap.py').pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in raw.split("\0") if entry)


def test_f18_a_guard_ends_what_its_rank_left_behind_and_frees_its_memory(
    run: Run, guard: LoneGuard
) -> None:
    left = guard.sleepers()
    (run.shared_memory / "sm_segment.host.0.1.0").touch()
    process_identity.send_signal(run.find("rank_bootstrap.py"), signal.SIGKILL)
    assert guard.parent.wait(LIMIT_S) == 1
    assert [pid for pid in left if process_identity.process(pid)] == []
    assert not run.shared_memory.exists()
    assert run.exit_of(0).signal == "SIGKILL"


PATIENT = f"""
import sys, backend.node.run.rank_guard as guard
guard._TICK_S = {LIMIT_S}
sys.exit(guard.main(sys.argv[1:]))
"""


def test_a_rank_that_a_sweep_ends_before_its_guard_is_no_cause(run: Run) -> None:
    # The guard waits for the sweep's signal as long as it takes to send one.
    module = run.launch.argv.index("-m")
    argv = (*run.launch.argv[:module], "-c", PATIENT, *run.launch.argv[module + 2 :])
    run.launch = replace(run.launch, argv=argv)
    with begun(run) as guard:
        rank, watcher = run.find("rank_bootstrap.py"), guard.itself()
        process_identity.send_signal(rank, signal.SIGTERM)
        wait_for(lambda: not Path(f"/proc/{rank.pid}").exists(), "the guard's look at its end")
        process_identity.send_signal(watcher, signal.SIGTERM)
        assert guard.parent.wait(LIMIT_S) == 1
        assert run.exit_of(0).secondary


def test_f08_a_guard_whose_mpirun_is_gone_ends_everything_below_it(
    run: Run, guard: LoneGuard
) -> None:
    below = [one.pid for one in process_cleanup.descendants(guard.parent.pid)]
    guard.parent.kill()
    wait_for(lambda: [pid for pid in below if process_identity.process(pid)] == [])
    assert run.exit_of(0).secondary


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


@pytest.mark.parametrize(
    ("folder", "is_kept"),
    [("/var/tmp", True), ("/tmp/" + 70 * "t", True), ("/tmp/" + 71 * "t", False)],
)
def test_a_folder_too_long_for_sockets_does_not_reach_the_loader_workers(
    run: Run, folder: str, is_kept: bool
) -> None:
    with begun(run, RINGMASTER_TMPDIR=folder):
        assert environment_of_the_rank(run).get("TMPDIR") == (folder if is_kept else None)
        note = f"TMPDIR {folder} is too long"
        assert (note in run.folder.rank_log(0).read_text()) is not is_kept


def test_the_ranks_of_a_node_share_its_cores(run: Run) -> None:
    cores = len(os.sched_getaffinity(0))
    assert threads_of_a_rank(run, ranks_here=1) == (str(cores), "PASSIVE")
    assert threads_of_a_rank(run, ranks_here=2 * cores) == ("1", "PASSIVE")


def threads_of_a_rank(run: Run, ranks_here: int) -> tuple[str, str]:
    with begun(run, OMPI_COMM_WORLD_LOCAL_SIZE=str(ranks_here)):
        variables = environment_of_the_rank(run)
        return variables["OMP_NUM_THREADS"], variables["OMP_WAIT_POLICY"]


def test_a_rank_works_in_the_jobs_output_folder(run: Run, guard: LoneGuard) -> None:
    rank = run.find("rank_bootstrap.py")
    assert os.readlink(f"/proc/{rank.pid}/cwd") == str(run.folder.output)
