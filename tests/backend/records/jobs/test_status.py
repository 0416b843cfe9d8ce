"""Status and exit records: JSON of another process, believed only where it is valid."""

from __future__ import annotations

import math
from typing import Any

import pytest

from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    STATUS_SCHEMA,
    RunExit,
    RunStatus,
)


def test_energy_is_that_of_all_runs_or_not_known() -> None:
    status = RunStatus(JobState.TRAINING, run=2, earlier_energy_j=1000.0)
    run_exit = RunExit(2, JobState.FINISHED, "", energy_j=500.0)
    assert status.total_energy_j is None, "it is unknown while a run continues"
    assert status.with_exit(run_exit).total_energy_j == 1500.0
    older = RunStatus(JobState.TRAINING, run=2)
    assert older.with_exit(run_exit).total_energy_j is None


@pytest.mark.parametrize(
    ("started", "end_time", "took_s", "expected_start", "expected_end"),
    [
        ("05:40:00", "05:50:00", 600.0, "05:40:00.000", "05:50:00"),
        ("05:40:00", "04:41:00", 60.0, "04:40:00.000", "04:41:00"),
        ("05:40:00", "07:41:00", 60.0, "07:40:00.000", "07:41:00"),
        ("05:40:00", "04:41:00", None, "05:40:00", "05:45:00"),
        ("05:40:00", "05:50:00", None, "05:40:00", "05:50:00"),
        ("", "05:50:00", 600.0, "05:40:00.000", "05:50:00"),
        ("05:40:00", "", None, "05:40:00", "05:45:00"),
    ],
)
def test_a_run_took_as_long_as_was_measured(
    started, end_time, took_s, expected_start, expected_end
) -> None:
    def stamp_of(time: str) -> str:
        return time and f"2026-11-24T{time}Z"

    status = RunStatus(
        JobState.TRAINING, run=1, started_at=stamp_of(started), updated_at=stamp_of("05:45:00")
    )
    record = RunExit(1, JobState.FINISHED, "", ended_at=stamp_of(end_time), took_s=took_s)
    final_status = status.with_exit(RunExit.from_dict(record.to_dict()))
    assert (final_status.started_at, final_status.updated_at) == (
        stamp_of(expected_start),
        stamp_of(expected_end),
    )
    assert final_status.with_exit(record) == final_status


GOOD = RunStatus(JobState.TRAINING).to_dict()


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {**GOOD, "schema": STATUS_SCHEMA + 1},
        {**GOOD, "schema": None},
        {**GOOD, "state": "DANCING"},
        {**GOOD, "step": None},
        {**GOOD, "step": "many"},
        {**GOOD, "step": math.inf},
        {**GOOD, "error": {"rank": -math.inf}},
        {**GOOD, "metrics": 3},
        {**GOOD, "metrics": {"loss": "low"}},
        {**GOOD, "error": "broken"},
        {**GOOD, "rank_step_ms": 3},
        {**GOOD, "slow_ranks": "x"},
        *({k: v for k, v in GOOD.items() if k != key} for key in ("state", "run", "heartbeat")),
    ],
)
def test_f35_a_status_of_another_shape_is_a_value_error(raw: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        RunStatus.from_dict(raw)


@pytest.mark.parametrize(("step", "total", "share"), [(5, 20, 0.25), (30, 20, 1.0), (5, 0, 0.0)])
def test_progress_is_a_share_from_0_to_1(step: int, total: int, share: float) -> None:
    assert RunStatus(JobState.TRAINING, step=step, total_steps=total).progress == share
