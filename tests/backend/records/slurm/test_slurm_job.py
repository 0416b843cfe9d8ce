"""What Slurm says of a job and what the run recorded become one state with one sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RunExit
from backend.records.slurm.job import (
    ENDS,
    SlurmJob,
    derive_condition,
    logged_end,
    parse_jobs,
    pending_message,
)

QUEUE = """\
3|PENDING|Resources|2026-11-29T22:00:00|ringmaster-a|ringmaster:a
4|RUNNING|None|2026-11-29T21:24:52|ringmaster-b|ringmaster:a|b
5|CANCELLED by 1000|None|N/A|x|(null)
not a job
"""
FINISHED = RunExit(1, JobState.FINISHED, "")
STOPPED = RunExit(1, JobState.INTERRUPTED, "Saved at epoch 1, step 5.")
PAUSED = RunExit(1, JobState.INTERRUPTED, "Saved.", pause="Slurm ends the job soon.")
FAILED = RunExit(1, JobState.ERROR, "Rank 1 was lost.", RankError("Rank 1 was lost."))
STATES = [
    *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED", "FAILED", "TIMEOUT"),
    *("PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "BOOT_FAIL", "DEADLINE", "REQUEUED"),
    *("SUSPENDED", "A_STATE_OF_2030"),
]


def test_jobs_are_read_with_reason_start_comment_and_the_user_who_cancelled() -> None:
    jobs = parse_jobs(QUEUE)
    assert jobs["3"] == SlurmJob(
        "3", "PENDING", "Resources", "2026-11-29T22:00:00", "ringmaster-a", "ringmaster:a"
    )
    assert jobs["4"].comment == "ringmaster:a|b"
    assert (jobs["5"].state, jobs["5"].cancelled_by, jobs["5"].comment) == ("CANCELLED", 1000, "")
    assert jobs["5"].is_over
    assert not jobs["3"].is_over
    assert set(jobs) == {"3", "4", "5"}


@given(st.text(max_size=200))
def test_any_output_of_a_command_is_read(output: str) -> None:
    for id, job in parse_jobs(output).items():
        assert id == job.id
        assert pending_message(job)


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("Resources", "nodes or GPUs to become free"),
        ("Priority", "higher priority"),
        ("PartitionTimeLimit", "choose a shorter one"),
        ("ReqNodeNotAvail, UnavailableNodes:sn3", "down, drained or reserved"),
        ("JobHeldUser", "scontrol release 7"),
        ("QOSMaxGRESPerUser", "Its QOS has reached a limit of Slurm (QOSMaxGRESPerUser)"),
        ("AssocGrpCpuLimit", "Its account has reached a limit"),
        ("Sunspots", "Slurm gives the reason “Sunspots”."),
    ],
)
def test_the_reason_of_a_waiting_job_is_a_sentence(reason: str, part: str) -> None:
    message = pending_message(SlurmJob("7", "PENDING", reason, "2026-11-29T22:00:00"))
    assert part in message
    assert message.endswith("Slurm expects to start it at 2026-11-29 22:00:00.")


@pytest.mark.parametrize("run_exit", [FINISHED, STOPPED])
@pytest.mark.parametrize("state", STATES)
def test_no_state_of_slurm_changes_a_recorded_success_or_stop(
    state: str, run_exit: RunExit
) -> None:
    job = SlurmJob("1", state)
    condition = derive_condition(job, run_exit)
    if run_exit is FINISHED or not job.is_waiting:
        assert (condition.state, condition.message) == (run_exit.state, run_exit.message)


@pytest.mark.parametrize("state", ENDS)
def test_a_failure_with_a_cause_in_slurm_gets_its_sentence(state: str) -> None:
    job = SlurmJob("1", state)
    expected_message = FAILED.message if job.is_waiting else ENDS[state].message
    assert expected_message in derive_condition(job, FAILED).message


def test_the_user_who_cancelled_is_named() -> None:
    condition = derive_condition(SlurmJob("1", "CANCELLED"), FAILED, user="anna")
    assert condition.message == "The job was cancelled in Slurm by anna."
    assert condition.remedy.startswith("Resume from the newest checkpoint")


@pytest.mark.parametrize(
    ("state", "expected_state"),
    [
        ("PENDING", JobState.QUEUED),
        ("CONFIGURING", JobState.STARTING),
        ("RUNNING", None),
        ("COMPLETING", JobState.STOPPING),
        ("NODE_FAIL", JobState.ERROR),
        ("FAILED", JobState.ERROR),
        ("A_STATE_OF_2030", JobState.ERROR),
    ],
)
def test_a_run_without_a_record_has_the_state_of_its_job(
    state: str, expected_state: JobState | None
) -> None:
    condition = derive_condition(SlurmJob("1", state), None)
    assert condition.state is expected_state
    assert bool(condition.message) == (expected_state is not None)


def test_a_job_without_a_record_says_how_its_log_ends() -> None:
    log = "loading\nThis line failed: module load x\n"
    message = derive_condition(SlurmJob("1", "FAILED"), None, log=log).message
    assert message.endswith("Its log ends with “This line failed: module load x”.")
    assert "Its log" not in derive_condition(SlurmJob("1", "FAILED"), None, log=" \n").message
    assert "Its log" not in derive_condition(SlurmJob("1", "NODE_FAIL"), None, log=log).message


def test_a_job_whose_node_wrote_no_log_may_not_see_the_data_root() -> None:
    condition = derive_condition(SlurmJob("1", "FAILED"), None, log=None)
    assert "wrote nothing to the data root" in condition.message
    assert "see the data root" in condition.remedy


@pytest.mark.parametrize("run_exit", [None, FINISHED, STOPPED, FAILED])
def test_silence_of_slurm_is_never_an_end(run_exit: RunExit | None) -> None:
    assert derive_condition(None, run_exit).state is (run_exit.state if run_exit else None)


def test_a_run_that_slurm_queued_again_waits_and_says_why() -> None:
    condition = derive_condition(SlurmJob("1", "PENDING", "BeginTime"), PAUSED)
    assert condition.state is JobState.PAUSED
    assert condition.message.startswith("Slurm ends the job soon. Waits in Slurm's queue.")
    assert derive_condition(SlurmJob("1", "REQUEUED"), FAILED).state is JobState.QUEUED


@pytest.mark.parametrize("run_exit", [PAUSED, replace(FAILED, pause=FAILED.message)])
@pytest.mark.parametrize(
    ("state", "is_paused"),
    [("COMPLETING", True), ("RUNNING", True), ("PENDING", True), (None, True), ("FAILED", False)],
)
def test_a_run_that_will_continue_is_paused_until_slurm_ends_its_job(
    run_exit: RunExit, state: str | None, is_paused: bool
) -> None:
    condition = derive_condition(SlurmJob("1", state) if state else None, run_exit)
    assert (condition.state is JobState.PAUSED) == is_paused
    assert condition.message.startswith(run_exit.pause) or not is_paused


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        ("", "CANCELLED"),
        (" DUE TO TIME LIMIT", "TIMEOUT"),
        (" DUE TO PREEMPTION", "PREEMPTED"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "NODE_FAIL"),
        (" DUE TO JOB REQUEUE", "REQUEUED"),
    ],
)
def test_the_log_of_a_job_says_why_slurm_ends_it(cause: str, state: str) -> None:
    line = f"slurmstepd-sn1: error: *** JOB 12 ON sn1 CANCELLED AT 2026-11-29T21:13:42{cause} ***"
    log = f"\x00 noise\n{line}\n"
    assert logged_end(log, "12") == state
    assert logged_end(log, "13") == ""
