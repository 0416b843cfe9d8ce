"""What a job needs follows from one measurement: memory, steps, exchange, and time by nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.records.jobs.config import JobConfig
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.plan import (
    JobPlan,
    Measurement,
    batch_fit,
    memory_plan,
    plan_job,
    sent_bytes,
)
from backend.records.jobs.state import JobState
from backend.records.jobs.status import RunStatus
from backend.records.library.preview import ModelCheck
from tests.integration.tiny import raw_job

CHECK = ModelCheck(
    parameters=1_000_000,
    trainable_parameters=500_000,
    parameter_bytes=4_000_000,
    activation_bytes=1_000_000,
)
MEASURED = RunStatus(
    JobState.TRAINING, step=40, steps_per_epoch=100, pace_s=0.2, peak_memory_bytes=400_000_000
)


def config(**settings: object) -> JobConfig:
    job = parse_job({**raw_job(1), "epochs": 2, "batch_size": 32, **settings}).config
    assert job is not None
    return job


def planned(job: JobConfig, power_w: float | None = None) -> JobPlan:
    measurement = Measurement(MEASURED, 5.0, 12.0, 0.5, 8_000_000)
    memory = memory_plan(job, CHECK, 2**30, MEASURED.peak_memory_bytes)
    return plan_job(job, memory, measurement, None, 1000.0, power_w)


@given(st.integers(1, 4096), st.integers(0, 10**9), st.integers(1, 10**7), st.integers(1, 10**10))
def test_a_proposed_batch_fits_and_one_more_sample_does_not(batch, model, sample, capacity):
    fit = batch_fit(config(batch_size=batch), model, sample, capacity)
    if fit is None:
        assert model + batch * sample <= capacity
        return
    assert model + (fit.largest_batch + 1) * sample > capacity
    assert not fit.largest_batch or model + fit.largest_batch * sample <= capacity
    if fit.passes:
        assert fit.passes * fit.pass_batch == batch
        assert fit.pass_batch <= fit.largest_batch


def test_frozen_parameters_have_no_gradient_and_the_measured_rest_is_named():
    memory = memory_plan(config(optimizer={"name": "adam", "lr": 0.1}), CHECK, None, 400_000_000)
    assert (memory.weight_bytes, memory.gradient_bytes) == (4_000_000, 2_000_000)
    assert (memory.optimizer_bytes, memory.activation_bytes) == (8_000_000, 32_000_000)
    assert memory.total_bytes == 400_000_000
    assert memory.other_bytes == 354_000_000


def test_twice_the_nodes_take_half_the_steps_and_exchange_the_gradients():
    plan = planned(config(strategy={"name": "ddp"}))
    assert [p.nodes for p in plan.by_nodes] == [1, 2, 4]
    assert [p.steps for p in plan.by_nodes] == [200, 100, 50]
    assert [p.network_bytes for p in plan.by_nodes] == [0, 2_000_000, 3_000_000]
    assert [p.step_s for p in plan.by_nodes] == pytest.approx([0.2, 0.216, 0.224])
    assert plan.by_nodes[0].lasts_s == pytest.approx(5 + 200 * 0.2 + 2 * 0.5), "it saves twice"
    assert plan.checkpoints_kept
    assert plan.disk_bytes == 8_000_000 * plan.checkpoints_kept
    faster = plan.with_link(10_000.0)
    assert [p.step_s for p in faster.by_nodes] == pytest.approx([0.2, 0.2016, 0.2024])
    assert faster.by_nodes[1].lasts_s == pytest.approx(5 + 100 * 0.2016 + 2 * 0.5)
    assert faster.with_link(1000.0).by_nodes == pytest.approx(plan.by_nodes)


@pytest.mark.parametrize(
    ("strategy", "expected_bytes"),
    [
        ({"name": "ddp"}, 2_000_000),
        ({"name": "ddp", "compression": "fp16"}, 1_000_000),
        ({"name": "fsdp"}, 3_000_000),
        ({"name": "ddp", "average_every": 50}, 40_000),
    ],
)
def test_a_node_sends_what_the_strategy_exchanges(strategy, expected_bytes):
    nodes = [{"node": name, "processes": 1} for name in ("a", "b")]
    assert sent_bytes(config(strategy=strategy, placement=nodes), 2_000_000) == expected_bytes


def test_energy_is_that_of_all_nodes_and_follows_the_duration():
    plan = planned(config(strategy={"name": "ddp"}), power_w=300.0)
    energies = [p.energy_j for p in plan.by_nodes]
    assert energies == pytest.approx([300 * n.nodes * n.lasts_s for n in plan.by_nodes])
    slower = plan.with_link(10.0).by_nodes[1]
    assert slower.energy_j == pytest.approx(600 * slower.lasts_s)


def test_servers_are_measured_as_they_are_placed():
    placement = [{"node": "a", "processes": 1}, {"node": "b", "processes": 2}]
    job = config(strategy={"name": "downpour"}, placement=placement)
    assert [p.nodes for p in planned(job).by_nodes] == [2]


def test_a_plan_that_was_measured_on_a_busy_node_says_so():
    job = config()
    memory = memory_plan(job, CHECK, None, None)
    notes = []
    for other_cpu in (0.05, 0.9):
        status = replace(MEASURED, other_cpu=other_cpu)
        measurement = Measurement(status, 5.0, 12.0, 0.0, None)
        notes.append(plan_job(job, memory, measurement, None, 1000.0, None).assumptions)
    assert "Other programs" not in notes[0]
    assert "Other programs used 90% of its processors meanwhile" in notes[1]


@pytest.mark.parametrize(
    ("steps_per_epoch", "rows", "omitted"),
    [
        (100, [1, 2, 4], ()),
        (4, [1, 2, 4], ()),
        (3, [1, 2], (128,)),
        (2, [1, 2], (128,)),
        (1, [1], (64, 128)),
        # Nothing is known of the data.
        (0, [], ()),
    ],
)
def test_a_row_that_cannot_be_is_named_with_the_reason(steps_per_epoch, rows, omitted):
    job = config(strategy={"name": "ddp"})
    status = replace(MEASURED, steps_per_epoch=steps_per_epoch)
    measurement = Measurement(status, 5.0, 12.0, 0.5, 8_000_000)
    plan = plan_job(job, memory_plan(job, CHECK, None, None), measurement, None, 1000.0, None)
    assert [row.nodes for row in plan.by_nodes] == rows
    assert plan.too_large_batches == omitted
    assert ("No row for a global batch of" in plan.assumptions) == bool(omitted)
    for batch in omitted:
        assert str(batch) in plan.assumptions
