"""Status and exit records: JSON that another process wrote, believed only as far as it goes."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.state import JobState
from backend.records.jobs.status import (
    STATUS_SCHEMA,
    ProcessIdentity,
    RankError,
    RankExit,
    RunExit,
    RunStatus,
)

TEXT = st.text(st.characters(codec="utf-8"))
COUNT = st.integers(0, 2**53)
ERRORS = st.none() | st.builds(
    RankError, sentence=TEXT, rank=st.none() | COUNT, node=TEXT, traceback=TEXT
)
STATES = st.sampled_from(JobState)


def through_json(raw: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(raw, allow_nan=False))
    return read


@given(
    st.builds(
        RunStatus,
        state=STATES,
        run=COUNT,
        epoch=COUNT,
        epochs=COUNT,
        step=COUNT,
        total_steps=COUNT,
        steps_per_epoch=COUNT,
        world_size=COUNT,
        metrics=st.dictionaries(TEXT, st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        message=TEXT,
        error=ERRORS,
        heartbeat=COUNT,
        samples_per_second=st.none() | st.floats(0, 1e9),
        eta_s=st.none() | st.floats(0, 1e9),
        rank_step_ms=st.lists(st.floats(0, 1e6)).map(tuple),
        slow_ranks=st.lists(st.integers(0, 99)).map(tuple),
        started=TEXT,
        updated=TEXT,
        earlier_gpu_s=st.none() | st.floats(0, 1e9),
        earlier_energy_j=st.none() | st.floats(0, 1e12),
        gpus=COUNT,
        energy_j=st.none() | st.floats(0, 1e12),
    )
)
def test_a_status_comes_back_from_json_as_it_was(status: RunStatus) -> None:
    assert RunStatus.from_dict(through_json(status.to_dict())) == status
    assert 0 <= status.progress <= 1


def test_energy_is_that_of_all_runs_or_not_known() -> None:
    status = RunStatus(JobState.TRAINING, run=2, earlier_energy_j=1000.0)
    ended = RunExit(2, JobState.FINISHED, "", energy_j=500.0)
    assert status.total_energy_j is None, "of a run that goes on nobody knows it"
    assert status.ended_as(ended).total_energy_j == 1500.0
    assert RunExit.from_dict(through_json(ended.to_dict())) == ended
    older = RunStatus(JobState.TRAINING, run=2)
    assert older.ended_as(ended).total_energy_j is None


def test_a_metric_that_is_no_number_is_written_as_null() -> None:
    status = RunStatus(JobState.TRAINING, metrics={"loss": math.nan, "gain": math.inf, "ok": 1.0})
    assert through_json(status.to_dict())["metrics"] == {"loss": None, "gain": None, "ok": 1.0}


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_f35_no_value_anywhere_is_worse_than_a_value_error(key: str, value: Any) -> None:
    with contextlib.suppress(ValueError):
        RunStatus.from_dict({**GOOD, key: value})


@given(
    st.builds(
        RunExit,
        run=COUNT,
        state=STATES,
        message=TEXT,
        error=ERRORS,
        mpirun_code=st.none() | st.integers(0, 255),
        leftovers=st.lists(COUNT).map(tuple),
        ended=TEXT,
    ),
    st.builds(
        RankExit,
        rank=COUNT,
        run=COUNT,
        host=TEXT,
        node=TEXT,
        outcome=TEXT,
        code=st.none() | COUNT,
        signal=TEXT,
        error=ERRORS,
        secondary=st.booleans(),
    ),
    st.builds(ProcessIdentity, host=TEXT, boot_id=TEXT, pid=COUNT, start_ticks=COUNT),
)
def test_exit_records_come_back_from_json_as_they_were(
    run: RunExit, rank: RankExit, process: ProcessIdentity
) -> None:
    assert RunExit.from_dict(through_json(run.to_dict())) == run
    assert RankExit.from_dict(through_json(rank.to_dict())) == rank
    assert ProcessIdentity.from_dict(through_json(process.to_dict())) == process
