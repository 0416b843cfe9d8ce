"""The end of a run whose supervisor is gone: what the records of its ranks say about the cause."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from backend.node.run.finalize import close_run
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import JobFolder
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RankError, RankExit, RunExit, RunStatus, UnrecordedEnd
from tests.backend.node.queue.test_retry import make_launch

REBOOTED, SUPERVISOR_ENDED = UnrecordedEnd.REBOOTED.message, UnrecordedEnd.SUPERVISOR_GONE.message
LOST_HEAD = "gpu01 no longer answers, and led the run."
LAST_STATUS_S = 1_000_000_000


def closed(folder: JobFolder, record: RankExit, written_s: float, reason: str) -> RunExit:
    """Close a run of three nodes, of which one rank left a record at this time."""
    attempt = folder.attempt(1)
    attempt.path.mkdir(parents=True)
    replace_json(folder.launch, make_launch(folder.path).to_dict())
    status = RunStatus(JobState.TRAINING, run=1, step=9, heartbeat=3)
    replace_json(folder.status, status.to_dict())
    replace_json(attempt.rank_exit(record.rank), record.to_dict())
    for path, time_s in (
        (folder.status, LAST_STATUS_S),
        (attempt.rank_exit(record.rank), written_s),
    ):
        os.utime(path, (time_s, time_s))
    close_run(folder, 1, reason, status, is_of_machine=True)
    return RunExit.from_dict(read_json(attempt.exit))


@pytest.mark.parametrize("reason", [REBOOTED, SUPERVISOR_ENDED, LOST_HEAD])
@pytest.mark.parametrize(
    ("node", "rank", "outcome", "late_s", "is_cause"),
    [
        ("gpu02", 2, "exit", 5.0, False),
        ("gpu03", 4, "exit", 0.5, False),
        ("gpu03", 5, "signal", 900.0, False),
        ("gpu02", 3, "error", 60.0, False),
        ("gpu02", 2, "stalled", 660.0, False),
        # It failed while rank 0 was at work, or next to it.
        ("gpu02", 2, "exit", -1.0, True),
        ("gpu03", 4, "error", -0.1, True),
        ("gpu03", 5, "signal", -30.0, True),
        ("gpu01", 0, "error", 0.1, True),
        ("gpu01", 1, "exit", 0.1, True),
    ],
)
def test_a_rank_that_ended_after_the_loss_of_the_head_is_not_its_cause(
    tmp_path: Path, reason: str, node: str, rank: int, outcome: str, late_s: float, is_cause: bool
) -> None:
    message = f"Rank {rank} on {node} exited with code 14 in the model's step."
    record = RankExit(rank, 1, node, node, outcome, 14, error=RankError(message, rank, node))

    run_exit = closed(JobFolder(tmp_path), record, LAST_STATUS_S + late_s, reason)

    assert run_exit.error is not None
    assert (run_exit.message, run_exit.error.node) == (
        (message, node) if is_cause else (reason, "gpu01")
    )


def test_an_echo_that_its_rank_knew_stays_one(tmp_path: Path) -> None:
    record = RankExit(2, 1, "gpu02", "gpu02", "exit", 14, error=RankError("x", 2, "gpu02"))
    run_exit = closed(
        JobFolder(tmp_path), replace(record, is_secondary=True), LAST_STATUS_S - 9, SUPERVISOR_ENDED
    )
    assert run_exit.message == SUPERVISOR_ENDED
