"""How a run and a rank ended, judged from records alone."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.base.errors import BackendError
from backend.node.diagnosis.log_text import LogPart
from backend.node.diagnosis.rule import load
from backend.node.run.ended_run import EndedRun
from backend.node.run.rank_outcome import (
    EndCause,
    RankObservation,
    innermost_user_line,
    rank_exit,
    threads,
)
from backend.node.run.run_outcome import run_exit
from backend.records.jobs.heartbeat import Phase
from backend.records.jobs.launch import RankPlan
from backend.records.jobs.schedulers import SCHEDULERS, ClusterScheduler
from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    LOSS_DIVERGED,
    LOSS_NOT_A_NUMBER,
    UNKNOWN,
    RankError,
    RankExit,
    RunExit,
    RunStatus,
)
from backend.training.error_report import make_record

RANKS = (RankPlan(0, 0, "this-computer", "127.0.0.1"), RankPlan(1, 0, "gpu2", "10.0.0.2"))


def make_exit(rank: int, outcome: str, message: str = "", secondary: bool = False) -> RankExit:
    node = RANKS[rank].node
    error = RankError(message, rank, node) if message else None
    return RankExit(rank, 1, "host", node, outcome, error=error, is_secondary=secondary)


def judge(*exits: RankExit, **changes: object) -> RunExit:
    ended_run = EndedRun(run=1, ranks=RANKS, exits=exits, launcher_code=0)
    return run_exit(replace(ended_run, **changes), (), "now")  # type: ignore[arg-type] # any field


def test_code_0_of_mpirun_finishes_nothing_when_a_rank_left_no_record() -> None:
    record = judge(make_exit(0, "finished"), launcher_code=0)
    assert record.state is JobState.ERROR
    assert record.message.startswith("gpu2 was lost with its rank 1: it no longer answers")


@pytest.mark.parametrize("has_record", [True, False])
def test_a_job_that_went_on_without_a_node_finishes_and_names_its_rank(has_record: bool) -> None:
    echo = make_exit(
        1, "error", "Another rank ended, which interrupted their step.", secondary=True
    )
    exits = [make_exit(0, "finished"), *[echo] * has_record]
    record = judge(*exits, expendable_ranks=frozenset({1}))
    assert (record.state, record.error) == (JobState.FINISHED, None)
    assert record.message == "Rank 1 on gpu2 was lost: its connection to the others broke."


@pytest.mark.parametrize(
    ("status_run", "loss_message", "message"),
    [
        (1, "", "Converged at step 9 of 40."),
        (1, "killed", "Converged at step 9 of 40. Rank 1 on gpu2: killed"),
        (2, "", ""),
        (2, "killed", "Rank 1 on gpu2: killed"),
    ],
)
def test_a_run_that_finished_early_says_why(
    status_run: int, loss_message: str, message: str
) -> None:
    early_finish = "Converged at step 9 of 40."
    status = RunStatus(JobState.SAVING, run=status_run, early_finish=early_finish)
    worker = make_exit(1, "signal", loss_message) if loss_message else make_exit(1, "finished")
    exits = [make_exit(0, "finished"), worker]
    record = judge(*exits, expendable_ranks=frozenset({1}), last_status=status)
    assert (record.state, record.message) == (JobState.FINISHED, message)
    stopped = judge(*(make_exit(n, "interrupted") for n in (0, 1)), last_status=status)
    assert "Converged" not in stopped.message


@pytest.mark.parametrize(
    ("wrote_nothing", "has_no_curve", "log_end", "message"),
    [
        (True, True, "", "wrote nothing"),
        (True, True, "── run 1, rank 0 on a ──\ndone\n", "wrote nothing"),
        (True, True, "12: 25.3 avg loss\n", "“Draw …”"),
        (False, True, "", "“Draw …”"),
        (False, False, "", ""),
    ],
)
def test_a_script_that_finishes_without_a_curve_says_which_files_hold_one(
    wrote_nothing: bool, has_no_curve: bool, log_end: str, message: str
) -> None:
    exits = [make_exit(rank, "finished") for rank in (0, 1)]
    record = judge(*exits, wrote_nothing=wrote_nothing, has_no_curve=has_no_curve, log_end=log_end)
    assert record.state is JobState.FINISHED
    assert message in record.message
    assert bool(message) == bool(record.message)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("step 1\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
         "RuntimeError: ran out of data\n", "“RuntimeError: ran out of data”"),
        ("Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
         "KeyError: 'a'\ntrying again\nstep 2\nstep 3\nsaved\n", ""),
        ("step 1\nError: 0.25\n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_script_that_ends_with_0_after_an_error_says_so(log: str, message: str) -> None:
    record = judge(*[make_exit(rank, "finished") for rank in (0, 1)], runs_script=True, log_end=log)
    assert record.state is JobState.FINISHED
    assert message in record.message
    assert bool(message) == bool(record.message)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("Dataset is empty, nothing to train\n", "“Dataset is empty, nothing to train”"),
        ("step 1\n\n-----\n", "“step 1”"),
        ("\n===\n", "does not say why"),
        ("── run 1, rank 1 on gpu2 ──\n── python train.py\n", "does not say why"),
        ("", "does not say why"),
    ],
)
def test_an_unknown_end_quotes_the_last_line(log: str, message: str) -> None:
    assert (
        message
        in judged_error(make_exit(1, "exit", "Rank 1 on gpu2 exited with code 1."), log).message
    )


def test_f08_a_node_that_took_its_ranks_with_it_is_named_with_them() -> None:
    ranks = (
        *(RankPlan(n, n, "gpu1", "10.0.0.1") for n in (0, 1)),
        *(RankPlan(n, n - 2, "gpu2", "10.0.0.2") for n in (2, 3)),
    )
    exits_together = tuple(
        make_exit(n, "signal", "Ended together.", secondary=True) for n in (0, 1)
    )
    record = judge(*exits_together, ranks=ranks)
    assert record.message.startswith("gpu2 was lost with its ranks 2 and 3")
    assert (record.state, record.error.node if record.error else "") == (JobState.ERROR, "gpu2")


@pytest.mark.parametrize(
    "changes",
    [
        {"give_up_reason": "mpirun did not start rank 0 on gpu1 within 100 s."},
        {"launcher_log": "Connection to 10.0.0.2 closed by remote host.", "launcher_code": 1},
    ],
)
def test_f08_a_node_lost_during_the_start_is_named(changes: dict[str, object]) -> None:
    log = LogPart.from_text("mpirun.log", str(changes.get("launcher_log", "")))
    record = judge(unreached_nodes=("gpu2",), mpirun_log=(log,), **changes)
    assert record.message == "gpu2 does not answer over SSH, so the run could not begin."
    assert record.error is not None
    assert record.error.node == "gpu2"


@pytest.mark.parametrize(
    ("exits", "changes", "named_node"),
    [
        (
            [make_exit(0, "interrupted")],
            {"stop_was_requested": True, "give_up_reason": "It hung."},
            True,
        ),
        ([make_exit(0, "finished")], {}, True),
        ([make_exit(0, "error", "The connection broke.", secondary=True)], {}, True),
        ([], {"launcher_code": 1}, True),
        ([], {"give_up_reason": "mpirun did not start rank 1 on gpu2 within 100 s."}, True),
        ([make_exit(0, "error", "ValueError: x")], {}, False),
        ([make_exit(0, "finished"), make_exit(1, "error", "ValueError: x")], {}, False),
        (
            [make_exit(0, "interrupted")],
            {"nodes_without_root": (), "unreached_nodes": ("gpu2",)},
            False,
        ),
        ([make_exit(0, "interrupted")], {"end_signal": "SIGTERM"}, False),
    ],
)
def test_a_node_that_answers_without_its_share_is_not_lost_and_its_share_is_named(
    exits: list[RankExit], changes: dict[str, object], named_node: bool
) -> None:
    common_values = {
        "nodes_without_root": ("gpu2",),
        "data_root": "/lab/ring",
        "newest_checkpoint": "x",
    }
    record = judge(*exits, **{**common_values, **changes})
    message = (
        "gpu2 answers, but no longer sees the data root /lab/ring, so the end of its rank 1 could "
        "not be recorded."
    )
    assert (message in record.message) is named_node
    assert "no longer answers" not in record.message or not named_node
    if named_node:
        assert record.error is not None
        assert record.error.remedy.startswith("Mount the share on gpu2 again")


def test_a_stop_with_a_saved_checkpoint_says_so_whatever_other_ranks_did() -> None:
    saved = {"newest_checkpoint": "epoch-0002-step-000020", "checkpoint_of_run": True}
    hung = {"stop_was_requested": True, "stopped_by": "ben", "give_up_reason": "It hung."}
    record = judge(
        make_exit(0, "interrupted"), **saved, **hung, nodes_without_root=("gpu2",), data_root="/lab"
    )
    assert record.state is JobState.INTERRUPTED
    assert record.message.startswith("Stopped by ben. Saved at epoch 2, step 20. gpu2 answers, but")
    # Without the record of rank 0, the checkpoint may be an older one of this run.
    assert "no checkpoint could be made" in judge(**saved, **hung).message


def logged(text: str) -> dict[str, object]:
    return {"logs": {1: (LogPart.from_text("rank-1.log", f"{text}\n"),)}}


def exit_by_signal(name: str) -> RankExit:
    return replace(make_exit(1, "signal", f"It was killed ({name})."), signal=name)


ECHO = make_exit(0, "error", "Another rank ended.", secondary=True)
EXITED = make_exit(1, "exit", "Rank 1 on gpu2 exited with code 1 in training.")


@pytest.mark.parametrize(
    ("exits", "changes", "retry"),
    [
        # The machine.
        ([ECHO], {}, "always"),
        ([ECHO], {"unreached_nodes": ("gpu2",)}, "always"),
        ([], {"end_signal": "SIGTERM"}, "always"),
        ([], {"launcher_code": -9}, "always"),
        ([], {"launcher_error": "The computer was restarted.", "is_of_machine": True}, "always"),
        (
            [make_exit(0, "interrupted")],
            {"nodes_without_root": ("gpu2",), "data_root": "/lab"},
            "always",
        ),
        ([exit_by_signal("SIGTERM")], {}, "always"),
        (
            [EXITED],
            logged("RuntimeError: CUDA error: uncorrectable ECC error encountered"),
            "always",
        ),
        ([EXITED], logged("OSError: [Errno 28] No space left on device"), "always"),
        (
            [ECHO, make_exit(1, "signal", "It was ended with the others.", secondary=True)],
            {},
            "always",
        ),
        # It may be the machine.
        ([exit_by_signal("SIGKILL")], {}, "once"),
        ([EXITED], logged("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"), "once"),
        # The user's code, or the user.
        ([exit_by_signal("SIGSEGV")], {}, ""),
        ([EXITED], logged("ValueError: x"), ""),
        ([EXITED], logged("ModuleNotFoundError: No module named 'timm'"), ""),
        ([make_exit(1, "error", "ValueError: x")], {}, ""),
        ([make_exit(1, "error", "ValueError: x")], {"unreached_nodes": ("gpu2",)}, ""),
        ([make_exit(1, "stalled", "Rank 1 made no progress for 600 s.")], {}, ""),
        ([], {"launcher_error": "mpirun could not be started: no such file."}, ""),
        ([], {"launcher_code": 1}, ""),
    ],
)
def test_only_a_failure_of_the_machine_is_to_be_retried(
    exits: list[RankExit], changes: dict[str, object], retry: str
) -> None:
    record = judge(*exits, **changes)
    assert record.state is JobState.ERROR
    assert record.error is not None
    assert record.error.retry == retry, record.message
    assert RunExit.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize("cause", [LOSS_NOT_A_NUMBER, LOSS_DIVERGED])
def test_an_infinite_loss_is_not_retried(cause: str) -> None:
    error = RankError("The loss is not a number.", 1, "gpu2", cause=cause)
    record = judge(replace(make_exit(1, "error", "x"), error=error))
    assert record.error is not None
    assert record.error.retry == ""


def test_several_nodes_lost_at_once_are_all_named() -> None:
    record = judge(unreached_nodes=("gpu2", "gpu3", "gpu4"))
    assert record.message.startswith("gpu2, gpu3 and gpu4 do not answer over SSH")


def test_errors_of_the_cleanup_are_no_cause_of_the_end() -> None:
    noted = (
        "── after the end, gpu2: could not be cleaned up: ssh: connect to host 10.0.0.2 port "
        "22: No "
    )
    log = LogPart.from_text("mpirun.log", f"\x00{noted}route to host ──\n{noted}route to host ──")
    record = judge(mpirun_log=(log,), give_up_reason="mpirun did not end the other ranks.")
    assert record.error is not None
    assert record.error.cause == UNKNOWN


@pytest.mark.parametrize(
    "log",
    [
        # Open MPI 5.0.11
        "PRTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [prterun-node2-895@0,0] on node node2\n"
        "  Remote daemon: [prterun-node2-895@0,1] on node node3\n\nThis is usually due to\n",
        # Open MPI 4.1.4
        "ORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[51236,0],0] on node node2\n"
        "  Remote daemon: [[51236,0],2] on node node3\n\nThis is usually due to\n",
        # The same, of a node that was named by its address after -H
        "ORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[17439,0],0] on node node2\n"
        "  Remote daemon: [[17439,0],1] on node 10.0.0.2\n\nThis is usually due to\n",
    ],
)
def test_f08_the_node_that_mpirun_lost_is_named_by_the_name_that_people_gave_it(log: str) -> None:
    exits = tuple(
        replace(make_exit(n, "signal", "Ended together.", secondary=True), host=host)
        for n, host in enumerate(("node2", "node3"))
    )
    record = judge(*exits, launcher_log=log)
    assert record.message == "gpu2 no longer answers: the connection to it and its rank 1 was lost."
    assert record.error is not None
    assert record.error.node == "gpu2"


def test_a_run_whose_ranks_all_finished_is_finished_whatever_mpirun_returns() -> None:
    assert (
        judge(make_exit(1, "finished"), make_exit(0, "finished"), launcher_code=137).state
        is JobState.FINISHED
    )


def test_a_run_with_some_interrupted_ranks_is_stopped() -> None:
    record = judge(
        make_exit(0, "interrupted"),
        make_exit(1, "interrupted"),
        newest_checkpoint="epoch-0002-step-000020",
        checkpoint_of_run=True,
    )
    assert record.state is JobState.INTERRUPTED
    assert record.message == "Stopped. Saved at epoch 2, step 20."


def test_f22_the_outcome_names_the_user_who_stopped_a_run() -> None:
    stopped = tuple(make_exit(rank, "interrupted") for rank in (0, 1))
    name = "epoch-0002-step-000020"
    common_values = {"stopped_by": "ben", "newest_checkpoint": name}
    assert judge(*stopped, **common_values, checkpoint_of_run=True).message == (
        "Stopped by ben. Saved at epoch 2, step 20."
    )
    assert judge(*stopped, **common_values).message == "Stopped by ben before the first step."
    early_outcome = judge(**common_values, stop_was_requested=True, ended_early=True).message
    assert early_outcome == (
        "Stopped by ben before the first step of this run; "
        "the newest checkpoint is still epoch 2, step 20."
    )
    by_force = judge(**common_values, stop_was_requested=True, give_up_reason="It hung.").message
    assert by_force == (
        "Stopped by ben, by force, so no checkpoint could be made; "
        "the newest one is epoch 2, step 20. It hung."
    )


def test_a_paused_run_names_the_other_user_and_says_that_it_is_saved() -> None:
    stopped = tuple(make_exit(rank, "interrupted") for rank in (0, 1))
    pause = "Paused: alice uses GPU 2 on gpu03."
    common_values = {"pause": pause, "newest_checkpoint": "epoch-0002-step-000020"}
    outcome = judge(*stopped, **common_values, checkpoint_of_run=True)
    assert (outcome.message, outcome.pause) == (f"{pause} Saved at epoch 2, step 20.", pause)
    # A run that was faster, or failed meanwhile, does not wait.
    finished = tuple(make_exit(rank, "finished") for rank in (0, 1))
    assert judge(*finished, **common_values).pause == ""
    assert judge(make_exit(0, "error", "It failed."), **common_values).pause == ""


def test_m14_the_first_cause_wins_whatever_came_before_it_as_an_echo() -> None:
    record = judge(
        make_exit(0, "error", "Horovod has been shut down.", secondary=True),
        make_exit(1, "error", "KeyError: 'colour'"),
    )
    assert record.message == "Rank 1 on gpu2: KeyError: 'colour'"
    assert record.error == RankError("KeyError: 'colour'", 1, "gpu2")


def test_an_echo_is_shown_when_there_is_no_better_cause() -> None:
    echo = "Another rank has gone."
    record = judge(*(make_exit(rank, "error", echo, secondary=True) for rank in (0, 1)))
    assert record.message == "Rank 0 on this computer: Another rank has gone."


SERVED = (*RANKS, RankPlan(2, 1, "gpu2", "10.0.0.2"))


def of_rank(rank: int, message: str, secondary: bool = False, about: int | None = None) -> RankExit:
    outcome = "error" if secondary or about is not None else "signal"
    error = RankError(message, rank if about is None else about, SERVED[rank].node)
    return RankExit(rank, 1, "host", error.node, outcome, error=error, is_secondary=secondary)


KILLED = of_rank(1, "Rank 1 on gpu2 was killed by signal 9 (SIGKILL).")
ECHOES = tuple(of_rank(rank, "Another rank ended.", secondary=True) for rank in range(3))


@pytest.mark.parametrize(
    ("exits", "changes", "message"),
    [
        ([of_rank(0, "Rank 0 died."), ECHOES[2]], {}, "Rank 0 died."),
        ([of_rank(2, "Rank 2 died."), ECHOES[0]], {}, "Rank 2 died."),
        ([ECHOES[2], of_rank(0, "The loss of rank 2.", True, about=2)], {}, "The loss of rank 2."),
        ([ECHOES[0], ECHOES[2]], {"give_up_reason": "It stood still."}, "It stood still."),
        ([ECHOES[0], ECHOES[2]], {"end_signal": "SIGTERM"}, "The run was ended from outside"),
        ([ECHOES[0], ECHOES[2]], {"launcher_error": "The power failed."}, "The power failed."),
        ([ECHOES[2]], {}, "this computer was lost with its rank 0"),
        ([], {"ranks": SERVED[:2]}, "this computer was lost with its rank 0"),
        ([ECHOES[2], of_rank(0, "Rank 0 died."), of_rank(2, "Later.")], {}, "Rank 0 died."),
    ],
)
def test_a_worker_that_the_job_outlived_did_not_end_it(
    exits: list[RankExit], changes: dict[str, object], message: str
) -> None:
    values = {"ranks": SERVED, "expendable_ranks": frozenset({1, 2}), **changes}
    assert judge(KILLED, *exits, **values).message.startswith(message)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("SIGKILL", "killed"),
        ("SIGSEGV", "crash"),
        ("SIGABRT", "crash"),
        ("SIGBUS", "crash"),
        ("SIGFPE", "crash"),
        ("SIGTERM", "ended"),
        ("SIGUSR1", UNKNOWN),
    ],
)
def test_a_signal_says_what_to_do_where_the_log_says_nothing(name: str, cause: str) -> None:
    warning = "[W1128 06:00:00.1 socket.cpp:204] [c10d] The hostname of the client socket cannot"
    log = LogPart.from_text("rank-0.log", f"{warning} be retrieved. err=-3\n")
    killed = replace(make_exit(0, "signal", f"Rank 0 was killed ({name})."), signal=name)
    error = judge(killed, logs={0: (log,)}).error
    assert error is not None
    assert (error.cause, error.evidence) == (cause, ())
    assert bool(error.remedy) == (cause != UNKNOWN)
    assert error.message == f"Rank 0 was killed ({name})."


@pytest.mark.parametrize(
    "log",
    [
        # Open MPI 5.0.11
        "prterun noticed that process rank 1 with PID 3432 on node node2 exited on\n"
        "signal 9 (Killed).",
        # Open MPI 4.1.4
        "mpirun noticed that process rank 1 with PID 0 on node node2 exited on signal 9 (Killed).",
    ],
)
def test_a_rank_lost_with_its_guard_is_known_from_mpiruns_words(log: str) -> None:
    record = judge(
        make_exit(0, "signal", "Rank 0 on this computer was ended together.", secondary=True),
        launcher_log=log,
        launcher_code=14,
    )
    assert record.message == (
        "Rank 1 on gpu2 was lost: its guard was killed by signal 9 (SIGKILL)."
    )


PEER_GONE = """\
An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or
otherwise exiting without calling MPI_FINALIZE first).

  Local host: host2
  Local PID:  466
  Peer host:  host1
"""
ABORTS = [
    # Open MPI 5.0.11
    "[host2:00000] *** An error occurred in Socket closed\n"
    "[host2:00000] *** reported by process [2757951489,1]\n"
    "[host2:00000] *** on a NULL communicator\n",
    # Open MPI 4.1
    'mpirun has exited due to process rank 1 with PID 465 on node host2 calling\n"abort". This',
]


def left_with(code: int, rank: int) -> RankExit:
    message = f"Rank {rank} exited with code {code} in the model's step."
    return replace(make_exit(rank, "exit", message), host=f"host{rank + 1}", code=code)


def terminated(rank: int) -> RankExit:
    message = f"Rank {rank} was ended together with the others."
    record = make_exit(rank, "signal", message, secondary=True)
    return replace(record, host=f"host{rank + 1}", signal="SIGTERM")


@pytest.mark.parametrize("abort", ABORTS, ids=["5.0", "4.1"])
def test_a_rank_that_mpi_aborted_in_its_step_is_secondary_to_the_killed_one(
    abort: str,
) -> None:
    killed = make_exit(0, "signal", "Rank 0 on this computer was killed by signal 9 (SIGKILL).")
    record = judge(left_with(14, 1), killed, launcher_log=PEER_GONE + abort)
    assert record.message == "Rank 0 on this computer was killed by signal 9 (SIGKILL)."


def test_a_rank_that_left_by_itself_is_blamed_and_not_the_aborted_one() -> None:
    record = judge(left_with(14, 1), left_with(3, 0), launcher_log=PEER_GONE + ABORTS[0])
    assert record.message.startswith("Rank 0 exited with code 3")
    single_outcome = judge(left_with(14, 1), left_with(3, 0), launcher_log=ABORTS[0])
    assert single_outcome.message.startswith("Rank 1 exited with code 14"), "MPI found no rank gone"


@pytest.mark.parametrize("abort", ABORTS, ids=["5.0", "4.1"])
def test_a_terminated_rank_is_named_and_not_the_aborted_one(
    abort: str,
) -> None:
    log = PEER_GONE + abort
    lines = (LogPart.from_text("mpirun.log", log),)
    record = judge(left_with(14, 1), terminated(0), launcher_log=log, mpirun_log=lines)
    assert record.message == "Rank 0 on this computer was ended from outside (SIGTERM)."
    assert record.error is not None
    assert record.error.rank == 0


def test_ranks_that_the_supervisor_ended_were_not_ended_from_outside() -> None:
    give_up_message = "mpirun did not start rank 1 on gpu2 within 300 s."
    log = PEER_GONE + ABORTS[0]
    assert (
        judge(
            left_with(14, 1), terminated(0), launcher_log=log, give_up_reason=give_up_message
        ).message
        == give_up_message
    )


@pytest.mark.parametrize("cause", [LOSS_NOT_A_NUMBER, LOSS_DIVERGED, ""])
def test_a_sentence_on_the_loss_of_all_ranks_names_none(cause: str) -> None:
    message = "The loss became NaN at step 9 (epoch 2)."
    outcome = make_exit(1, "error")
    outcome = replace(outcome, error=RankError(message, 1, "gpu2", cause=cause))
    record = judge(outcome, make_exit(0, "error", "Another rank ended.", secondary=True))
    assert record.message == ("" if cause else "Rank 1 on gpu2: ") + message
    assert record.error is not None
    assert (record.error.cause, record.error.rank) == (cause, 1)


def test_neither_of_two_terminated_ranks_on_a_node_is_blamed() -> None:
    ranks = (*RANKS, RankPlan(2, 1, "gpu2", "10.0.0.2"))
    exits = (replace(terminated(1), host="host1"), replace(terminated(1), rank=2, host="host1"))
    log = PEER_GONE + ABORTS[0].replace(",1]", ",0]")
    record = judge(left_with(14, 0), *exits, ranks=ranks, launcher_log=log)
    assert record.message.startswith("One of ranks 1 and 2 on gpu2 was ended from outside")


def test_f10_a_signal_to_the_supervisor_is_the_cause_of_ranks_that_left_then() -> None:
    record = judge(left_with(14, 1), terminated(0), end_signal="SIGTERM")
    assert record.message == "The run was ended from outside: its supervisor got SIGTERM."
    own_outcome = judge(make_exit(1, "error", "KeyError: 'colour'"), end_signal="SIGTERM")
    assert own_outcome.message == "Rank 1 on gpu2: KeyError: 'colour'"


def test_a_stop_that_met_an_error_is_an_error() -> None:
    record = judge(make_exit(1, "error", "The disk is full."), stop_was_requested=True)
    assert record.state is JobState.ERROR
    killed = make_exit(1, "signal", "Rank 1 on gpu2 was killed by signal 9 (SIGKILL).")
    assert judge(killed, stop_was_requested=True).state is JobState.ERROR


PLAN = RANKS[1]


@pytest.mark.parametrize("phase", list(Phase))
def test_f13_code_0_is_the_end_only_after_the_last_phase(phase: Phase) -> None:
    outcome = rank_exit(PLAN, 1, "host", RankObservation(phase, EndCause.ITSELF, 0), ()).outcome
    expected = {Phase.FINISHED: "finished", Phase.INTERRUPTED: "interrupted"}
    assert outcome == expected.get(phase, "exit")


def test_f10_a_waiting_rank_that_mpi_ended_is_an_echo_of_the_lost_rank() -> None:
    observation = RankObservation(Phase.WAITING_FOR_OTHERS, EndCause.ITSELF, 14 << 8)
    record = rank_exit(PLAN, 1, "host", observation, ())
    assert (record.outcome, record.is_secondary) == ("exit", True)
    assert judge(record, launcher_error="The computer was restarted.").message == (
        "The computer was restarted."
    )


@pytest.mark.parametrize("status", [signal.SIGSEGV, signal.SIGKILL, 1 << 8])
def test_a_finished_rank_stays_finished_whatever_its_exit_status(status: int) -> None:
    observation = RankObservation(Phase.FINISHED, EndCause.ITSELF, int(status))
    assert rank_exit(PLAN, 1, "host", observation, ()).outcome == "finished"


def test_f16_a_waiting_rank_is_an_echo_of_the_rank_that_hangs() -> None:
    observation = RankObservation(
        Phase.WAITING_FOR_OTHERS, EndCause.STALL, signal.SIGKILL, stall_s=600
    )
    record = rank_exit(PLAN, 1, "host", observation, ())
    assert (record.outcome, record.is_secondary) == ("stalled", True)


@pytest.mark.parametrize(
    ("scheduler", "advice"),
    [
        (None, "ran out of memory; choose a smaller batch size"),
        (SCHEDULERS["slurm"], "Ask for more with the extra option --mem"),
    ],
)
def test_f19_the_error_of_a_rank_out_of_memory_says_what_to_try(
    scheduler: ClusterScheduler | None, advice: str
) -> None:
    observation = RankObservation(
        Phase.COMPUTING,
        EndCause.ITSELF,
        signal.SIGKILL,
        out_of_memory=True,
        scheduler=scheduler,
    )
    record = rank_exit(PLAN, 1, "host", observation, ())
    assert record.error is not None
    assert advice in record.error.message


def test_a_rank_may_report_the_error_of_another_one() -> None:
    error = RankError("The loss of rank 0 is not a number.", 0)
    observation = RankObservation(
        Phase.COMPUTING, EndCause.ITSELF, 1 << 8, error=error, error_is_secondary=True
    )
    record = rank_exit(PLAN, 1, "host", observation, ())
    assert record.error is not None
    assert (record.error.rank, record.is_secondary) == (0, True)


DUMP = """\
Thread 0x00007f1 (most recent call first):
  File "/models/m/src/bks_model.py", line 99 in other_thread
Current thread 0x00007f2 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/models/m/src/parts/deep.py", line 7 in attention
  File "/models/m/src/bks_model.py", line 12 in forward
  File "/code/backend/training/loop.py", line 300 in _step
"""


def test_the_innermost_line_of_the_users_code_is_named_as_seen_from_its_folder() -> None:
    assert innermost_user_line(DUMP, ("/models/m/src",)) == "parts/deep.py, line 7, in attention"


def test_code_of_the_user_elsewhere_is_found_and_libraries_are_not_blamed() -> None:
    other_dump = DUMP.replace("/models/m/src", "/home/me/shared")
    assert innermost_user_line(other_dump, ("/models/m/src",)) == "deep.py, line 7, in attention"
    library = "Current thread 0x1 (most recent call first):\n" + (
        '  File "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 1 in forward'
    )
    assert innermost_user_line(library, ("/models/m/src",)) == ""


@given(st.text())
def test_no_dump_is_too_odd_to_be_read(text: str) -> None:
    threads(text)
    innermost_user_line(DUMP[: len(text)] + text, ("/models/m/src", ""))


# What the logs add to it.


def judged_error(exit: RankExit, log: str) -> RankError:
    parts = (LogPart.from_text("rank-1.log", log),)
    error = judge(exit, logs={1: parts}).error
    assert error is not None
    return error


def test_a_code_without_a_reason_yields_to_the_reason_in_the_log() -> None:
    exit_record = make_exit(1, "exit", "Rank 1 on gpu2 exited with code 1 in training.")
    record = judge(
        exit_record,
        logs={
            1: (LogPart.from_text("rank-1.log", "x\nRuntimeError: CUDA out of memory. Tried\n"),)
        },
    )
    assert record.message == "Rank 1 on gpu2: Out of GPU memory."
    assert record.error is not None
    assert (record.error.cause, record.error.evidence[0].location) == ("gpu_memory", "rank-1.log:2")
    assert "batch size" in record.error.remedy
    assert RunExit.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize(
    ("changes", "keeps_message"),
    [
        # mpirun says so itself, in words that elsewhere mean that the reason is unknown.
        ({"give_up_reason": "mpirun was ended: rank 1 disappeared before any rank."}, True),
        ({"launcher_code": 1}, False),
    ],
)
def test_a_sentence_yields_to_the_logs_by_its_cause_and_not_by_its_words(
    changes: dict[str, object], keeps_message: bool
) -> None:
    mpirun = (
        LogPart.from_text("mpirun.log", "ssh: connect to host gpu2 port 22: No route to host\n"),
    )
    error = judge(mpirun_log=mpirun, **changes).error
    assert error is not None
    assert error.cause == "ssh_unreachable"
    assert error.message == (
        str(changes["give_up_reason"])
        if keeps_message
        else "gpu2 did not answer SSH (No route to host)."
    )


def test_a_code_without_a_known_reason_shows_the_last_lines() -> None:
    error = judged_error(
        make_exit(1, "exit", "Rank 1 on gpu2 exited with code 7 in training."), "a\nb\n"
    )
    assert error.message == (
        "Rank 1 on gpu2 exited with code 7 in training; the last line of its log is “b”."
    )
    assert (error.cause, error.remedy) == ("unknown", "")
    assert [line.text for line in error.evidence] == ["a", "b"]


def test_a_sentence_of_the_programs_own_stays_and_gets_its_lines() -> None:
    trace = 'Traceback:\n  File "/m/model.py", line 3, in f\n'
    trace += "torch.OutOfMemoryError: CUDA out of memory."
    own_error = replace(
        make_exit(1, "error", "Out of GPU memory. Try batch size 8 instead of 16."),
        error=RankError("Out of GPU memory. Try batch size 8 instead of 16.", 1, "gpu2", trace),
    )
    error = judged_error(own_error, trace)
    assert error.message == "Out of GPU memory. Try batch size 8 instead of 16."
    assert (error.cause, [line.line for line in error.evidence]) == ("gpu_memory", [2, 3])


@pytest.mark.parametrize(
    "cause",
    [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 3x2)",
        "RuntimeError: stack expects each tensor to be equal size, but got [3] and [4]",
        "RuntimeError: expected scalar type Float but found Double",
        "RuntimeError: Trying to backward through the graph a second time",
        "ModuleNotFoundError: No module named 'timm'",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "OSError: [Errno 28] No space left on device",
        "ValueError: too few samples",
    ],
)
def test_the_remedy_of_a_sentence_of_ours_is_the_only_one(cause: str) -> None:
    kind, _, text = cause.partition(": ")
    try:
        try:
            raise {"OSError": OSError, "ValueError": ValueError}.get(kind, RuntimeError)(text)
        except Exception as error:
            raise BackendError("The batch cannot be made.", "Ask for less.") from error
    except BackendError as error:
        record = make_record(error, rank=0, node="gpu1", batch=None, batch_size=8)
    error = RankError.from_dict(record)
    assert error.traceback
    outcome = judged_error(RankExit(0, 1, "host", "gpu1", "error", error=error), error.traceback)
    assert (outcome.message, outcome.remedy) == ("The batch cannot be made. Ask for less.", "")
    assert outcome.evidence


def test_a_quoted_exception_is_explained() -> None:
    text = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    trace = f'Traceback:\n  File "/m/model.py", line 3, in f\n{text}'
    exception_exit = replace(
        make_exit(1, "error", f"{text}, in the model's step."),
        error=RankError(f"{text}, in the model's step.", 1, "gpu2", trace),
    )
    assert judged_error(exception_exit, trace).message == (
        "The installed PyTorch does not support this GPU model."
    )


def test_the_log_of_a_hanging_rank_is_not_its_cause() -> None:
    still = make_exit(1, "stalled", "Rank 1 on gpu2 made no progress for 60 s in training.")
    error = judged_error(still, "RuntimeError: CUDA out of memory.\n")
    assert (error.message, error.cause) == (
        "Rank 1 on gpu2 made no progress for 60 s in training.",
        "",
    )


SEMAPHORE = (
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/multiprocessing/synchronize.py", line 57, in __init__\n'
    "    sl = self._semlock = _multiprocessing.SemLock(\n"
    "OSError: [Errno 28] No space left on device\n"
)
PIN_MEMORY = (
    "Exception in thread Thread-4 (_pin_memory_loop):\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/multiprocessing/resource_sharer.py", line 58, in detach\n'
    "    return reduction.recv_handle(conn)\n"
    "OSError: [Errno 24] Too many open files\n"
)


@pytest.mark.parametrize(
    ("outcome", "log", "cause", "says"),
    [
        (
            "error",
            "RuntimeError: unable to allocate shared memory(shm) for file </torch_7_4_0>: "
            "No space left on device (28)",
            "shm_full",
            "On gpu2 it has 8.4 MB.",
        ),
        ("error", SEMAPHORE, "shm_full", "On gpu2 it has 8.4 MB."),
        ("exit", SEMAPHORE, "shm_full", "On gpu2 it has 8.4 MB."),
        (
            "exit",
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory.\n",
            "shm_full",
            "On gpu2 it has 8.4 MB.",
        ),
        (
            "error",
            "RuntimeError: received 0 items of ancdata",
            "open_files",
            "The limit on gpu2 is 256.",
        ),
        (
            "exit",
            "OSError: [Errno 24] Too many open files: '/data/a.npy'\n",
            "open_files",
            "The limit on gpu2 is 256.",
        ),
        ("stalled", PIN_MEMORY, "open_files", "The limit on gpu2 is 256."),
        (
            "error",
            "OSError: [Errno 28] No space left on device: '/lab/ring/x.pt'",
            "disk_full",
            "The disk that holds /lab/ring/x.pt is full.",
        ),
    ],
)
def test_a_limit_of_the_node_is_named_with_its_size_and_its_cures(
    outcome: str, log: str, cause: str, says: str
) -> None:
    exit_record = replace(
        make_exit(1, outcome, "Rank 1 on gpu2 made no progress for 60 s in training."),
        open_files=256,
        shared_memory_bytes=8 * 2**20,
    )
    if outcome == "error":
        message = f"{log.strip().splitlines()[-1]}, while the loader made a batch."
        trace = log if "\n" in log else f'Traceback:\n  File "/m/a.py", line 3, in f\n{log}'
        exit_record = replace(exit_record, error=RankError(message, 1, "gpu2", trace))
    error = judged_error(exit_record, log)
    assert error.cause == cause
    assert says in error.message
    if cause != "disk_full":
        assert "fewer loader workers" in error.remedy
        assert ("/dev/shm" if cause == "shm_full" else "nofile") in error.remedy


def test_logs_of_other_ranks_do_not_explain_the_first_failure() -> None:
    killed = make_exit(1, "signal", "Rank 1 on gpu2 was killed by signal 9 (SIGKILL) in training.")
    killed = replace(killed, signal="SIGKILL")
    other_logs = {
        0: (LogPart.from_text("rank-0.log", "RuntimeError: CUDA out of memory.\n"),),
        1: (LogPart.from_text("rank-1.log", "epoch 1\nConnection reset by peer\n"),),
    }
    mpirun = (LogPart.from_text("mpirun.log", "Horovod has been shut down. This was caused by\n"),)
    error = judge(killed, logs=other_logs, mpirun_log=mpirun).error
    assert error is not None
    assert error.message == "Rank 1 on gpu2 was killed by signal 9 (SIGKILL) in training."
    assert (error.cause, error.rank, error.evidence) == ("killed", 1, ())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_echo", [True, False])
def test_the_rank_whose_log_has_the_cause_is_named_whichever_ended_first(
    order: tuple[int, int], is_echo: bool
) -> None:
    logs = {
        0: "BrokenPipeError: [Errno 32] Broken pipe\n",
        1: 'Traceback (most recent call last):\n  File "/m/a.py", line 3, in f\nKeyError: 7\n',
    }
    exits = [
        make_exit(rank, "exit", f"Rank {rank} exited with code 1.", is_echo and rank == 0)
        for rank in order
    ]
    parts = {rank: (LogPart.from_text(f"rank-{rank}.log", text),) for rank, text in logs.items()}
    record = judge(*exits, runs_script=True, logs=parts)
    assert record.message == (
        "Rank 1 on gpu2: The program's code raised KeyError: 7, at a.py, line 3."
    )
    assert record.error is not None
    assert (record.error.node, record.error.retry) == ("gpu2", "")


def test_a_rank_that_the_job_can_lose_is_not_the_cause_of_another_ones_end() -> None:
    logs = {0: "BrokenPipeError: [Errno 32] Broken pipe\n", 1: "CUDA out of memory.\n"}
    parts = {rank: (LogPart.from_text(f"rank-{rank}.log", text),) for rank, text in logs.items()}
    exit_record = make_exit(0, "exit", "Rank 0 exited with code 1.")
    error = judge(exit_record, logs=parts, expendable_ranks=frozenset({1}), launcher_code=1).error
    assert error is not None
    assert (error.rank, error.cause) == (0, UNKNOWN)


def test_a_script_that_aborts_after_its_last_line_finishes_with_a_word() -> None:
    late_exit = replace(make_exit(1, "finished"), signal="SIGABRT")
    record = judge(make_exit(0, "finished"), late_exit, runs_script=True)
    assert (record.state, record.error) == (JobState.FINISHED, None)
    assert record.message.startswith("Rank 1 on gpu2 aborted after the script's last line")
    assert "torch.distributed.destroy_process_group()" in record.message
    assert not judge(make_exit(0, "finished"), make_exit(1, "finished"), runs_script=True).message


@pytest.mark.parametrize(
    ("exits", "changes", "state"),
    [
        (["interrupted", "together"], {}, JobState.INTERRUPTED),
        (["together", "interrupted"], {}, JobState.INTERRUPTED),
        (["finished", "together"], {}, JobState.INTERRUPTED),
        (["together", "together"], {}, JobState.ERROR),
        (["interrupted", "killed"], {}, JobState.ERROR),
        (["interrupted"], {}, JobState.ERROR),
        (["interrupted", "together"], {"stop_was_requested": False}, JobState.ERROR),
        (["interrupted", "together"], {"runs_script": False}, JobState.ERROR),
    ],
)
def test_processes_that_mpirun_ended_during_the_stop_of_a_script_were_stopped(
    exits: list[str], changes: dict[str, object], state: JobState
) -> None:
    def record(rank: int, end_kind: str) -> RankExit:
        if end_kind in ("together", "killed"):
            return make_exit(rank, "signal", "Ended.", secondary=end_kind == "together")
        return make_exit(rank, end_kind)

    outcome = [record(rank, end_kind) for rank, end_kind in enumerate(exits)]
    changes = {"runs_script": True, "stop_was_requested": True, **changes}
    assert judge(*outcome, **changes).state is state


@pytest.mark.parametrize("nodes", [("gpu2",), ("gpu2", "gpu3")])
def test_a_node_that_stood_still_is_named_and_the_run_is_tried_again(
    nodes: tuple[str, ...],
) -> None:
    echoes = (make_exit(0, "signal", "Ended together.", secondary=True), left_with(14, 1))
    secondary_exits = [replace(echo, is_secondary=True) for echo in echoes]
    record = judge(*secondary_exits, silent_nodes=nodes, unreached_nodes=nodes, launcher_code=137)
    names = " and ".join(nodes)
    assert record.message == f"{names} gave no sign of life: no heartbeat, and no answer over SSH."
    assert record.error is not None
    assert (record.error.node, record.error.retry) == ("gpu2", "always")
    assert "console of gpu2" in record.error.remedy


def test_a_rank_that_failed_before_its_node_stood_still_stays_the_cause() -> None:
    record = judge(left_with(7, 1), silent_nodes=("gpu2",))
    assert "exited with code 7" in record.message


REMEDIES_TO_RESUME = sorted(
    {rule.remedy for rule in load("rule") if re.search(r"\b[Rr]esume\b", rule.remedy)}
)


@pytest.mark.parametrize("remedy", REMEDIES_TO_RESUME)
@pytest.mark.parametrize("can_resume", [True, False])
def test_no_remedy_says_resume_to_a_job_that_cannot(remedy: str, can_resume: bool) -> None:
    error = RankError("Rank 0 failed.", 0, "this-computer", remedy=remedy)
    record = judge(
        replace(make_exit(0, "error"), error=error), make_exit(1, "error"), can_resume=can_resume
    )
    assert record.error is not None
    if can_resume:
        assert record.error.remedy == remedy
        return
    # A script that loads another checkpoint resumes by its own code.
    assert not re.search(r"\b[Rr]esume\b(?! (?:from (?:an?|the)|with) )", record.error.remedy)
    is_about_this_job = re.search(r"\b[Rr]esume\b(?! (?:from an?|with)\b)", remedy)
    assert ("tart the job over" in record.error.remedy) == bool(is_about_this_job)
    assert not re.search(r"start the job over (?:the job|it|from)", record.error.remedy)
