"""The launcher for Slurm, with a login node whose answers the tests give."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.base.errors import BackendError
from backend.launch.placement import allocation_launch
from backend.launch.slurm import POLL_S, SlurmCluster, SlurmLauncher
from backend.node.run import launch_command
from backend.node.run.allocation import in_allocation
from backend.node.run.slurm_run import Allocation, count_tasks
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.local_files import Files
from backend.records.jobs.launch import ALLOCATED_DEVICES, Launch, visible_devices
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit
from backend.records.slurm.placement import SlurmPlacement
from backend.records.slurm.submission import Submission
from backend.ssh.interface import CommandResult, Unreachable
from tests.fakes.runs import Run

NODES = "".join(
    f"main*|up|infinite|n{number}|idle|8|1000|gpu:4|gpu:0|(null)|none|\n" for number in range(3)
)
PLACEMENT = SlurmPlacement(nodes=3, processes=2, time_limit_min=60)


class LoginNode:
    """Answers by the first word of a command, and remembers all commands."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], CommandResult]] = {
            "sinfo": lambda: CommandResult(0, NODES, ""),
            "id": lambda: CommandResult(0, "anna\n", ""),
            "sbatch": self.submit,
            "squeue": lambda: CommandResult(0, "\n".join(self.jobs), ""),
            "scancel": lambda: CommandResult(0, "", ""),
        }
        self.jobs: list[str] = []
        self.commands: list[tuple[str, ...]] = []
        self.script = ""

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", limit_s: float = 60.0
    ) -> CommandResult:
        self.commands.append(tuple(argv))
        self.script = input.decode() or self.script
        no_answer = CommandResult(1, "", "Slurm accounting storage is disabled\n")
        return self.answers.get(argv[0], lambda: no_answer)()

    def submit(self) -> CommandResult:
        self.add_job("17", "PENDING|Priority|N/A")
        return CommandResult(0, "17\n", "")

    def add_job(self, number: str, state: str) -> None:
        """Put the job of the command that was submitted last into the queue."""
        options = dict(part.lstrip("-").split("=", 1) for part in self.sbatch()[3:])
        self.jobs = [f"{number}|{state}|{options['job-name']}|{options['comment']}"]

    def sbatch(self) -> tuple[str, ...]:
        return next(command for command in reversed(self.commands) if command[0] == "sbatch")

    def count(self, name: str) -> int:
        return sum(command[0] == name for command in self.commands)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, strategy="ddp")


@pytest.fixture
def login_node() -> LoginNode:
    return LoginNode()


def launcher(login_node: LoginNode, placement: SlurmPlacement = PLACEMENT) -> SlurmLauncher:
    return SlurmLauncher(SlurmCluster(login_node), placement, Files())


def launch_of_run(run: Run, placement: SlurmPlacement = PLACEMENT) -> Launch:
    return allocation_launch(run.launch, placement)


def number_of(run: Run) -> str:
    return Submission.from_dict(read_json(run.attempt.submission("slurm"))).number


def test_a_run_is_submitted_with_its_script_and_its_number_is_kept(
    login_node: LoginNode, run: Run
) -> None:
    launcher(login_node).submit(run.folder, launch_of_run(run))
    assert number_of(run) == "17"
    assert f"--output={run.attempt.path}/slurm.log" in login_node.sbatch()
    assert f"slurm_run --job {run.folder.path} --run 1" in login_node.script


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("sbatch: error: x\nsbatch: error: Batch job submission failed: No.\n",
         "Batch job submission failed: No"),
        ("sbatch: unrecognized option '--x=1'\nTry \"sbatch --help\" for more information\n",
         "unrecognized option '--x=1'"),
        ("sbatch: error: fetch_config: x\nsbatch: fatal: Could not establish a source\n",
         "Could not establish a source"),
        ("sh: 1: sbatch: not found\n", "sh: 1: sbatch: not found"),
    ],
)  # fmt: skip
def test_slurms_own_sentence_is_shown_when_it_refuses_a_job(
    login_node: LoginNode, run: Run, output: str, sentence: str
) -> None:
    login_node.answers["sbatch"] = lambda: CommandResult(1, "", output)
    with pytest.raises(BackendError) as refusal:
        launcher(login_node).submit(run.folder, launch_of_run(run))
    assert refusal.value.message == f"Slurm refused sbatch: {sentence}."


def test_a_placement_that_cannot_start_is_refused_before_slurm_is_asked(
    login_node: LoginNode, run: Run
) -> None:
    launch = launch_of_run(run)
    with pytest.raises(BackendError, match="asks for 4"):
        launcher(login_node, replace(PLACEMENT, nodes=4)).submit(run.folder, launch)
    assert login_node.count("sbatch") == 0


def no_answer() -> CommandResult:
    raise Unreachable("“sbatch” on hpc had not ended after 60 s.")


@pytest.mark.parametrize(
    "answer",
    [
        lambda: CommandResult(1, "", "sbatch: error: Socket timed out on send/recv operation\n"),
        no_answer,
        lambda: CommandResult(0, "17\n17\n", ""),
        lambda: CommandResult(0, "Loading modules\n17;west\n", ""),
    ],
    ids=["timed out", "too slow", "twice", "with more text"],
)
def test_a_job_is_submitted_once_whatever_becomes_of_the_answer(
    login_node: LoginNode, run: Run, answer: Callable[[], CommandResult]
) -> None:
    def answer_late() -> CommandResult:
        login_node.submit()
        return answer()

    login_node.answers["sbatch"] = answer_late
    for _ in range(2):
        launcher(login_node).submit(run.folder, launch_of_run(run))
        assert number_of(run) == "17"
    assert login_node.count("sbatch") == 1


def test_a_job_of_slurm_that_still_ends_is_not_taken_for_that_of_the_next_run(
    login_node: LoginNode, run: Run
) -> None:
    launcher(login_node).submit(run.folder, launch_of_run(run))
    login_node.add_job("17", "COMPLETING|None|N/A")
    login_node.answers["sbatch"] = lambda: CommandResult(0, "18\n", "")
    run.folder.attempt(2).path.mkdir()
    launcher(login_node).submit(run.folder, replace(launch_of_run(run), run=2))
    assert Submission.from_dict(read_json(run.folder.attempt(2).submission("slurm"))).number == "18"


def test_jobs_of_a_sweep_share_as_many_lanes_as_may_run_at_once(
    login_node: LoginNode, run: Run
) -> None:
    placement = replace(PLACEMENT, at_once=2)
    login_node.jobs = [
        "1|RUNNING|None|N/A|ringmaster-lr-1|ringmaster:a:1",
        "2|COMPLETED|None|N/A|ringmaster-lr-2|ringmaster:b:1",
    ]
    launcher(login_node, placement).submit(run.folder, launch_of_run(run), "lr")
    options = login_node.sbatch()
    assert "--job-name=ringmaster-lr-2" in options
    assert "--dependency=singleton" in options
    assert launcher(login_node, placement).state(run.folder).state is JobState.QUEUED
    launcher(login_node, placement).end(run.folder)
    assert ("scancel", "17") in login_node.commands


@pytest.mark.parametrize(("at_once", "sweep"), [(0, "lr"), (2, "")])
def test_without_a_sweep_or_a_limit_a_job_waits_for_no_other_one(
    login_node: LoginNode, run: Run, at_once: int, sweep: str
) -> None:
    placement = replace(PLACEMENT, at_once=at_once)
    launcher(login_node, placement).submit(run.folder, launch_of_run(run), sweep)
    assert f"--job-name=ringmaster-{run.folder.job_id}" in login_node.sbatch()
    assert "--dependency=singleton" not in login_node.sbatch()


def test_one_query_serves_all_jobs_for_ten_seconds(login_node: LoginNode) -> None:
    now_s = 100.0
    cluster = SlurmCluster(login_node, lambda: now_s)
    for _ in range(5):
        cluster.jobs()
    assert login_node.count("squeue") == 1
    now_s += POLL_S
    cluster.jobs()
    assert login_node.count("squeue") == 2


@pytest.mark.parametrize("has_database", [True, False])
def test_jobs_that_left_the_queue_are_read_from_slurms_accounting_all_at_once(
    login_node: LoginNode, has_database: bool
) -> None:
    def read_accounting() -> CommandResult:
        if not has_database and "-c" not in login_node.commands[-1]:
            return CommandResult(1, "", "Slurm accounting storage is disabled\n")
        user = " by 7" if has_database else ""
        rows = [f"{number}|CANCELLED{user}|None|N/A|x|\n" for number in range(1, 4)]
        return CommandResult(0, "".join(rows), "")

    now_s = 0.0
    login_node.answers["sacct"] = read_accounting
    cluster = SlurmCluster(login_node, lambda: now_s)
    for _ in range(2):
        jobs = [cluster.job(str(number)) for number in range(1, 4)]
        assert [job.cancelled_by for job in jobs if job] == [7 if has_database else None] * 3
        query_count, now_s = login_node.count("sacct"), now_s + POLL_S
    cluster.job("1")
    assert login_node.count("sacct") - query_count == (1 if has_database else 2)
    assert "1,2,3" in login_node.commands[-1]


def test_the_state_is_that_of_the_queue_until_the_run_says_more(
    login_node: LoginNode, run: Run
) -> None:
    launcher(login_node).submit(run.folder, launch_of_run(run))
    condition = launcher(login_node).state(run.folder)
    assert condition.state is JobState.QUEUED
    assert "higher priority" in condition.message
    login_node.add_job("17", "RUNNING|None|N/A")
    assert launcher(login_node).state(run.folder).state is None


def test_the_end_of_a_run_that_recorded_none_is_recorded(login_node: LoginNode, run: Run) -> None:
    launcher(login_node).submit(run.folder, launch_of_run(run))
    login_node.add_job("17", "NODE_FAIL|None|N/A")
    assert launcher(login_node).state(run.folder).state is JobState.ERROR
    record = RunExit.from_dict(read_json(run.attempt.exit))
    assert record.message == "A node of the job failed, so Slurm ended it."


def test_a_login_node_that_does_not_answer_ends_nothing(login_node: LoginNode, run: Run) -> None:
    launcher(login_node).submit(run.folder, launch_of_run(run))
    login_node.answers["squeue"] = lambda: CommandResult(1, "", "Unable to contact slurmctld\n")
    with pytest.raises(BackendError, match="Unable to contact slurmctld"):
        launcher(login_node).state(run.folder)
    assert not run.attempt.exit.exists()


def test_only_the_own_job_is_cancelled(login_node: LoginNode, run: Run) -> None:
    launcher(login_node).submit(run.folder, launch_of_run(run))
    own_jobs = login_node.jobs
    login_node.jobs = ["17|RUNNING|None|N/A|other|(null)"]
    with pytest.raises(BackendError, match="The job 17 in Slurm is another one now, other"):
        launcher(login_node).end(run.folder)
    login_node.jobs = ["17|COMPLETED|None|N/A|other|(null)"]
    launcher(login_node).end(run.folder)
    assert login_node.count("scancel") == 0
    login_node.jobs = own_jobs
    launcher(login_node).end(run.folder)
    assert [command for command in login_node.commands if command[0] == "scancel"] == [
        ("scancel", "17")
    ]


def test_the_nodes_of_an_allocation_replace_the_numbered_ones(run: Run) -> None:
    placement = replace(PLACEMENT, gpus=2)
    launch = launch_of_run(run, placement)
    addresses = {"g7": "10.0.0.7", "g9": "10.0.0.9", "g12": "10.0.0.12"}
    allocated = in_allocation(launch, "Slurm", addresses, count_tasks("2(x3)"))
    assert [(p.rank, p.local_rank, p.node, p.host, p.gpu) for p in allocated.ranks[:3]] == [
        (0, 0, "g7", "10.0.0.7", "slurm:0"),
        (1, 1, "g7", "10.0.0.7", "slurm:1"),
        (2, 0, "g9", "10.0.0.9", "slurm:0"),
    ]
    assert [p.node for p in allocated.config.placement] == list(addresses)
    argv = launch_command.command(allocated)
    assert "-H" not in argv
    assert "plm_rsh_args" not in argv
    networks = argv[argv.index("btl_tcp_if_include") + 1]
    assert networks == "10.0.0.6/31,10.0.0.8/31,10.0.0.12/31"


@pytest.mark.parametrize(("nodes", "tasks"), [(2, "2(x2)"), (3, "1(x3)"), (3, "2,1(x2)")])
def test_an_allocation_of_another_size_is_refused(run: Run, nodes: int, tasks: str) -> None:
    addresses = {f"g{number}": f"10.0.0.{number}" for number in range(nodes)}
    with pytest.raises(BackendError, match="the run needs 3 nodes and 6 processes"):
        in_allocation(launch_of_run(run), "Slurm", addresses, count_tasks(tasks))


def test_a_rank_has_the_gpu_that_slurm_gave_to_it() -> None:
    environment = {ALLOCATED_DEVICES: "2,3"}
    assert visible_devices("slurm:1", environment) == "3"
    assert visible_devices("slurm:0,slurm:1", environment) == "2,3"
    assert visible_devices("slurm:1", {}) == "1"
    assert visible_devices("GPU-1,GPU-2", environment) == "GPU-1,GPU-2"
    assert visible_devices("", environment) == ""


@pytest.mark.parametrize(
    ("state", "has_left"), [("CANCELLED|None|N/A", True), ("RUNNING|None|N/A", False)]
)
def test_only_a_job_that_waits_leaves_the_queue(
    login_node: LoginNode, run: Run, state: str, has_left: bool
) -> None:
    """Slurm itself compares the state: the job may begin just before it is cancelled."""
    launcher(login_node).submit(run.folder, launch_of_run(run))

    def cancel() -> CommandResult:
        login_node.add_job("17", state)
        return CommandResult(0, "", "")

    login_node.answers["scancel"] = cancel
    assert launcher(login_node).leave_queue(run.folder) is has_left
    assert ("scancel", "--state=PENDING", "17") in login_node.commands


@pytest.mark.parametrize(("number", "is_run"), [("17", False), ("18", True), ("", True)])
def test_of_two_jobs_of_slurm_for_one_run_only_the_recorded_one_runs_it(
    run: Run, tmp_path: Path, number: str, is_run: bool
) -> None:
    """A submission whose answer was lost may reach Slurm after the second one."""
    submission = Submission(PLACEMENT, str(tmp_path / "slurm.log"), number)
    replace_json(run.folder.attempt(1).submission("slurm"), submission.to_dict())
    variables = {"PATH": "", "SLURM_JOB_ID": "18", "SLURM_JOB_NODELIST": "sn1"}
    variables["SLURM_TASKS_PER_NODE"] = "1"
    argv = [sys.executable, "-m", "backend.node.run.slurm_run", "--job", str(run.folder.path)]
    code = subprocess.run([*argv, "--run", "1"], env=variables, check=False).returncode
    # Slurm does not answer here, which ends a run that began.
    assert (code == 1, run.attempt.exit.exists()) == (is_run, is_run)


LOST = RankError("sn2 was lost.", retry="always")


@pytest.mark.parametrize(
    ("record", "restarts", "run_restarts", "settings", "reason"),
    [
        (RunExit(1, JobState.FINISHED, ""), 0, 0, {}, ""),
        (RunExit(1, JobState.INTERRUPTED, "", pause="Its limit."), 0, 0, {}, "Its limit."),
        (RunExit(1, JobState.ERROR, "", RankError("A fault of the code.")), 1, 0, {}, ""),
        (RunExit(1, JobState.ERROR, "", LOST), 0, 0, {}, "sn2 was lost."),
        (RunExit(1, JobState.ERROR, "", LOST), 0, 0, {"continues": False}, ""),
        (RunExit(1, JobState.ERROR, "", LOST), 1, 0, {"continues": False}, "sn2 was lost."),
        (RunExit(1, JobState.ERROR, "", LOST), 3, 3, {}, ""),
        (RunExit(1, JobState.ERROR, "", LOST), 4, 3, {}, "sn2 was lost."),
    ],
)
def test_a_run_pauses_if_its_machine_failed_and_slurm_may_queue_it_again(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record: RunExit,
    restarts: int,
    run_restarts: int,
    settings: dict[str, Any],
    reason: str,
) -> None:
    """Without a checkpoint a run may repeat three times."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho JobId=17 JobState=COMPLETING Restarts={restarts}\n")
    scontrol.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(run_restarts))
    submission = Submission(replace(PLACEMENT, **settings), str(tmp_path / "slurm.log"), "17")
    replace_json(run.folder.attempt(1).submission("slurm"), submission.to_dict())
    assert Allocation(run.folder, 1).pause_reason(record) == reason
