"""Runs on this computer that end in every way they can, with real processes and real mpirun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.datastore.jobs import files as job_files
from backend.node.queue import entries
from backend.node.run.rank_guard import Guard
from backend.node.system import process_cleanup, process_identity
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.account import user_name
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.jobs.heartbeat import Phase
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunExit
from tests.backend.node.run import early_signal
from tests.backend.node.run.early_signal import hurry_guard
from tests.cluster.disks import small_disk
from tests.fakes.nvml.driver import FakeDriver, build
from tests.fakes.runs import LOADER, Run, command_line, saved_message
from tests.waiting import LIMIT_S, wait_for

MakeRun = Callable[..., Run]
H100 = "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd"
"""One of the fake driver's."""

LOOPING = """
import time

def loop():
    print("looping")
    while True:
        time.sleep(0.01)
"""
DEADLOCK = LOADER.replace("    queue.put(1)", "").replace(
    "    lock.acquire()\n    lock", "    lock.acquire()\n    print('locked', flush=True)\n    lock"
)


def log(run: Run, rank: int) -> str:
    return run.log(rank) if run.folder.rank_log(rank).exists() else ""


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[MakeRun]:
    runs: list[Run] = []

    def make(doing: dict[int, str] | None = None, **options: Any) -> Run:
        runs.append(Run(tmp_path, doing, **options))
        return runs[-1]

    yield make
    for run in runs:
        run.clean()


@pytest.fixture
def endless(make_run: MakeRun) -> Run:
    """A run with real MPI in its ranks, under way, that ends only when something happens."""
    # The guards' records are waited for as long as they take.
    run = make_run(steps=1_000_000, mpi=True).start(_SETTLE_S=LIMIT_S)
    run.wait_until_training()
    return run


def test_a_run_ends_at_once_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        launcher = tmp_path / "mpirun"
        launcher.write_text(f"#!/bin/sh\ncat /dev/zero 2>&1 >{disk}/full\nexit 1\n")
        launcher.chmod(0o755)
        run = Run(disk, mpirun_path=str(launcher))
        run.supervise_here()
        assert run.end().state is JobState.ERROR
        assert run.status.state is JobState.ERROR
        run.clean()


def test_a_run_ends_finished_when_every_rank_says_so(make_run: MakeRun) -> None:
    run = make_run(mpi=True).start()
    record = run.end()
    assert record.state is JobState.FINISHED
    assert record.message == ""
    assert [run.rank_exit(rank).outcome for rank in (0, 1)] == ["finished", "finished"]
    assert run.folder.mpirun_log.read_text().count("\n") == 1, "mpirun had nothing to say"
    assert (run.status.step, run.status.metrics) == (20, {"loss": 0.5})
    assert run.log(1).startswith("── run 1, rank 1 on ")


def test_one_process_alone_runs_without_mpirun(make_run: MakeRun) -> None:
    run = make_run(ranks=1, strategy="alone", mpirun_path="/nowhere/mpirun").start()
    assert run.end().state is JobState.FINISHED
    assert run.rank_exit(0).outcome == "finished"


def test_the_exit_record_has_the_energy_of_the_gpus(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(build(tmp_path / "library"), tmp_path / "state")
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE"):
        monkeypatch.setenv(name, driver.environment[name])
    run = make_run(ranks=1, strategy="alone", mpirun_path="/nowhere/mpirun")
    (plan,) = run.launch.ranks
    replace_json(run.folder.launch, replace(run.launch, ranks=(replace(plan, gpu=H100),)).to_dict())
    run.supervise_here()
    record = run.end()
    # Its counter stands still; nothing at all would be known without one.
    assert (record.state, record.energy_j) == (JobState.FINISHED, 0.0)
    assert run.status.energy_j == 0.0


def test_a_folder_with_blanks_quotes_and_shell_text_is_only_a_folder(tmp_path: Path) -> None:
    root = tmp_path / 'it\'s; $(touch bad) "quoted" – ünï\n-mca'
    root.mkdir()
    run = Run(root, {1: "exit7"}).start()
    assert "Rank 1 on this computer exited with code 7" in run.end().message
    assert not list(tmp_path.rglob("bad"))


def test_the_heartbeat_of_the_last_status_is_newer_than_any_before(endless: Run) -> None:
    previous_beat = endless.status.heartbeat
    endless.stop()
    endless.end()
    assert endless.status.heartbeat > previous_beat


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_f01_f02_a_killed_rank_is_named_with_its_computer_and_signal(
    endless: Run, rank: int
) -> None:
    endless.kill("rank_bootstrap.py", rank)
    record = endless.end()
    assert record.state is JobState.ERROR
    assert record.message.startswith(
        f"Rank {rank} on this computer was killed by signal 9 (SIGKILL)"
    )
    assert record.error is not None
    assert (record.error.rank, record.error.node) == (rank, "this-computer")
    assert endless.rank_exit(rank).signal == "SIGKILL"
    assert endless.rank_exit(rank).host == os.uname().nodename
    assert record.leftovers == ()


def test_a_killed_guard_takes_its_rank_along_and_is_named(endless: Run) -> None:
    endless.kill("backend.node.run.rank_guard", 1)
    record = endless.end()
    assert record.state is JobState.ERROR
    assert record.message.startswith("Rank 1 on this computer was lost: its guard was killed")


def test_f03_a_killed_mpirun_ends_the_run_and_all_of_its_processes(endless: Run) -> None:
    endless.kill(" --map-by ")
    record = endless.end()
    assert record.state is JobState.ERROR
    assert record.message == "mpirun on this computer was killed by signal 9 (SIGKILL)."
    assert all(endless.rank_exit(rank).is_secondary for rank in (0, 1))


def test_f04_nothing_survives_a_killed_supervisor(endless: Run) -> None:
    assert process_identity.send_signal(endless.supervisor, signal.SIGKILL)
    wait_for(lambda: not endless.leftovers(), description="the end of mpirun, guards and ranks")
    assert not endless.attempt.exit.exists()


@pytest.mark.slow
def test_f05_nothing_survives_when_supervisor_and_mpirun_are_killed(endless: Run) -> None:
    mpirun = endless.find(" --map-by ")
    process_identity.send_signal(endless.supervisor, signal.SIGKILL)
    process_identity.send_signal(mpirun, signal.SIGKILL)
    wait_for(lambda: not endless.leftovers(), description="the end of guards and ranks")


def test_f06_a_run_outlives_the_process_and_the_session_that_started_it(
    make_run: MakeRun,
) -> None:
    run = make_run(steps=1_000_000)
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path\n"
            "from backend.node.system.start_supervisor import *\n"
            "from backend.records.jobs.launch import launch_of\n"
            "folder = JobFolder(Path(sys.argv[1]))\n"
            "start_supervisor(folder, launch_of(folder.launch, 1))\n"
            "import signal; signal.pause()",
            str(run.folder.path),
        ],
        start_new_session=True,
    )
    run.wait_until_training()
    assert os.getsid(run.supervisor.pid) not in (os.getsid(0), os.getsid(starter.pid))
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    run.wait_until_training(run.status.step + 2)
    run.stop()
    assert run.end().state is JobState.INTERRUPTED


def test_starting_leaves_no_zombie_behind(make_run: MakeRun) -> None:
    previous_children = children()
    make_run().start().end()
    assert children() <= previous_children


def children() -> set[int]:
    """The children of this process, those included that ended and that nothing waited for."""
    stats = {pid: process_identity.stat(pid) for pid in process_identity.pids()}
    return {pid for pid, fields in stats.items() if fields and int(fields[1]) == os.getpid()}


def test_f10_a_reused_pid_or_another_boot_is_never_signalled() -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        real = wait_for(lambda: process_identity.process(bystander.pid))
        for foreign in (
            ProcessIdentity(real.host, real.boot_id, real.pid, real.start_ticks - 1),
            ProcessIdentity(real.host, "another-boot", real.pid, real.start_ticks),
        ):
            assert not process_identity.is_alive(foreign)
            assert not process_identity.send_signal(foreign, signal.SIGKILL)
        assert bystander.poll() is None
        assert process_identity.send_signal(real, signal.SIGKILL)
        assert bystander.wait() == -signal.SIGKILL
    finally:
        bystander.kill()
        bystander.wait()


def test_f12_an_exception_is_shown_with_rank_computer_cause_and_traceback(
    make_run: MakeRun,
) -> None:
    record = make_run({1: "raise", 0: "wait"}).start().end()
    assert record.state is JobState.ERROR
    assert record.message == (
        "Rank 1 on this computer: loss() got a tensor of the wrong shape (3)."
    )
    assert record.error is not None
    assert (record.error.rank, record.error.traceback) == (1, "Trace")


def test_the_log_says_why_a_rank_died_that_wrote_no_error(
    make_run: MakeRun,
) -> None:
    record = make_run({1: "traceback"}).start().end()
    assert record.message == (
        "Rank 1 on this computer ended in the model's step: KeyError: 'colour'"
    )
    assert record.error is not None
    assert "Traceback (most recent call last)" in record.error.traceback


def test_f13_leaving_early_with_code_0_is_an_error(make_run: MakeRun) -> None:
    record = make_run({1: "exit0", 0: "wait"}).start().end()
    assert record.state is JobState.ERROR
    assert record.message.startswith("Rank 1 on this computer exited with code 0")


def test_f14_another_exit_code_is_named(make_run: MakeRun) -> None:
    record = make_run({0: "exit7", 1: "wait"}).start().end()
    assert record.message == (
        "Rank 0 on this computer exited with code 7 in the model's step, "
        "and its log does not say why."
    )


def test_f15_a_segfault_is_shown_with_the_line_of_the_users_code(make_run: MakeRun) -> None:
    record = make_run({1: "segfault"}, mpi=True).start().end()
    assert "crashed with signal 11 (SIGSEGV" in record.message
    assert record.message.endswith("at bks_model.py, line 5, in crash.")
    assert record.error is not None
    assert "Fatal Python error: Segmentation fault" in record.error.traceback


def test_f16_an_infinite_loop_ends_at_the_stall_limit_and_its_line_is_named(
    make_run: MakeRun,
) -> None:
    run = make_run({1: "loop"}, model=LOOPING)
    mark = hurry_guard(run, 1)
    run.start()
    wait_for(lambda: "looping" in log(run, 1), "the loop")
    mark.touch()
    record = run.end()
    assert record.state is JobState.ERROR
    assert record.message.startswith(
        "Rank 1 on this computer made no progress for 600 s in the model's step, at bks_model.py, "
    )
    assert "in loop" in record.message
    assert "in loop" in run.log(1)


def test_a_limit_for_steps_says_nothing_about_the_setup(make_run: MakeRun) -> None:
    run = make_run(stall_limit_s=5.0)
    guard = Guard(run.folder, run.launch, run.launch.ranks[0])
    assert guard._limit_s(Phase.SETUP, stop_was_requested=False) == 120
    assert guard._limit_s(Phase.COMPUTING, stop_was_requested=False) == 5
    assert guard._limit_s(Phase.WAITING_FOR_OTHERS, stop_was_requested=False) > 5


@pytest.mark.slow
def test_a_slow_setup_is_no_stall_whatever_the_limit_for_steps(make_run: MakeRun) -> None:
    record = make_run({0: "slow", 1: "slow"}, stall_limit_s=5.0).start().end()
    assert record.state is JobState.FINISHED


def test_f17_a_deadlock_in_a_loader_worker_names_the_loader(make_run: MakeRun) -> None:
    run = make_run({0: "worker"}, loader=DEADLOCK)
    mark = hurry_guard(run, 0)
    run.start()
    wait_for(lambda: "locked" in log(run, 0), "the deadlock")
    mark.touch()
    record = run.end()
    assert record.message.startswith(
        "Rank 0 on this computer made no progress for 600 s while the loader was making a batch"
    )
    assert record.error is not None
    assert "in next_batch" in record.error.traceback
    assert "in work" in record.error.traceback


def test_f18_a_child_in_its_own_session_is_gone_at_the_end_with_or_without_the_tag(
    make_run: MakeRun,
) -> None:
    run = make_run({1: "setsid"}, steps=1_000_000).start()

    def sleepers() -> list[int] | None:
        descendants = process_cleanup.descendants(run.supervisor.pid)
        pids = [
            process.pid for process in descendants if command_line(process.pid) == "sleep 987654 "
        ]
        return pids if len(pids) == 2 else None

    pids = wait_for(sleepers, description="both children")
    run.wait_until_training()
    run.stop()
    assert run.end().state is JobState.INTERRUPTED
    assert [pid for pid in pids if process_identity.process(pid)] == []


def test_f22_stop_during_starting_and_setup_ends_at_once_as_stopped(make_run: MakeRun) -> None:
    run = make_run({0: "setup", 1: "setup"}).start()
    wait_for(lambda: run.status.state is JobState.SETUP)
    run.stop()
    record = run.end()
    assert record.state is JobState.INTERRUPTED
    assert record.message == "Stopped before the first step; there is no checkpoint yet."
    assert record.error is None


def test_f22_a_stop_requested_before_the_ranks_came_up_holds(make_run: MakeRun) -> None:
    run = make_run(steps=1_000_000)
    run.stop()
    assert run.start().end().state is JobState.INTERRUPTED


def test_a_stop_under_way_ends_with_the_checkpoint_named(endless: Run) -> None:
    endless.stop()
    record = endless.end()
    assert record.state is JobState.INTERRUPTED
    name = read_json(endless.folder.latest)["name"]
    assert record.message == f"Stopped. {saved_message(name)}"


def test_f24_a_stop_while_a_rank_hangs_says_that_no_checkpoint_could_be_made(
    make_run: MakeRun,
) -> None:
    run = make_run({1: "loop"}, steps=1_000_000, model=LOOPING)
    mark = hurry_guard(run, 1)
    run.start().wait_until_training()
    wait_for(lambda: "looping" in log(run, 1), "the loop")
    run.folder.checkpoints.mkdir()
    run.folder.latest.write_text('{"name": "epoch-0001-step-000100"}')
    run.stop()
    mark.touch()
    record = run.end()
    assert record.state is JobState.INTERRUPTED
    assert record.message.startswith(
        "Stopped by force, so no checkpoint could be made; the newest one is "
        "epoch 1, step 100. Rank 1 on this computer made no progress for 30 s after the "
        "stop request in the model's step, at bks_model.py"
    )
    assert record.error is not None
    assert record.error.rank == 1


def test_f24_the_user_need_not_wait_for_a_rank_that_hangs_after_a_stop(make_run: MakeRun) -> None:
    run = make_run({1: "loop"}, steps=1_000_000, grace_s=600.0, model=LOOPING).start()
    run.wait_until_training()
    run.stop()
    job_files.request_kill(run.folder, 1)
    record = run.end()
    assert record.state is JobState.INTERRUPTED
    assert f"by {user_name()}, by force, so no checkpoint could be made" in record.message
    assert record.leftovers == ()


def test_f24_ranks_that_wait_for_each_other_for_ever_are_ended_too(make_run: MakeRun) -> None:
    run = make_run({0: "wait", 1: "wait"})
    mark = run.folder.path / "hurry"
    of_run = ["--job", str(run.folder.path), "--run", "1", "--detach"]
    subprocess.run(
        [
            sys.executable,
            early_signal.__file__,
            str(mark),
            "0",
            "backend.node.run.supervisor",
            *of_run,
        ],
        env={**os.environ, "PYTHONPATH": str(CODE_ROOT)},
        check=True,
    )
    run.wait_until_training(1)
    wait_for(lambda: log(run, 1), "the other rank")
    run.stop()
    mark.touch()
    record = run.end()
    assert record.state is JobState.INTERRUPTED
    assert "No rank made progress for 70 s after the stop request." in record.message
    assert "there is none from before" in record.message


def test_m07_an_mpirun_that_does_not_exist_is_named(make_run: MakeRun) -> None:
    record = make_run(mpirun_path="/nowhere/mpirun").start().end()
    assert record.state is JobState.ERROR
    assert record.message == ("/nowhere/mpirun could not be started: No such file or directory.")


def test_m07_the_refusal_of_mpirun_is_shown_in_its_own_words(
    make_run: MakeRun, tmp_path: Path
) -> None:
    refusing = tmp_path / "mpirun"
    refusing.write_text("#!/bin/sh\necho -------\necho 'There are not enough slots.'\nexit 1\n")
    refusing.chmod(0o755)
    record = make_run(mpirun_path=str(refusing)).start().end()
    assert record.message == (
        "mpirun ended with code 1 before any rank could say how it ended: "
        "There are not enough slots."
    )


def test_m07_an_mpirun_that_starts_nothing_is_given_up(make_run: MakeRun, tmp_path: Path) -> None:
    waiting_mpirun = tmp_path / "mpirun"
    waiting_mpirun.write_text("#!/bin/sh\nexec sleep 600\n")
    waiting_mpirun.chmod(0o755)
    run = make_run(mpirun_path=str(waiting_mpirun))
    run.supervise_here(_START_LIMIT_S=1)
    assert run.end().message == (
        "mpirun did not start rank 0 on this computer within 1 s; logs/mpirun.log may say why."
    )


@pytest.mark.parametrize("doing", [{}, {1: "exit7", 0: "wait"}], ids=["all gone", "one hangs"])
def test_an_mpirun_that_does_not_return_is_ended(
    make_run: MakeRun, tmp_path: Path, doing: dict[int, str]
) -> None:
    stubborn = tmp_path / "mpirun"
    fake = Path(__file__).parents[3] / "fakes" / "stubborn_mpirun.py"
    stubborn.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n')
    stubborn.chmod(0o755)
    run = make_run(doing, mpirun_path=str(stubborn))
    run.supervise_here(_AFTER_FAILURE_S=1, _LAUNCHER_TERM_S=0.5)
    record = run.end()
    if doing:
        assert record.message.startswith("Rank 1 on this computer exited with code 7")
    else:
        assert record.state is JobState.FINISHED


def test_m07_a_missing_rank_module_is_named(make_run: MakeRun) -> None:
    record = make_run(module="no_such_module").start().end()
    assert record.state is JobState.ERROR
    assert "module no_such_module is missing" in record.message


def test_a_supervisor_that_gets_sigterm_ends_the_run_and_says_so(endless: Run) -> None:
    process_identity.send_signal(endless.supervisor, signal.SIGTERM)
    record = endless.end()
    assert record.state is JobState.ERROR
    assert "its supervisor got SIGTERM" in record.message


def test_a_shutdown_is_the_cause_although_mpirun_ended_first(
    make_run: MakeRun,
) -> None:
    # It waits for its own signal as long as it takes to send one.
    run = make_run(steps=1_000_000, mpi=True).start(_POLL_S=LIMIT_S)
    run.wait_until_training()
    launcher = run.find(" --map-by ")
    process_identity.send_signal(launcher, signal.SIGKILL)
    wait_for(
        lambda: not Path(f"/proc/{launcher.pid}").exists(), description="its end to be noticed"
    )
    process_identity.send_signal(run.supervisor, signal.SIGTERM)
    assert "its supervisor got SIGTERM" in run.end().message


@pytest.mark.parametrize("echo_first", [True, False])
def test_m14_the_cause_wins_over_its_echo_in_other_ranks(
    make_run: MakeRun, echo_first: bool
) -> None:
    cause = "raise-after-echo" if echo_first else "raise"
    record = make_run({0: "echo" if echo_first else "wait", 1: cause}).start().end()
    assert record.error is not None
    assert record.error.rank == 1
    assert "been shut down" not in record.message


def test_a_run_with_all_processes_killed_leaves_no_folder_and_no_memory(
    endless: Run,
) -> None:
    assert len(list(endless.shared_memory.iterdir())) == 2
    assert list(endless.session.iterdir())
    for guard in [endless.find("backend.node.run.rank_guard", rank) for rank in (0, 1)]:
        process_identity.send_signal(guard, signal.SIGKILL)
    endless.end()  # checks both


def test_a_head_that_thaws_after_its_run_was_given_up_ends_it_and_changes_no_record(
    endless: Run,
) -> None:
    frozen = (endless.supervisor, *endless.processes())
    for process in frozen:
        process_identity.send_signal(process, signal.SIGSTOP)
    given_up = RunExit(1, JobState.ERROR, "gpu01 no longer answers, and led the run.").to_dict()
    replace_json(endless.attempt.exit, given_up)
    for process in frozen:
        process_identity.send_signal(process, signal.SIGCONT)
    wait_for(lambda: not any(process_identity.is_alive(process) for process in frozen))
    assert endless.leftovers() == ()
    assert read_json(endless.attempt.exit) == given_up
    assert entries.entry_of(endless.folder) is None
