"""Causes of a slow job: one cause is named with its evidence, and none for healthy steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.records.jobs.slow_cause import Cause, SlowCause
from backend.records.jobs.status import RunStatus
from backend.training import step_times
from backend.training.step_times import STEPS, CpuWait, RankStep, StepBreakdown, thread_wait_ms
from tests.backend.training.training_rig import LOADER, MODEL, new_training

MS = st.floats(0, 1e4)
PARTS = st.builds(RankStep, MS, MS, MS, MS)
RANDOM = st.integers(0, 2**32).map(Random)
HEALTHY = RankStep(2.0, 100.0, 5.0, 1.0)
SLOW: dict[str, Callable[[int], list[RankStep]]] = {
    "data": lambda rank: waiting_step(rank, HEALTHY._replace(data_ms=200.0)),
    "compute": lambda rank: waiting_step(rank, HEALTHY._replace(compute_ms=200.0, cpu_wait_ms=2.0)),
    "cpu": lambda rank: waiting_step(rank, HEALTHY._replace(compute_ms=200.0, cpu_wait_ms=99.0)),
    "communication": lambda rank: [HEALTHY._replace(exchange_ms=60.0)] * 3,
}


def waiting_step(rank: int, slow_step: RankStep, size: int = 3) -> list[RankStep]:
    """Return a step in which a slow rank is the last, and the others wait in their exchange."""
    extra_ms = slow_step.data_ms + slow_step.compute_ms - HEALTHY.data_ms - HEALTHY.compute_ms
    waiting_rank = HEALTHY._replace(exchange_ms=HEALTHY.exchange_ms + extra_ms)
    return [slow_step if number == rank else waiting_rank for number in range(size)]


def noisy_step(step: Sequence[RankStep], random: Random) -> list[RankStep]:
    return [
        RankStep(*(part * random.uniform(0.9, 1.1) for part in rank_step)) for rank_step in step
    ]


def cause_of(steps: Sequence[Sequence[RankStep]], *, times_exchange: bool = True) -> object:
    breakdown = StepBreakdown(times_exchange=times_exchange)
    breakdown.add_steps(steps)
    return breakdown.cause()


@settings(max_examples=40)
@given(st.sampled_from(list(SLOW)), st.integers(0, 2), RANDOM)
def test_each_cause_is_distinguished_from_the_others(name: str, rank: int, random: Random) -> None:
    steps = [noisy_step(SLOW[name](rank), random) for _ in range(STEPS)]
    for number in random.sample(range(STEPS // 10), 1):
        # Once all wait for a disk.
        steps[10 * number] = [
            rank_step._replace(compute_ms=3000.0) for rank_step in steps[10 * number]
        ]
    assert cause_of(steps[:-10]) is None, "there are not 100 steps yet"
    cause = cause_of(steps)
    assert isinstance(cause, SlowCause)
    assert cause.cause.value == name
    assert cause.rank == (None if name == "communication" else rank)


@settings(max_examples=40)
@given(RANDOM)
def test_nothing_is_said_of_a_healthy_step(random: Random) -> None:
    assert cause_of([noisy_step([HEALTHY] * 3, random) for _ in range(2 * STEPS)]) is None


@pytest.mark.parametrize("turn_steps", [7, 10])
def test_ranks_that_take_turns_at_being_the_slower_one_are_no_cause(turn_steps: int) -> None:
    steps = [
        waiting_step(number // turn_steps % 3, HEALTHY._replace(compute_ms=160.0))
        for number in range(99)
    ]
    assert cause_of([*steps, steps[0]]) is None


def test_a_loader_that_delivers_in_bursts_is_named() -> None:
    slow_step, healthy_step = SLOW["data"](1), [HEALTHY] * 3
    cause = cause_of([slow_step if number % 4 == 0 else healthy_step for number in range(STEPS)])
    assert cause == SlowCause(Cause.DATA, 1, 51.5, 156.5, 2.0)


def test_a_loader_that_is_slow_on_every_rank_is_named() -> None:
    cause = cause_of([[HEALTHY._replace(data_ms=80.0)] * 2] * STEPS)
    assert cause == SlowCause(Cause.DATA, None, 80.0, 185.0)


def test_the_cause_that_costs_most_is_named() -> None:
    step = [
        rank_step._replace(exchange_ms=rank_step.exchange_ms + 90) for rank_step in SLOW["data"](1)
    ]
    assert isinstance(cause := cause_of([step] * STEPS), SlowCause)
    assert (cause.cause, cause.rank) == (Cause.DATA, 1)
    step = [
        rank_step._replace(exchange_ms=rank_step.exchange_ms + 400) for rank_step in SLOW["data"](1)
    ]
    assert isinstance(cause := cause_of([step] * STEPS), SlowCause)
    assert (cause.cause, cause.rank) == (Cause.COMMUNICATION, None)


def test_a_gpu_s_exchange_is_not_called_communication_because_it_contains_computing() -> None:
    steps = [[HEALTHY._replace(exchange_ms=900.0)] * 2] * STEPS
    assert cause_of(steps, times_exchange=False) is None
    breakdown = StepBreakdown(times_exchange=False)
    breakdown.add_steps(steps)
    times = breakdown.times()
    assert times is not None
    assert (times.compute_ms, times.waiting_ms) == ((1000.0, 1000.0), (0.0, 0.0))
    assert times.communication_ms is None
    cause = cause_of([SLOW["data"](1)] * STEPS, times_exchange=False)
    assert isinstance(cause, SlowCause)
    assert cause.cause is Cause.DATA


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), min_size=10, max_size=10))
def test_the_parts_of_each_rank_add_up_to_its_step_and_one_rank_waits_for_none(
    steps: list[tuple[RankStep, ...]],
) -> None:
    breakdown = StepBreakdown()
    breakdown.add_steps(steps)
    times = breakdown.times()
    assert times is not None
    assert times.communication_ms is not None
    assert all(wait >= 0 for wait in times.waiting_ms)
    for rank in range(3):
        parts = times.data_ms[rank] + times.compute_ms[rank] + times.waiting_ms[rank]
        step_ms = sum(sum(step[rank][:3]) for step in steps) / len(steps)
        assert parts + times.communication_ms == pytest.approx(step_ms, abs=0.01)
    # In each step one rank came last, and its exchange is all communication.
    breakdown = StepBreakdown()
    breakdown.add_steps(
        [[last_rank._replace(exchange_ms=0.0), *other_ranks] for last_rank, *other_ranks in steps]
    )
    times = breakdown.times()
    assert times is not None
    assert (times.waiting_ms[0], times.communication_ms) == (0.0, 0.0)


def test_the_wait_for_a_core_is_measured_in_every_eighth_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = iter((500.0, 504.0, 600.0, 607.0))
    monkeypatch.setattr(step_times, "thread_wait_ms", lambda: next(figures))
    monkeypatch.setattr(step_times, "other_threads_ms", lambda: 3.0)
    wait, waits_ms = CpuWait(), []
    for _ in range(10):
        wait.begin_step()
        waits_ms.append(wait.end_step())
    assert waits_ms == [4.0] * 8 + [7.0] * 2


@pytest.mark.parametrize(
    ("cores", "threads", "others_ms", "expected_ms"),
    [
        (1, 1, 0.0, 50.0),
        (1, 1, 50.0, 0.0),
        (1, 1, 30.0, 20.0),
        (2, 1, 60.0, 20.0),
        (2, 1, 400.0, 0.0),
        (4, 4, 300.0, 50.0),
    ],
)
def test_a_core_that_a_thread_of_its_own_has_is_not_one_of_other_programs(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int, others_ms: float, expected_ms: float
) -> None:
    waits_ms, other_threads = iter((500.0, 550.0)), iter((10.0, 10.0 + others_ms))
    monkeypatch.setattr(step_times, "thread_wait_ms", lambda: next(waits_ms))
    monkeypatch.setattr(step_times, "other_threads_ms", lambda: next(other_threads))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    wait = CpuWait(threads)
    wait.begin_step()
    assert wait.end_step() == expected_ms


SHARED = SlowCause(Cause.CPU, None, 264.0, 264.0, 264.0 / 3)


@pytest.mark.parametrize(
    ("nodes", "exchange_ms", "waits_ms", "expected_cause"),
    [
        (1, 88.0, (116.0, 116.0), Cause.CPU),
        (1, 88.0, (0.0, 0.0), None),
        (1, 88.0, (40.0, 40.0), None),
        (1, 180.0, (0.0, 0.0), Cause.COMMUNICATION),
        (2, 88.0, (116.0, 116.0), Cause.CPU),
        (2, 88.0, (0.0, 0.0), Cause.COMMUNICATION),
        (2, 88.0, (0.0, 80.0), None),
        (2, 600.0, (120.0, 120.0), Cause.CPU),
        (2, 8.0, (5.0, 5.0), None),
    ],
)
def test_communication_is_not_named_where_other_programs_have_the_cores(
    nodes: int, exchange_ms: float, waits_ms: tuple[float, float], expected_cause: Cause | None
) -> None:
    breakdown = StepBreakdown(nodes=nodes)
    steps = [RankStep(2.0, 174.0, exchange_ms, wait) for wait in waits_ms]
    breakdown.add_steps([steps] * STEPS)
    cause = breakdown.cause()
    assert (cause.cause if cause is not None else None) is expected_cause
    if expected_cause is not None:
        assert cause is not None
        assert cause.rank is None
        if expected_cause is Cause.CPU:
            assert cause.message("", nodes).startswith("Processes share their cores with other")
            assert cause.ms / cause.usual_ms == pytest.approx(174.0 / (174.0 - waits_ms[0]))


@settings(max_examples=40)
@given(st.lists(PARTS, min_size=2, max_size=4), st.floats(0.21, 1.0), RANDOM)
def test_no_step_that_shares_its_cores_is_blamed_on_the_network(
    ranks: list[RankStep], share: float, random: Random
) -> None:
    busy = random.randrange(len(ranks))
    compute_ms = ranks[busy].compute_ms + 1.0
    ranks[busy] = ranks[busy]._replace(compute_ms=compute_ms, cpu_wait_ms=compute_ms * share)
    cause = cause_of([ranks] * STEPS)
    assert not isinstance(cause, SlowCause) or cause.cause is not Cause.COMMUNICATION


def test_shared_cores_are_said_in_one_sentence() -> None:
    assert SHARED.message("", 1) == (
        "Processes share their cores with other programs, so steps take 3 × as long."
    )


WORKER = RankStep(2.0, 100.0, 20.0, 1.0)
SERVER = RankStep()


@pytest.mark.parametrize(
    ("slow_step", "expected_cause"),
    [
        (WORKER, None),
        (WORKER._replace(data_ms=200.0), Cause.DATA),
        (WORKER._replace(compute_ms=200.0), Cause.COMPUTE),
        (WORKER._replace(compute_ms=200.0, cpu_wait_ms=99.0), Cause.CPU),
        (WORKER._replace(exchange_ms=200.0), Cause.COMMUNICATION),
        (WORKER._replace(exchange_ms=200.0, cpu_wait_ms=30.0), None),
    ],
)
@pytest.mark.parametrize("servers", [1, 2])
def test_a_cause_is_named_for_a_worker_of_a_parameter_server(
    slow_step: RankStep, expected_cause: Cause | None, servers: int
) -> None:
    breakdown = StepBreakdown(has_servers=True)
    breakdown.add_steps([[SERVER] * servers + [WORKER, slow_step, WORKER]] * STEPS)
    cause = breakdown.cause()
    assert (cause.cause if cause is not None else None) is expected_cause
    if cause is not None:
        assert cause.rank == servers + 1
        assert cause.message("node2", 3).startswith("node2 slows this job: ")
    times = breakdown.times()
    assert times is not None
    assert times.communication_ms is None


def test_the_kernel_counts_the_wait_for_a_core() -> None:
    start_ms = thread_wait_ms()
    assert 0 <= start_ms <= thread_wait_ms()


OLD: dict[str, object] = {
    **dict.fromkeys(("run", "epoch", "epochs", "step", "total_steps", "steps_per_epoch"), 1),
    "world_size": 2,
    "metrics": {},
    "message": "",
    "heartbeat": 3,
    "schema": 1,
}


def test_a_status_of_before_is_readable_and_the_cause_survives_the_file() -> None:
    breakdown = StepBreakdown()
    breakdown.add_steps([SLOW["cpu"](1)] * STEPS)
    status = RunStatus.from_dict({**OLD, "state": "TRAINING"})
    assert (status.step_times, status.slow_cause) == (None, None)
    status = replace(status, step_times=breakdown.times(), slow_cause=breakdown.cause())
    assert RunStatus.from_dict(status.to_dict()) == status


def test_the_sentence_names_the_culprit_and_the_evidence() -> None:
    loader = SlowCause(Cause.DATA, 1, 210.0, 312.0, 4.26)
    assert loader.message("node2", 2) == (
        "node2 slows this job: rank 1 waits 210 ms a step for its loader, the others 4.3 ms."
    )
    busy = SlowCause(Cause.CPU, 1, 210.0, 312.0, 100.0, 105.0)
    assert busy.message("node2", 2) == (
        "node2 slows this job: other programs use its CPU; rank 1 computes 210 ms a step, the "
        "others 100 ms, and it waits 105 ms for a free core."
    )
    double_work = replace(busy, cause=Cause.COMPUTE)
    assert double_work.message("node2", 2) == (
        "node2 slows this job: rank 1 computes 210 ms a step, the others 100 ms."
    )
    link = SlowCause(Cause.COMMUNICATION, None, 22.0, 31.0)
    assert link.message("", 2) == (
        "The network slows this job: communication takes 22 of the 31 ms of a step on every rank."
    )
    assert link.message("", 1).startswith("Communication slows this job: ")
    assert replace(link, cause=Cause.DATA).message("", 2) == (
        "The loader slows this job: waiting for data takes 22 of the 31 ms of a step on every rank."
    )


RANK_1 = 'os.environ.get("OMPI_COMM_WORLD_RANK") == "1"'


@pytest.mark.parametrize(
    ("strategy", "cause"),
    [
        ("allreduce", Cause.COMPUTE),
        ("downpour", Cause.DATA),
        pytest.param("allreduce", Cause.DATA, marks=pytest.mark.slow),
        pytest.param("ddp", Cause.COMPUTE, marks=pytest.mark.slow),
    ],
)
def test_a_run_names_the_rank_with_a_slow_loader_or_double_work(
    tmp_path: Path, strategy: str, cause: Cause
) -> None:
    # In the loader it is once for each of two samples.
    pause_s = 0.04 if cause is Cause.DATA else 0.08
    pause = f"        if {RANK_1}:\n            time.sleep({pause_s})\n"
    model, loader = MODEL, LOADER.replace("COUNT, SEED = 96", "COUNT, SEED = 448")
    if cause is Cause.DATA:
        loader = _insert_before("        return self.x[index]", pause, loader)
    else:
        model = _insert_before("        return self.layers(x)", pause, model)
    training = new_training(
        tmp_path,
        model=model,
        loader=loader,
        epochs=1,
        batch_size=2,
        processes=3 if strategy == "downpour" else 2,
        strategy={"name": strategy},
    )
    training.train_well()
    status = RunStatus.from_dict(training.status())
    slow_cause, times = status.slow_cause, status.step_times
    assert slow_cause is not None, times
    assert times is not None
    assert (slow_cause.cause, slow_cause.rank) == (cause, 1)
    assert slow_cause.ms >= 80
    if strategy != "downpour":
        assert times.waiting_ms[0] > times.waiting_ms[1], "it waited for the other"


def _insert_before(line: str, pause: str, source: str) -> str:
    assert line in source
    return f"import os, time\n{source.replace(line, pause + line)}"
